"""Gets the texts to search: from Postgres, from disk by rg, or from the source."""

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

#: Seconds between two calls of `check`.
_PATIENCE = 0.1

#: A slot holds a connection while its texts are searched; most of the pool is left to others.
_slots = BoundedSemaphore(8)


def all_texts(folder: Folder) -> Iterator[Text]:
    """Yield every text that may have a match: indexed ones from Postgres, the rest from the source.

    If rg is installed, plain texts of a local folder are read from disk instead. If the source is unavailable, only
    indexed texts are searched, and a note says so.
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
    """Indexed texts, except of files of `but_types` and of files that newer rules ignore."""

    def is_wanted(file: Stored) -> bool:
        return folder.place.takes(file.path, file.type if has_words else None) and not (
            leaves_out and leaves_out(file.key)
        )

    pool, below = folder.resources.pool, folder.place.path
    # for other sources, the stored type may come from the content instead of the name
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
    """Wait for a slot and hold it. `check` may raise to end the wait."""
    while not _slots.acquire(timeout=_PATIENCE):
        check()
    try:
        yield
    finally:
        _slots.release()


def _shown(folder: Folder, pieces: Sequence[dict[str, Any]]) -> tuple[bytes, range | None]:
    """A file's text; for a narrowed tool, only its indexed part."""
    text = joined(pieces)
    if not folder.index.source.get("json_pointer"):
        return text.encode(), None
    return narrowed(text, pieces[0]["start_char"], max(piece["end_char"] for piece in pieces))


def _on_disk(folder: Folder, source: LocalFolder, program: str) -> Iterator[Text]:
    """The present texts of a local folder's files in which rg finds a match."""
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
    """Texts of files without text in Postgres. A note counts the files whose stored text is outdated."""
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
    """Whether the stored text is older than the file. False if its stamp was too recent to tell."""
    return row.is_behind or row.stamp not in {"", entry.stamp}


def _listed(folder: Folder, source: Source) -> Iterator[tuple[Entry, Known | None]]:
    """The files at the place, with their rows. For a bucket that was already listed, only the unfinished ones."""
    pool, index = folder.resources.pool, folder.index
    # listing a bucket is slow
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
    """One file's text; nothing if it has none, or if its present content was skipped."""
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
        # its encoding is known to parsers only: use the indexed text
        data = joined(chunks.text(folder.resources.pool, id_)).encode()
    pointer = folder.index.source.get("json_pointer")
    found = _at_pointer(data, pointer) if data is not None and pointer else (data, None)
    if found is None or found[0] is None:
        folder.unread.append(id_)
        return ()
    return (Text(id_, entry.node_id or str(id_), entry.path, entry.id_path, *found),)


def _at_pointer(data: bytes, pointer: str) -> tuple[bytes, range] | None:
    """The part of a document at a JSON pointer; None if nothing is there, or it is not JSON."""
    try:
        text = data.decode()
        return narrowed(text, *span(text, pointer))
    except (NotFound, ValueError, IndexError, RecursionError):
        return None


def decoded(data: bytes) -> bytes | None:
    """Text as UTF-8 without its BOM; None if it has a NUL, or is neither UTF-8 nor UTF-16 with a BOM."""
    wide = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    try:
        text = data.decode("utf-16" if wide else "utf-8")
    except UnicodeDecodeError:
        return None
    if "\0" in text:
        return None
    return text.encode(errors="replace") if wide else data.removeprefix(codecs.BOM_UTF8)
