"""Makes a claimed batch of files searchable: drafts, embeds what is new, writes and records."""

from __future__ import annotations

import functools
import time
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from uuid import UUID

import psycopg
import structlog

from schemas.document import Chunk
from schemas.errors import EmbeddingRefused, FileError, FoldexError, SliceOver, StoreRefused
from schemas.status import FileStatus, Reason
from schemas.tool import IndexSettings
from worker.embed.batching import Terms, embed_all
from worker.index.prepare import Draft, Run, draft_all, match_live, outcome, restore
from worker.index.skip_cached import Sparing
from worker.state.index import chunks, embedding_cache, files
from worker.state.index.chunks import Placed
from worker.state.index.files import Claim
from worker.state.search import keywords, symbols
from worker.tokens.keywords import Keywords, keywords_of
from worker.vectors import Patch, Row, Value, Vector

#: Rows built for the store at a time; with their words and vectors they take many times the memory of their text.
ROWS = 8_000

log = structlog.get_logger()


def index_files(run: Run, claims: Sequence[Claim], waiting: Sequence[Draft] = (), *, more: bool = False) -> list[Draft]:
    """Take claimed files, and those `waiting` from the previous call, to their outcomes.

    If `more` files are to come, texts that do not fill a request wait for them; pass the returned drafts to the next
    call. Raises errors that concern more than one file: `EmbeddingError`, `StoreError`, `SourceUnavailable`,
    `LeaseLost`, `SliceOver`. Claims without an outcome are then still held, and repeating them changes nothing already
    written. Files that need no more embedding get their outcomes even if the provider is down.
    """
    new = draft_all(run, claims)
    all_drafted = len(new) == len(claims)
    match_live(run, new)
    restore(run, new)
    everyone = [*_wanted(run, waiting), *new]
    try:
        stopped = embed(run, everyone, more=more and all_drafted)
        _record(run, [made for made in everyone if made.whole])
        if stopped:
            raise stopped
        if not all_drafted:
            raise SliceOver("reading these files took the slice's time; the next slice goes on")
    except FoldexError:
        record_paid(run, everyone)
        raise
    return [made for made in everyone if not made.whole]


def _wanted(run: Run, drafts: Sequence[Draft]) -> list[Draft]:
    """Return the drafts whose claims still hold. A later claim drafts the other files again."""
    held = files.held(run.pool, run.lease.owner, [made.claim for made in drafts]) if drafts else set()
    record_paid(run, [made for made in drafts if made.claim.id not in held])
    return [made for made in drafts if made.claim.id in held]


def _record(run: Run, drafts: Sequence[Draft]) -> None:
    run.lease.check()
    drafts = _wanted(run, drafts)
    write(run, drafts)
    with _taken_back(run, drafts):
        run.lease.check()
        buried = finish(run, drafts)
    record_paid(run, drafts)
    forget(run, buried)


def embed(run: Run, drafts: Sequence[Draft], *, more: bool) -> FoldexError | None:
    """Give new chunks their vectors: cached ones first, then new ones, with requests that span files.

    Returns the error that ended it early, if any; the cache then holds everything paid for. A refused text fails only
    its own files.
    """
    started = time.monotonic()
    wanted: dict[str, list[tuple[Draft, Placed]]] = defaultdict(list)
    for made in drafts:
        for placed in made.new if made.embedded else []:
            if placed.id not in made.vectors:
                wanted[placed.content_hash].append((made, placed))
    shares = [(made, len(made.new)) for made in drafts if made.embedded]
    # texts that wait since the previous call were looked up then
    fresh = {hash_ for hash_, pairs in wanted.items() if not all(made.recalled for made, _ in pairs)}
    for content_hash, vector in recall(run, wanted, fresh).items():
        for made, placed in wanted.pop(content_hash):
            made.vectors[placed.id] = vector
    for made in drafts:
        made.recalled = True
    stopped = _pay(run, list(wanted.values()), more=more)
    _share(shares, "embed", time.monotonic() - started)
    return stopped


def recall(run: Run, hashes: Collection[str], fresh: Collection[str]) -> dict[str, Vector]:
    """Look up vectors that the project already paid for: in the cache, then, for `fresh` hashes, in live chunks."""
    owner = embedding_cache.Owner(run.index.project_id, run.index.settings.embedder)
    known = embedding_cache.lookup(run.pool, owner, hashes)
    by_namespace: dict[str, dict[UUID, str]] = defaultdict(dict)
    missing = [hash_ for hash_ in fresh if hash_ not in known]
    for hash_, namespace, id_ in embedding_cache.live_elsewhere(run.pool, owner, run.index.vector_store, missing):
        by_namespace[namespace][id_] = hash_
    for namespace, ids in by_namespace.items():
        known |= {ids[id_]: vector for id_, vector in run.store.vectors(namespace, list(ids)).items()}
    return known


