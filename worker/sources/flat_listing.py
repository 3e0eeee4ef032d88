"""Rules applied to a listing that comes as one row of files, and not directory by directory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TypeVar

from worker.ignore import Part, Trail

File = TypeVar("File")

#: Added to a rule's name where it left out a directory, which counts as one whatever it holds.
DIRECTORIES = "_directories"

#: Behind every name there is: a listing that goes on after it, below a directory, is past that directory.
LAST = "\U0010ffff"


def sift(
    trail: Trail[Part], files: Iterable[tuple[tuple[Part, ...], str, File]], after: tuple[Part, ...] | None
) -> tuple[list[File], Counter[str]]:
    """The files that are kept of (directories above, name, file), and what is ignored, counted by rule.

    `after` are the directories above the cursor, None for the first page: what is to be counted of them was counted
    with an earlier one.
    """
    kept: list[File] = []
    ignored: Counter[str] = Counter()
    counted = trail.pruned(after or ())
    for way, name, file in files:
        pruned = trail.pruned(way)
        if pruned:
            if pruned != counted:
                ignored[pruned[1] + DIRECTORIES] += 1
                counted = pruned
        elif rule := trail.ignored(name):
            ignored[rule] += 1
        else:
            kept.append(file)
    return kept, ignored + trail.refused(after)
