"""`foldex search` answers with the present text of a small folder, and says what is old, failed or still to come."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from api.cli.verbs import ask
from tests.integration import test_keys
from tests.integration.commanding import Done, foldex
from tests.service import Service, another_api


@pytest.fixture
def folder(running: Service, root: Path, request: pytest.FixtureRequest) -> Path:
    """An indexed folder that nothing watches, with a file for each of three birds."""
    made = root / str(request.node.name)
    made.mkdir()
    for bird in ("gannet", "heron", "avocet"):
        (made / f"{bird}.md").write_text(f"# {bird}\n\nThe {bird} eats herring.\n")
    assert foldex(running, "index", str(made)).returncode == 0
    return made


def search(running: Service, folder: Path) -> Done:
    return foldex(running, "search", "herring", str(folder))


def test_edited_and_deleted_text_is_not_shown(running: Service, folder: Path) -> None:
    (folder / "gannet.md").write_text("# gannet\n\nThe gannet eats sprats now.\n")
    (folder / "heron.md").unlink()
    done = search(running, folder)
    assert done.returncode == 0, done.stderr
    assert "The avocet eats herring." in done.stdout
    assert "The gannet eats sprats now." in done.stdout
    assert "The gannet eats herring." not in done.stdout
    assert "heron" not in done.stdout


def test_a_folder_that_moved_away_is_named_with_the_remedy(running: Service, folder: Path) -> None:
    shutil.move(folder, folder.with_name("elsewhere"))
    done = search(running, folder)
    assert "The gannet eats herring." in done.stdout
    assert "no longer exists" in done.stderr
    assert f"`foldex index {folder}` brings it up to date" in done.stderr


def test_a_folder_that_is_not_small_answers_with_a_note(
    running: Service, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ask, "COMPARED_FILES", 2)
    (folder / "gannet.md").write_text("# gannet\n\nThe gannet eats sprats now.\n")
    done = search(running, folder)
    assert "The gannet eats herring." in done.stdout
    assert f"{folder.name} was not compared with its files; its last run ended " in done.stderr


def test_who_may_not_write_gets_the_note_alone(running: Service, folder: Path) -> None:
    key = test_keys.foldex(running, "keys", "create", "default", "--scope", "search").stdout.split()[0]
    (folder / "gannet.md").write_text("# gannet\n\nThe gannet eats sprats now.\n")
    with another_api(running, AUTH="on") as guarded:
        done = foldex(guarded, "search", "herring", str(folder), env={"FOLDEX_API_KEY": key})
    assert (done.returncode, "The gannet eats herring." in done.stdout) == (0, True), done.stderr
    assert "was not compared with its files" in done.stderr
