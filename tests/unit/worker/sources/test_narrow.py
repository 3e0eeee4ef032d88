"""A local folder that lists only some paths lists what a listing of everything has at and below them."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from random import Random

import pytest

from schemas.content.document import ListingPage
from tests.unit.worker.sources.test_local import without_privileges
from worker.ignore import EVERYTHING, Rules
from worker.sources.local import LocalFolder

NAMES = ("a", "b", "b-c", "c.md", "d.txt", "é")


def _grow(folder: Path, rng: Random, depth: int = 0) -> None:
    for name in rng.sample(NAMES, rng.randrange(2, 6)):
        if depth < 3 and rng.random() < 0.5:
            (folder / name).mkdir()
            _grow(folder / name, rng, depth + 1)
        else:
            (folder / name).write_text(name * rng.randrange(9))
    if rng.random() < 0.4:
        (folder / ".gitignore").write_text(rng.choice(["b\n", "*.md\n", "a/\n!c.md\n"]))
    if rng.random() < 0.3:
        (folder / "link").symlink_to(rng.choice(["a", "nowhere", ".."]))


def _pages(source: LocalFolder) -> list[ListingPage]:
    pages = [source.list(None)]
    while pages[-1].cursor is not None:
        pages.append(source.list(pages[-1].cursor))
    return pages


def _listed(source: LocalFolder) -> dict[bytes, str]:
    entries = [entry for page in _pages(source) for entry in page.entries]
    listed = {entry.key: entry.stamp for entry in entries}
    assert len(listed) == len(entries)
    return listed


def _below(key: bytes, tops: list[bytes]) -> bool:
    return any(key == top or key.startswith(top + b"/") for top in tops)


@pytest.mark.parametrize("seed", range(30))
def test_narrow_listings_are_parts_of_the_whole(tmp_path: Path, seed: int) -> None:
    rng = Random(seed)
    folder = tmp_path / "folder"
    folder.mkdir()
    _grow(folder, rng)
    rules = Rules((), ("b/*.txt",)) if seed % 2 else EVERYTHING
    closed = folder / "a"
    whole = _listed(LocalFolder(str(folder), [tmp_path], rules, closed=closed))
    present = [os.fsencode(path.relative_to(folder)) for path in folder.rglob("*")]
    gone = [b"gone.md", b"a/gone/b.md", b"c.md/below", b"link/c.md"]
    for size in (1, 2, 1000):
        asked = rng.sample([*present, *gone], min(len(present), rng.randrange(1, 6)))
        source = LocalFolder(str(folder), [tmp_path], rules, closed=closed, page_size=size)
        tops = source.narrow(asked)
        if tops is None:
            assert b".gitignore" in asked
            tops = [b""]
            assert _listed(source) == whole
        else:
            assert all(_below(key, list(tops)) for key in asked)
            assert _listed(source) == {key: stamp for key, stamp in whole.items() if _below(key, list(tops))}


def test_a_narrow_listing_continues_in_another_process(tmp_path: Path) -> None:
    for name in ("a/1", "a/2", "b", "c/1", "d"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("text")
    cursor, seen = None, []
    for _ in range(5):
        source = LocalFolder(str(tmp_path), [tmp_path], page_size=1)
        assert source.narrow([b"c", b"a", b"d"]) == [b"a", b"c", b"d"]
        page = source.list(cursor)
        seen += [entry.key for entry in page.entries]
        cursor = page.cursor
    assert (seen, cursor) == ([b"a/1", b"a/2", b"c/1", b"d"], None)


def test_an_ignore_file_stands_for_its_directory(tmp_path: Path) -> None:
    source = LocalFolder(str(tmp_path), [tmp_path])
    assert source.narrow([b"a/x", b"a/.gitignore", b"a!", b"b/c", b"b"]) == [b"a", b"a!", b"b"]
    assert source.narrow([b"a", b".gitignore"]) is None


def test_a_directory_that_cannot_be_listed_is_not_taken_for_gone() -> None:
    # pytest's own directories are closed to others
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "a").mkdir(mode=0o000)
        source = LocalFolder(name, [folder])
        source.narrow([b"a/1", b"a/2"])
        with without_privileges():
            page = source.list(None)
        (folder / "a").chmod(0o700)
    assert page.unlisted == (b"a/",)
    assert [entry.key for entry in page.entries] == [b"a"]
