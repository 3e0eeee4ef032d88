"""The folders in a local folder that somebody may want to index: the names that a picker shows."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from itertools import islice

from schemas.content.source import LocalSource
from schemas.errors import SourceError
from worker.ignore import EVERYTHING, Rules
from worker.machine.paths import is_below
from worker.sources.kind import ContentAccess
from worker.sources.local import no_folder
from worker.sources.local_kind import LocalKind, readable_roots

#: Names of one directory that are looked at. What is not among them can be typed.
MAX_NAMES = 100_000
#: Folders of one page whose ignore files are read. A page may have fewer than were asked for, and others follow.
MAX_LOOKED = 1_000


def roots(access: ContentAccess) -> list[str]:
    """The real paths of the permitted folders that exist and can be listed, in order, none below another one."""
    found: list[str] = []
    for path in sorted(set(readable_roots(access))):
        if not any(is_below(path, root) for root in found) and _can_be_listed(access, path):
            found.append(path)
    return found


def subfolders(
    access: ContentAccess, path: str, after: str, most: int, is_shown: Callable[[str], bool]
) -> tuple[list[str], str | None]:
    """At most so many real paths of folders in a permitted one, and the name after which the next ones follow.

    Their names follow `after`, in order. Hidden folders, those that a run would leave out, links, and what `is_shown`
    does not take by its real path are not among them. Raises `SourceError`.
    """
    folder = LocalKind().open(access, LocalSource(kind="local", path=path), Rules())
    folder.check()
    real = os.fsdecode(folder.real_path)
    if not is_shown(real):
        raise no_folder(path)
    with folder.open_directories().closing() as directories:
        # a cursor also reveals names
        found_names = (name for name in _folder_names(directories.handle(())) if is_shown(f"{real}/{name}"))
        names = sorted(name for name in found_names if name > after)
    found: list[str] = []
    for looked, name in enumerate(names, start=1):
        if not folder.leaves_out_folder((os.fsencode(name),)):
            found.append(f"{real}/{name}")
        if len(found) == most or looked == MAX_LOOKED:
            return found, name if looked < len(names) else None
    return found, None


def _folder_names(handle: int) -> list[str]:
    """Names of folders that can be shown and sent."""
    found = []
    with os.scandir(handle) as entries:
        for entry in islice(entries, MAX_NAMES):
            is_text = entry.name.isprintable()
            if is_text and not entry.name.startswith(".") and entry.is_dir(follow_symlinks=False):
                found.append(entry.name)
    return found


def _can_be_listed(access: ContentAccess, path: str) -> bool:
    with suppress(SourceError, ValueError):
        LocalKind().open(access, LocalSource(kind="local", path=path), EVERYTHING).check()
        return True
    return False
