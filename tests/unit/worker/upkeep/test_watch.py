"""The events of a watched folder, without a process that handles them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import pytest

from schemas.source import ChunkSettings, EmbedderProfile, LocalSource
from schemas.tool import IndexSettings
from worker.resources import Resources
from worker.settings import Settings
from worker.state.index.changes import QUIET, Watched
from worker.upkeep import watch
from worker.upkeep.watch import LocalWatch


@contextmanager
def watched(folder: Path, home: Path) -> Iterator[LocalWatch]:
    """A folder that was scanned and is watched from now on."""
    profile = EmbedderProfile(model="m", dimensions=8)
    settings = IndexSettings(embedder=profile, chunks=ChunkSettings(), max_file_bytes=1000)
    index = Watched(uuid4(), "p", LocalSource(kind="local", path=str(folder)), settings)
    made = LocalWatch(
        Resources(Settings(auth="off", local_source_roots=[folder], foldex_home=home)), index, str(folder)
    )
    assert told(made) == timedelta(0)
    yield made
    made.close()


def told(watched: LocalWatch) -> timedelta:
    until = time.monotonic() + 30
    while (quiet := watched.look()) is None:
        assert time.monotonic() < until
        time.sleep(0.02)
    return quiet


def renewed(folder: LocalWatch, before: object) -> None:
    """Wait until a folder is watched again and was scanned."""
    while folder._folder in {None, before} or not folder._was_ready:
        told(folder)


def test_after_too_much_at_once_a_folder_is_looked_through_and_watched_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "MANY_CHANGES", 20)
    (tmp_path / ".gitignore").write_text("*.log")
    with watched(tmp_path, tmp_path / "home") as folder:
        before = folder._folder
        for number in range(200):
            (tmp_path / f"{number}.log").touch()
        renewed(folder, before)
        (tmp_path / "a.md").touch()
        assert told(folder) == QUIET


def test_a_new_directory_and_one_that_is_taken_back_are_watched(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("build/")
    (tmp_path / "build").mkdir()
    with watched(tmp_path, tmp_path / "home") as folder:
        before = folder._folder
        (tmp_path / "a" / "b").mkdir(parents=True)
        renewed(folder, before)
        before = folder._folder
        (tmp_path / ".gitignore").unlink()
        renewed(folder, before)
        for place in (tmp_path / "a" / "b", tmp_path / "build"):
            (place / "c.md").touch()
            assert told(folder) == QUIET


def test_what_is_written_to_the_closed_directory_is_not_told(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    with watched(tmp_path, home) as folder:
        (home / "log.md").touch()
        until = time.monotonic() + 2
        while time.monotonic() < until:
            assert folder.look() is None
        (tmp_path / "home.md").touch()
        assert told(folder) == QUIET
