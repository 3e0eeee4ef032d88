"""Gets the texts to search: from Postgres, from disk by rg, or from the source."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from api.http.shares import READING_GREPS
from api.search.grep import ripgrep
from api.search.grep.local_files import matching_keys
from api.search.grep.scope import Reading, SearchableText, TextSearch, UnreadFile, narrowed
from api.search.text.file_text import joined
from schemas.content.document import SourceEntry
from schemas.errors import FileError, NotFound, SourceError
from schemas.queries.search import Note
from schemas.reason import FileStatus
from worker.formats import by_name
from worker.formats.by_name import has_type
from worker.formats.registry import AS_WRITTEN
from worker.formats.secrets import suspect
from worker.machine.bounded_reads import can_bound_reads
from worker.sandbox.pool import ProjectHelpers
from worker.sandbox.texts import utf8_texts, value_span
from worker.sources import Source, pages
from worker.sources.local import LocalFolder
from worker.sources.local_keys import printable
from worker.state.index.files import file_id
from worker.state.search import file_texts, snippets
from worker.state.search.file_texts import ListedFile, TextFile
from worker.state.search.snippets import TextRow

#: A file with its row.
_Listed = tuple[SourceEntry, ListedFile | None]


def all_texts(search: TextSearch) -> Iterator[Reading]:
    """Yield every text that may have a match: indexed ones from Postgres, the rest from the source.

    If rg is installed, plain texts of a local folder are read from disk instead. If the source is unavailable, or may
    no longer be read, only indexed texts are searched, and a note says so. Raises `ProjectBusy` and `ServerBusy`.
    """
    with READING_GREPS.hold(search.index.project_id, search.check):
        yield from _all_texts(search)


def waiting_texts(search: TextSearch) -> Iterator[Reading]:
    """Yield the texts of files whose words no run has indexed yet, from the source.

    Raises `SourceError`, `ProjectBusy` and `ServerBusy`.
    """
    with READING_GREPS.hold(search.index.project_id, search.check):
        source = search.resources.source_of(search.index)
        source.check()
        program = _program(search, source) if isinstance(source, LocalFolder) else None
        if isinstance(source, LocalFolder) and program:
            yield from _on_disk(search, source, program, _waits)
        else:
            listed = _list_unfinished(search) if _is_listed_bucket(search) else _list(search, source)
            waiting = ((entry, row) for entry, row in listed if _waits(row))
            yield from _read(search, source, _without_text(search, waiting, []))


def _waits(row: ListedFile | None) -> bool:
    """Whether no run has indexed or skipped a file yet."""
    return row is None or (not row.has_text and row.status in {FileStatus.PENDING, FileStatus.INDEXING})


def _all_texts(search: TextSearch) -> Iterator[Reading]:
    try:
        source = search.resources.source_of(search.index)
        source.check()
    except SourceError as error:
        yield Note(code=error.code, detail=f"{error.message} Only indexed text was searched.")
        yield from _read_stored(search)
        return
    program = _program(search, source) if isinstance(source, LocalFolder) else None
    if isinstance(source, LocalFolder) and program:
        yield from _read_stored(search, AS_WRITTEN, source.leaves_out)
        yield from _on_disk(search, source, program, _is_read_from_disk)
    else:
        yield from _read_stored(search)
        yield from _read_unindexed(search, source)


def _program(search: TextSearch, source: LocalFolder) -> str | None:
    """The path of rg, unless links could lead it to what another project keeps. They stay within the folder."""
    if search.resources.settings.auth == "off":
        return ripgrep.program()
    return ripgrep.program() if can_bound_reads() and not source.holds_closed() else None


def _read_stored(
    search: TextSearch,
    excluded_types: Sequence[str] | None = None,
    is_ignored: Callable[[bytes], bool] | None = None,
) -> Iterator[SearchableText]:
    """Indexed texts, except of files of `excluded_types` and of files that newer rules ignore."""

    def is_wanted(file: TextFile) -> bool:
        type_ = file.type if is_typed_by_name else None
        # a hidden file is not counted at the path
        in_scope = search.sees(file.id) and search.files.takes(file.path, type_, file.mtime_ms)
        return in_scope and search.takes(file.id) and not (is_ignored and is_ignored(file.key))

    pool, below = search.resources.pool, search.files.path
    # for other sources, the stored type may come from the content instead of the name
    is_typed_by_name = search.index.source.states_types
    for file, chunk_rows in file_texts.read_stored(
        pool, search.index.id, excluded_types=excluded_types, below=below, is_wanted=is_wanted
    ):
        search.check()
        data, part = _stored_text(search, chunk_rows)
        yield SearchableText(file.id, file.node_id or str(file.id), file.path, file.id_path, data, part, file.type)


def _stored_text(search: TextSearch, chunk_rows: Sequence[TextRow]) -> tuple[bytes, range | None]:
    """A file's text; for a narrowed tool, only its indexed part."""
    text = joined(chunk_rows)
    if not search.index.source.narrowed_to:
        return text.encode(), None
    return narrowed(text, chunk_rows[0].start_char, max(row.end_char for row in chunk_rows))


def _is_read_from_disk(row: ListedFile | None) -> bool:
    """Whether a file's text is read from disk, because no row has it or the file is the same."""
    return row is None or not row.has_text or row.type in AS_WRITTEN


