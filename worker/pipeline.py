"""A claimed batch of files becomes searchable: read, parse, chunk, embed what is new, write, record."""

from __future__ import annotations

import hashlib
import math
import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from uuid import UUID, uuid5

import structlog

from schemas.document import Chunk
from schemas.errors import EmbeddingRefused, FileError, FoldexError, StoreRefused
from schemas.status import FileStatus, Reason
from schemas.tool import IndexSettings
from worker import parse
from worker.catalog import parsed_name
from worker.chunk import chunk
from worker.embed import Embedder
from worker.embed.budget import Budget
from worker.embed.pack import Terms, embed_all
from worker.lease import Lease
from worker.sources import Source
from worker.state import Pool, cache, chunks, files
from worker.state.chunks import Live, Placed
from worker.state.files import Claim, Outcome
from worker.state.tools import Index
from worker.tokens import Tokenizer
from worker.vectors import Patch, Row, Value, Vector, VectorStore

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

    `found` are new ones whose vector was paid for before, or for an equal text.
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
    def moved(self) -> bool:
        """Whether what is live of the file names another place than the one it is at now."""
        claim = self.claim
        return claim.live_chunks > 0 and (claim.path, claim.id_path) != (claim.live_path, claim.live_id_path)

    def fail(self, failure: FileError) -> None:
        """End with a reason instead of chunks."""
        self.failure, self.status = failure, failure.reason.status


def index_files(run: Run, claims: Sequence[Claim]) -> None:
    """Take claimed files to their outcomes.

    Raises what concerns more than one file: `EmbeddingError`, `StoreError`, `SourceUnavailable`, `LeaseLost`,
    `SliceOver`; claims without an outcome are then still held, and repeating them changes nothing that was written
    already. What needs no more of the provider gets its outcome even if the provider is away.
    """
    drafts = draft_all(run, claims)
    match_live(run, drafts)
    restore(run, drafts)
    vectors, stopped = embed(run, drafts)
    run.lease.check()
    drafts = [made for made in drafts if all(placed.id in vectors for placed in made.new)]
    chunks.insert(
        run.pool,
        run.lease.owner,
        run.epoch,
        (p for d in drafts for p in d.new),
        keywords=run.index.keyword_index == "postgres",
    )
    upsert(run, drafts, vectors)
    run.lease.check()
    forget(run, finish(run, drafts))
    if stopped:
        raise stopped


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


def embed(run: Run, drafts: Sequence[Draft]) -> tuple[dict[UUID, Vector], FoldexError | None]:
    """Vectors of new chunks, by id: those the project has already, the others paid for, one request across files.

    With the error that ended it early, if one did; the cache has what was paid for by then. A refused text fails its
    own files only.
    """
    started = time.monotonic()
    wanted: dict[str, list[tuple[Draft, Placed]]] = defaultdict(list)
    for made in drafts:
        for placed in made.new:
            wanted[placed.content_hash].append((made, placed))
    vectors: dict[UUID, Vector] = {}
    for content_hash, vector in recall(run, wanted).items():
        for made, placed in wanted.pop(content_hash):
            vectors[placed.id] = vector
            made.found.add(placed.id)
    stopped = _pay(run, list(wanted.values()), vectors)
    _share(drafts, "embed", time.monotonic() - started)
    return vectors, stopped


def recall(run: Run, hashes: Collection[str]) -> dict[str, Vector]:
    """What the project paid for before, from the cache, else from where the same text is live."""
    owner = cache.Owner(run.index.project_id, run.index.settings.embedder)
    known = cache.lookup(run.pool, owner, hashes)
    by_namespace: dict[str, dict[UUID, str]] = defaultdict(dict)
    missing = [hash_ for hash_ in hashes if hash_ not in known]
    for hash_, namespace, id_ in cache.live_elsewhere(run.pool, owner, run.index.vector_store, missing):
        by_namespace[namespace][id_] = hash_
    for namespace, ids in by_namespace.items():
        known |= {ids[id_]: vector for id_, vector in run.store.vectors(namespace, list(ids)).items()}
    return known


def _pay(run: Run, wanted: Sequence[Sequence[tuple[Draft, Placed]]], vectors: dict[UUID, Vector]) -> FoldexError | None:
    """Have texts embedded, each once whatever chunks have it; every answer goes to the cache as it comes."""
    owner = cache.Owner(run.index.project_id, run.index.settings.embedder)
    texts = [same[0][1].chunk.embedded_text for same in wanted]
    tokens = [same[0][1].chunk.tokens for same in wanted]
    terms = Terms(run.budget, run.index.project_id, run.lease.check, run.embed_seconds)
    try:
        for indices, result in embed_all(run.embedder, texts, tokens, run.concurrency, terms):
            answered = [wanted[index] for index in indices]
            if isinstance(result, EmbeddingRefused):
                _refuse(answered, result)
                continue
            cache.insert(run.pool, owner, {same[0][1].content_hash: result[row] for row, same in enumerate(answered)})
            for row, same in enumerate(answered):
                vectors.update((placed.id, result[row]) for _, placed in same)
                for made, placed in same[1:]:
                    made.found.add(placed.id)
    except FoldexError as error:
        return error
    return None


