"""Applies rules to a listing that arrives as one flat sequence of files, not directory by directory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from typing import TypeVar

from worker.ignore import Part, Trail

File = TypeVar("File")

#: Suffix of a rule's name for an excluded directory, which counts as one regardless of its contents.
DIRECTORIES = "_directories"

#: Sorts after every name. A cursor of a directory plus this name skips the rest of the directory.
LAST = "\U0010ffff"


def topmost(ways: Iterable[tuple[Part, ...]], ignore_files: Collection[Part]) -> list[tuple[Part, ...]] | None:
    """Return the only paths to list after changes, ascending, none below another one; None for the whole folder.

    An ignore file affects its whole directory.
    """
    tops: list[tuple[Part, ...]] = []
    for way in sorted(ways):
        top = way[:-1] if way[-1] in ignore_files else way
        while tops and tops[-1][: len(top)] == top:
            tops.pop()
        if not tops or top[: len(tops[-1])] != tops[-1]:
            tops.append(top)
    return None if () in tops else tops


def filter_files(
    trail: Trail[Part], files: Iterable[tuple[tuple[Part, ...], str, File]], after: tuple[Part, ...] | None
) -> tuple[list[File], Counter[str]]:
    """Split (directories above, name, file) into the files that are kept and counts of ignored ones by rule.

    Without a name it is an object that represents the directory. `after` are the directories above the cursor, None for
    the first page. An earlier page counted their ignored entries.
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
        elif not name:
            continue
        elif rule := trail.ignored(name):
            ignored[rule] += 1
        else:
            kept.append(file)
    return kept, ignored + trail.refused(after)
