# ruff: noqa: RUF001 - texts in other scripts
"""The model of languages in files that processes share: the same verdicts, whatever happens to the files."""

from __future__ import annotations

import fcntl
import os
import shutil
import threading
import time
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from py3langid.langid import MODEL_FILE, LanguageIdentifier

from worker.app import settings
from worker.tasks import signals
from worker.tokens import language_model, languages
from worker.tokens.languages import BY_SCRIPT

NAMES = {name for several in BY_SCRIPT.values() if len(several) > 1 for name in several}
TEXTS = [
    "",
    "x",
    "0x3f {} []",
    "Die Pumpe fördert das Wasser aus dem Keller, bis der Schwimmer sie abschaltet.",
    "La bomba saca el agua del sótano hasta que el flotador la apaga.",
    "De pomp haalt het water uit de kelder tot de vlotter hem uitschakelt.",
    "Máy bơm hút nước ra khỏi tầng hầm cho đến khi phao ngắt.",
    "Насос відкачує воду з підвалу, доки поплавець його не вимкне.",
    "پمپ آب را از زیرزمین می‌کشد تا شناور آن را خاموش کند.",
    "POMPA WODY " * 30,
    '{"name": "left-pad", "version": "1.0.0"}',
]


@cache
def library() -> Any:
    full = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    full.set_languages(NAMES)
    return full


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("run")
    language_model.load(NAMES, path)
    return path


def files(directory: Path) -> list[Path]:
    return [*directory.glob("languages-*")]


@cache
def shared(directory: Path) -> Any:
    return language_model.load(NAMES, directory)


@pytest.mark.parametrize("text", TEXTS)
def test_verdicts_are_those_of_the_library(directory: Path, text: str) -> None:
    assert shared(directory).classify(text) == library().classify(text)


@given(st.text(st.characters(exclude_categories=())))
def test_verdicts_on_any_text_are_those_of_the_library(directory: Path, text: str) -> None:
    assert shared(directory).classify(text) == library().classify(text)


def test_only_the_first_process_unpacks_the_model(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(language_model, "_unpack", None)
    assert language_model.load(NAMES, directory).classify(TEXTS[3])[0] == "de"
    assert len(files(directory)) == 1


def test_processes_that_begin_together_unpack_the_model_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unpacked, unpack, together = list[int](), language_model._unpack, Barrier(3)
    # on a busy machine one takes longer than others wait
    monkeypatch.setattr(language_model, "_LOCK_SECONDS", 60.0)

    def counted(names: Collection[str]) -> language_model._Arrays:
        unpacked.append(1)
        return unpack(names)

    def load() -> str:
        together.wait(10)
        return str(language_model.load(NAMES, tmp_path).classify(TEXTS[3])[0])

    monkeypatch.setattr(language_model, "_unpack", counted)
    with ThreadPoolExecutor(together.parties) as threads:
        verdicts = [thread.result() for thread in [threads.submit(load) for _ in range(together.parties)]]
    assert (verdicts, len(unpacked)) == (["de"] * together.parties, 1)


def test_a_process_that_is_frozen_while_it_unpacks_holds_up_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(language_model, "_LOCK_SECONDS", 0.1)
    with (tmp_path / language_model._LOCK).open("w") as frozen:
        fcntl.flock(frozen, fcntl.LOCK_EX)
        assert language_model.load(NAMES, tmp_path).classify(TEXTS[3])[0] == "de"


@pytest.mark.parametrize(("part", "is_cut"), [("moves", True), ("names", False)])
def test_files_that_are_cut_short_or_missing_are_made_again(
    directory: Path, tmp_path: Path, part: str, *, is_cut: bool
) -> None:
    shutil.copytree(directory, tmp_path, dirs_exist_ok=True)
    file = files(tmp_path)[0] / f"{part}.npy"
    whole = file.stat().st_size
    os.truncate(file, whole // 2) if is_cut else file.unlink()
    assert language_model.load(NAMES, tmp_path).classify(TEXTS[3])[0] == "de"
    assert file.stat().st_size == whole
    assert len(files(tmp_path)) == 1


def test_a_directory_that_nobody_can_write_to_costs_memory_alone(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("a file")
    assert language_model.load(NAMES, tmp_path / "run").classify(TEXTS[3])[0] == "de"


@pytest.mark.parametrize(("age", "stays"), [(3500, True), (3700, False)])
def test_files_of_other_releases_are_removed_once_nobody_writes_them(tmp_path: Path, age: int, *, stays: bool) -> None:
    other = tmp_path / "languages-other"
    other.mkdir()
    os.utime(other, (time.time() - age,) * 2)
    language_model.load(NAMES, tmp_path)
    assert other.exists() is stays
    assert len(files(tmp_path)) == 1 + stays


def test_worker_processes_share_it_in_their_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(languages._Shared, "directory", None)
    signals._share_language_model()
    assert languages._Shared.directory == settings.foldex_home.absolute() / "run"


@pytest.mark.parametrize("process", [0, 1])
def test_one_process_of_a_worker_unpacks_it_before_a_document_needs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, process: int
) -> None:
    monkeypatch.setattr(languages._Shared, "directory", tmp_path)
    monkeypatch.setattr(signals, "current_process_index", lambda base: base + process)
    signals._unpack_language_model()
    for thread in threading.enumerate():
        if thread.name == "languages":
            thread.join(60)
    assert len(files(tmp_path)) == (process == 0)
    monkeypatch.setattr(language_model, "_unpack", None if process == 0 else language_model._unpack)
    assert language_model.load(NAMES, tmp_path).classify(TEXTS[3])[0] == "de"