def _pay(run: Run, wanted: Sequence[Sequence[tuple[Draft, Placed]]], *, more: bool) -> FoldexError | None:
    """Embed each distinct text once, whatever chunks contain it; every answer goes to the cache at once."""
    owner = embedding_cache.Owner(run.index.project_id, run.index.settings.embedder)
    texts = [same[0][1].chunk.embedded_text for same in wanted]
    tokens = [same[0][1].chunk.tokens for same in wanted]
    # a free model's requests are not worth filling
    only_full = more and run.budget is not None
    terms = Terms(run.budget, run.index.project_id, run.lease.check, run.embed_seconds, only_full)
    sparing = Sparing(run.embedder, functools.partial(embedding_cache.lookup, run.pool, owner))
    try:
        for indices, result in embed_all(sparing, texts, tokens, run.concurrency, terms):
            answered = [wanted[index] for index in indices]
            if isinstance(result, EmbeddingRefused):
                _refuse(answered, result)
                continue
            _keep(run, owner, {same[0][1].content_hash: result[row] for row, same in enumerate(answered)})
            for row, same in enumerate(answered):
                for made, placed in same:
                    made.vectors[placed.id] = result[row]
                made, placed = same[0]
                if placed.content_hash not in sparing.spared:
                    made.paid.append(placed)
    except FoldexError as error:
        return error
    return None


def _keep(run: Run, owner: embedding_cache.Owner, vectors: Mapping[str, Vector]) -> None:
    """Cache paid vectors, with one retry in case Postgres is restarting."""
    try:
        embedding_cache.insert(run.pool, owner, vectors)
    except psycopg.OperationalError:
        embedding_cache.insert(run.pool, owner, vectors)


def _refuse(answered: Sequence[Sequence[tuple[Draft, Placed]]], refusal: EmbeddingRefused) -> None:
    for made, placed in (pair for same in answered for pair in same):
        made.fail(FileError(Reason.EMBEDDING_REFUSED, _with_lines(placed.chunk, refusal.message)))


def write(run: Run, drafts: Sequence[Draft]) -> None:
    """Write new chunks as not yet live, then the store's rows for them."""
    started = time.monotonic()
    shares = [(made, len(made.new)) for made in drafts]
    chunks.insert(run.pool, run.lease.owner, run.epoch, ((p, _code(run, d, p)) for d in drafts for p in d.new))
    with _taken_back(run, drafts):
        upsert(run, drafts)
    _share(shares, "write", time.monotonic() - started)


@contextmanager
def _taken_back(run: Run, drafts: Sequence[Draft]) -> Iterator[None]:
    """Undo the write if the work ends here: it may have happened minutes after the last check.

    By then the chunks' rows, and even their tombstones, may be gone. So may the index with its namespace, which the
    write then created again. Dropping that namespace is safe, because no other index ever has its name.
    """
    try:
        yield
    except FoldexError:
        ids = [p.id for made in drafts for p in made.placed if p.id not in made.kept]
        try:
            if not chunks.bury_strays(run.pool, run.index.id, ids) and run.store.drop(run.index.namespace):
                log.warning("written after the index was deleted; dropped", namespace=run.index.namespace)
        except (FoldexError, psycopg.OperationalError) as error:
            # the sweep's name check finds the namespace, and the id check finds the vectors
            log.warning("late vectors not taken back", namespace=run.index.namespace, error=str(error))
        raise


def upsert(run: Run, drafts: Sequence[Draft], *, rows: int = ROWS) -> None:
    """Write new rows and the new locations of moved files. Rows that the store rejects fail their files.

    A chunk that is not embedded needs a row only if the store keeps the keywords.
    """
    stored = [made for made in drafts if made.embedded or run.store.has_keywords]
    placed = ((made, p) for made in stored for p in made.new)
    while some := list(islice(placed, rows)):
        _upsert(run, [(made, _row(run, made, p, made.vectors.get(p.id))) for made, p in some])
    patches = [patch for made in drafts if made.moved and not made.failure for patch in _patches(run, made)]
    if patches:
        run.lease.check()
        run.store.write(run.index.namespace, _dimensions(run.index.settings), patches=patches)


