"""Reads a claimed file, parses it, cuts it into chunks and compares these with the live chunks."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from operator import attrgetter
from uuid import UUID

import orjson
import structlog

from schemas.content.document import Chunk, Document, FileContent, text_hash
from schemas.content.stated import is_sidecar
from schemas.errors import FileError
from schemas.ids import ordered_id
from schemas.reason import Reason
from worker import parse
from worker.chunk import chunk
from worker.chunk.context import with_stem
from worker.formats import by_name
from worker.formats.detect import Detected, detect
from worker.index import processor_limit
from worker.index.file_states import (
    EmbeddedFile,
    FailedFile,
    File,
    FileFacts,
    PreparedFile,
    RemovedFile,
    UnchangedFile,
)
from worker.index.memory_guard import GuardedTokenizer
from worker.index.reuse_chunks import match_live, restore
from worker.index.run import IndexRun
from worker.parse.sidecar import read_sidecar
from worker.reading import ReadForm, read_form
from worker.sandbox.members import TOO_MUCH
from worker.state.index import files
from worker.state.index.chunks import PlacedChunk
from worker.state.index.files import FileClaim
from worker.tokens.languages import DEFAULT, language_of
from worker.tokens.tokenizers import cl100k, counted

#: Seconds after which a claim starts no further file: scanned documents take minutes each, and others wait.
PREPARE_SECONDS = 20.0
#: Chunks after which a claim starts no further file: small files may hold much text, all of it in memory.
PREPARE_CHUNKS = 20_000
#: Bytes of an id.
_ID_BYTES = 16
#: Maximum characters of an unexpected exception that a file's message quotes.
MAX_ERROR = 500

log = structlog.get_logger()


def prepare(run: IndexRun, claims: Sequence[FileClaim]) -> list[File]:
    """Read and cut the claimed files, and find which of their chunks are live or lost.

    Returns fewer files than claims if time runs out or the files have too many chunks.
    """
    return restore(run, match_live(run, read_files(run, claims)))


def prepare_anew(run: IndexRun, claim: FileClaim) -> File:
    """Read and cut one file again, although its live chunks were to stay."""
    return prepare(run, [replace(claim, work="full")])[0]


def kept(claim: FileClaim, written: EmbeddedFile) -> EmbeddedFile:
    """Return a file whose words this worker has just written, under its next claim. Its chunks are in memory."""
    return EmbeddedFile(UnchangedFile(claim, _live_facts(claim), lost=written.lacking), words=written.words)


def read_files(run: IndexRun, claims: Sequence[FileClaim]) -> list[File]:
    """Read and cut all claimed files, unless time runs out or they have too many chunks.

    If the process dies during this, its files become suspects; a lone file is guilty.
    """
    prepared: list[File] = []
    deadline = time.monotonic() + PREPARE_SECONDS
    chunks = 0
    # members of a container are read one after the other, so that the container is read once
    for claim in sorted(claims, key=attrgetter("key")):
        if prepared and (time.monotonic() > deadline or chunks > PREPARE_CHUNKS):
            break
        run.lease.note_parsing(run.limits.seconds)
        prepared.append(read_file(run, claim))
        chunks += len(prepared[-1].new)
    run.lease.note_parsed()
    if len(claims) == 1:
        # the next renewal would record this too, but the verdict on a lone file must not wait for it
        files.note_parsed(run.pool, run.lease.owner)
    return prepared


def read_file(run: IndexRun, claim: FileClaim) -> File:
    """Read, parse and cut one file; any error in it becomes its outcome."""
    if claim.work == "remove":
        return RemovedFile(claim)
    reading = _Reading(run, claim)
    try:
        if claim.listed_reason:
            return reading.failed(_listed_failure(run, claim, Reason(claim.listed_reason)))
        if claim.work == "path" and not _changes_chunks(run, claim):
            return UnchangedFile(claim, _live_facts(claim))
        return reading.read()
    except FileError as error:
        return reading.failed(error)
    except MemoryError:
        # other work may have used the memory, so the files are tried again
        raise
    except Exception as error:  # a parser bug is an outcome of its file, never of the folder
        if getattr(error, "retryable", None) is not None:
            raise
        log.exception("file failed", file_id=str(claim.id), path=claim.path)
        message = f"{type(error).__name__} while reading: {error}"
        return reading.failed(FileError(Reason.PARSE_FAILED, message[:MAX_ERROR]))


def _listed_failure(run: IndexRun, claim: FileClaim, reason: Reason) -> FileError:
    """Return the failure that the listing already decided."""
    limit = run.index.settings.max_file_bytes
    if reason is Reason.TOO_LARGE and claim.size_bytes > limit:
        size = f"The file has {claim.size_bytes:,} bytes, more than MAX_FILE_BYTES ({limit:,})"
        return FileError(reason, f"{size}; split it or raise that setting.")
    if reason is Reason.TOO_LARGE:
        return FileError(reason, TOO_MUCH)
    refusal = parse.refusal(claim.path)
    return refusal if refusal and refusal.reason is reason else FileError(reason)


def _live_facts(claim: FileClaim) -> FileFacts:
    """Return the facts of a file that is not read, because its live chunks stay."""
    return _with_live(claim, FileFacts(claim.type, claim.stamp, claim.live_fingerprint))


def _with_live(claim: FileClaim, facts: FileFacts) -> FileFacts:
    """Complete the facts with the row's facts about the live chunks."""
    words_language = DEFAULT if claim.words_language is None else claim.words_language
    stated = {**(claim.stated or {}), **facts.stated}
    return replace(
        facts, words_language=words_language, properties=claim.live_properties, note=claim.note, stated=stated
    )


