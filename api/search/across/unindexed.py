"""Searches files that no index covers: short single files are returned whole, others by the query's words."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from uuid import NAMESPACE_URL, UUID, uuid5

from api.http.disconnect import Disconnect
from api.search.across.paths import RequestedLocation
from api.search.across.readable import ReadableFiles
from api.search.grep.fallback import BestLines, any_of, best_lines, hit_of, until_source_fails, words_of
from api.search.grep.pattern import compiled_pattern
from api.search.grep.scope import Reading, SearchableText, TimeOver, UnreadFile
from api.search.text.path_pattern import PathPattern
from schemas.content.document import SourceEntry
from schemas.errors import FileError
from schemas.queries.search import UNEMBEDDED_CHARACTERS, Filters, Hit, Note, SearchRequest
from schemas.wording import list_first
from worker.formats import by_name
from worker.formats.secrets import suspect
from worker.ignore import Rules
from worker.resources import Resources
from worker.sandbox.texts import utf8_texts
from worker.sources import Source, pages
from worker.sources.nodes import NODES
from worker.sources.registry import address_prefix
from worker.tokens import MAX_CHARACTER_BYTES

#: Maximum files that one request reads from folders.
MAX_FILES = 10_000
#: Maximum bytes of a file in a folder.
MAX_BYTES = 5_000_000
#: Maximum paths that a note names.
MAX_LISTED_PATHS = 20

#: The address and the path of a file.
_Place = tuple[str, str]


@dataclass(frozen=True, slots=True)
class UnindexedSearch:
    """One request's search of unindexed files. `check` raises `TimeOver`; `matches` applies the filter by path."""

    resources: Resources
    readable: ReadableFiles
    request: SearchRequest
    check: Callable[[], None]
    matches: Callable[[str], bool]

    @property
    def project_id(self) -> str:
        """The project that has the files."""
        return self.readable.project_id


@dataclass(frozen=True, slots=True)
class _WholeFiles:
    """Hits that are whole files, the files that are too long for that, notes, and the paths of files without text."""

    hits: Sequence[Hit]
    longer: Sequence[RequestedLocation]
    notes: Sequence[Note]
    unread: Sequence[str]


class _TooManyError(Exception):
    """The folders hold more than `MAX_FILES` files."""


def uncovered_hits(
    resources: Resources,
    readable: ReadableFiles,
    locations: Sequence[RequestedLocation],
    request: SearchRequest,
    *,
    deadline: float,
    disconnect: Disconnect,
) -> tuple[list[Hit], list[Note]]:
    """Find whole files, up to `UNEMBEDDED_CHARACTERS` in total, and the best lines of the others, best first.

    At `deadline`, a time of `time.monotonic`, returns what is found by then. A note names a location that cannot be
    read to its end. Raises `CallerLeft`.
    """
    notes = [_paths_note("not_indexed", "No index covers", [_described(location) for location in locations])]
    if request.filters.model_copy(update={"path": None}) != Filters():
        detail = "Paths without an index were left out: only the filter `path` applies to them."
        return [], [*notes, Note(code="filtered_out", detail=detail)]

    def check() -> None:
        if time.monotonic() > deadline or disconnect.event.is_set():
            raise TimeOver

    path = request.filters.path
    matches = PathPattern("path", path).anywhere() if path is not None else lambda _: True
    search = UnindexedSearch(resources, readable, request, check, matches)
    words = words_of(" ".join(request.texts))
    whole = _whole_files(search, locations, words)
    folders = [location for location in locations if location.key is None]
    lines = _lines(search, whole.longer, folders, words)
    disconnect.check()
    unread = [*whole.unread, *lines.unread]
    notes += [*whole.notes, *lines.notes]
    if unread:
        notes.append(_paths_note("not_text", "These files can be read only once they are indexed:", unread))
    if time.monotonic() > deadline:
        notes.append(Note(code="time_over", detail="The time limit was reached before all files were searched."))
    return sorted([*whole.hits, *lines.hits], key=lambda hit: -hit.score), notes


def file_id(address: str) -> UUID:
    """A stable id for a file that no index knows."""
    return uuid5(NAMESPACE_URL, address)


def _whole_files(search: UnindexedSearch, locations: Sequence[RequestedLocation], words: Sequence[str]) -> _WholeFiles:
    """Single files that fit into the answer together, and those that do not; partial if the time runs out."""
    hits: list[Hit] = []
    longer: list[RequestedLocation] = []
    notes: list[Note] = []
    unread: list[str] = []
    room = UNEMBEDDED_CHARACTERS
    try:
        readings = ((location, reading) for location in locations for reading in _single(search, location))
        for location, reading in readings:
            if isinstance(reading, Note):
                notes.append(reading)
            elif isinstance(reading, UnreadFile):
                unread.append(reading.path)
            elif (hit := _whole_hit(reading, words, room)) is not None:
                room -= len(hit.chunk_text)
                hits.append(hit)
            else:
                longer.append(location)
    except TimeOver:
        # the search for lines will end at once as well
        pass
    return _WholeFiles(hits, longer, notes, unread)


