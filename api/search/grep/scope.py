"""The scope of one grep: an index, a selection of its files, and a time limit."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from threading import Event
from uuid import UUID

from api.search.grep.file_types import Types
from api.search.grep.lines import Line, matching_lines
from api.search.grep.pattern import Pattern, compiled_pattern
from schemas.errors import Invalid
from schemas.grep import Grep
from schemas.search import Note
from worker.ignore import compiled_glob
from worker.resources import Resources
from worker.state.index.tools import Index


class TimeOver(Exception):
    """The time is over, or the caller has disconnected."""


class Place:
    """Selects the files to search: at or below a path, by a glob or all but `!glob`, and by type.

    Raises `Invalid` for an invalid path, glob or type.
    """

    def __init__(self, path: str | None, glob: str | None, types: Sequence[str] | None = None) -> None:
        self.path = _relative(path) if path is not None else None
        #: Number of files found at the path.
        self.files = 0
        self._is_but = glob is not None and glob.startswith("!")
        self._spec = compiled_glob("glob", glob.removeprefix("!")) if glob is not None else None
        self._types = Types(types) if types is not None else None

    def takes(self, path: str, type_: str | None = None) -> bool:
        """Whether to search a file, whose source may give it a type. Counts it in `files` if it lies at the path."""
        if self.path is not None and path != self.path and not path.startswith(self.path + "/"):
            return False
        self.files += 1
        if self._types is not None and not self._types.has(path, type_):
            return False
        return self._spec is None or bool(self._spec.match_file(path)) != self._is_but


@dataclass(frozen=True)
class Folder:
    """The state of one grep over an index. `check` raises `TimeOver`.

    `unread` lists files without text, `cut` files that could not be searched completely.
    """

    resources: Resources
    index: Index
    place: Place
    pattern: Pattern
    check: Callable[[], None]
    notes: list[Note] = field(default_factory=list)
    unread: list[UUID] = field(default_factory=list)
    cut: list[UUID] = field(default_factory=list)

    @property
    def limit(self) -> int:
        """Maximum bytes of a file that is read."""
        return self.index.settings.max_file_bytes


def opened(resources: Resources, index: Index, asked: Grep, left: Event | None) -> Folder:
    """Prepare a grep that ends after GREP_SECONDS, or once `left` is set. Raises `Invalid`."""
    over = time.monotonic() + resources.settings.grep_seconds

    def check() -> None:
        if time.monotonic() > over or (left is not None and left.is_set()):
            raise TimeOver

    return Folder(resources, index, Place(asked.path, asked.glob, asked.types), compiled_pattern(asked), check)


@dataclass(frozen=True, slots=True)
class Text:
    """A file's text in UTF-8. If the tool is narrowed to a part, only the bytes in `narrowed` are shown."""

    file_id: UUID
    file_node_id: str
    path: str
    id_path: str
    data: bytes
    narrowed: range | None = None

    def lines(self, pattern: Pattern, check: Callable[[], None]) -> Iterator[Line]:
        """The matching lines, in order. `check` may raise to end the search."""
        found = matching_lines(self.data, pattern, check)
        span = self.narrowed
        return found if span is None else (one for one in found if one.start < span.stop and one.stop > span.start)


def narrowed(text: str, start: int, end: int) -> tuple[bytes, range]:
    """Reduce a document to its characters from `start` to `end`. Returns its UTF-8 bytes, and their range in them.

    Text before is blanked, not removed: lines and columns stay the same, and text on the same line is not revealed.
    """
    before = "\n".join(" " * len(line) for line in text[:start].split("\n")).encode()
    data = before + text[start:end].encode()
    return data, range(len(before), len(data))


def _relative(path: str) -> str | None:
    """Normalize a path relative to the folder; None for the folder itself. Raises `Invalid`."""
    parts = [part for part in path.split("/") if part not in {"", "."}]
    if path.startswith("/") or ".." in parts or "\0" in path:
        raise Invalid("`path` leads out of the tool's folder; give it relative to the folder, as file_path has it.")
    return "/".join(parts) or None