def _changes_chunks(run: IndexRun, claim: FileClaim) -> bool:
    """Return whether the file's new name implies other chunks than its indexed name."""
    settings = run.index.settings
    return claim.live_path is not None and by_name.changes_chunks(
        claim.live_path, claim.path, file_stems=settings.file_stems, sidecars=settings.sidecars
    )


def _is_sidecar(run: IndexRun, path: str) -> bool:
    """Return whether the index treats a file as metadata of the file beside it."""
    return run.index.settings.sidecars and is_sidecar(path)


class _Reading:
    """Reads one file and keeps the facts found so far if an error or the time limit stops the reading."""

    def __init__(self, run: IndexRun, claim: FileClaim) -> None:
        self._run, self._claim = run, claim
        self._facts = FileFacts(claim.type)
        self._timings: dict[str, float] = {}

    def read(self) -> File:
        """Read, parse and cut. Raises `FileError`."""
        with self._timed("read"):
            limit = self._run.index.settings.max_file_bytes
            content = self._run.source.read(self._claim.key, limit, self._claim.stamp)
        return processor_limit.run_limited(self._run.limits.seconds, partial(self._cut, content))

    def failed(self, failure: FileError) -> FailedFile:
        """Return the file with the failure that leaves it without chunks."""
        facts = replace(self._facts, stamp=self._facts.stamp or self._claim.stamp)
        return FailedFile(self._claim, facts, failure, self._timings)

    def _cut(self, content: FileContent) -> File:
        """Parse and cut the content, unless it equals the live content."""
        claim = self._claim
        if _is_sidecar(self._run, claim.path):
            self._facts = FileFacts("json", content.stamp or "")
            found = read_sidecar(content.data)
            self._facts = replace(self._facts, stated={"sidecars": found.metadata})
            raise FileError(Reason.SIDECAR, found.warning)
        # taken from the content, because the row has the type of the last read
        detected = detect(by_name.with_stated_type(claim.path, content.type), content.data)
        fingerprint = f"sha256:{hashlib.sha256(content.data).hexdigest()} {claim.code_version}"
        stated = {} if content.metadata is None else {"s3": content.metadata}
        # drop the facts of the live text: if the new text is skipped, the live one is deleted
        self._facts = FileFacts(
            claim.type, content.stamp or "", fingerprint, detected.mime, detected.is_binary, stated=stated
        )
        if fingerprint == claim.live_fingerprint and claim.work != "full" and not _changes_chunks(self._run, claim):
            return UnchangedFile(claim, _with_live(claim, self._facts), self._timings)
        with self._timed("parse"):
            document, read = self._parse(detected, content.data)
        with self._timed("chunk"):
            chunks, has_vectors = self._chunk(document, read)
        if not chunks:
            raise FileError(Reason.NO_TEXT)
        placed = place(claim, self._facts, document, chunks, epoch=self._run.epoch, embedded=has_vectors)
        symbols = document.definitions, document.references
        return PreparedFile(claim, self._facts, placed, has_vectors, *symbols, self._timings, read_words=read.words)

    def _parse(self, file: Detected, data: bytes) -> tuple[Document, ReadForm]:
        """Return the document, and the form in which search reads its text. Raises `FileError`."""
        run, keep = self._run, self._run.index.settings.keep
        self._facts = replace(self._facts, language=file.language)
        reason = parse.generated_reason(file, data)
        if reason and reason.value not in keep:
            raise FileError(reason)
        if "secrets" not in keep and parse.is_secret(file.name, data, run.limits):
            raise FileError(Reason.SECRET)
        run.lease.note_parsing(run.limits.seconds, parse.max_seconds(file, len(data), run.limits))
        document = parse.parse(file, data, run.limits, binaries="binaries" in keep)
        if "secrets" not in keep:
            document = replace(document, text=parse.without_keys(document.text))
        read = read_form(document.type, document.text)
        text = read.whole.text if read.whole else document.text
        # code rarely has enough prose to detect a language
        words_language = DEFAULT if document.markup == "code" else language_of(text)
        self._facts = replace(
            self._facts,
            type=document.type,
            language=document.language or self._facts.language,
            words_language=words_language,
            properties=document.properties,
            note=document.note or None,
            stated={**self._facts.stated, "front_matter": document.metadata},
        )
        return document, read

    def _chunk(self, document: Document, read: ReadForm) -> tuple[Sequence[Chunk], bool]:
        """Cut the document. Returns the chunks and whether they get vectors. Raises `FileError` (`too_large`)."""
        run, settings, has_vectors = self._run, self._run.index.settings, True
        tokenizer, max_tokens = run.tokenizer, settings.embedder.max_input_tokens
        bounds = settings.chunks, max_tokens, document.markup, run.limits.memory_bytes
        if settings.bounded:
            text = read.whole.text if read.whole else document.text
            GuardedTokenizer(cl100k(), *bounds).check(text)
            tokens, tokenizer = counted(text, tokenizer)
            has_vectors = settings.embeds(tokens)
        guarded = GuardedTokenizer(tokenizer, *bounds)
        pointer = run.index.source.narrowed_to or ""
        chunks: Sequence[Chunk] = chunk(document, settings.chunks, guarded, max_tokens, pointer, read=read)
        guarded.check_chunks(len(chunks), settings.embedder.dimensions)
        stem = by_name.embedded_stem(self._claim.path, document.type, file_stems=settings.file_stems)
        return with_stem(chunks, stem, tokenizer, max_tokens), has_vectors

    @contextmanager
    def _timed(self, stage: str) -> Iterator[None]:
        started = time.monotonic()
        try:
            yield
        finally:
            self._timings[stage] = round(time.monotonic() - started, 4)


