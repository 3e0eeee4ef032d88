"""Rows of `api_key`: which key opens which project. A key is stored hashed and shown once."""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID, uuid4

from psycopg.rows import class_row

from worker.state.pool import Pool, autocommit
from worker.state.queries import load

_SQL = load("access/keys")


@dataclass(frozen=True, slots=True)
class Key:
    """A key as a list shows it. `revoked_at` is None while it is valid."""

    id: UUID
    project_id: str
    name: str
    created_at: datetime
    revoked_at: datetime | None


def create(pool: Pool, project_id: str, name: str) -> tuple[UUID, str]:
    """Create a key. Returns its id and the key itself, which cannot be read again."""
    key_id, key = uuid4(), f"fx_{secrets.token_urlsafe(32)}"
    row = {"id": key_id, "project_id": project_id, "name": name, "key_hash": hashed(key)}
    with pool.connection() as connection:
        connection.execute(_SQL["insert"], row)
    return key_id, key


def project_of(pool: Pool, key_hash: bytes) -> str | None:
    """Return the project of the key with this hash, or None if the key is unknown or revoked."""
    with autocommit(pool) as connection:
        row = connection.execute(_SQL["project"], {"key_hash": key_hash}).fetchone()
        return str(row[0]) if row else None


def page(pool: Pool, project_id: str | None) -> list[Key]:
    """List the keys of a project (None: of all projects), without the keys themselves."""
    with pool.connection() as connection:
        return (
            connection.cursor(row_factory=class_row(Key)).execute(_SQL["list"], {"project_id": project_id}).fetchall()
        )


def revoke(pool: Pool, key_id: UUID) -> bool:
    """Revoke a key. Returns False if there is no such key, or it was already revoked."""
    with pool.connection() as connection:
        return bool(connection.execute(_SQL["revoke"], {"id": key_id}).rowcount)


def hashed(key: str) -> bytes:
    """Return the form in which a key is stored."""
    # keys are 256 random bits, so a plain hash cannot be reversed by guessing
    return hashlib.sha256(key.encode()).digest()
