"""Folders named on the command line: only what the stack's own user wrote is obeyed."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from schemas.content.source import LocalSource
from schemas.errors import SourceRefused
from tests.helpers import HELPERS
from worker.ignore import EVERYTHING
from worker.machine.named_folders import forget_folder, name_folder, named_folders, named_folders_file
from worker.objects.object_store import ObjectStore
from worker.sources.kind import ContentAccess, SourceOptions
from worker.sources.registry import open_source
from worker.state.pool import Pool


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "notes" / "deep").mkdir(parents=True)
    return tmp_path / "notes"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return named_folders_file(tmp_path / "home")


def test_a_named_folder_is_read_until_it_is_forgotten(file: Path, folder: Path) -> None:
    assert named_folders(file) == named_folders(None) == []
    for _ in range(2):
        name_folder(file, str(folder))
    name_folder(file, str(folder / "deep"))
    assert named_folders(file) == [folder, folder / "deep"]
    assert file.stat().st_mode & 0o777 == 0o600
    forget_folder(file, str(folder))
    assert named_folders(file) == [folder / "deep"]


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o644, 0o660])
def test_a_file_that_others_can_read_or_write_is_not_obeyed(file: Path, folder: Path, mode: int) -> None:
    name_folder(file, str(folder))
    file.chmod(mode)
    assert named_folders(file) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="run as root to give a file away")
def test_a_file_of_another_user_is_not_obeyed(file: Path, folder: Path) -> None:
    name_folder(file, str(folder))
    os.chown(file, 65534, 65534)
    assert named_folders(file) == []


def test_a_link_to_a_file_and_a_pipe_are_not_obeyed(file: Path, folder: Path, tmp_path: Path) -> None:
    name_folder(file, str(folder))
    file.rename(tmp_path / "moved")
    file.symlink_to(tmp_path / "moved")
    assert named_folders(file) == []
    file.unlink()
    os.mkfifo(file, 0o600)
    assert named_folders(file) == []


def test_a_folder_that_became_a_link_is_left_out(file: Path, folder: Path, tmp_path: Path) -> None:
    name_folder(file, str(folder))
    folder.rename(tmp_path / "elsewhere")
    folder.symlink_to(tmp_path / "elsewhere")
    assert named_folders(file) == []


@pytest.mark.parametrize("text", ["", "{", "{}", '["relative", 3, null, "/a\\u0000b"]', "[" * 5000])
def test_a_damaged_file_names_nothing(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True)
    file.write_text(text)
    file.chmod(0o600)
    assert named_folders(file) == []


def test_a_source_is_opened_as_soon_as_it_is_named(file: Path, folder: Path, tmp_path: Path) -> None:
    def pool() -> Pool:
        raise NotImplementedError

    def objects() -> ObjectStore:
        raise NotImplementedError

    options = SourceOptions("off", tmp_path / "home", [], None, None)
    access = ContentAccess("project-1", options, pool, objects, HELPERS)
    source = LocalSource(kind="local", path=str(folder / "deep"))
    with pytest.raises(SourceRefused, match="LOCAL_SOURCE_ROOTS"):
        open_source(access, source, EVERYTHING).check()
    name_folder(file, str(folder))
    open_source(access, source, EVERYTHING).check()
    beside = LocalSource(kind="local", path=str(tmp_path))
    with pytest.raises(SourceRefused, match="LOCAL_SOURCE_ROOTS"):
        open_source(access, beside, EVERYTHING).check()
    assert json.loads(file.read_text()) == [str(folder)]
