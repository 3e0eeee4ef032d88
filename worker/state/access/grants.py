"""Rows of `source_grant`: which folders and buckets a project may read. Its own nodes need no grant."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from psycopg.rows import dict_row

from schemas.content.source import source_at
from schemas.errors import FolderGone
from worker.machine.paths import real_path
from worker.state.pool import Pool, autocommit
from worker.state.queries import load

_SQL = load("access/grants")


def add(pool: Pool, project_id: str, place: str) -> bool:
    """Let a project read a place. Returns False if it already may."""
    return _change(pool, "add", project_id, place)


def remove(pool: Pool, project_id: str, place: str) -> bool:
    """Revoke a grant. Returns False if there is none for that place."""
    return _change(pool, "remove", project_id, place)


def page(pool: Pool, project_id: str | None = None) -> list[dict[str, Any]]:
    """List the grants of a project (None: of all projects)."""
    with autocommit(pool) as connection:
        return connection.cursor(row_factory=dict_row).execute(_SQL["list"], {"project_id": project_id}).fetchall()


def may_read_below(pool: Pool, project_id: str, place: str) -> bool:
    """Whether a project was granted a place that ends with "/", or one above it."""
    return any(place.startswith(granted) for granted in _places(pool, project_id))


def folders(pool: Pool, project_id: str, roots: Sequence[Path]) -> list[Path]:
    """Return where a project may read below the installation's roots; links are resolved on both sides."""
    granted = [place for place in _places(pool, project_id) if place.startswith("/")]
    pairs = ((place, str(root)) for place in granted for root in roots)
    return [Path(place if is_below(place, [root]) else root) for place, root in pairs if _overlap(place, root)]


def is_below(path: str, folders: Iterable[str | Path]) -> bool:
    """Whether a path is one of the folders or lies in one, after resolving links."""
    try:
        real, places = real_path(path), [real_path(folder) for folder in folders]
    except FolderGone:
        return False
    return any(real == place or real.startswith(f"{place.rstrip('/')}/") for place in places)


def _overlap(folder: str, other: str) -> bool:
    return is_below(folder, [other]) or is_below(other, [folder])


def _places(pool: Pool, project_id: str) -> list[str]:
    return [row["place"] for row in page(pool, project_id)]


def _change(pool: Pool, query: str, project_id: str, place: str) -> bool:
    with pool.connection() as connection:
        values = {"project_id": project_id, "place": source_at(place).place}
        return bool(connection.execute(_SQL[query], values).rowcount)
