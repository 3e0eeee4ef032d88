"""What a watched folder tells of each change that the system reports, without waiting for a system."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from threading import Event

import pytest
from structlog.testing import capture_logs
from watchfiles import Change

from schemas.content.source import ChunkSettings, EmbedderProfile
from schemas.tool import IndexSettings
from worker.ignore import rules_of
from worker.machine.handles import identity_of
from worker.sources.changes_seen import ANYTHING, NOTHING, SeenChanges
from worker.sources.local import OpenedPlace
from worker.sources.watching import directory
from worker.sources.watching.directory import WatchedFolder

ADDED, MODIFIED, DELETED = Change.added, Change.modified, Change.deleted
SETTINGS = IndexSettings(embedder=EmbedderProfile(model="m", dimensions=8), chunks=ChunkSettings(), max_file_bytes=1000)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder that leaves out `made`, `worktree` and files `*.log`. `home` is closed, and links are not followed."""
    for name in ("sub", "made", "home", "linked", "worktree", ".git"):
        (tmp_path / name).mkdir()
    for name in ("a.md", "x.log", "sub/c.md", "made/b.md", "home/d.md", "linked/e.md"):
        (tmp_path / name).write_text("words")
    (tmp_path / ".gitignore").write_text("made/\n*.log\n!*.log/\n")
    (tmp_path / "rules.txt").write_text("*.md\n")
    (tmp_path / "linked" / ".gitignore").symlink_to(tmp_path / "rules.txt")
    (tmp_path / "worktree" / ".git").write_text("gitdir: ../.git/worktrees/worktree")
    (tmp_path / "link").symlink_to(tmp_path / "sub")
    return tmp_path


def heard(
    monkeypatch: pytest.MonkeyPatch,
    root: Path,
    *changes: tuple[Change, str],
    rules: str | None = None,
    first_rules: str | None = None,
) -> tuple[WatchedFolder, bool]:
    """A folder that heard of these changes at once, and whether it still listens.

    `rules` replace those it read; `first_rules` do so before it is watched.
    """
    batch = {(change, str(root / name) if name else str(root)) for change, name in changes}
    goes_on, ended = Event(), Event()

    def batches(*_: str, stop: Event) -> Iterator[set[tuple[Change, str]]]:
        try:
            yield set()
            if rules is not None:
                (root / ".gitignore").write_text(rules)
            yield batch
            goes_on.set()
        finally:
            ended.set()

    def watched(*_: str, **__: object) -> Iterator[set[tuple[Change, str]]]:
        if first_rules is not None:
            (root / ".gitignore").write_text(first_rules)
        yield set()

    monkeypatch.setattr(directory, "_changes_in", batches)
    monkeypatch.setattr(directory, "changes_in", watched)
    place = OpenedPlace(str(root), identity_of(root.stat()))
    folder = WatchedFolder(place, rules_of(SETTINGS), root / "home", lambda: None)
    assert ended.wait(30)
    assert not folder.failed
    return folder, goes_on.is_set()


def some(*paths: str) -> SeenChanges:
    return SeenChanges(frozenset(paths))


