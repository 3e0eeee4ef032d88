"""Rows of `source_grant`: which folders and buckets a project may read. Its own nodes need no grant.

A grant of a folder is for the directory to which its path led when the grant was made. A link that is swapped in later
grants nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

from psycopg.rows import class_row

from schemas.content.source import S3, LocalSource, source_at
from schemas.errors import FolderGone
from worker.machine.paths import is_below, real_path
from worker.state.pool import Pool, autocommit
from worker.state.queries import load

_SQL = load("access/grants")


@dataclass(frozen=True, slots=True)
class Grant:
    """A project may read `place` and everything below it.

    `real_place` is the real path of a folder at the time of its grant. It is None for buckets. It is also None for
    folders that were granted before this was recorded and that no process has opened since.
    """

    project_id: str
    place: str
    real_place: str | None
    created_at: datetime

    @property
    def leads_to(self) -> str | None:
        """Current real path of the folder. None without a `real_place`, and for a link that keeps changing."""
        with suppress(FolderGone):
            return None if self.real_place is None else real_path(self.place)
        return None


@dataclass(frozen=True, slots=True)
class FolderGrant:
    """A folder as it was granted, and its real path at that time."""

    place: str
    real_place: str

    def real_path_of(self, path: str) -> str | None:
        """Return the real path of `path` when the folder was granted; None if the grant does not contain it."""
        places = (self.place, self.real_place) if os.path.normpath(path) == path else ()
        for place in places:
            if is_below(path, place):
                return self.real_place.rstrip("/") + path[len(place.rstrip("/")) :]
        return None


def add(pool: Pool, project_id: str, place: str) -> bool:
    """Let a project read a place; for a folder, its current real path. Returns False if it already may."""
    source = source_at(place)
    real = real_path(source.place) if isinstance(source, LocalSource) else None
    values = {"project_id": project_id, "place": source.place, "real_place": real}
    with pool.connection() as connection:
        return bool(connection.execute(_SQL["add"], values).rowcount)


def remove(pool: Pool, project_id: str, place: str) -> str | None:
    """Revoke a grant. Returns its place as it was listed; None if there is none for that place."""
    with pool.connection() as connection:
        for spelling in _spellings(place):
            if connection.execute(_SQL["remove"], {"project_id": project_id, "place": spelling}).rowcount:
                return spelling
    return None


def _spellings(place: str) -> Iterator[str]:
    """Yield the spellings in which a place may have been granted, even before spellings were checked."""
    yield place
    if place.startswith(S3):
        yield f"{place}/"
    with suppress(ValueError):
        yield source_at(place).place


def page(pool: Pool, project_id: str | None = None) -> list[Grant]:
    """List the grants of a project (None: of all projects)."""
    with autocommit(pool) as connection:
        cursor = connection.cursor(row_factory=class_row(Grant))
        return cursor.execute(_SQL["list"], {"project_id": project_id}).fetchall()


def find_led_elsewhere(pool: Pool) -> Iterator[tuple[Grant, str]]:
    """Return the folder grants whose path now leads to a place that their project may not read, and that place."""
    granted = page(pool)
    for grant in granted:
        now = grant.leads_to
        own = (each.real_place for each in granted if each.project_id == grant.project_id)
        if now is not None and not any(is_below(now, place) for place in own if place is not None):
            yield grant, now


def may_read_below(pool: Pool, project_id: str, place: str) -> bool:
    """Return whether a project was granted a place that ends with "/", or a place above it."""
    return any(place.startswith(grant.place) for grant in page(pool, project_id))


def folders(pool: Pool, project_id: str) -> list[FolderGrant]:
    """Return the folders that a project was granted. A grant without a real path records the current one."""
    granted = [grant for grant in page(pool, project_id) if grant.place.startswith("/")]
    with_real_places = ((grant.place, grant.real_place or _keep(pool, grant)) for grant in granted)
    return [FolderGrant(place, real) for place, real in with_real_places if real is not None]


def readable(granted: Iterable[FolderGrant], roots: Sequence[str]) -> list[str]:
    """Return the real paths that may be read: each is below both a grant and one of the installation's roots."""
    pairs = ((grant.real_place, root) for grant in granted for root in roots)
    return [
        place if is_below(place, root) else root
        for place, root in pairs
        if is_below(place, root) or is_below(root, place)
    ]


def _keep(pool: Pool, grant: Grant) -> str | None:
    """Record the current real path of a grant, unless another process did so. Returns the recorded path.

    Returns None if the grant is revoked, or for a link that keeps changing.
    """
    try:
        real = real_path(grant.place)
    except FolderGone:
        return None
    values = {"project_id": grant.project_id, "place": grant.place, "real_place": real}
    with autocommit(pool) as connection:
        row = connection.execute(_SQL["keep_real_place"], values).fetchone()
    return None if row is None else str(row[0])
