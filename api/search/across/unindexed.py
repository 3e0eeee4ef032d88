"""Searches files that no index covers: short single files are returned whole, others by the query's words."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from uuid import NAMESPACE_URL, UUID, uuid5

from api.http.disconnect import Left
from api.search.across.paths import NODES, Place
from api.search.grep.fallback import any_of, as_far_as_there, best_lines, hit_of, words_of
from api.search.grep.pattern import compiled_pattern
from api.search.grep.scope import Text, TimeOver
from api.search.grep.texts import decoded
from api.search.query.file_filter import glob_of
from schemas.document import Entry
from schemas.errors import FileError
from schemas.search import Asked, Filters, Hit, Note
from schemas.source import NodesSource
from worker.ignore import Rules
from worker.resources import Resources
from worker.sources import Source, pages

#: Maximum files that one request reads from folders, and bytes of each.
MAX_FILES, MAX_BYTES = 10_000, 5_000_000
#: Maximum bytes of a character in UTF-8.
CHARACTER_BYTES = 4
#: Maximum paths that a note names.
SHOWN = 20


@dataclass(frozen=True)
class Look:
    """The state of one request's search of unindexed files. `unread` are the paths of files that are not text."""

    resources: Resources
    project_id: str
    asked: Asked
    check: Callable[[], None]
    notes: list[Note]
    is_meant: Callable[[str], bool | None]
    unread: list[str] = field(default_factory=list)


class _TooManyError(Exception):
    """The folders hold more than `MAX_FILES` files."""


def uncovered_hits(
    resources: Resources, project_id: str, places: Sequence[Place], asked: Asked, *, until: float, left: Left
) -> tuple[list[Hit], list[Note]]:
    """Find whole files, up to UNEMBEDDED_MAX_CHARS in total, and the best lines of the others, best first.

    At `until`, a time of `time.monotonic`, returns what is found by then. A note names a place that cannot be read to
    its end. Raises `CallerLeft`.
    """
    notes = [_note("not_indexed", "No index has text of", [_besides(place) for place in places])]
    if asked.filters.model_copy(update={"path": None}) != Filters():
        detail = "What is not indexed was left out: no filter but `path` can be held against it."
        return [], [*notes, Note(code="filtered_out", detail=detail)]

    def check() -> None:
        if time.monotonic() > until or left.event.is_set():
            raise TimeOver

    look = Look(resources, project_id, asked, check, notes, glob_of(asked.filters.path)[1])
    hits = _hits(look, places)
    left.check()
    if look.unread:
        notes.append(_note("not_text", "These can only be read once they are indexed:", look.unread))
    if time.monotonic() > until:
        notes.append(Note(code="time_over", detail="The time was over before all files were looked through."))
    return hits, notes


def file_id(address: str) -> UUID:
    """A stable id for a file that no index knows."""
    return uuid5(NAMESPACE_URL, address)


def _hits(look: Look, places: Sequence[Place]) -> list[Hit]:
    words = words_of(" ".join(look.asked.texts))
    whole, longer = _wholes(look, places, words)
    # read again, one at a time: together they may exceed memory
    texts = chain((text for place in longer for text in _single(look, place)), _below(look, places))
    found = best_lines(texts, words, compiled_pattern(any_of(words)), look.check, look.asked.top_k) if words else []
    return sorted([*whole, *found], key=lambda hit: -hit.score)


def _wholes(look: Look, places: Sequence[Place], words: Sequence[str]) -> tuple[list[Hit], list[Place]]:
    """Single files that fit into the answer together, and those that do not; partial if the time runs out."""
    hits: list[Hit] = []
    longer: list[Place] = []
    room = look.resources.settings.unembedded_max_chars
    try:
        for place, text in ((one, text) for one in places for text in _single(look, one)):
            hit = _whole(text, words) if len(text.data) <= CHARACTER_BYTES * room else None
            if hit is not None and len(hit.chunk_text) <= room:
                room -= len(hit.chunk_text)
                hits.append(hit)
            else:
                longer.append(place)
    except TimeOver:
        # best_lines will end at once as well
        pass
    return hits, longer


def _whole(text: Text, words: Sequence[str]) -> Hit:
    lowered = text.data.decode(errors="replace").lower()
    present = sum(word in lowered for word in words)
    hit = hit_of(text, 0, len(text.data), 0, present / max(1, len(words)))
    return hit.model_copy(update={"whole": True})


def _single(look: Look, place: Place) -> Iterator[Text]:
    """The text of a single file; nothing for a folder or a file that the filter excludes. Raises `TimeOver`."""
    look.check()
    if place.key is not None and _takes(look, place.asked.rsplit("/", 1)[-1]):
        yield from as_far_as_there(_file(look, place, place.key), look.notes)


def _file(look: Look, place: Place, key: bytes) -> Iterator[Text]:
    source = look.resources.source(look.project_id, place.source)
    yield from _read(look, source, key, place.address, place.asked, look.resources.settings.max_file_bytes)


def _below(look: Look, places: Sequence[Place]) -> Iterator[Text]:
    """The texts in folders, up to `MAX_FILES`. Skips files that a new tool would ignore."""
    numbers = iter(range(MAX_FILES))
    folders = [as_far_as_there(_folder(look, place, numbers), look.notes) for place in places if place.key is None]
    try:
        yield from chain.from_iterable(folders)
    except _TooManyError:
        detail = f"Only the first {MAX_FILES} files were looked through; name a smaller folder, or index it."
        look.notes.append(Note(code="too_many_files", detail=detail))


def _folder(look: Look, place: Place, numbers: Iterator[int]) -> Iterator[Text]:
    """The texts in one folder. Raises `SourceError`, and `_TooManyError` once `numbers` is exhausted."""
    for source, entry, address in _entries(look, place):
        look.check()
        if next(numbers, None) is None:
            raise _TooManyError
        asked = f"{place.asked.rstrip('/')}/{entry.path}"
        yield from _read(look, source, entry.key, address, asked, MAX_BYTES)


def _entries(look: Look, place: Place) -> Iterator[tuple[Source, Entry, str]]:
    """The source, entry and address of each file to read in a folder."""
    source = look.resources.source(look.project_id, place.source, Rules())
    start = NODES if isinstance(place.source, NodesSource) else place.address
    for entry in (entry for page in pages(source, look.check) for entry in page.entries):
        address = start + entry.id_path
        if entry.reason is None and _takes(look, entry.path) and not place.is_covered(address):
            yield source, entry, address


def _takes(look: Look, path: str) -> bool:
    return bool(look.is_meant(path))


def _read(look: Look, source: Source, key: bytes, address: str, path: str, limit: int) -> Iterator[Text]:
    try:
        data = decoded(source.read(key, limit).data)
    except FileError:
        data = None
    if data is None:
        look.unread.append(path)
        return
    id_ = file_id(address)
    id_path = address.removeprefix(NODES)
    node_id = id_path.rsplit("/", 1)[-1] if address.startswith(NODES) else str(id_)
    yield Text(id_, node_id, path, id_path, data)


def _besides(place: Place) -> str:
    roots = [root.removeprefix(NODES) for root in place.covered]
    return f"{place.asked} (but for {_listed(roots)})" if roots else place.asked


def _note(code: str, what: str, paths: Sequence[str]) -> Note:
    return Note(code=code, detail=f"{what} {_listed(paths)}.")


def _listed(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - SHOWN} more" if len(paths) > SHOWN else ""
    return f"{', '.join(paths[:SHOWN])}{more}"
