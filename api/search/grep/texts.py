"""Where the texts to look through come from: Postgres, the disk by way of rg, else the source."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from threading import BoundedSemaphore
from typing import Any

from api.search.grep import ripgrep
from api.search.grep.local_files import matching_keys, printable
from api.search.grep.scope import Folder, Text, narrowed
from api.search.text.file_text import joined
from api.search.text.json_pointer import span
from schemas.document import AS_WRITTEN, Entry
from schemas.errors import FileError, NotFound, SourceError
from schemas.search import Note
from schemas.status import FileStatus
from worker.formats.by_name import is_of
from worker.sources import Source, pages
from worker.sources.local import LocalFolder
from worker.state.index import chunks
from worker.state.index.files import file_id
from worker.state.search import file_texts
from worker.state.search.file_texts import Known, Stored

#: Seconds between two looks at whether anybody still waits.
_PATIENCE = 0.1

#: Each of them keeps a connection while its texts are looked through: most of the pool is for others.
_slots = BoundedSemaphore(8)


def all_texts(folder: Folder) -> Iterator[Text]:
    """Every text that may have a match: what is indexed from Postgres, the rest as it is found.

    A local folder's own texts come fresh from the disk where rg is installed. If the source is away, only what is
    indexed is looked through, and a note says so.
    """
    source = folder.resources.source_of(folder.index)
    try:
        source.check()
    except SourceError as error:
        folder.notes.append(Note(code=error.code, detail=f"{error.message} Only what is indexed was looked through."))
        yield from _stored(folder)
        return
    program = ripgrep.program()
    if isinstance(source, LocalFolder) and program:
        yield from _stored(folder, AS_WRITTEN, source.leaves_out)
        yield from _on_disk(folder, source, program)
    else:
        yield from _stored(folder)
        yield from _unindexed(folder, source)


def _stored(
    folder: Folder, but_types: Sequence[str] | None = None, leaves_out: Callable[[bytes], bool] | None = None
) -> Iterator[Text]:
    """Live texts, but for files of those types, and those that newer rules leave out."""

    def is_wanted(file: Stored) -> bool:
        return folder.place.takes(file.path, file.type if has_words else None) and not (
            leaves_out and leaves_out(file.key)
        )

    pool, below = folder.resources.pool, folder.place.path
    # of other sources' files the content may have told another type than the name
    has_words = folder.index.source["kind"] == "nodes"
    with _slot(folder.check):
        for file, pieces in file_texts.stored(
            pool, folder.index.id, but_types=but_types, below=below, wanted=is_wanted
        ):
            folder.check()
            data, part = _shown(folder, pieces)
            yield Text(file.id, file.node_id or str(file.id), file.path, file.id_path, data, part)


@contextmanager
def _slot(check: Callable[[], None]) -> Iterator[None]:
    """One of the connections for this, as soon as there is one; `check` may raise to end the wait."""
    while not _slots.acquire(timeout=_PATIENCE):
        check()
    try:
        yield
    finally:
        _slots.release()


def _shown(folder: Folder, pieces: Sequence[dict[str, Any]]) -> tuple[bytes, range | None]:
    """A file's text, of a narrowed tool what is indexed of it."""
    text = joined(pieces)
    if not folder.index.source.get("json_pointer"):
        return text.encode(), None
    return narrowed(text, pieces[0]["start_char"], max(piece["end_char"] for piece in pieces))


def _on_disk(folder: Folder, source: LocalFolder, program: str) -> Iterator[Text]:
    """The files of a local folder in which rg finds something, as they are now."""
    for keys in matching_keys(folder, source, program):
        kept = [key for key in keys if not source.leaves_out(key)]
        known = file_texts.known(folder.resources.pool, [file_id(folder.index.id, key) for key in kept])
        for key in kept:
            path = printable(key)
            row = known.get(file_id(folder.index.id, key))
            elsewhere = row is not None and row.has_text and row.type not in AS_WRITTEN
            if not elsewhere and (row is not None or is_of(folder.index.types, path, None)):
                yield from _read(folder, source, Entry(key, path, f"/{path}", None, 0, ""), row)


def _unindexed(folder: Folder, source: Source) -> Iterator[Text]:
    """What there is and Postgres has no text of; a note counts the files that it has an earlier text of."""
    outdated = 0
    for entry, row in _listed(folder, source):
        if row is not None and row.has_text:
            outdated += _is_outdated(entry, row)
        elif entry.size <= folder.limit and (row is not None or is_of(folder.index.types, entry.path, entry.type)):
            yield from _read(folder, source, entry, row)
    if outdated:
        detail = f"Files that changed since they were indexed, and were looked through as they were then: {outdated}."
        folder.notes.append(Note(code="outdated", detail=detail))


def _is_outdated(entry: Entry, row: Known) -> bool:
    """Whether the text that is stored is not the file's; not known of one whose stamp was too young."""
    return row.is_behind or row.stamp not in {"", entry.stamp}


def _listed(folder: Folder, source: Source) -> Iterator[tuple[Entry, Known | None]]:
    """The files at the place, and what is known of them; of a bucket that was listed, those that are not done."""
    pool, index = folder.resources.pool, folder.index
    # a bucket is slow to list
    if index.source["kind"] == "s3" and file_texts.is_listed(pool, index.id):
        detail = (
            "A bucket is not listed for a grep: what came or changed in it since it was is left out until a reindex."
        )
        folder.notes.append(Note(code="as_listed", detail=detail))
        found = file_texts.unfinished(pool, index.id, below=folder.place.path)
        yield from (each for each in found if folder.place.takes(each[0].path))
        return
    for page in pages(source, folder.check):
        entries = [
            entry for entry in page.entries if entry.reason is None and folder.place.takes(entry.path, entry.type)
        ]
        known = file_texts.known(pool, [file_id(index.id, entry.key) for entry in entries])
        yield from ((entry, known.get(file_id(index.id, entry.key))) for entry in entries)


def _read(folder: Folder, source: Source, entry: Entry, row: Known | None) -> Iterable[Text]:
    """One file's text; nothing where it has none, or was skipped as it is."""
    folder.check()
    id_ = file_id(folder.index.id, entry.key)
    try:
        content = source.read(entry.key, folder.limit)
    except FileError:
        return ()
    if row is not None and row.status == FileStatus.SKIPPED and row.stamp in {"", content.stamp}:
        return ()
    data = decoded(content.data)
    if data is None and row is not None and row.has_text:
        # in an encoding that parsers know
        data = joined(chunks.text(folder.resources.pool, id_)).encode()
    pointer = folder.index.source.get("json_pointer")
    found = _at_pointer(data, pointer) if data is not None and pointer else (data, None)
    if found is None or found[0] is None:
        folder.unread.append(id_)
        return ()
    return (Text(id_, entry.node_id or str(id_), entry.path, entry.id_path, *found),)


def _at_pointer(data: bytes, pointer: str) -> tuple[bytes, range] | None:
    """A document without what the tool does not show of it; None where nothing is at the pointer, or it is no JSON."""
    try:
        text = data.decode()
        return narrowed(text, *span(text, pointer))
    except (NotFound, ValueError, IndexError, RecursionError):
        return None


def decoded(data: bytes) -> bytes | None:
    """Text as UTF-8 without its byte order mark; None for what is neither UTF-8 nor marked UTF-16, or has a NUL."""
    wide = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    try:
        text = data.decode("utf-16" if wide else "utf-8")
    except UnicodeDecodeError:
        return None
    if "\0" in text:
        return None
    return text.encode(errors="replace") if wide else data.removeprefix(codecs.BOM_UTF8)
