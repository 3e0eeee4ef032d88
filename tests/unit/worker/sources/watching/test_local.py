"""The events of a watched folder, without a process that handles them."""

from __future__ import annotations

import mmap
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import pytest

from schemas.content.source import ChunkSettings, EmbedderProfile, LocalSource
from schemas.tool import IndexSettings
from worker.resources import Resources
from worker.settings import Settings
from worker.sources import changes_seen
from worker.sources.changes_seen import ANYTHING, NOTHING, NoticedChanges, SeenChanges
from worker.sources.kind import WatchAccess
from worker.sources.registry import watch_source
from worker.sources.watching import directory, local
from worker.sources.watching.directory import WatchedFolder
from worker.sources.watching.local import LocalWatch
from worker.state.index.changes import QUIET, QUIET_OF_PATHS, WatchedIndex


@contextmanager
def watched(folder: Path, home: Path) -> Iterator[LocalWatch]:
    """A folder that was scanned and is watched from now on."""
    profile = EmbedderProfile(model="m", dimensions=8)
    settings = IndexSettings(embedder=profile, chunks=ChunkSettings(), max_file_bytes=1000)
    index = WatchedIndex(uuid4(), "p", LocalSource(kind="local", path=str(folder)), settings)
    settings_ = Settings(auth="off", local_source_roots=[folder], foldex_home=home)
    made = watch_source(WatchAccess(Resources(settings_).access("p"), lambda: None, None), index)
    assert isinstance(made, LocalWatch)
    assert told(made) == NoticedChanges(ANYTHING, timedelta(0))
    yield made
    made.close()


def told(watched: LocalWatch) -> NoticedChanges:
    until = time.monotonic() + 30
    while (noticed := watched.look()) is None:
        assert time.monotonic() < until
        time.sleep(0.02)
    return noticed


def paths(*names: str) -> NoticedChanges:
    return NoticedChanges(SeenChanges(frozenset(names)), QUIET_OF_PATHS)


def renewed(folder: LocalWatch, before: object) -> SeenChanges:
    """Wait until a folder is watched anew. Returns what was told until then."""
    seen = NOTHING
    while folder._folder in {None, before} or not folder._was_ready:
        seen |= told(folder).seen
    return seen


def test_after_too_much_at_once_a_folder_is_looked_through_and_watched_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (changes_seen, directory):
        monkeypatch.setattr(module, "MANY_CHANGES", 20)
    (tmp_path / ".gitignore").write_text("*.log")
    with watched(tmp_path, tmp_path / "home") as folder:
        before = folder._folder
        for number in range(200):
            (tmp_path / f"{number}.log").touch()
        assert renewed(folder, before) == ANYTHING
        (tmp_path / "a.md").touch()
        assert told(folder) == paths("a.md")


def test_a_new_directory_and_one_that_is_taken_back_are_watched(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("build/")
    (tmp_path / "build").mkdir()
    with watched(tmp_path, tmp_path / "home") as folder:
        before = folder._folder
        (tmp_path / "a" / "b").mkdir(parents=True)
        (tmp_path / "a" / "b" / "unheard.md").touch()
        seen = renewed(folder, before).paths
        assert seen is not None
        assert "a" in seen
        before = folder._folder
        (tmp_path / ".gitignore").unlink()
        assert renewed(folder, before) == ANYTHING
        for place in ("a/b", "build"):
            (tmp_path / place / "c.md").touch()
            assert told(folder) == paths(f"{place}/c.md")


def test_a_directory_that_is_made_while_the_others_are_found_is_watched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = WatchedFolder._directories

    def find_and_make(folder: WatchedFolder) -> Iterator[str]:
        yield from find(folder)
        (tmp_path / "late").mkdir(exist_ok=True)

    monkeypatch.setattr(WatchedFolder, "_directories", find_and_make)
    with watched(tmp_path, tmp_path / "home") as folder:
        assert renewed(folder, folder._folder) == SeenChanges(frozenset({"late"}))
        (tmp_path / "late" / "a.md").touch()
        assert told(folder) == paths("late/a.md")


def test_what_is_written_to_the_closed_directory_is_not_told(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    with watched(tmp_path, home) as folder:
        (home / "log.md").touch()
        until = time.monotonic() + 2
        while time.monotonic() < until:
            assert folder.look() is None
        (tmp_path / "home.md").touch()
        assert told(folder) == paths("home.md")


def test_a_folder_with_changes_is_listed_as_a_whole_now_and_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with watched(tmp_path, tmp_path / "home") as folder:
        (tmp_path / "a.md").touch()
        assert told(folder) == paths("a.md")
        monkeypatch.setattr(local, "EVERYTHING_SECONDS", 0.0)
        (tmp_path / "a.md").write_text("edited")
        assert told(folder) == NoticedChanges(ANYTHING, QUIET)


def test_a_change_that_is_not_told_is_found_by_the_listing_after_an_hour(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "a.md").write_text("apples")
    (tmp_path / "elsewhere.md").hardlink_to(tmp_path / "folder" / "a.md")
    with watched(tmp_path / "folder", tmp_path / "home") as folder:
        (tmp_path / "elsewhere.md").write_text("birds!")
        with (tmp_path / "elsewhere.md").open("r+b") as opened, mmap.mmap(opened.fileno(), 0) as mapped:
            mapped[:6] = b"crows!"
        until = time.monotonic() + 2
        while time.monotonic() < until:
            assert folder.look() is None
        monkeypatch.setattr(local, "EVERYTHING_SECONDS", 0.0)
        assert folder.look() == NoticedChanges(ANYTHING, QUIET)
        monkeypatch.setattr(local, "EVERYTHING_SECONDS", 1000.0)
        assert folder.look() is None


@pytest.mark.parametrize(("more", "kept"), [(1, True), (2, False)])
def test_beyond_so_many_paths_anything_may_have_changed(monkeypatch: pytest.MonkeyPatch, more: int, kept: bool) -> None:
    monkeypatch.setattr(changes_seen, "MANY_CHANGES", 3)
    seen = SeenChanges(frozenset({"a", "b"})) | SeenChanges(frozenset(map(str, range(more))))
    assert (seen.paths is not None) == kept
    assert seen | ANYTHING == ANYTHING


def test_what_may_be_anything_is_something() -> None:
    assert ANYTHING
    assert SeenChanges(frozenset({"a"}))
    assert not NOTHING
