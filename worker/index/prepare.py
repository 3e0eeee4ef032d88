"""Reads a claimed file, parses it, cuts it into chunks and compares them with what is live."""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from uuid import UUID, uuid5

import structlog

from schemas.document import Chunk, Content, Definition, Reference, text_hash
from schemas.errors import FileError
from schemas.status import FileStatus, Reason
from worker import parse
from worker.chunk import chunk
from worker.embed import Embedder
from worker.embed.rate_limit import Budget
from worker.formats import by_name
from worker.index import processor_limit
from worker.index.catalog import parsed_name
from worker.index.lease import Lease
from worker.index.memory_guard import Bounded
from worker.sources import Source
from worker.state.index import chunks, files
from worker.state.index.chunks import Live, Placed
from worker.state.index.files import Claim, Outcome
from worker.state.index.tools import Index
from worker.state.postgres import Pool
from worker.tokens import keywords
from worker.tokens.tokenizers import Tokenizer, cl100k, counted
from worker.vectors import Vector, VectorStore

#: Seconds after which no further file of a claim is started: scanned documents take minutes each, and others wait.
DRAFT_SECONDS = 20.0
#: Chunks after which no further file of a claim is started: small files may hold much text, all of it in memory.
DRAFT_CHUNKS = 20_000

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Run:
    """Everything one slice of indexing works with; after `embed_seconds` it starts no further request."""

    index: Index
    epoch: int
    source: Source
    tokenizer: Tokenizer
    embedder: Embedder
    store: VectorStore
    pool: Pool
    lease: Lease
    concurrency: int
    limits: parse.Limits
    budget: Budget | None = None
    embed_seconds: float = math.inf


@dataclass(slots=True)
class Draft:
    """A claimed file on its way to an outcome. `placed` has all its chunks, `kept` the ids of those already live.

    `vectors` holds the vectors of new chunks known so far; `recalled` says that they were looked up. `paid` are chunks
    whose text was sent to the provider, until a row records them; they were paid for even if the file then fails. A
    file that is not `embedded` is found by its words only.
    """

    claim: Claim
    status: FileStatus = FileStatus.INDEXED
    failure: FileError | None = None
    type: str | None = None
    stamp: str | None = None
    fingerprint: str | None = None
    unchanged: bool = False
    placed: list[Placed] = field(default_factory=list)
    kept: set[UUID] = field(default_factory=set)
    vectors: dict[UUID, Vector] = field(default_factory=dict)
    recalled: bool = False
    paid: list[Placed] = field(default_factory=list)
    embedded: bool = True
    mime: str | None = None
    is_binary: bool | None = None
    language: str | None = None
    definitions: tuple[Definition, ...] = ()
    references: tuple[Reference, ...] = ()
    timings: dict[str, float] = field(default_factory=dict)

    @property
    def new(self) -> list[Placed]:
        """The chunks to write."""
        return [] if self.failure else [p for p in self.placed if p.id not in self.kept]

    @property
    def whole(self) -> bool:
        """Whether nothing is left to embed."""
        return all(placed.id in self.vectors for placed in self.new if placed.embedded)

    @property
    def paid_tokens(self) -> int:
        """Tokens paid for."""
        return sum(placed.chunk.tokens for placed in self.paid)

    @property
    def moved(self) -> bool:
        """Whether the stored locations and words of live chunks must be rewritten.

        That is so if the file moved or changed type, if everything is read again, or if its words come from an earlier
        release. A file that moved back is patched too if a claim in between may have patched it.
        """
        claim = self.claim
        moved = claim.patch_pending or (claim.path, claim.id_path) != (claim.live_path, claim.live_id_path)
        moved |= self.type is not None and self.type != claim.type
        is_old = not (claim.live_fingerprint or "").endswith(f" {keywords.VERSION}")
        return claim.live_chunks > 0 and (moved or is_old or claim.work == "full")

    def fail(self, failure: FileError) -> None:
        """End with a reason instead of chunks."""
        self.failure, self.status = failure, failure.reason.status