def _on_disk(
    search: TextSearch, source: LocalFolder, program: str, is_wanted: Callable[[ListedFile | None], bool]
) -> Iterator[Reading]:
    """The present texts of a local folder's files in which rg finds a match, as far as their rows are wanted."""
    for matching in matching_keys(search, source, program):
        keys = [key for key in matching if search.takes(file_id(search.index.id, key)) and not source.leaves_out(key)]
        rows = file_texts.read_listed(search.resources.pool, [file_id(search.index.id, key) for key in keys])
        found = ((key, printable(key), rows.get(file_id(search.index.id, key))) for key in keys)
        yield from _read(
            search,
            source,
            (
                (SourceEntry(key, path, f"/{path}", None, 0, ""), row)
                for key, path, row in found
                if has_type(search.index.types, path, None) or row is not None
                if is_wanted(row)
            ),
        )


def _read_unindexed(search: TextSearch, source: Source) -> Iterator[Reading]:
    """Texts of files without text in Postgres. A note counts the files whose stored text is outdated."""
    is_listed = _is_listed_bucket(search)
    if is_listed:
        detail = (
            "A grep does not list the bucket: objects added or changed since the last run are left out until a reindex."
        )
        yield Note(code="as_listed", detail=detail)
    outdated = list[SourceEntry]()
    listed = _list_unfinished(search) if is_listed else _list(search, source)
    yield from _read(search, source, _without_text(search, listed, outdated))
    if outdated:
        detail = f"Files that changed since they were indexed, and were searched in their old version: {len(outdated)}."
        yield Note(code="outdated", detail=detail)


def _is_listed_bucket(search: TextSearch) -> bool:
    """Whether the rows show what to read, because listing the source is slow."""
    return search.index.source.is_slow_to_list and file_texts.is_listed(search.resources.pool, search.index.id)


def _without_text(search: TextSearch, listed: Iterable[_Listed], outdated: list[SourceEntry]) -> Iterator[_Listed]:
    """The files without text in Postgres. Adds those whose stored text is older than the file to `outdated`."""
    for entry, row in listed:
        if row is not None and row.has_text:
            outdated += [entry] if _is_outdated(entry, row) else []
        elif entry.size <= search.max_bytes and (
            row is not None or has_type(search.index.types, entry.path, entry.type)
        ):
            yield entry, row


def _is_outdated(entry: SourceEntry, row: ListedFile) -> bool:
    """Whether the stored text is older than the file. False if its stamp was too recent to tell."""
    return row.is_behind or row.stamp not in {"", entry.stamp}


def _list_unfinished(search: TextSearch) -> Iterator[tuple[SourceEntry, ListedFile]]:
    """The files in scope that the last listing found, and that are not indexed yet."""
    unfinished = file_texts.read_unfinished(search.resources.pool, search.index.id, below=search.files.path)
    return (
        file
        for file in unfinished
        if search.sees(file[1].id)
        and search.files.takes(file[0].path, mtime_ms=file[0].mtime_ms)
        and search.takes(file[1].id)
    )


def _list(search: TextSearch, source: Source) -> Iterator[tuple[SourceEntry, ListedFile | None]]:
    """The files in scope that the source lists now, with their rows."""
    pool, index = search.resources.pool, search.index
    for page in pages(source, search.check):
        entries = [
            entry
            for entry in page.entries
            if entry.reason is None and search.sees(file_id(index.id, entry.key))
            if search.files.takes(entry.path, entry.type, entry.mtime_ms)
            if search.takes(file_id(index.id, entry.key))
        ]
        rows = file_texts.read_listed(pool, [file_id(index.id, entry.key) for entry in entries])
        yield from ((entry, rows.get(file_id(index.id, entry.key))) for entry in entries)


def _read(search: TextSearch, source: Source, listed: Iterable[_Listed]) -> Iterator[SearchableText | UnreadFile]:
    """The texts of files, but for those that cannot be read, or whose present content was skipped."""
    helpers, pointer = search.resources.helpers(search.index.project_id), search.index.source.narrowed_to
    keep = search.index.settings.keep

    def suspected(file: _Listed, data: bytes) -> str | None:
        return suspect(file[0].path, data, keep)

    for (entry, row), text in utf8_texts(helpers, _contents(search, source, listed), suspected):
        id_, data = file_id(search.index.id, entry.key), text
        if data is None and row is not None and row.has_text:
            # its encoding is known to parsers only: use the indexed text
            data = joined(snippets.text(search.resources.pool, id_)).encode()
        span: range | None = None
        if data is not None and pointer:
            data, span = _at_pointer(helpers, data, pointer) or (None, None)
        if data is None:
            yield UnreadFile(entry.path)
        else:
            type_ = (row and row.type) or by_name.of(by_name.with_stated_type(entry.path, entry.type))[0].type
            yield SearchableText(id_, entry.node_id or str(id_), entry.path, entry.id_path, data, span, type_)


def _contents(search: TextSearch, source: Source, listed: Iterable[_Listed]) -> Iterator[tuple[_Listed, bytes]]:
    for entry, row in listed:
        search.check()
        try:
            content = source.read(entry.key, search.max_bytes, entry.stamp)
        except FileError:
            continue
        if row is None or row.status != FileStatus.SKIPPED or row.stamp not in {"", content.stamp}:
            yield (entry, row), content.data


def _at_pointer(helpers: ProjectHelpers, data: bytes, pointer: str) -> tuple[bytes, range] | None:
    """The part of a document in UTF-8 at a JSON pointer; None if nothing is there, or it is not JSON."""
    try:
        return narrowed(data.decode(), *value_span(helpers, data, pointer))
    except NotFound:
        return None
