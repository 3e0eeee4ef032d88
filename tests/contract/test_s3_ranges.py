"""Many keys of a bucket are listed as ranges at once: each file is listed once, whatever the ranges are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import repeat
from random import Random
from unittest.mock import Mock

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from schemas.errors import SourceUnavailable
from tests.fakes.buckets import KEYS
from tests.fakes.listed_bucket import listed_bucket
from worker.ignore import Rules
from worker.sources.s3 import MAX_RANGES, PAGE_SIZE, S3Prefix
from worker.sources.s3_reader import RangeReader

NAMES = ["a", "a-b", "a.md", "b", "build", "\u00fc", "z"]
#: Paths with empty names, folders named as objects, and ignore files that exclude folders, or are refused.
PATHS = st.lists(st.sampled_from([*NAMES, "", ".gitignore"]), min_size=1, max_size=4).map("/".join).filter(bool)
IGNORED = st.sampled_from([b"build/\n", b"a.md\n", b"!b\n", b"\0"])


@pytest.fixture(autouse=True, scope="module")
def keys() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in KEYS.items():
            patch.setenv(name, value)
        yield


def walk(sources: Iterable[S3Prefix]) -> tuple[list[str], Counter[str]]:
    """The paths of all pages and what is ignored. Each page is asked of the next source."""
    paths, ignored, cursor = list[str](), Counter[str](), None
    for source in sources:
        page = source.list(cursor)
        paths += [entry.path for entry in page.entries]
        ignored += Counter(page.ignored)
        cursor = page.cursor
        if cursor is None:
            break
    return paths, ignored


@settings(max_examples=40, deadline=None, derandomize=True)
# the first page ends at the object of a folder whose ignore file is refused, and at that of an excluded folder
@example(contents={"b/": b"", "b/.gitignore": b"\0"}, page_size=1, max_ranges=1, restarts=0.0, seed=0, narrowed=[])
@example(
    contents={"node_modules/": b"", "node_modules/a": b""}, page_size=1, max_ranges=1, restarts=0.0, seed=0, narrowed=[]
)
@given(
    contents=st.dictionaries(PATHS, IGNORED, max_size=40),
    page_size=st.integers(1, 3),
    max_ranges=st.integers(1, 4),
    restarts=st.sampled_from([0.0, 0.1]),
    seed=st.integers(),
    narrowed=st.lists(PATHS, max_size=3),
)
def test_ranges_list_what_one_listing_lists(
    contents: Mapping[str, bytes],
    page_size: int,
    max_ranges: int,
    restarts: float,
    seed: int,
    narrowed: list[str],
) -> None:
    with listed_bucket({f"docs/{path}": data for path, data in contents.items()} | {"docs-old/no.md": b""}) as bucket:

        def source(size: int, ranges: int) -> S3Prefix:
            made = S3Prefix("any-bucket", "docs", bucket.url, Rules(), page_size=size, max_ranges=ranges)
            if narrowed:
                made.narrow([path.encode() for path in narrowed])
            return made

        def restarted() -> Iterator[S3Prefix]:
            """A source, or now and then another one, as in another process."""
            random, last = Random(seed), source(page_size, max_ranges)
            while True:
                yield last
                if random.random() < restarts:
                    last = source(page_size, max_ranges)

        paths, ignored = walk(restarted())
        expected, counts = walk(repeat(source(PAGE_SIZE, 1)))
    assert sorted(paths) == sorted(expected)
    assert ignored == counts


def tree(folders: int, files: int) -> dict[str, bytes]:
    return {f"top/{folder:03}/{number:05}.md": b"" for folder in range(folders) for number in range(files)}


@pytest.mark.parametrize(("folders", "several"), [(8, False), (12, True), (40, True)])
def test_a_long_listing_has_several_requests_at_once(folders: int, several: bool) -> None:
    """Eight of these folders fill the pages before a listing is divided."""
    with listed_bucket(tree(folders, 250), delay_seconds=0.05) as bucket:
        source = S3Prefix("any-bucket", "", bucket.url)
        paths, _ = walk(repeat(source))
    assert len(paths) == len(set(paths)) == folders * 250
    assert (bucket.at_once > 1) == several
    assert bucket.at_once <= MAX_RANGES


def test_ranges_take_turns() -> None:
    """Otherwise all but the first would wait with one page each."""
    with listed_bucket(tree(40, 250)) as bucket:
        source = S3Prefix("any-bucket", "", bucket.url, page_size=50)
        pages, cursor = list[str](), None
        for _ in range(2 + MAX_RANGES):
            page = source.list(cursor)
            pages.append(page.entries[0].path.rpartition("/")[0])
            cursor = page.cursor
    assert len(set(pages[2:])) == MAX_RANGES


def test_folders_that_cannot_be_listed_leave_one_range() -> None:
    with listed_bucket(tree(20, 200), delay_seconds=0.01, lists_folders=False) as bucket:
        source = S3Prefix("any-bucket", "", bucket.url)
        paths, _ = walk(repeat(source))
    assert len(paths) == len(set(paths)) == 4_000
    assert bucket.at_once == 1


@pytest.mark.parametrize(("pages", "several"), [(16, False), (17, True)])
def test_a_long_folder_has_several_requests_at_once(pages: int, several: bool) -> None:
    """Sixteen pages are filled before a folder is divided."""
    numbers = range(100, 100 + 50 * pages)
    with listed_bucket({f"flat/{number}.md": b"" for number in numbers}, delay_seconds=0.02) as bucket:
        source = S3Prefix("any-bucket", "", bucket.url, page_size=50)
        paths, _ = walk(repeat(source))
    assert sorted(paths) == [f"flat/{number}.md" for number in sorted(numbers, key=str)]
    assert (bucket.at_once > 1) == several


NAMINGS: dict[str, Callable[[Random, int], str]] = {
    "numbers": lambda _, number: f"img_{number:08}.jpg",
    "unpadded": lambda _, number: f"page-{number}.html",
    "random": lambda random, _: f"{random.getrandbits(128):032x}",
    "words": lambda random, _: "".join(random.choices("abcdefghijklmnop", k=random.randint(3, 12))),
    "han": lambda random, _: "".join(chr(random.randint(0x4E00, 0x9FFF)) for _ in range(4)),
    "folders beside": lambda _, number: f"f/{number}" if number % 2 else f"t/{number // 50}/{number}",
}


@pytest.mark.parametrize("naming", NAMINGS)
def test_a_long_folder_costs_few_requests_more(naming: str) -> None:
    random = Random(1)
    contents = {f"docs/{NAMINGS[naming](random, number)}": b"" for number in range(6_000)}
    with listed_bucket(contents) as bucket:
        paths, _ = walk(repeat(S3Prefix("any-bucket", "docs", bucket.url, page_size=10)))
    assert sorted(f"docs/{path}" for path in paths) == sorted(contents)
    assert bucket.at_once > 1
    assert bucket.listings < 1.5 * 600


def test_a_place_is_left_where_it_was() -> None:
    """Each cursor gives the same page again, and of all pages no file is left out."""
    contents = tree(6, 5)
    with listed_bucket(contents) as bucket:
        source = S3Prefix("any-bucket", "", bucket.url, page_size=2)
        cursor, paths = None, list[str]()
        while True:
            first, again = source.list(cursor), source.list(cursor)
            assert [entry.path for entry in first.entries] == [entry.path for entry in again.entries]
            paths += [entry.path for entry in again.entries]
            cursor = again.cursor
            if cursor is None:
                break
    assert sorted(paths) == sorted(contents)


def test_a_page_whose_division_failed_is_given_again(monkeypatch: pytest.MonkeyPatch) -> None:
    with listed_bucket(tree(6, 5)) as bucket:
        source = S3Prefix("any-bucket", "", bucket.url, page_size=2)
        cursor = source.list(None).cursor
        with monkeypatch.context() as patch:
            patch.setattr(RangeReader, "divide", Mock(side_effect=SourceUnavailable("S3 is away")))
            with pytest.raises(SourceUnavailable):
                source.list(cursor)
        entries = source.list(cursor).entries
    assert [entry.path for entry in entries] == ["top/000/00002.md", "top/000/00003.md"]


@pytest.mark.parametrize(
    "modified", ["2026-01-01T00:00:00.000Z", "2026-01-01T01:00:00+01:00", "Thu, 01 Jan 2026 00:00:00 GMT"]
)
def test_an_object_has_the_time_that_the_service_tells(modified: str) -> None:
    with listed_bucket({"a.md": b""}) as bucket:
        bucket.modified = modified
        (entry,) = S3Prefix("any-bucket", "", bucket.url).list(None).entries
    assert entry.mtime_ms == 1_767_225_600_000
