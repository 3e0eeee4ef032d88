"""Notes the chunks that a write will add, then writes the vector store's rows for them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import islice
from uuid import UUID

import psycopg
import structlog

from schemas.errors import FileError, FoldexError, StoreRefused
from schemas.reason import Reason
from worker.index.embed import share
from worker.index.file_states import EmbeddedFile, File, PreparedFile, failed
from worker.index.run import IndexRun
from worker.reading import words
from worker.state.index import chunks
from worker.state.index.chunks import PlacedChunk, StagedChunk
from worker.state.search import keywords
from worker.tokens.keywords import Keywords, keywords_of, with_properties
from worker.vectors import Patch, Value, VectorRow

#: Rows built for the store at a time; words and vectors take many times the memory of their text.
ROWS = 8_000

log = structlog.get_logger()


def write(run: IndexRun, files: Sequence[EmbeddedFile]) -> list[EmbeddedFile]:
    """Note the new chunks, then write the store's rows for them. A file whose row is rejected fails."""
    started = time.monotonic()
    chunks.draft(run.pool, run.lease.owner, run.epoch, [(file.claim, _ids_without_row(file.state)) for file in files])
    with take_back_on_error(run, files):
        refusals = upsert(run, files)
    shares = share(time.monotonic() - started, {file.claim.id: len(file.state.new) for file in files})
    return [_written(file, refusals.get(file.claim.id), shares.get(file.claim.id)) for file in files]


def _ids_without_row(file: File) -> list[UUID]:
    return [chunk.id for chunk in file.new] if isinstance(file, PreparedFile) else []


def rows_of(run: IndexRun, files: Iterable[EmbeddedFile], *, only_lost: bool = False) -> Iterator[StagedChunk]:
    """Yield the Postgres rows of the chunks that are written, with words also if the store gets these with the vector.

    With `only_lost`, yield only the chunks that lack their vectors.
    """
    for file in files:
        for chunk, is_lost in _marked(file):
            if is_lost or not only_lost:
                always = is_lost and not run.words_in_store
                yield chunk, keyword_vectors(run, file.state, chunk, always=always), is_lost


def _marked(file: EmbeddedFile) -> Iterator[tuple[PlacedChunk, bool]]:
    """Yield the chunks that are written, each with whether it lacks its vector."""
    return ((chunk, chunk.embedded and chunk.id not in file.vectors) for chunk in file.written)


def _written(file: EmbeddedFile, refusal: FileError | None, seconds: float | None) -> EmbeddedFile:
    timings = file.timings if seconds is None else {**file.timings, "write": round(seconds, 4)}
    return replace(file, state=failed(file.state, refusal) if refusal else file.state, timings=timings)


@contextmanager
def take_back_on_error(run: IndexRun, files: Sequence[EmbeddedFile]) -> Iterator[None]:
    """Undo the write of `files` if the block raises, because the last check may have been minutes before the write.

    By then the chunks' rows, and even their tombstones, may be gone. The index may be gone too, with its namespace,
    which the write then created again. Dropping that namespace is safe, because no other index ever has its name.
    """
    try:
        yield
    except FoldexError:
        ids = [chunk.id for file in files for chunk in file.state.new]
        try:
            if not chunks.bury_strays(run.pool, run.index.id, ids) and run.store.drop(run.index.namespace):
                log.warning(
                    "dropped a namespace that was written after its index was deleted", namespace=run.index.namespace
                )
        except (FoldexError, psycopg.OperationalError) as error:
            # the sweep's name check finds the namespace, and the id check finds the vectors
            log.warning("late vectors not deleted yet", namespace=run.index.namespace, error=str(error))
        raise