def draft_all(run: Run, claims: Sequence[Claim]) -> list[Draft]:
    """Draft all claims, unless time runs out or the drafts hold too many chunks.

    If the process dies meanwhile, its files become suspects; a lone file is guilty.
    """
    drafts: list[Draft] = []
    until = time.monotonic() + DRAFT_SECONDS
    held = 0
    for claim in claims:
        if drafts and (time.monotonic() > until or held > DRAFT_CHUNKS):
            break
        run.lease.parsing(run.limits.seconds)
        drafts.append(draft(run, claim))
        held += len(drafts[-1].placed)
    run.lease.parsed()
    if len(claims) == 1:
        # for many files the next renewal records this, but the verdict on a lone file must not wait for it
        files.parsed(run.pool, run.lease.owner)
    return drafts


def draft(run: Run, claim: Claim) -> Draft:
    """Read, parse and chunk one file; any error in it becomes its outcome."""
    made = Draft(claim, type=claim.type)
    if claim.work == "remove":
        made.status = FileStatus.REMOVED
        return made
    try:
        if claim.listed_reason:
            made.fail(_listed(run, claim, Reason(claim.listed_reason)))
        elif claim.work == "path" and not _renamed(claim):
            made.unchanged, made.stamp, made.fingerprint = True, claim.stamp, claim.live_fingerprint
            made.embedded = claim.live_embedded
        else:
            _read(run, made)
    except FileError as failure:
        made.fail(failure)
    except MemoryError:
        # other work may have used the memory, so the files are tried again
        raise
    except Exception as error:  # a parser bug is an outcome of its file, never of the folder
        if getattr(error, "retryable", None) is not None:
            raise
        log.exception("file failed", file_id=str(claim.id), path=claim.path)
        made.fail(FileError(Reason.PARSE_FAILED, f"{type(error).__name__} while reading: {error}"[:500]))
    if made.failure:
        made.stamp = made.stamp or claim.stamp
    return made


def _listed(run: Run, claim: Claim, reason: Reason) -> FileError:
    """The outcome that the listing already decided."""
    if reason is Reason.TOO_LARGE:
        most = run.index.settings.max_file_bytes
        what = f"The file has {claim.size_bytes:,} bytes, more than MAX_FILE_BYTES ({most:,})"
        return FileError(reason, f"{what}; split it or raise that setting.")
    return parse.refusal(parsed_name(claim.path, None)) or FileError(reason)


def _renamed(claim: Claim) -> bool:
    """Whether the file's new name implies a different format or language from the name it was indexed under."""
    return claim.live_path is not None and by_name.of(claim.live_path) != by_name.of(claim.path)


def _read(run: Run, made: Draft) -> None:
    claim, settings = made.claim, run.index.settings
    with _timed(made, "read"):
        content = run.source.read(claim.key, settings.max_file_bytes)
    processor_limit.limited(run.limits.seconds, partial(_cut, run, made, content))


def _cut(run: Run, made: Draft, content: Content) -> None:
    """Parse and chunk the content."""
    claim, settings = made.claim, run.index.settings
    # from the content's type: the row has the type of the last read
    name = parsed_name(claim.path, content.type)
    made.stamp = content.stamp or ""
    made.mime, made.is_binary = parse.mime_of(name, content.data)
    made.fingerprint = f"sha256:{hashlib.sha256(content.data).hexdigest()} {claim.code_version}"
    if made.fingerprint == claim.live_fingerprint and claim.work != "full" and not _renamed(claim):
        made.unchanged, made.embedded = True, claim.live_embedded
        return
    with _timed(made, "parse"):
        made.language = parse.language_of(name)
        reason = parse.by_a_tool(name, content.data)
        if reason and reason.value not in settings.keep:
            raise FileError(reason)
        run.lease.parsing(run.limits.seconds, parse.longest(name, content.data, run.limits))
        document = parse.parse(name, content.data, run.limits, binaries="binaries" in settings.keep)
        made.type, made.language = document.type, document.language or made.language
        made.definitions, made.references = document.definitions, document.references
    with _timed(made, "chunk"):
        tokenizer, most = run.tokenizer, settings.embedder.max_input_tokens
        if settings.bounded:
            Bounded(cl100k(), settings.chunks, most, document.markup, run.limits.memory_bytes).check(document.text)
            tokens, tokenizer = counted(document.text, tokenizer)
            made.embedded = settings.embeds(tokens)
        bounded = Bounded(tokenizer, settings.chunks, most, document.markup, run.limits.memory_bytes)
        pieces = chunk(document, settings.chunks, bounded, most, run.index.source.get("json_pointer") or "")
        bounded.check_chunks(len(pieces), settings.embedder.dimensions)
    if not pieces:
        raise FileError(Reason.NO_TEXT)
    made.placed = place(run, made, pieces, document.text, document.language)