def place(
    claim: FileClaim, facts: FileFacts, document: Document, chunks: Sequence[Chunk], *, epoch: int, embedded: bool
) -> list[PlacedChunk]:
    """Give chunks ids, and attach the text between them that belongs to no chunk."""
    text, language = document.text, document.language
    stored = [claim.path, claim.id_path, facts.type, language, embedded]
    occurrences: dict[tuple[object, ...], int] = {}
    placed, end = [], 0
    for number, piece in enumerate(chunks):
        content_hash = text_hash(piece.embedded_text)
        # different source texts get different rows, even if search reads them alike
        written = stored if piece.read is None else [*stored, text_hash(piece.text)]
        same = content_hash, *_location(piece)
        ordinal = occurrences.get(same, 0)
        occurrences[same] = ordinal + 1
        id_ = chunk_id(claim, piece, content_hash, ordinal, [epoch, written])
        lead, end = text[end : piece.start_char], max(end, piece.end_char)
        trail = text[end:] if number == len(chunks) - 1 else ""
        placed.append(PlacedChunk(id_, claim.id, number, piece, content_hash, language, lead, trail, embedded))
    return placed


def chunk_id(claim: FileClaim, piece: Chunk, content_hash: str, ordinal: int, writing: Sequence[object]) -> UUID:
    """Compute an id that a repeated slice computes again and that no earlier epoch can have deleted.

    A file's id already contains its index's. Everything that the store keeps of a row goes into its id, so two writers
    of one id always write the same. A row written without a vector is never mistaken for one with a vector. `ordinal`
    counts the chunks of the file with equal texts at equal locations. `writing` is the epoch and the stored facts of
    the file. Only the path, the text and the place in the file decide the order of ids.
    """
    place = [content_hash, ordinal, *_location(piece)]
    unique = hashlib.sha1(claim.id.bytes + orjson.dumps([*place, *writing]), usedforsecurity=False).digest()
    return ordered_id(orjson.dumps([claim.path, *place]), int.from_bytes(unique[:_ID_BYTES]))


def _location(piece: Chunk) -> tuple[str | int | None, ...]:
    return piece.json_pointer, piece.symbol, piece.node_type, piece.scope, piece.level
