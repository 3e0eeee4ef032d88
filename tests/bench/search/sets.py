"""The question sets and their folders."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from api.stack.record import ROOT
from tests.bench.search import definitions, functions, manuals, messages, sources
from tests.bench.search.questions import Question

OWN = ("api", "deploy", "docs", "schemas", "tests", "worker", "CHANGELOG.md", "Makefile", "README.md", "pyproject.toml")
QUESTIONS = Path(__file__).with_name("repo.jsonl")
#: Folders that are not copied: the questions, and texts that have nothing to do with this repository.
LEFT_OUT = (QUESTIONS.parent, ROOT / "tests" / "data" / "books")


class Set(NamedTuple):
    """A question set. `fill` writes its folder and `ask` returns its questions; both are deterministic."""

    fill: Callable[[Path], None]
    ask: Callable[[], list[Question]]


def fill_repo(folder: Path) -> None:
    """Copy this repository without caches, the questions and the books."""
    copy_own(OWN, folder)


def copy_own(names: Iterable[str], folder: Path) -> None:
    """Copy files and directories of this repository."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=_left_out)
        else:
            shutil.copyfile(ROOT / name, folder / name)


def _left_out(directory: str, names: list[str]) -> set[str]:
    place = Path(directory)
    return {name for name in names if name == "__pycache__" or place / name in LEFT_OUT}


def ask_repo() -> list[Question]:
    """The questions of `repo.jsonl`, written by hand from the code and not from search results."""
    return [Question.model_validate_json(line) for line in QUESTIONS.read_text().splitlines()]


SETS = {
    "repo": Set(fill_repo, ask_repo),
    "symbols": Set(sources.fill, definitions.ask_names),
    "docstrings": Set(sources.fill_bare, definitions.ask_docstrings),
    "functions": Set(functions.fill, functions.ask),
    "manuals": Set(manuals.fill, manuals.ask),
    "messages": Set(sources.fill, messages.ask),
}
