"""Rows of `embedding_cache`: what a project paid for once, by embedder and text."""

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

#: An entry counts as used at most so often: a look-up should not become a write.
REST = timedelta(days=1)
#: Time between two evictions. Counting and comparing millions of rows takes seconds.
EVERY = timedelta(minutes=10)
#: Entries deleted in one transaction.
BATCH = 5000

_SQL = load("index/embedding_cache")
_HASH = "sha256:"


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose vectors: nothing is ever shared between projects, nor between embedders."""

    project_id: str
    profile: EmbedderProfile

    @property
    def values(self) -> dict[str, object]:
        """The parameters of every query."""
        p = self.profile
        return {"project_id": self.project_id, "embedder": f"{p.model} {p.dimensions} {p.precision}"}


def lookup(pool: Pool, owner: Owner, hashes: Iterable[str]) -> dict[str, Vector]:
    """The cached vectors by content hash (`sha256:…`), in one query."""
    values = {**owner.values, "hashes": [_raw(hash_) for hash_ in hashes], "rest": REST}
    if not values["hashes"]:
        return {}
    with pool.connection() as connection:
        rows = connection.execute(_SQL["lookup"], values, binary=True).fetchall()
        rested = [text_hash for text_hash, _, is_rested in rows if is_rested]
        if rested:
            connection.execute(_SQL["touch"], {**values, "hashes": rested})
    return {_HASH + text_hash.hex(): np.frombuffer(vector, dtype="<f4") for text_hash, vector, _ in rows}


def insert(pool: Pool, owner: Owner, vectors: Mapping[str, Vector]) -> None:
    """Keep vectors by content hash, whoever holds which lease: they are paid for.

    Those of a project that is being deleted are not kept: its deletion waits for this, or this finds no tool.
    """
    with pool.connection() as connection:
        connection.execute(_SQL["stage"])
        with connection.cursor().copy(_SQL["copy"]) as copy:
            for hash_, vector in vectors.items():
                copy.write_row((_raw(hash_), np.ascontiguousarray(vector, dtype="<f4").tobytes()))
        connection.execute(_SQL["hold_project"], owner.values)
        connection.execute(_SQL["insert_staged"], owner.values)


def live_elsewhere(pool: Pool, owner: Owner, vector_store: str, hashes: Iterable[str]) -> list[tuple[str, str, UUID]]:
    """(content hash, namespace, chunk id) of texts whose vector the store holds already, one for each."""
    values = {**owner.values, "vector_store": vector_store, "hashes": list(hashes)}
    if not values["hashes"]:
        return []
    with pool.connection() as connection:
        return connection.execute(_SQL["live_elsewhere"], values).fetchall()


def eviction_due(pool: Pool, every: timedelta = EVERY) -> bool:
    """Whether the bounds were not looked at for so long; the caller is the one that does it now."""
    with pool.connection() as connection:
        return connection.execute(_SQL["due"], {"every": every}).rowcount > 0


def evict(pool: Pool, *, spare: int, maximum: int) -> int:
    """Hold the bounds, the oldest used first; how many went.

    `spare` bounds the entries without a live chunk, `maximum` all of them: those above it can be read back from the
    vector store as long as their chunk lives.
    """
    with pool.connection() as connection:
        (total,) = connection.execute(_SQL["count"]).fetchone() or (0,)
    gone = _evict(pool, "choose_spare", spare) if total > spare else 0
    return gone + (_evict(pool, "choose_oldest", maximum) if total - gone > maximum else 0)


def _evict(pool: Pool, choice: str, keep: int) -> int:
    """Delete what a query chooses, in short transactions; an entry used meanwhile stays."""
    gone = 0
    with pool.connection() as connection:
        connection.execute(_SQL["forget_choice"])
        chosen = connection.execute(_SQL[choice], {"keep": keep}).rowcount
        for _ in range(0, chosen, BATCH):
            gone += connection.execute(_SQL["evict"], {"batch": BATCH}).rowcount
            connection.commit()
        connection.execute(_SQL["forget_choice"])
    return gone


def _raw(content_hash: str) -> bytes:
    return bytes.fromhex(content_hash.removeprefix(_HASH))
