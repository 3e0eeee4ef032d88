"""`foldex index` asks before a place that holds more than somebody may have meant."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from api.cli import invocation
from api.cli.service import large_folders
from tests.integration.commanding import foldex, on_terminal, refused
from tests.service import Service


@pytest.fixture
def folder(root: Path, request: pytest.FixtureRequest) -> Path:
    """A folder of four files, with one that the rules exclude."""
    folder = root / str(request.node.name)
    (folder / "node_modules").mkdir(parents=True)
    for number in range(4):
        (folder / f"{number}.md").write_text("Everybody has thirty days of holiday.\n")
    (folder / "node_modules" / "a.js").write_text("let a;\n")
    return folder


def has_tool(running: Service, folder: Path) -> bool:
    return f"{folder}\n" in foldex(running, "tools").stdout


@pytest.mark.parametrize("verb", [("index",), ("index", "--no-wait"), ("grep", "holiday"), ("search", "holiday")])
def test_a_home_is_indexed_for_the_first_time_only_with_a_yes(
    running: Service, folder: Path, verb: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    env = {"HOME": str(folder)}
    assert "--yes" in refused(foldex(running, *verb, str(folder), env=env))
    monkeypatch.setattr(invocation, "has_terminal", lambda: True)
    # a search asks whether to index at all before that
    for answers in ("\n", "n\n") if verb[0] == "index" else ("n\n", "\n\n", "\nn\n"):
        assert foldex(running, *verb, str(folder), env=env, stdin=answers).returncode == 2
        assert not has_tool(running, folder)
    monkeypatch.undo()
    assert foldex(running, *verb, str(folder), "--yes", env=env).returncode == 0
    # a run by a scheduler goes on
    assert foldex(running, "index", str(folder), env=env).returncode == 0


def test_the_question_names_what_was_listed(running: Service, folder: Path) -> None:
    for answer, status in (("\n", 2), ("y\n", 0)):
        done = on_terminal(running, "index", ".", cwd=folder, answer=answer, HOME=str(folder))
        assert ". is your home directory: 4 files, 0.0 GB. Index it? [y/N]" in done.stdout
        assert (done.returncode, has_tool(running, folder)) == (status, status == 0)


@pytest.mark.parametrize("most", [3, 4])
def test_many_files_need_a_yes(running: Service, folder: Path, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_folders, "MAX_UNASKED_FILES", most)
    done = foldex(running, "index", str(folder))
    if most == 3:
        assert "is large (4 files, 0.0 GB); give --yes" in refused(done)
        assert not has_tool(running, folder)
        assert foldex(running, "index", str(folder), "--yes").returncode == 0
        done = foldex(running, "index", str(folder))
    assert done.returncode == 0


def test_a_folder_that_is_counted_slowly_is_listed_by_its_rules(
    running: Service, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(large_folders, "COUNT_SECONDS", -1)
    assert foldex(running, "index", str(folder)).returncode == 0


def test_what_hardly_anybody_means(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "users" / "ann"
    home.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    assert large_folders.unusual("/") == "the root of this machine"
    assert large_folders.unusual(str(home)) == "your home directory"
    assert large_folders.unusual(str(home.parent)) == "a folder above your home directory"
    for usual in (home / "notes", tmp_path / "use", tmp_path / "users" / "an"):
        usual.mkdir()
        assert large_folders.unusual(str(usual)) is None
    assert large_folders.unusual("/dev/shm") == "a drive"
    for kind in ("nfs4", "cifs", "fuse.sshfs", "CIFS"):
        partition = SimpleNamespace(mountpoint="/dev/shm", fstype=kind)
        monkeypatch.setattr(psutil, "disk_partitions", lambda found=partition, **_: [found])
        assert large_folders.unusual("/dev/shm") == "a network mount"
