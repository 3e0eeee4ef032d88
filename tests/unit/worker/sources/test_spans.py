"""The spans of the pages of a listing have each key once: in the page that tells whether it is there."""

from __future__ import annotations

import os
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest

from schemas.content.document import KeySpan, ListingPage
from worker.ignore import EVERYTHING
from worker.sources import local_keys
from worker.sources.local import LocalFolder
from worker.sources.local_keys import Parts, key_of, spans_between

#: Some sort before the slash, some after it, and one is no UTF-8.
CHARACTERS = [b"a", b"b", b".", b"-", b"0", b"\x01", b"\xff"]


def _name(rng: Random) -> bytes:
    name = b"".join(rng.choices(CHARACTERS, k=rng.randrange(1, 4)))
    return b"x" if name in {b".", b".."} else name


def _paths(rng: Random, number: int) -> list[Parts]:
    """Different paths, in the order of a listing. Many are below others, or share the beginning of a name."""
    found: set[Parts] = {(_name(rng),)}
    while len(found) < number:
        parent = rng.choice([(), *sorted(found)])
        found.add((*parent[: rng.randrange(4)], _name(rng)))
    return sorted(found)


def _has(spans: list[KeySpan], key: bytes) -> bool:
    return any(first <= key < until for first, until in spans)


@pytest.mark.parametrize("seed", range(20))
def test_spans_have_what_is_between_two_paths(seed: int) -> None:
    rng = Random(seed)
    paths = _paths(rng, 60)
    for _ in range(40):
        after, until = sorted(rng.sample([(), *paths], 2))
        end = rng.choice([until, None])
        spans = [*spans_between(after, end)]
        assert all(first < until for first, until in spans)
        assert all(until <= first for (_, until), (first, _) in pairwise(spans))
        for path in paths:
            is_behind = path > after and not _is_below(path, after)
            is_within = end is None or path <= end or _is_below(path, end)
            assert _has(spans, key_of(path)) is (is_behind and is_within), (after, end, path)


def _is_below(path: Parts, other: Parts) -> bool:
    return bool(other) and path[: len(other)] == other


def _fill(folder: Path, rng: Random) -> None:
    for path in _paths(rng, 80):
        place = folder.joinpath(*map(os.fsdecode, path))
        with suppress(FileExistsError, NotADirectoryError, IsADirectoryError):
            place.parent.mkdir(parents=True, exist_ok=True)
            place.touch()


def _pages(folder: Path, page_size: int, *, cursor: str | None = None) -> list[ListingPage]:
    """Each page by a process of its own."""
    pages: list[ListingPage] = []
    while not pages or pages[-1].cursor is not None:
        cursor = pages[-1].cursor if pages else cursor
        pages.append(LocalFolder(str(folder), [folder], EVERYTHING, page_size=page_size).list(cursor))
    return pages


@pytest.mark.parametrize("page_size", [1, 2, 7, 1000])
def test_each_key_is_in_the_spans_of_one_page(tmp_path: Path, page_size: int) -> None:
    rng = Random(page_size)
    _fill(tmp_path, rng)
    pages = _pages(tmp_path, page_size)
    spans = [[*(page.spans or ())] for page in pages]
    for page, own in zip(pages, spans, strict=True):
        assert all(_has(own, entry.key) for entry in page.entries)
    for path in _paths(rng, 300):
        assert sum(_has(each, key_of(path)) for each in spans) == 1


def test_a_listing_that_an_earlier_release_began_has_no_spans(tmp_path: Path) -> None:
    for name in "abcd":
        (tmp_path / name).touch()
    pages = _pages(tmp_path, 1, cursor=b"a".hex())
    assert [entry.path for page in pages for entry in page.entries] == ["b", "c", "d"]
    assert [page.spans for page in pages] == [None] * len(pages)
    # nor does an earlier release go on where this one began
    cursor = _pages(tmp_path, 1)[0].cursor
    with pytest.raises(ValueError, match="hexadecimal"):
        bytes.fromhex(cursor or "")


def test_a_listing_of_some_paths_has_no_spans(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    folder = LocalFolder(str(tmp_path), [tmp_path], EVERYTHING)
    assert folder.narrow([b"a"]) == [b"a"]
    assert folder.list(None).spans is None


def test_a_page_that_ends_with_a_very_long_path_leaves_its_spans_to_a_later_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spans grow with the square of its length."""
    monkeypatch.setattr(local_keys, "MAX_SPANNED_KEY", 2)
    for name in ("a", "b" * 3, "c" * 3, "d", "e" * 3):
        (tmp_path / name).touch()
    pages = _pages(tmp_path, 1)
    assert [[entry.path for entry in page.entries] for page in pages] == [["a"], ["bbb"], ["ccc"], ["d"], ["eee"], []]
    spans = [
        spans_between((), (b"a",)),
        None,
        None,
        spans_between((b"a",), (b"d",)),
        None,
        spans_between((b"d",), None),
    ]
    assert [page.spans for page in pages] == spans
    # so may the first page
    (tmp_path / "a").unlink()
    assert [page.spans for page in _pages(tmp_path, 2)] == [None, None, spans_between((), None)]