def upsert(run: IndexRun, files: Sequence[EmbeddedFile], *, rows: int = ROWS) -> dict[UUID, FileError]:
    """Write new rows and the new locations of moved files. Returns the files whose rows the store rejects.

    A chunk without a vector needs a row only if the store keeps the keywords.
    """
    refusals: dict[UUID, FileError] = {}
    new = ((file.claim.id, row) for file in files for row in _rows(run, file))
    while batch := list(islice(new, rows)):
        _upsert(run, batch, refusals)
    patches = [
        patch
        for file in files
        if file.state.moved and file.claim.id not in refusals
        for patch in _patches(run, file.state)
    ]
    if patches:
        run.lease.check()
        run.store.write(run.index.namespace, run.dimensions, patches=patches)
    return refusals


def _upsert(run: IndexRun, rows: Sequence[tuple[UUID, VectorRow]], refusals: dict[UUID, FileError]) -> None:
    """Halve a rejected write until the rejected row is found. Its file goes to `refusals`; the others continue."""
    if refusals:
        rows = [(file_id, row) for file_id, row in rows if file_id not in refusals]
    if not rows:
        return
    run.lease.check()
    try:
        run.store.write(run.index.namespace, run.dimensions, upserts=[row for _, row in rows])
    except StoreRefused as refused:
        if len(rows) == 1:
            refusals[rows[0][0]] = FileError(Reason.STORE_REFUSED, refused.message)
            return
        half = len(rows) // 2
        _upsert(run, rows[:half], refusals)
        _upsert(run, rows[half:], refusals)


def _rows(run: IndexRun, file: EmbeddedFile) -> Iterator[VectorRow]:
    of_file, found = _file_attributes(file.state), found_by(file.state)
    read_words, language = _reader_of_words(file.state), file.state.facts.words_language
    for placed, is_lost in _marked(file):
        if placed.id not in file.vectors and not (run.store.has_keywords and (run.words_in_store or not is_lost)):
            continue
        c = placed.chunk
        attributes: dict[str, Value] = {
            **of_file,
            "json_pointer": c.json_pointer,
            "content_hash": placed.content_hash,
            "chunk_id": str(placed.id),
            "language": placed.language,
            "symbol": c.symbol,
            "node_type": c.node_type,
            "scope": c.scope,
            "level": c.level,
        }
        tokens = file.words.get(placed.id) if file.words else None
        if tokens is None and run.store.has_keywords:
            tokens = keywords_of(found, c.context, read_words(c.text), language)
            if is_lost and file.words is not None:
                file.words[placed.id] = tokens
        yield VectorRow(placed.id, file.vectors.get(placed.id), attributes, tokens, file.claim.generation)


def _file_attributes(file: File) -> dict[str, Value]:
    claim = file.claim
    return {
        "file_node_id": claim.node_id or str(claim.id),
        "file_id_path": claim.id_path,
        "file_name": claim.path.rsplit("/", 1)[-1],
        "file_type": file.facts.type,
    }


def _reader_of_words(file: File) -> Callable[[str], str]:
    """Return the function that extracts the words of a file's new chunks."""
    prepared = file.read_words if isinstance(file, PreparedFile) else None
    return prepared or partial(words, file.facts.type)


def keyword_vectors(run: IndexRun, file: File, placed: PlacedChunk, *, always: bool = False) -> Keywords | None:
    """Return the keyword fields of a chunk's row in Postgres, or None if the store keeps the keywords."""
    if run.index.keyword_index != "postgres" and not always:
        return None
    chunk, read_words = placed.chunk, _reader_of_words(file)
    return keywords.vectors(found_by(file), chunk.context, read_words(chunk.text), file.facts.words_language)


def found_by(file: File) -> str:
    """Return the path and the properties of a file, which find all its chunks."""
    return with_properties(file.claim.path, file.facts.properties)


def _patches(run: IndexRun, file: File) -> Iterator[Patch]:
    found = found_by(file)
    has_words, facts = run.store.has_keywords, file.facts
    for id_, context, text in chunks.of_file(run.pool, file.claim.id, unembedded=has_words):
        # the text may belong to an earlier content
        tokens = keywords_of(found, context, words(facts.type, text), facts.words_language) if has_words else None
        yield Patch(id_, _file_attributes(file), tokens, file.claim.generation)
