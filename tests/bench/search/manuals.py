"""Questions over installed packages: which description belongs to a one-line summary."""

from __future__ import annotations

from collections import Counter
from email import message_from_string
from functools import cache
from pathlib import Path

from tests.bench.search.questions import Label, Question
from tests.bench.search.sources import PURELIB

#: Maximum characters of a description. Many contain their whole history.
LONGEST = 6_000
SHORTEST = 500


@cache
def _manuals() -> dict[str, tuple[str, str]]:
    """Summary and description by file name."""
    found = {}
    for path in sorted(PURELIB.glob("*.dist-info/METADATA")):
        metadata = message_from_string(path.read_text(errors="replace"))
        summary, text = str(metadata["Summary"] or ""), str(metadata.get_payload())
        suffix = "md" if "markdown" in str(metadata["Description-Content-Type"]) else "txt"
        if summary and len(text) >= SHORTEST:
            found[f"{metadata['Name']}.{suffix}"] = (summary, text[:LONGEST])
    return found


def fill(folder: Path) -> None:
    """Write the descriptions without their summaries."""
    folder.mkdir(parents=True)
    for name, (summary, text) in _manuals().items():
        (folder / name).write_text(text.replace(summary, ""))


def ask() -> list[Question]:
    """A question for each summary that belongs to one package only."""
    times = Counter(summary for summary, _ in _manuals().values())
    return [
        Question(query=summary, kind="summary", relevant=(Label(path=name),))
        for name, (summary, _) in _manuals().items()
        if times[summary] == 1
    ]