def _upsert(run: Run, rows: Sequence[tuple[Draft, Row]]) -> None:
    """Halve a rejected write until the rejected row is found; its file fails and the others continue."""
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
    """Make the new chunks live and record the outcomes in one transaction; return the ids of vectors to delete.

    Raises `LeaseLost` if the epoch moved on. Files whose own lease was lost are left to their new holder.
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
            # an unchanged file may have half-written chunks from an earlier attempt with different content
            failed=[d.claim.id for d in replaced if d.unchanged or d.status is FileStatus.FAILED],
            current=[p.id for d in good for p in d.placed],
            kept=[(p, _code(run, d, p)) for d in good for p in d.placed if p.id in d.kept],
        )
        symbols.replace(
            connection,
            run.index.id,
            # a failed file keeps its live rows
            files=[d.claim.id for d in replaced if not d.unchanged and d.status is not FileStatus.FAILED],
            found=[(d.claim.id, d.definitions, d.references) for d in good],
        )
        lost = [d for d in drafts if d.claim.lost and d.claim.id in finished]
        if lost:
            written = [p.id for d in lost if d.unchanged for p in d.new]
            chunks.restored(connection, [d.claim.id for d in lost], written)
        moved = {
            d.claim.id: keywords.path_vector(d.claim.path)
            for d in drafts
            if d.moved and not d.failure and d.claim.id in finished
        }
        if moved:
            chunks.move_keywords(connection, moved)
    for made in drafts:
        if made.claim.id in finished:
            made.paid = []
        reason = made.failure and made.failure.reason
        log.debug("file", file_id=str(made.claim.id), path=made.claim.path, status=made.status, reason=reason)
    return buried


def record_paid(run: Run, drafts: Sequence[Draft]) -> None:
    """Record what was paid for files that get no outcome here; the next worker finds the vectors in the cache."""
    paid = [(made.claim.id, len(made.paid), made.paid_tokens) for made in drafts if made.paid]
    if paid:
        files.add_paid(run.pool, run.epoch, paid)
    for made in drafts:
        made.paid = []


def forget(run: Run, buried: Sequence[UUID]) -> None:
    """Delete vectors that no row refers to any more; the sweep repeats it."""
    if buried:
        run.store.write(run.index.namespace, _dimensions(run.index.settings), deletes=buried)
        chunks.confirm_deleted(run.pool, buried)


def _row(run: Run, made: Draft, placed: Placed, vector: Vector | None) -> Row:
    c = placed.chunk
    attributes: dict[str, Value] = {
        **_file_of(made),
        "json_pointer": c.json_pointer,
        "content_hash": placed.content_hash,
        "chunk_id": str(placed.id),
        "language": placed.language,
        "symbol": c.symbol,
        "node_type": c.node_type,
        "scope": c.scope,
        "level": c.level,
        "embedded": placed.embedded,
    }
    return Row(placed.id, vector, attributes, _keywords(run, made.claim, c.context, c.text), made.claim.generation)


def _file_of(made: Draft) -> dict[str, Value]:
    claim = made.claim
    return {
        "file_node_id": claim.node_id or str(claim.id),
        "file_id_path": claim.id_path,
        "file_name": claim.path.rsplit("/", 1)[-1],
        "file_type": made.type,
    }


def _keywords(run: Run, claim: Claim, context: str, text: str) -> Keywords | None:
    return keywords_of(claim.path, context, text) if run.store.has_keywords else None


def _code(run: Run, made: Draft, placed: Placed) -> str | None:
    if run.index.keyword_index != "postgres":
        return None
    return keywords.vector(made.claim.path, placed.chunk.context, placed.chunk.text)


def _patches(run: Run, made: Draft) -> Iterator[Patch]:
    for id_, context, text in chunks.of_file(run.pool, made.claim.id, unembedded=run.store.has_keywords):
        yield Patch(id_, _file_of(made), _keywords(run, made.claim, context, text), made.claim.generation)


def _dimensions(settings: IndexSettings) -> int:
    return settings.embedder.dimensions


def _with_lines(piece: Chunk, message: str) -> str:
    return f"Lines {piece.start_line} to {piece.end_line}: {message}"


def _share(shares: Sequence[tuple[Draft, int]], stage: str, seconds: float) -> None:
    """Split a batch's seconds among its files by their chunks, including files that failed meanwhile."""
    total = sum(number for _, number in shares)
    for made, number in shares:
        if number:
            made.timings[stage] = round(made.timings.get(stage, 0) + seconds * number / total, 4)
