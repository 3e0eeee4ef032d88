"""Resolves a query's path, types, times and file ids to files, in a form that the stores can filter by."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from api.search.text.path_pattern import PathPattern
from api.search.text.times import time_matcher
from api.search.text.visibility import VisibleFiles
from schemas.queries.search import Filters
from worker.formats.by_name import split
from worker.formats.registry import BY_TYPE
from worker.state.index import file_lookup
from worker.state.index.file_lookup import IndexedFile
from worker.state.index.tools import Index
from worker.state.pool import Pool
from worker.vectors import MAX_FILTERABLE_BYTES

#: Maximum files listed one by one; each costs LanceDB about 30 µs. More are expressed by folders and endings.
MAX_IDS = 1_000
#: Maximum folders or endings in their place.
MAX_PATTERNS = 32

#: Endings that are literal in every store's patterns.
_LITERAL_ENDING = re.compile(r"\.[A-Za-z0-9+-]{1,32}")


@dataclass(frozen=True, slots=True)
class FileSelection:
    """Files by `file_node_id`, or all files in some folders (by id path) whose names have some endings."""

    ids: Sequence[str] | None = None
    folders: list[str] | None = None
    endings: list[str] | None = None


def files_that_are(visible: VisibleFiles | None) -> FileSelection | None:
    """All files that a caller may read; None: all files."""
    return None if visible is None else FileSelection(visible.in_order)


def select_files(
    pool: Pool, index: Index, filters: Filters, allowed_ids: Collection[str] | None, visible: VisibleFiles | None
) -> FileSelection | None:
    """The `visible` files that the filters select, from `allowed_ids` or from all (None). None: all files of the index.

    Names of hidden files do not change what a pattern means.
    """
    is_in_time = time_matcher(filters)
    if filters.path is None and indexed_types(filters) == filters.types and is_in_time is None:
        if allowed_ids is None:
            return files_that_are(visible)
        return FileSelection(sorted(visible.node_ids.intersection(allowed_ids) if visible else allowed_ids))
    pattern = None if filters.path is None else PathPattern("path", filters.path)
    folder = pattern.folder if pattern else ""
    in_folder = file_lookup.searchable(pool, index.id, folder)
    if visible is not None:
        in_folder = [file for file in in_folder if file.file_node_id in visible.node_ids]
    selected = [file for file in in_folder if _has_type(filters, file)]
    if pattern:
        takes = pattern.among([file.path for file in in_folder])
        selected = [file for file in selected if takes(file.path)]
    if is_in_time:
        selected = [file for file in selected if is_in_time(file.mtime_ms)]
    ids = [file.file_node_id for file in selected if allowed_ids is None or file.file_node_id in allowed_ids]
    are_all = visible is None and len(ids) == len(selected) > MAX_IDS
    selection = selection_by_patterns(in_folder, selected, folder) if are_all else None
    return selection or FileSelection(sorted(ids))


def indexed_types(filters: Filters) -> list[str] | None:
    """The types that a store can filter by; None if files must be found by extension or language."""
    are_types = filters.types is not None and all(type_ in BY_TYPE for type_ in filters.types)
    return filters.types if are_types else None


def selection_by_patterns(
    in_folder: Sequence[IndexedFile], selected: Sequence[IndexedFile], folder: str
) -> FileSelection | None:
    """Describe the `selected` of the files in `folder` by folders and endings; None if that is not exact."""
    folders = sorted({_folder_id_path(file, folder) for file in selected}) if folder else None
    endings = None if len(selected) == len(in_folder) else sorted({_ending(file.path) for file in selected})
    if folders is not None and not _are_few(folders):
        return None
    if endings is not None:
        is_exact = sum(file.path.endswith(tuple(endings)) for file in in_folder) == len(selected)
        if not (is_exact and _are_few(endings) and all(map(_LITERAL_ENDING.fullmatch, endings))):
            return None
    return FileSelection(None, folders, endings)


def _has_type(filters: Filters, file: IndexedFile) -> bool:
    if filters.types is None:
        return True
    extension = split(file.path)[1]
    return not {file.type, file.language, extension, f".{extension}"}.isdisjoint(filters.types)


def _folder_id_path(file: IndexedFile, folder: str) -> str:
    """The id path of the `folder` that the file lies in."""
    return file.id_path.rsplit("/", file.path.removeprefix(folder).count("/") + 1)[0]


def _ending(path: str) -> str:
    return path[-len(extension) - 1 :] if (extension := split(path)[1]) else ""


def _are_few(values: Sequence[str]) -> bool:
    return len(values) <= MAX_PATTERNS and all(len(value.encode()) < MAX_FILTERABLE_BYTES for value in values)
