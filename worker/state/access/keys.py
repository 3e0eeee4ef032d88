"""Rows of `api_key`: the project and scopes of each key. A key is stored hashed and shown once.

Postgres' clock decides whether a key is expired, so all processes agree.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID, uuid4

from psycopg import Connection
from psycopg.rows import class_row

from schemas.access import ApiKey
from schemas.errors import Conflict, Invalid, LastAdminKey, NotFound, ScopeMissing, Unauthorized
from schemas.scopes import Scope, allowed
from worker.state.pool import Pool, again_if_locked, autocommit
from worker.state.queries import load

_SQL = load("access/keys")

#: Maximum number of valid keys of a project.
MAX_KEYS = 1000
#: Time for which a replaced key stays valid: enough to replace it wherever it is used.
OVERLAP = timedelta(days=1)
#: Time for which an expired or revoked key is listed.
ENDED_KEPT = timedelta(days=90)


@dataclass(frozen=True, slots=True)
class ValidKey:
    """A valid key: its project and its scopes."""

    id: UUID
    project_id: str
    scopes: frozenset[Scope]


class RevokedKey(NamedTuple):
    """A revoked key, and the number of keys with the scope `admin` that remain in its project."""

    row: ApiKey
    admin_keys: int
    was_revoked: bool


def valid(pool: Pool, key_hash: bytes) -> ValidKey | None:
    """Return the key with this hash; None if it is unknown, revoked or expired."""
    with autocommit(pool) as connection:
        row = connection.execute(_SQL["valid"], {"key_hash": key_hash}).fetchone()
    return None if row is None else ValidKey(row[0], row[1], allowed(row[2]))


def note_use(pool: Pool, key_id: UUID) -> None:
    """Record that a key is used in this minute, unless that is recorded."""
    with autocommit(pool) as connection:
        connection.execute(_SQL["note_use"], {"id": key_id})


@again_if_locked
def create(
    pool: Pool,
    project_id: str,
    name: str,
    scopes: Sequence[Scope] = ("admin",),
    lifetime: timedelta | None = None,
    *,
    by: UUID | None = None,
) -> tuple[ApiKey, str]:
    """Create a key. Returns its row and the key itself, which cannot be read again.

    `by` is the key that requests it, None for the operator. Raises `Conflict`, and `Unauthorized`, `ScopeMissing` and
    `Invalid` if the new key would allow more or longer than `by`.
    """
    with _changing(pool, project_id) as connection:
        return _insert(connection, project_id, name, scopes, lifetime, by)


@again_if_locked
def rotate(
    pool: Pool,
    key_id: UUID,
    overlap: timedelta | None = None,
    lifetime: timedelta | None = None,
    *,
    project_id: str | None = None,
    by: UUID | None = None,
) -> tuple[ApiKey, str]:
    """Create a copy of a key. The old one ends after `overlap`, or at its own end if that is earlier.

    Without `lifetime` the new key has the lifetime of the old one. Raises `NotFound`, and the errors of `create`;
    `Conflict` also for a key that is no longer valid, or replaced.
    """
    with _changing(pool, _found(pool, key_id, project_id).project_id) as connection:
        old = _one(connection, "get", id=key_id, project_id=project_id)
        if old is None or old.state != "valid":
            raise Conflict(f"The key {key_id} is revoked or expired; create a new one.")
        if old.replaced_by is not None:
            raise Conflict(f"The key {key_id} was replaced by {old.replaced_by} already; rotate that one.")
        if lifetime is None and old.expires_at is not None:
            lifetime = old.expires_at - old.created_at
        # scopes of a newer release are kept
        scopes: Any = old.scopes
        made = _insert(connection, old.project_id, old.name, scopes, lifetime, by)
        values = {"id": key_id, "replaced_by": made[0].id, "overlap": OVERLAP if overlap is None else overlap}
        connection.execute(_SQL["replace"], values)
        return made


def page(
    pool: Pool, project_id: str | None, after: tuple[datetime, UUID] | None = None, limit: int = MAX_KEYS
) -> list[ApiKey]:
    """List the keys of a project (None: of all projects), oldest first, without the keys themselves."""
    created_at, key_id = after or (None, None)
    values = {"project_id": project_id, "created_at": created_at, "id": key_id, "limit": limit}
    with autocommit(pool) as connection:
        return connection.cursor(row_factory=class_row(ApiKey)).execute(_SQL["list"], values).fetchall()


def every(pool: Pool, project_id: str | None) -> Iterator[ApiKey]:
    """Return all keys of a project (None: of all projects), oldest first."""
    after = None
    while rows := page(pool, project_id, after):
        yield from rows
        after = rows[-1].created_at, rows[-1].id


@again_if_locked
def revoke(pool: Pool, key_id: UUID, *, project_id: str | None = None, keep_admin: bool = False) -> RevokedKey:
    """Revoke a key, unless it is revoked. Raises `NotFound`; with `keep_admin` also `LastAdminKey`."""
    with _changing(pool, _found(pool, key_id, project_id).project_id) as connection:
        old = _one(connection, "get", id=key_id, project_id=project_id)
        if old is None:
            raise _missing(key_id)
        left = _count(connection, old.project_id, without=key_id)[1]
        if old.state == "revoked":
            return RevokedKey(old, left, was_revoked=True)
        if keep_admin and old.state == "valid" and "admin" in old.scopes and not left:
            raise LastAdminKey(LastAdminKey.example)
        return RevokedKey(_returned(connection, "revoke", id=key_id), left, was_revoked=False)


def forget_ended(pool: Pool) -> int:
    """Delete the keys that ended long ago. Returns their number."""
    with autocommit(pool) as connection:
        return connection.execute(_SQL["forget_ended"], {"kept": ENDED_KEPT}).rowcount


def hashed(key: str) -> bytes:
    """Return the form in which a key is stored."""
    # keys are 256 random bits, so a plain hash cannot be reversed by guessing
    return hashlib.sha256(key.encode()).digest()


@contextmanager
def _changing(pool: Pool, project_id: str) -> Iterator[Connection[Any]]:
    """Open a transaction that changes a project's keys. One runs at a time, so its counts and checks stay valid."""
    with pool.connection() as connection:
        connection.execute(_SQL["lock_keys"], {"project_id": project_id})
        yield connection


