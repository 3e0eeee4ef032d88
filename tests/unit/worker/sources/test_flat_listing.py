"""Rules over a flat sequence of files: what is kept, and what is counted as ignored, on whichever page it comes."""

from __future__ import annotations

from collections import Counter
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.ignore import IgnoreFile, Rules, Trail
from worker.sources.flat_listing import filter_files, topmost

WAYS = st.lists(st.lists(st.sampled_from(["a", "-", "!", ".gitignore"]), min_size=1, max_size=4).map(tuple), max_size=8)


@given(WAYS)
def test_the_paths_to_list_hold_each_change_and_none_holds_another(ways: list[tuple[str, ...]]) -> None:
    tops = topmost(ways, {".gitignore"})
    changed = [way[:-1] if way[-1] == ".gitignore" else way for way in ways]
    if () in changed:
        assert tops is None
        return
    assert tops is not None
    assert tops == sorted(tops)
    assert set(tops) <= set(changed)
    assert all(any(way[: len(top)] == top for top in tops) for way in changed)
    assert not any(one != other and other[: len(one)] == one for one, other in product(tops, tops))
    assert len(set(tops)) == len(tops)


FILES = [
    ("", "a.md"),
    ("", "b.log"),
    ("build", "c.md"),
    ("build/deep", "d.md"),
    ("docs", "e.md"),
    ("docs", "f.log"),
    ("docs/build", "g.md"),
    ("zoo", "h.md"),
]


def listed(size: int) -> tuple[list[str], Counter[str]]:
    """The files that are kept of all pages of that size, and what is ignored."""

    def ignore_files(way: tuple[str, ...]) -> list[IgnoreFile]:
        return [] if way else [(".gitignore", b"build/\n*.log\n")]

    trail: Trail[str] = Trail(Rules(), str, ignore_files)
    kept, ignored, after = list[str](), Counter[str](), None
    ways = [(tuple(folder.split("/")) if folder else (), name) for folder, name in FILES]
    for start in range(0, len(ways), size):
        page = ways[start : start + size]
        found, counts = filter_files(trail, [(*way, way[1]) for way in page], after)
        kept += found
        ignored += counts
        after = page[-1][0]
    return kept, ignored


@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_an_ignored_folder_counts_once_on_whatever_pages_it_lies(size: int) -> None:
    kept, ignored = listed(size)
    assert kept == ["a.md", "e.md", "h.md"]
    assert ignored == {"ignore_file": 2, "ignore_file_directories": 2}


def test_an_ignore_file_that_cannot_be_obeyed_is_counted_once() -> None:
    trail: Trail[str] = Trail(Rules(), str, lambda way: [] if way else [(".gitignore", None)])
    counts = [filter_files(trail, [((), name, name)], after)[1] for name, after in (("a", None), ("b", ()))]
    assert [count.total() for count in counts] == [1, 0]