def _whole_hit(text: SearchableText, words: Sequence[str], max_characters: int) -> Hit | None:
    """A hit with the whole text; None if that is too long."""
    if len(text.data) > MAX_CHARACTER_BYTES * max_characters:
        return None
    lowered = text.data.decode(errors="replace").lower()
    present = sum(word in lowered for word in words)
    hit = hit_of(text, 0, len(text.data), 0, present / max(1, len(words)))
    return hit.model_copy(update={"whole": True}) if len(hit.chunk_text) <= max_characters else None


def _lines(
    search: UnindexedSearch,
    longer: Sequence[RequestedLocation],
    folders: Sequence[RequestedLocation],
    words: Sequence[str],
) -> BestLines:
    """The best lines of longer files, which are read again because they may exceed memory together, and of folders."""
    if not words:
        return BestLines()
    files = (reading for location in longer for reading in _single(search, location))
    readings = chain(files, _below(search, folders))
    return best_lines(readings, words, compiled_pattern(any_of(words)), search.check, search.request.top_k)


def _single(search: UnindexedSearch, location: RequestedLocation) -> Iterator[Reading]:
    """The text of a single file; nothing for a folder or a file that the filter excludes. Raises `TimeOver`."""
    search.check()
    if location.key is not None and search.matches(location.path.rsplit("/", 1)[-1]):
        yield from until_source_fails(_file(search, location, location.key))


def _file(search: UnindexedSearch, location: RequestedLocation, key: bytes) -> Iterator[Reading]:
    source = search.resources.source(search.project_id, location.source)
    content = _content(source, key, search.resources.settings.max_file_bytes)
    yield from _texts(search, [((location.address, location.path), content)])


def _below(search: UnindexedSearch, folders: Sequence[RequestedLocation]) -> Iterator[Reading]:
    """The texts in folders, up to `MAX_FILES`. Skips files that a new tool would ignore."""
    numbers = iter(range(MAX_FILES))
    try:
        for folder in folders:
            yield from until_source_fails(_folder(search, folder, numbers))
    except _TooManyError:
        detail = f"Only the first {MAX_FILES} files were searched; choose a smaller folder, or index it."
        yield Note(code="too_many_files", detail=detail)


def _folder(search: UnindexedSearch, folder: RequestedLocation, numbers: Iterator[int]) -> Iterator[Reading]:
    """The texts in one folder. Raises `SourceError`, and `_TooManyError` once `numbers` is exhausted."""
    yield from _texts(search, _contents(search, folder, numbers))


def _contents(
    search: UnindexedSearch, folder: RequestedLocation, numbers: Iterator[int]
) -> Iterator[tuple[_Place, bytes | None]]:
    for source, entry, address in _entries(search, folder):
        search.check()
        if next(numbers, None) is None:
            raise _TooManyError
        yield (address, f"{folder.path.rstrip('/')}/{entry.path}"), _content(source, entry.key, MAX_BYTES)


def _entries(search: UnindexedSearch, folder: RequestedLocation) -> Iterator[tuple[Source, SourceEntry, str]]:
    """The source, entry and address of each file to read in a folder."""
    source = search.resources.source(search.project_id, folder.source, Rules())
    prefix = address_prefix(folder.source, folder.address)
    shown = (search.readable.of_page(page.entries, prefix) for page in pages(source, search.check))
    for entry in chain.from_iterable(shown):
        address = prefix + entry.id_path
        if entry.reason is None and search.matches(entry.path) and not folder.is_covered(address):
            yield source, entry, address


def _content(source: Source, key: bytes, max_bytes: int) -> bytes | None:
    try:
        return source.read(key, max_bytes).data
    except FileError:
        return None


def _texts(search: UnindexedSearch, contents: Iterable[tuple[_Place, bytes | None]]) -> Iterator[Reading]:
    helpers = search.resources.helpers(search.project_id)
    for (address, path), data in utf8_texts(helpers, contents, lambda place, data: suspect(place[1], data, ())):
        if data is None:
            yield UnreadFile(path)
            continue
        id_ = file_id(address)
        id_path = address.removeprefix(NODES)
        node_id = id_path.rsplit("/", 1)[-1] if address.startswith(NODES) else str(id_)
        yield SearchableText(id_, node_id, path, id_path, data, type=by_name.of(path)[0].type)


def _described(location: RequestedLocation) -> str:
    """The path, and the folders below it that tools search."""
    roots = [root.removeprefix(NODES) for root in location.covered]
    return f"{location.path} (but for {list_first(roots, MAX_LISTED_PATHS)})" if roots else location.path


def _paths_note(code: str, what: str, paths: Sequence[str]) -> Note:
    return Note(code=code, detail=f"{what} {list_first(paths, MAX_LISTED_PATHS)}.")
