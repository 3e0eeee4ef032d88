"""The row of `text_key`: this installation's key for hashes of words, names and paths."""

from __future__ import annotations

import secrets

from worker.state.pool import Pool, autocommit
from worker.state.queries import load

#: Number of random bytes of a key.
KEY_BYTES = 32

_SQL = load("text_keys")


def read_kept(pool: Pool) -> str | None:
    """Return the key, or None if none was created."""
    with autocommit(pool) as connection:
        row = connection.execute(_SQL["kept"]).fetchone()
        return None if row is None else str(row[0])


def keep(pool: Pool) -> str:
    """Return the key, which the first call creates."""
    key = read_kept(pool)
    if key is None:
        with autocommit(pool) as connection:
            connection.execute(_SQL["make"], {"secret": secrets.token_urlsafe(KEY_BYTES)})
        key = read_kept(pool)
    return str(key)
