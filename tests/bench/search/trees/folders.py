"""The folders, and the questions whose answers stand in several places of them.

Questions and labels are written by hand, from facts and not from search results.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from api.stack.record import ROOT
from tests.bench.search import manuals
from tests.bench.search.questions import Question
from tests.bench.search.sets import OWN, copy_own

BOOKS = ROOT / "tests" / "data" / "books" / "gospels"


class Folder(NamedTuple):
    """A folder, and the file of its questions. `fill` writes it, and is deterministic."""

    fill: Callable[[Path], None]
    questions: Path

    def ask(self) -> list[Question]:
        """The questions of this folder."""
        return [Question.model_validate_json(line) for line in self.questions.read_text().splitlines()]


def fill_gospels(folder: Path) -> None:
    """Write a file for each chapter: `mark/06.txt` has the verses of the sixth, one a line."""
    for book in sorted(BOOKS.glob("*.txt")):
        chapters: dict[str, list[str]] = {}
        for line in book.read_text().splitlines():
            chapter, _, verse = line.partition(":")
            chapters.setdefault(chapter, []).append(verse)
        place = folder / book.stem
        place.mkdir(parents=True)
        for chapter, verses in chapters.items():
            (place / f"{chapter.zfill(2)}.txt").write_text("\n".join(verses) + "\n")


def fill_foldex(folder: Path) -> None:
    """Copy the documentation and code of this repository, without its tests."""
    copy_own([name for name in OWN if name != "tests"], folder)


def _questions(name: str) -> Path:
    return Path(__file__).with_name(f"{name}.jsonl")


FOLDERS = {
    "gospels": Folder(fill_gospels, _questions("gospels")),
    "manuals": Folder(manuals.fill, _questions("manuals")),
    "foldex": Folder(fill_foldex, _questions("foldex")),
}
