"""Rows of `embedding_cache`: vectors that a project paid for, by embedder and text."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import numpy as np
import structlog
from numpy.typing import NDArray
from psycopg import Connection, OperationalError
from psycopg.rows import class_row

from schemas.content.source import EmbedderProfile
from worker.state.pool import Pool, autocommit
from worker.state.queries import load, text_array

Vector = NDArray[np.float32]

#: Minimum time between two usage marks of an entry, so that most lookups do not write.
TOUCH_INTERVAL = timedelta(days=1)
#: Seconds for which paid vectors wait for Postgres. A fail-over takes less; Celery ends a task after more.
OUTAGE_SECONDS = 180.0
#: Less than another worker needs to take up the files once Postgres is back, because it would pay again.
OUTAGE_PAUSE_SECONDS = 0.2
#: Time between two evictions. Each reads all entries, which takes some 10 s for a million.
EVICTION_INTERVAL = timedelta(minutes=10)
#: Maximum number of entries read, or deleted, in one transaction.
EVICTION_ROWS = 5000

log = structlog.get_logger()

_SQL = load("index/embedding_cache")
_HASH = "sha256:"


@dataclass(frozen=True, slots=True)
class VectorOwner:
    """The owner of vectors. Projects and embedders never share vectors."""

    project_id: str
    profile: EmbedderProfile

    @property
    def values(self) -> dict[str, object]:
        """The parameters of every query."""
        p = self.profile
        return {"project_id": self.project_id, "embedder": f"{p.model} {p.dimensions} {p.precision}"}


@dataclass(frozen=True, slots=True)
class _Pass:
    """The start and position of a pass over the cache, the spare entries found so far, and the excess to delete."""

    began: datetime
    used_at: datetime
    project_id: str
    embedder: str
    text_hash: bytes
    spare: int
    excess: int


def lookup(pool: Pool, owner: VectorOwner, hashes: Iterable[str]) -> dict[str, Vector]:
    """Look up cached vectors by content hash (`sha256:…`), in one query."""
    values = {**owner.values, "hashes": _joined(hashes), "rest": TOUCH_INTERVAL}
    if not values["hashes"]:
        return {}
    with pool.connection() as connection:
        rows = connection.execute(_SQL["lookup"], values, binary=True).fetchall()
        rested = [text_hash for text_hash, _, is_rested in rows if is_rested]
        if rested:
            connection.execute(_SQL["touch"], {**values, "hashes": b"".join(rested)})
    return {_HASH + text_hash.hex(): np.frombuffer(vector, dtype="<f4") for text_hash, vector, _ in rows}


def insert(pool: Pool, owner: VectorOwner, vectors: Mapping[str, Vector]) -> None:
    """Cache vectors by content hash, even after a lost lease: they are paid for.

    Vectors of a project in deletion are not kept: its deletion waits for this insert, or the insert finds no tool.
    """
    if not vectors:
        return
    rows = np.stack(list(vectors.values())).astype("<f4", copy=False)
    values = {"hashes": _joined(vectors), "vectors": rows.tobytes(), "vector_bytes": rows[0].nbytes}
    with pool.connection() as connection:
        connection.execute(_SQL["hold_project"], owner.values)
        connection.execute(_SQL["insert"], {**owner.values, **values})


def keep(
    pool: Pool, owner: VectorOwner, vectors: Mapping[str, Vector], pause: Callable[[float], None] = time.sleep
) -> None:
    """Cache vectors that were just paid for, as `insert` does. Waits while Postgres is away.

    Raises `OperationalError` if it is away for longer than `OUTAGE_SECONDS`. Then the vectors are lost.
    """
    until, is_told = time.monotonic() + OUTAGE_SECONDS, False
    while True:
        try:
            return insert(pool, owner, vectors)
        except OperationalError as error:
            if time.monotonic() > until:
                raise
            if not is_told:
                log.warning("paid vectors wait for postgres", vectors=len(vectors), error=str(error))
                is_told = True
        pause(OUTAGE_PAUSE_SECONDS)


def live_elsewhere(
    pool: Pool, owner: VectorOwner, vector_store: str, hashes: Iterable[str]
) -> list[tuple[str, str, UUID]]:
    """Return (content hash, namespace, chunk id) of texts whose vector the store already holds, one per text."""
    missing = list(hashes)
    if not missing:
        return []
    values = {**owner.values, "vector_store": vector_store, "hashes": text_array(missing)}
    with pool.connection() as connection:
        return connection.execute(_SQL["live_elsewhere"], values).fetchall()


def eviction_due(pool: Pool, every: timedelta = EVICTION_INTERVAL) -> bool:
    """Return whether the last eviction is longer ago than `every`; if so, the caller must evict now."""
    with autocommit(pool) as connection:
        return connection.execute(_SQL["due"], {"every": every}).rowcount > 0


def evict(pool: Pool, *, spare: int, maximum: int, seconds: float) -> tuple[int, bool]:
    """Enforce the limits, least recently used first. Returns the number of deleted entries, and whether more remain.

    `spare` limits the entries without a live chunk, `maximum` all entries. Vectors evicted above `maximum` can be read
    from the vector store as long as their chunk lives. Begins nothing after `seconds`.
    """
    until = time.monotonic() + seconds
    with pool.connection() as connection:
        (total,) = connection.execute(_SQL["count"]).fetchone() or (0,)
        if total <= spare:
            connection.execute(_SQL["end_pass"], {"excess": 0})
    evicted, more = _evict_spare(pool, spare, until) if total > spare else (0, False)
    beyond = total - evicted - maximum
    while beyond > 0 and time.monotonic() < until:
        with pool.connection() as connection:
            deleted = connection.execute(_SQL["evict_oldest"], {"batch": min(beyond, EVICTION_ROWS)}).rowcount
        if not deleted:
            break
        evicted, beyond = evicted + deleted, beyond - deleted
    return evicted, more or beyond > 0


def _evict_spare(pool: Pool, keep: int, until: float) -> tuple[int, bool]:
    """Scan the cache in short transactions: first to count spare entries, then to delete the excess."""
    evicted = 0
    while time.monotonic() < until:
        with pool.connection() as connection:
            deleted, is_over = _step(connection, keep)
        evicted += deleted
        if is_over:
            return evicted, False
    return evicted, True


def _step(connection: Connection[Any], keep: int) -> tuple[int, bool]:
    """Examine the next entries. Returns the number of deleted ones, and whether nothing is left to delete."""
    at = connection.cursor(row_factory=class_row(_Pass)).execute(_SQL["hold_pass"]).fetchall()[0]
    rows = connection.execute(_SQL["probe"], {**asdict(at), "batch": EVICTION_ROWS}, binary=True).fetchall()
    spare = [row[:4] for row in rows if row[4]]
    chosen = spare[: at.excess]
    if chosen:
        times, projects, embedders, hashes = map(list, zip(*chosen, strict=True))
        values = {"times": times, "projects": projects, "embedders": embedders, "hashes": hashes}
        connection.execute(_SQL["evict"], values)
    if len(rows) == EVICTION_ROWS and (not at.excess or len(chosen) < at.excess):
        last = dict(zip(("used_at", "project_id", "embedder", "text_hash"), rows[-1], strict=False))
        counts = {"spare": at.spare + len(spare), "excess": at.excess - len(chosen)}
        connection.execute(_SQL["move_pass"], {**last, **counts})
        return len(chosen), False
    # a deleting pass ends once it has deleted the excess; a counting pass sets the excess for the next one
    excess = 0 if at.excess else max(at.spare + len(spare) - keep, 0)
    connection.execute(_SQL["end_pass"], {"excess": excess})
    return len(chosen), not excess


def _joined(hashes: Iterable[str]) -> bytes:
    """Return the bytes of content hashes, concatenated, because psycopg would inspect a list's items one by one."""
    return bytes.fromhex("".join(hashes).replace(_HASH, ""))
