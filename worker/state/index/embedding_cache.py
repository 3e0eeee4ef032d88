"""Rows of `embedding_cache`: vectors that a project paid for, by embedder and text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from schemas.source import EmbedderProfile
from worker.state.postgres import Pool, load

Vector = NDArray[np.float32]

#: An entry is marked as used at most this often, so that most lookups do not write.
TOUCH_INTERVAL = timedelta(days=1)
#: Time between two evictions. Counting and comparing millions of rows takes seconds.
EVICTION_INTERVAL = timedelta(minutes=10)
#: Entries deleted in one transaction.
EVICTION_ROWS = 5000

_SQL = load("index/embedding_cache")
_HASH = "sha256:"


@dataclass(frozen=True, slots=True)
class Owner:
    """The owner of vectors: they are never shared between projects or embedders."""

    project_id: str
    profile: EmbedderProfile

    @property
    def values(self) -> dict[str, object]:
        """The parameters of every query."""
        p = self.profile
        return {"project_id": self.project_id, "embedder": f"{p.model} {p.dimensions} {p.precision}"}


def lookup(pool: Pool, owner: Owner, hashes: Iterable[str]) -> dict[str, Vector]:
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


def insert(pool: Pool, owner: Owner, vectors: Mapping[str, Vector]) -> None:
    """Cache vectors by content hash, even after a lost lease: they are paid for.

    Vectors of a project that is being deleted are not kept: its deletion waits for this insert, or this finds no tool.
    """
    if not vectors:
        return
    rows = np.stack(list(vectors.values())).astype("<f4", copy=False)
    values = {"hashes": _joined(vectors), "vectors": rows.tobytes(), "vector_bytes": rows[0].nbytes}
    with pool.connection() as connection:
        connection.execute(_SQL["hold_project"], owner.values)
        connection.execute(_SQL["insert"], {**owner.values, **values})


def live_elsewhere(pool: Pool, owner: Owner, vector_store: str, hashes: Iterable[str]) -> list[tuple[str, str, UUID]]:
    """Return (content hash, namespace, chunk id) of texts whose vector the store already holds, one per text."""
    values = {**owner.values, "vector_store": vector_store, "hashes": list(hashes)}
    if not values["hashes"]:
        return []
    with pool.connection() as connection:
        return connection.execute(_SQL["live_elsewhere"], values).fetchall()


def eviction_due(pool: Pool, every: timedelta = EVICTION_INTERVAL) -> bool:
    """Whether the last eviction is longer ago than `every`; if so, the caller must evict now."""
    with pool.connection() as connection:
        return connection.execute(_SQL["due"], {"every": every}).rowcount > 0


def evict(pool: Pool, *, spare: int, maximum: int) -> int:
    """Enforce the limits, least recently used first. Returns the number of deleted entries.

    `spare` limits the entries without a live chunk, `maximum` all entries. Vectors evicted above `maximum` can be read
    from the vector store as long as their chunk lives.
    """
    with pool.connection() as connection:
        (total,) = connection.execute(_SQL["count"]).fetchone() or (0,)
    evicted = _evict(pool, "choose_spare", spare) if total > spare else 0
    return evicted + (_evict(pool, "choose_oldest", maximum) if total - evicted > maximum else 0)


def _evict(pool: Pool, choice: str, keep: int) -> int:
    """Delete what a query chooses, in short transactions; entries that were used meanwhile stay."""
    deleted = 0
    with pool.connection() as connection:
        connection.execute(_SQL["forget_choice"])
        count = connection.execute(_SQL[choice], {"keep": keep}).rowcount
        for _ in range(0, count, EVICTION_ROWS):
            deleted += connection.execute(_SQL["evict"], {"batch": EVICTION_ROWS}).rowcount
            connection.commit()
        connection.execute(_SQL["forget_choice"])
    return deleted


def _joined(hashes: Iterable[str]) -> bytes:
    """The bytes of content hashes, one after another: psycopg would inspect the items of a list one by one."""
    return bytes.fromhex("".join(hashes).replace(_HASH, ""))
