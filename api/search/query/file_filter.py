"""Resolves a query's path, types and file ids to files, in a form that the stores can filter by."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from itertools import takewhile

from schemas.search import Filters
from worker.formats.by_name import split
from worker.formats.registry import BY_TYPE
from worker.ignore import compiled_glob
from worker.state.index import files
from worker.state.index.files import Searchable
from worker.state.index.tools import Index
from worker.state.postgres import Pool
from worker.vectors import MAX_FILTERABLE_BYTES

#: Maximum files listed one by one; each costs LanceDB about 30 µs. More are expressed by folders and endings.
MAX_IDS = 1_000
#: Maximum folders or endings in their place.
MAX_TOLD = 32

#: Special characters of globs.
_SPECIAL = frozenset("*?[]{}!\\")
#: Endings that are literal in every store's patterns.
_ENDING = re.compile(r"\.[A-Za-z0-9+-]{1,32}")


@dataclass(frozen=True, slots=True)
class Chosen:
    """Files by `file_node_id`, or all files in some folders (by id path) whose names have some endings."""

    ids: list[str] | None = None
    folders: list[str] | None = None
    endings: list[str] | None = None


def choose(pool: Pool, index: Index, filters: Filters, only: Collection[str] | None) -> Chosen | None:
    """The files that the filters select, from `only` or from all (None). None if they select all files."""
    if filters.path is None and types_of(filters) == filters.types:
        return None if only is None else Chosen(sorted(only))
    folder, is_meant = glob_of(filters.path)
    near = files.searchable(pool, index.id, folder)
    found = [file for file in near if is_meant(file.path) and _is_typed(filters, file)]
    ids = [file.file_node_id for file in found if only is None or file.file_node_id in only]
    told = told_shortly(near, found, folder) if len(ids) == len(found) > MAX_IDS else None
    return told or Chosen(sorted(ids))


def types_of(filters: Filters) -> list[str] | None:
    """The types that a store can filter by; None if files must be found by extension or language."""
    are_types = filters.types is not None and all(type_ in BY_TYPE for type_ in filters.types)
    return filters.types if are_types else None


def folder_of(glob: str) -> str:
    """The literal folders at the start of a glob, such as `dir/` for `dir/**`; "" if there are none."""
    # a trailing slash alone does not anchor a pattern
    folders = glob.removeprefix("/").rstrip("/").split("/")[:-1]
    named = takewhile(lambda name: name not in {"", ".", ".."} and not _SPECIAL & set(name), folders)
    return "".join(f"{name}/" for name in named)


def told_shortly(near: Sequence[Searchable], found: Sequence[Searchable], folder: str) -> Chosen | None:
    """Describe the files `found`, of those `near` in `folder`, by folders and endings; None if that is not exact."""
    folders = sorted({_above(file, folder) for file in found}) if folder else None
    endings = None if len(found) == len(near) else sorted({_ending(file.path) for file in found})
    if folders is not None and not _are_few(folders):
        return None
    if endings is not None:
        is_exact = sum(file.path.endswith(tuple(endings)) for file in near) == len(found)
        if not (is_exact and _are_few(endings) and all(map(_ENDING.fullmatch, endings))):
            return None
    return Chosen(None, folders, endings)


def glob_of(path: str | None) -> tuple[str, Callable[[str], bool | None]]:
    """The literal prefix of a path filter, and a function that tells whether a path matches; no filter matches all."""
    if path is None:
        return "", lambda _: True
    if path.startswith("!") and path[1:].strip():
        but = compiled_glob("path", path[1:])
        return "", lambda path: not but.match_file(path)
    glob = path.removeprefix("./")
    return folder_of(glob), compiled_glob("path", glob).match_file


def _is_typed(filters: Filters, file: Searchable) -> bool:
    if filters.types is None:
        return True
    extension = split(file.path)[1]
    return not {file.type, file.language, extension, f".{extension}"}.isdisjoint(filters.types)


def _above(file: Searchable, folder: str) -> str:
    """The id path of the `folder` that the file lies in."""
    return file.id_path.rsplit("/", file.path.removeprefix(folder).count("/") + 1)[0]


def _ending(path: str) -> str:
    return path[-len(extension) - 1 :] if (extension := split(path)[1]) else ""


def _are_few(values: Sequence[str]) -> bool:
    return len(values) <= MAX_TOLD and all(len(value.encode()) < MAX_FILTERABLE_BYTES for value in values)
