"""A claimed file on its way to an outcome: read, parsed, cut into chunks, and compared with what is live of it."""

from __future__ import annotations

import hashlib
import math
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from uuid import UUID, uuid5

import structlog

from schemas.document import Chunk
from schemas.errors import FileError
from schemas.status import FileStatus, Reason
from worker import parse
from worker.catalog import parsed_name
from worker.chunk import chunk
from worker.embed import Embedder
from worker.embed.budget import Budget
from worker.lease import Lease
from worker.sources import Source
from worker.state import Pool, chunks, files
from worker.state.chunks import Live, Placed
from worker.state.files import Claim, Outcome
from worker.state.tools import Index
from worker.tokens import Tokenizer
from worker.vectors import Vector, VectorStore

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Run:
    """Everything one slice of indexing works with; after `embed_seconds` it begins no further request."""

    index: Index
    epoch: int
    source: Source
    tokenizer: Tokenizer
    embedder: Embedder
    store: VectorStore
    pool: Pool
    lease: Lease
    concurrency: int
    budget: Budget | None = None
    embed_seconds: float = math.inf


@dataclass(slots=True)
class Draft:
    """A claimed file on its way to an outcome; `placed` are all its chunks, `kept` those that are live already.

    `vectors` are those of new ones that are known by now, `found` of these were paid for before, or for an equal text.
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
    found: set[UUID] = field(default_factory=set)
    timings: dict[str, float] = field(default_factory=dict)

    @property
    def new(self) -> list[Placed]:
        """The chunks to be embedded and written."""
        return [] if self.failure else [p for p in self.placed if p.id not in self.kept]

    @property
    def paid(self) -> list[Placed]:
        """The new chunks that cost something."""
        return [p for p in self.new if p.id not in self.found]

    @property
    def whole(self) -> bool:
        """Whether nothing is left to be embedded."""
        return all(placed.id in self.vectors for placed in self.new)

    @property
    def moved(self) -> bool:
        """Whether what is live of the file names another place than the one it is at now."""
        claim = self.claim
        return claim.live_chunks > 0 and (claim.path, claim.id_path) != (claim.live_path, claim.live_id_path)

    def fail(self, failure: FileError) -> None:
        """End with a reason instead of chunks."""
        self.failure, self.status = failure, failure.reason.status


def draft_all(run: Run, claims: Sequence[Claim]) -> list[Draft]:
    """The drafts of all claims; a process that dies meanwhile makes their files suspect, a lone one guilty."""
    drafts = []
    for claim in claims:
        run.lease.parsing()
        drafts.append(draft(run, claim))
    run.lease.parsed()
    if len(claims) == 1:
        # the next renewal would say so for many files, but the verdict over a lone one must not wait for it
        files.parsed(run.pool, run.lease.owner)
    return drafts


def draft(run: Run, claim: Claim) -> Draft:
    """Read, parse and chunk one file; whatever is wrong with it becomes its outcome."""
    made = Draft(claim, type=claim.type)
    if claim.work == "remove":
        made.status = FileStatus.REMOVED
        return made
    try:
        if claim.listed_reason:
            made.fail(parse.refusal(parsed_name(claim.path, claim.type)) or FileError(Reason(claim.listed_reason)))
        elif claim.work == "path":
            made.unchanged, made.stamp, made.fingerprint = True, claim.stamp, claim.live_fingerprint
        else:
            _read(run, made)
    except FileError as failure:
        made.fail(failure)
    except Exception as error:  # a parser's own mistake is that file's outcome, never the folder's
        if getattr(error, "retryable", None) is not None:
            raise
        log.exception("file failed", file_id=str(claim.id), path=claim.path)
        made.fail(FileError(Reason.PARSE_FAILED, f"{type(error).__name__} while reading: {error}"[:500]))
    if made.failure:
        made.stamp = made.stamp or claim.stamp
    return made


def _read(run: Run, made: Draft) -> None:
    claim, settings = made.claim, run.index.settings
    with _timed(made, "read"):
        content = run.source.read(claim.key, settings.max_file_bytes)
    made.stamp = content.stamp or ""
    made.fingerprint = f"sha256:{hashlib.sha256(content.data).hexdigest()} {claim.code_version}"
    if made.fingerprint == claim.live_fingerprint and claim.work != "full":
        made.unchanged = True
        return
    with _timed(made, "parse"):
        document = parse.parse(parsed_name(claim.path, claim.type), content.data)
        made.type = document.type
    with _timed(made, "chunk"):
        pieces = chunk(
            document,
            settings.chunks,
            run.tokenizer,
            settings.embedder.max_input_tokens,
            run.index.source.get("json_pointer") or "",
        )
    if not pieces:
        raise FileError(Reason.NO_TEXT)
    made.placed = place(run, claim, pieces, document.text, document.language)


def place(run: Run, claim: Claim, pieces: Sequence[Chunk], text: str, language: str | None) -> list[Placed]:
    """Chunks with ids, and with the text between them that no chunk holds."""
    seen: Counter[str] = Counter()
    placed, end = [], 0
    for number, piece in enumerate(pieces):
        content_hash = f"sha256:{hashlib.sha256(piece.embedded_text.encode()).hexdigest()}"
        id_ = chunk_id(claim.id, content_hash, seen[content_hash], run.epoch)
        seen[content_hash] += 1
        lead, end = text[end : piece.start_char], max(end, piece.end_char)
        trail = text[end:] if number == len(pieces) - 1 else ""
        placed.append(Placed(id_, claim.id, number, piece, content_hash, language, lead, trail))
    return placed


def chunk_id(file_id: UUID, content_hash: str, ordinal: int, epoch: int) -> UUID:
    """The same when a slice is repeated, and never one that an earlier epoch may have deleted.

    A file's id holds its index's already.
    """
    return uuid5(file_id, f"{content_hash} {ordinal} {epoch}")


def match_live(run: Run, drafts: Sequence[Draft]) -> None:
    """Give chunks that are live already their ids back, so that they are neither embedded nor written."""
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
                made.placed[number] = _with_id(placed, ids.pop())
                made.kept.add(made.placed[number].id)


def restore(run: Run, drafts: Sequence[Draft]) -> None:
    """Take up live chunks whose vectors the namespace lost, of files whose text is as it was."""
    lost = [d for d in drafts if d.claim.lost and d.unchanged and not d.failure]
    found = chunks.lost(run.pool, [d.claim.id for d in lost]) if lost else {}
    for made in lost:
        made.placed = found.get(made.claim.id, [])


def _of_live(row: Live) -> tuple[object, ...]:
    return (row.content_hash, row.json_pointer, row.symbol, row.node_type, row.scope, row.language, row.level)


def _of_placed(placed: Placed) -> tuple[object, ...]:
    c = placed.chunk
    return (placed.content_hash, c.json_pointer, c.symbol, c.node_type, c.scope, placed.language, c.level)


def _with_id(p: Placed, id_: UUID) -> Placed:
    return Placed(id_, p.file_id, p.index, p.chunk, p.content_hash, p.language, p.lead, p.trail)


def outcome(made: Draft) -> Outcome:
    """What the file's row records."""
    claim, failure = made.claim, made.failure
    base = {"id": claim.id, "status": made.status, "type": made.type, "stamp": made.stamp, "timings": made.timings}
    if failure:
        return Outcome(**base, reason=failure.reason, message=failure.message)  # type: ignore[arg-type] # typed above
    if made.unchanged:
        new = {"embedded_chunks": len(made.paid), "tokens": sum(p.chunk.tokens for p in made.paid)}
        kept = {"chunks": claim.live_chunks, "live_tokens": claim.live_tokens, **new}
        kept["reused_chunks"] = claim.live_chunks - len(made.paid)
        return Outcome(**base, fingerprint=made.fingerprint, **kept)  # type: ignore[arg-type] # typed above
    return Outcome(
        **base,  # type: ignore[arg-type] # typed above
        fingerprint=made.fingerprint,
        chunks=len(made.placed),
        live_tokens=sum(p.chunk.tokens for p in made.placed),
        embedded_chunks=len(made.paid),
        reused_chunks=len(made.placed) - len(made.paid),
        tokens=sum(p.chunk.tokens for p in made.paid),
    )


@contextmanager
def _timed(made: Draft, stage: str) -> Iterator[None]:
    started = time.monotonic()
    try:
        yield
    finally:
        made.timings[stage] = round(time.monotonic() - started, 4)