def _refuse(answered: Sequence[Sequence[tuple[Draft, Placed]]], refusal: EmbeddingRefused) -> None:
    for made, placed in (pair for same in answered for pair in same):
        made.fail(FileError(Reason.EMBEDDING_REFUSED, _with_lines(placed.chunk, refusal.message)))


def upsert(run: Run, drafts: Sequence[Draft], vectors: dict[UUID, Vector]) -> None:
    """Write new rows and the new places of moved files; rows the store refuses fail their files."""
    started = time.monotonic()
    rows = [(made, _row(run, made, p, vectors[p.id])) for made in drafts for p in made.new]
    patches = [patch for made in drafts if made.moved and not made.failure for patch in _patches(run, made)]
    _upsert(run, rows)
    if patches:
        run.lease.check()
        run.store.write(run.index.namespace, _dimensions(run.index.settings), patches=patches)
    _share(drafts, "write", time.monotonic() - started)


def _upsert(run: Run, rows: Sequence[tuple[Draft, Row]]) -> None:
    """Halves a refused write down to the row that is refused; its file fails, the others go on."""
    rows = [(made, row) for made, row in rows if not made.failure]
    if not rows:
        return
    run.lease.check()
    try:
        run.store.write(run.index.namespace, _dimensions(run.index.settings), upserts=[row for _, row in rows])
    except StoreRefused as refused:
        if len(rows) == 1:
            rows[0][0].fail(FileError(Reason.STORE_REFUSED, refused.message))
            return
        half = len(rows) // 2
        _upsert(run, rows[:half])
        _upsert(run, rows[half:])


def finish(run: Run, drafts: Sequence[Draft]) -> list[UUID]:
    """One transaction makes the new chunks live and records the outcomes; the ids whose vectors are to go.

    Raises `LeaseLost` if the epoch moved on; files whose own lease was lost are left to their new holder.
    """
    run.lease.check()
    with run.pool.connection() as connection:
        files.hold_index(connection, run.index.id, run.epoch)
        finished = files.finish(connection, run.lease.owner, [outcome(made) for made in drafts])
        replaced = [d for d in drafts if d.claim.id in finished]
        good = [d for d in replaced if not d.failure and not d.unchanged]
        buried = chunks.replace(
            connection,
            files=[d.claim.id for d in replaced],
            # an unchanged file may hold what an earlier attempt at another content half wrote
            failed=[d.claim.id for d in replaced if d.unchanged or d.status is FileStatus.FAILED],
            current=[p.id for d in good for p in d.placed],
            kept=[p for d in good for p in d.placed if p.id in d.kept],
        )
        lost = [d for d in drafts if d.claim.lost and d.claim.id in finished]
        if lost:
            written = [p.id for d in lost if d.unchanged for p in d.new]
            chunks.restored(connection, [d.claim.id for d in lost], written)
        moved = [d.claim.id for d in drafts if d.moved and not d.failure and d.claim.id in finished]
        if moved:
            chunks.move_keywords(connection, moved)
    for made in drafts:
        reason = made.failure and made.failure.reason
        log.debug("file", file_id=str(made.claim.id), path=made.claim.path, status=made.status, reason=reason)
    return buried


def forget(run: Run, buried: Sequence[UUID]) -> None:
    """Delete vectors only after nothing refers to them; the sweep repeats it."""
    if buried:
        run.store.write(run.index.namespace, _dimensions(run.index.settings), deletes=buried)
        chunks.confirm_deleted(run.pool, buried)


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


def _row(run: Run, made: Draft, placed: Placed, vector: Vector) -> Row:
    c = placed.chunk
    attributes: dict[str, Value] = {
        **_place_of(made.claim),
        "file_type": made.type,
        "json_pointer": c.json_pointer,
        "content_hash": placed.content_hash,
        "chunk_id": str(placed.id),
        "language": placed.language,
        "symbol": c.symbol,
        "node_type": c.node_type,
        "scope": c.scope,
        "level": c.level,
        "embedded": True,
    }
    return Row(placed.id, vector, attributes, _keywords(run, made.claim, c.context, c.text))


def _place_of(claim: Claim) -> dict[str, Value]:
    return {
        "file_node_id": claim.node_id or str(claim.id),
        "file_id_path": claim.id_path,
        "file_name": claim.path.rsplit("/", 1)[-1],
    }


def _keywords(run: Run, claim: Claim, context: str, text: str) -> str | None:
    return f"{claim.path}\n{context}\n{text}" if run.store.has_keywords else None


def _patches(run: Run, made: Draft) -> Iterator[Patch]:
    for id_, context, text in chunks.of_file(run.pool, made.claim.id):
        yield Patch(id_, _place_of(made.claim), keywords=_keywords(run, made.claim, context, text))


def _dimensions(settings: IndexSettings) -> int:
    return settings.embedder.dimensions


def _with_lines(piece: Chunk, message: str) -> str:
    return f"Lines {piece.start_line} to {piece.end_line}: {message}"


@contextmanager
def _timed(made: Draft, stage: str) -> Iterator[None]:
    started = time.monotonic()
    try:
        yield
    finally:
        made.timings[stage] = round(time.monotonic() - started, 4)


def _share(drafts: Sequence[Draft], stage: str, seconds: float) -> None:
    """Files of one batch share its seconds by their new chunks."""
    total = sum(len(made.new) for made in drafts)
    for made in drafts:
        if made.new:
            made.timings[stage] = round(seconds * len(made.new) / total, 4)