def place(run: Run, made: Draft, pieces: Sequence[Chunk], text: str, language: str | None) -> list[Placed]:
    """Give chunks ids, and the text between them that no chunk holds."""
    seen: Counter[str] = Counter()
    placed, end = [], 0
    for number, piece in enumerate(pieces):
        content_hash = text_hash(piece.embedded_text)
        id_ = chunk_id(made, piece, content_hash, seen[content_hash], run.epoch, language)
        seen[content_hash] += 1
        lead, end = text[end : piece.start_char], max(end, piece.end_char)
        trail = text[end:] if number == len(pieces) - 1 else ""
        placed.append(Placed(id_, made.claim.id, number, piece, content_hash, language, lead, trail, made.embedded))
    return placed


def chunk_id(made: Draft, piece: Chunk, content_hash: str, ordinal: int, epoch: int, language: str | None) -> UUID:
    """Compute an id that is the same when a slice is repeated and never one that an earlier epoch may have deleted.

    A file's id already contains its index's. Everything that the store keeps of a row goes into its id, so that two
    writers of one id always write the same. A row written without a vector is never mistaken for one that has it.
    """
    claim = made.claim
    file = [claim.path, claim.id_path, made.type, language, made.embedded]
    place = [piece.json_pointer, piece.symbol, piece.node_type, piece.scope, piece.level]
    return uuid5(claim.id, json.dumps([content_hash, ordinal, epoch, file, place]))


def match_live(run: Run, drafts: Sequence[Draft]) -> None:
    """Give chunks that are already live their ids, so that they are neither embedded nor written again."""
    with_live = [d for d in drafts if d.placed and d.claim.live_chunks]
    if not with_live:
        return
    live = chunks.live(run.pool, [d.claim.id for d in with_live])
    for made in with_live:
        waiting: dict[tuple[object, ...], list[UUID]] = defaultdict(list)
        for row in reversed(live[made.claim.id]):
            waiting[_of_live(row)].append(row.id)
        for number, placed in enumerate(made.placed):
            ids = waiting[_of_placed(placed)]
            if ids:
                made.placed[number] = replace(placed, id=ids.pop())
                made.kept.add(made.placed[number].id)


def restore(run: Run, drafts: Sequence[Draft]) -> None:
    """Collect live chunks whose vectors the namespace lost, for files whose text is unchanged."""
    lost = [d for d in drafts if d.claim.lost and d.unchanged and not d.failure]
    found = chunks.lost(run.pool, [d.claim.id for d in lost]) if lost else {}
    for made in lost:
        made.placed = found.get(made.claim.id, [])


def _of_live(row: Live) -> tuple[object, ...]:
    place = (row.json_pointer, row.symbol, row.node_type, row.scope, row.language, row.level)
    return (row.content_hash, row.embedded, *place)


def _of_placed(placed: Placed) -> tuple[object, ...]:
    c = placed.chunk
    place = (c.json_pointer, c.symbol, c.node_type, c.scope, placed.language, c.level)
    return (placed.content_hash, placed.embedded, *place)


def outcome(made: Draft) -> Outcome:
    """What the file's row records."""
    claim, failure = made.claim, made.failure
    base = {"id": claim.id, "generation": claim.generation, "status": made.status, "type": made.type}
    base |= {"stamp": made.stamp, "timings": made.timings, "mime": made.mime, "is_binary": made.is_binary}
    base |= {"language": made.language, "embedded_chunks": len(made.paid), "tokens": made.paid_tokens}
    if failure:
        return Outcome(**base, reason=failure.reason, message=failure.message)  # type: ignore[arg-type] # typed above
    number = claim.live_chunks if made.unchanged else len(made.placed)
    return Outcome(
        **base,  # type: ignore[arg-type] # typed above
        fingerprint=made.fingerprint,
        chunks=number,
        live_tokens=claim.live_tokens if made.unchanged else sum(p.chunk.tokens for p in made.placed),
        embedded=made.embedded,
        reused_chunks=number - len(made.paid) if made.embedded else 0,
    )


@contextmanager
def _timed(made: Draft, stage: str) -> Iterator[None]:
    started = time.monotonic()
    try:
        yield
    finally:
        made.timings[stage] = round(time.monotonic() - started, 4)
