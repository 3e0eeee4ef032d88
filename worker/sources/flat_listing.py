"""Applies rules to a listing that arrives as one flat sequence of files, not directory by directory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TypeVar

from worker.ignore import Part, Trail

File = TypeVar("File")

#: Suffix of a rule's name for an excluded directory, which counts as one whatever it contains.
DIRECTORIES = "_directories"

#: Sorts after every name. A cursor of a directory plus this name skips the rest of the directory.
LAST = "\U0010ffff"


def filter_files(
    trail: Trail[Part], files: Iterable[tuple[tuple[Part, ...], str, File]], after: tuple[Part, ...] | None
) -> tuple[list[File], Counter[str]]:
    """Sort (directories above, name, file) into the files that are kept and counts of ignored ones by rule.

    `after` are the directories above the cursor, None for the first page. An earlier page counted what is ignored in
    them.
    """
    kept: list[File] = []
    ignored: Counter[str] = Counter()
    counted = trail.pruned(after or ())
    for folders, name, file in files:
        pruned = trail.pruned(folders)
        if pruned:
            if pruned != counted:
                ignored[pruned[1] + DIRECTORIES] += 1
                counted = pruned
        elif rule := trail.ignored(name):
            ignored[rule] += 1
        else:
            kept.append(file)
    return kept, ignored + trail.refused(after)