def _insert(
    connection: Connection[Any],
    project_id: str,
    name: str,
    scopes: Sequence[Scope],
    lifetime: timedelta | None,
    by: UUID | None,
) -> tuple[ApiKey, str]:
    if _count(connection, project_id)[0] >= MAX_KEYS:
        raise Conflict(f"Project {project_id!r} has {MAX_KEYS:,} valid keys; revoke those that nobody uses.")
    giver = None if by is None else _one(connection, "get", id=by, project_id=project_id)
    if by is not None and (giver is None or giver.state != "valid"):
        raise Unauthorized(Unauthorized.example)
    if giver is not None:
        held = allowed(giver.scopes)
        for scope in scopes:
            if scope not in held:
                raise ScopeMissing.of(scope, giver.scopes)
    key = f"fx_{secrets.token_urlsafe(32)}"
    values = {"id": uuid4(), "project_id": project_id, "name": name, "key_hash": hashed(key)}
    made = _returned(connection, "insert", **values, scopes=list(scopes), lifetime=lifetime)
    until = None if giver is None else giver.expires_at
    if until is not None and (made.expires_at is None or made.expires_at > until):
        raise Invalid(
            f"Your key expires at {until.astimezone(UTC):%Y-%m-%d %H:%M} UTC, so it makes no key that lives longer; "
            "send a shorter `expires`, or use a key that lives longer."
        )
    return made, key


def _found(pool: Pool, key_id: UUID, project_id: str | None) -> ApiKey:
    with autocommit(pool) as connection:
        found = _one(connection, "get", id=key_id, project_id=project_id)
    if found is None:
        raise _missing(key_id)
    return found


def _one(connection: Connection[Any], query: str, **values: object) -> ApiKey | None:
    return connection.cursor(row_factory=class_row(ApiKey)).execute(_SQL[query], values).fetchone()


def _returned(connection: Connection[Any], query: str, **values: object) -> ApiKey:
    """Return the row that a statement wrote."""
    (row,) = connection.cursor(row_factory=class_row(ApiKey)).execute(_SQL[query], values).fetchall()
    return row


def _count(connection: Connection[Any], project_id: str, without: UUID | None = None) -> tuple[int, int]:
    """Return the number of a project's valid keys, and of those with the scope `admin` that are not replaced."""
    values = {"project_id": project_id, "without": without}
    ((valid_keys, admin_keys),) = connection.execute(_SQL["count_valid"], values).fetchall()
    return valid_keys, admin_keys


def _missing(key_id: UUID) -> NotFound:
    return NotFound(f"There is no key with the id '{key_id}'; list the keys to see their ids.")