@pytest.mark.parametrize(
    ("change", "name", "seen", "unheard"),
    [
        (MODIFIED, "a.md", some("a.md"), NOTHING),
        (MODIFIED, "x.log", NOTHING, NOTHING),
        (MODIFIED, "made/b.md", NOTHING, NOTHING),
        (MODIFIED, "home/d.md", some("home/d.md"), NOTHING),
        (MODIFIED, "sub/c.md", some("sub/c.md"), NOTHING),
        # an ignore file that is a link is not obeyed
        (MODIFIED, "linked/e.md", some("linked/e.md"), NOTHING),
        # a directory that was watched before, and one that just came: it may have others in it
        (MODIFIED, "sub", some("sub"), NOTHING),
        (ADDED, "sub", some("sub"), some("sub")),
        (ADDED, "made", NOTHING, NOTHING),
        (ADDED, "home", NOTHING, NOTHING),
        # a link to a directory is not followed
        (ADDED, "link", some("link"), NOTHING),
        (DELETED, "gone.md", some("gone.md"), NOTHING),
        # a directory may have had this name
        (DELETED, "gone.log", some("gone.log"), NOTHING),
        (DELETED, "made/gone", NOTHING, NOTHING),
        # a temporary file that came and went
        (ADDED, "gone.log", NOTHING, NOTHING),
        (MODIFIED, ".gitignore", ANYTHING, ANYTHING),
        (DELETED, "sub/.gitignore", ANYTHING, ANYTHING),
        # a directory may become a linked worktree, or end to be one
        (DELETED, "sub/.git", ANYTHING, ANYTHING),
        (ADDED, "worktree", NOTHING, NOTHING),
        (MODIFIED, "worktree/x.md", NOTHING, NOTHING),
        (MODIFIED, ".git", NOTHING, NOTHING),
        (MODIFIED, "", ANYTHING, NOTHING),
    ],
)
def test_a_change_is_told_if_a_listing_could_see_it(
    monkeypatch: pytest.MonkeyPatch, root: Path, change: Change, name: str, seen: SeenChanges, unheard: SeenChanges
) -> None:
    folder, goes_on = heard(monkeypatch, root, (change, name))
    assert (folder.take(), folder.unheard, folder.stale.is_set(), goes_on) == (seen, unheard, bool(unheard), True)
    assert folder.take() == NOTHING


def test_a_change_is_told_by_the_rules_of_now(monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
    changes = [(MODIFIED, name) for name in ("a.md", "x.log", "made/b.md")]
    folder, _ = heard(monkeypatch, root, *changes, rules="*.md")
    assert folder.take() == some("x.log")


@pytest.mark.parametrize(("rules", "unheard"), [("made/\nsub/", NOTHING), ("sub/", some("made"))])
def test_directories_that_are_let_in_before_the_folder_is_watched_are_unheard(
    monkeypatch: pytest.MonkeyPatch, root: Path, rules: str, unheard: SeenChanges
) -> None:
    folder, _ = heard(monkeypatch, root, first_rules=rules)
    assert (folder.unheard, folder.stale.is_set()) == (unheard, bool(unheard))


def test_a_folder_that_is_deleted_is_listened_to_no_more(monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
    folder, goes_on = heard(monkeypatch, root, (DELETED, ""))
    assert (folder.take(), goes_on) == (ANYTHING, False)


@pytest.mark.parametrize(("number", "seen"), [(2, some("a.md", "b.md")), (3, ANYTHING)])
def test_of_many_changes_at_once_some_may_be_lost(
    monkeypatch: pytest.MonkeyPatch, root: Path, number: int, seen: SeenChanges
) -> None:
    monkeypatch.setattr(directory, "MANY_CHANGES", 3)
    folder, _ = heard(monkeypatch, root, *((DELETED, name) for name in ("a.md", "b.md", "c.md")[:number]))
    is_lost = seen == ANYTHING
    assert (folder.take(), folder.unheard, folder.stale.is_set()) == (seen, ANYTHING if is_lost else NOTHING, is_lost)


def test_a_name_that_is_no_text_is_told_as_the_cause_why_a_folder_cannot_be_watched(tmp_path: Path) -> None:
    (Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9"))).mkdir()
    woken = Event()
    with capture_logs() as logged:
        place = OpenedPlace(str(tmp_path), identity_of(tmp_path.stat()))
        folder = WatchedFolder(place, rules_of(SETTINGS), None, woken.set)
        assert woken.wait(30)
    assert folder.failed
    (warning,) = logged
    assert warning["directory"] == f"{tmp_path}/caf\\xe9"
    assert "not UTF-8" in warning["event"]
    assert "inotify" not in warning["event"]
