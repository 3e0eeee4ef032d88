"""The scope of one grep: an index, a selection of its files, and their texts."""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from threading import Event
from uuid import UUID

import numpy as np

from api.http.disconnect import CallerLeft
from api.http.sight import SeenIndex
from api.search.grep.file_types import FileTypeFilter
from api.search.grep.lines import MatchedLine
from api.search.grep.pattern import Pattern, compiled_pattern
from api.search.grep.read_forms import MAX_LINE_EDITS, lines_as_read
from api.search.text import metadata_filter
from api.search.text.path_pattern import PathPattern, Takes
from api.search.text.times import time_matcher
from api.search.text.visibility import ids_of, visible_files
from schemas.errors import Invalid
from schemas.queries.grep import Grep
from schemas.queries.search import Note
from worker.reading import applied, full
from worker.resources import Resources
from worker.state.index import file_lookup

#: Characters that are blanked at a time.
_BLOCK = 1 << 20


class TimeOver(Exception):
    """The time is over, or the caller has disconnected."""


class FileScope:
    """Selects the files to search: at or below a path, by globs and all but `!glob`, by type, and by time.

    `paths_in` gives the known files below a folder. Raises `Invalid` for an invalid path, glob or type.
    """

    def __init__(self, request: Grep, paths_in: Callable[[str], Sequence[str]] = lambda _: ()) -> None:
        path, types = request.path, request.types
        self.path = _relative(path) if path is not None else None
        #: Number of files found at the path.
        self.files_at_path = 0
        globs = [request.glob] if isinstance(request.glob, str) else request.glob or []
        self._any_of: list[Takes] = []
        self._all_of: list[Takes] = []
        for pattern in (PathPattern("glob", glob) for glob in globs):
            takes = pattern.among(paths_in(pattern.folder) if pattern.is_ambiguous else ())
            (self._all_of if pattern.excludes else self._any_of).append(takes)
        self._types = FileTypeFilter(types) if types is not None else None
        self._is_in_time = time_matcher(request)

    @property
    def has_times(self) -> bool:
        """Whether the time of a file's last change decides."""
        return self._is_in_time is not None

    def takes(self, path: str, type_: str | None = None, mtime_ms: int | None = None) -> bool:
        """Whether to search a file, whose source may give it a type. Counts it if it lies at the path."""
        if self.path is not None and path != self.path and not path.startswith(self.path + "/"):
            return False
        self.files_at_path += 1
        if self._types is not None and not self._types.has(path, type_):
            return False
        if self._any_of and not any(takes(path) for takes in self._any_of):
            return False
        if not all(takes(path) for takes in self._all_of):
            return False
        return self._is_in_time is None or self._is_in_time(mtime_ms)


@dataclass(frozen=True)
class TextSearch:
    """One grep over an index. `check` raises `TimeOver`."""

    resources: Resources
    index: SeenIndex
    files: FileScope
    pattern: Pattern
    check: Callable[[], None]
    #: The only files to search, by a filter and what the caller may read; None: all.
    only: Container[UUID] | None = None
    #: The only files that the caller may read; None: all.
    visible: Container[UUID] | None = None

    def sees(self, file_id: UUID) -> bool:
        """Whether the caller may read a file. One that no run has listed is hidden if any file is."""
        return self.visible is None or file_id in self.visible

    def takes(self, file_id: UUID) -> bool:
        """Whether a file passes the filter by metadata, and the caller may read it."""
        return self.only is None or file_id in self.only

    @property
    def max_bytes(self) -> int:
        """Maximum bytes of a file that is read."""
        return self.index.settings.max_file_bytes


def text_search(
    resources: Resources,
    index: SeenIndex,
    request: Grep,
    disconnected: Event | None,
    seconds: float | None = None,
    only: frozenset[UUID] | None = None,
) -> TextSearch:
    """Prepare a grep that ends after `seconds` (default: SEARCH_SECONDS), or once `disconnected` is set.

    It searches no files but `only`, which a caller has who resolved a filter by metadata before; None: any.
    Raises `Invalid` and `CallerLeft`.
    """
    deadline = time.monotonic() + (resources.settings.search_seconds if seconds is None else seconds)

    def check() -> None:
        if time.monotonic() > deadline or (disconnected is not None and disconnected.is_set()):
            raise TimeOver

    def paths_in(folder: str) -> list[str]:
        files = file_lookup.searchable(resources.pool, index.id, folder)
        return [file.path for file in files if visible is None or file.file_node_id in visible.node_ids]

    def check_caller() -> None:
        if disconnected is not None and disconnected.is_set():
            raise CallerLeft

    visible = visible_files(resources.pool, index, check_caller)
    readable = ids_of(visible)
    if request.metadata is not None:
        only = metadata_filter.passing(resources.pool, index.id, index.metadata, request.metadata, check_caller).files
    if readable is not None:
        only = readable if only is None else only & readable
    files = FileScope(request, paths_in)
    return TextSearch(resources, index, files, compiled_pattern(request), check, only, readable)


@dataclass(frozen=True, slots=True)
class SearchableText:
    """A file's text in UTF-8, with its type. If the tool is narrowed to a part, only bytes in `narrowed` are shown."""

    file_id: UUID
    file_node_id: str
    path: str
    id_path: str
    data: bytes
    narrowed: range | None = None
    type: str | None = None

    def lines(self, pattern: Pattern, check: Callable[[], None]) -> Iterator[MatchedLine]:
        """The lines that match as they are written or read, in order. `check` may raise to end the search."""
        lines = lines_as_read(self.data, self.type, pattern, check)
        part = self.narrowed
        return lines if part is None else (line for line in lines if line.start < part.stop and line.stop > part.start)

    def forms(self, line: MatchedLine) -> Sequence[str]:
        """A line as it is written and as it is read."""
        written = self.data[line.start : line.end].decode(errors="replace")
        return written, applied(written, islice(full(self.type, written), MAX_LINE_EDITS))


@dataclass(frozen=True, slots=True)
class UnreadFile:
    """A file without text that can be searched before it is indexed."""

    path: str


#: What reading files yields: their texts, those without one, and notes for the caller.
Reading = SearchableText | UnreadFile | Note


def narrowed(text: str, start: int, end: int) -> tuple[bytes, range]:
    """Reduce a document to its characters from `start` to `end`. Returns its UTF-8 bytes, and their range in them.

    Text before is blanked, not removed: lines and columns stay the same, and text on the same line is not revealed.
    """
    before = b"".join(_blanked(text[place : min(start, place + _BLOCK)]) for place in range(0, start, _BLOCK))
    data = before + text[start:end].encode()
    return data, range(len(before), len(data))


def _blanked(text: str) -> bytes:
    """A blank for each character, and the line feeds."""
    codes = np.frombuffer(text.encode("utf-32-le", "replace"), dtype="<u4")
    return np.where(codes == ord("\n"), ord("\n"), ord(" ")).astype(np.uint8).tobytes()


def _relative(path: str) -> str | None:
    """Normalize a path relative to the folder; None for the folder itself. Raises `Invalid`."""
    parts = [part for part in path.split("/") if part not in {"", "."}]
    if path.startswith("/") or ".." in parts or "\0" in path:
        raise Invalid("`path` leads out of the tool's folder; send a path relative to the folder, like file_path.")
    return "/".join(parts) or None
