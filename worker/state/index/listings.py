"""Turns pages of a folder's listing into rows of work, and removes or holds files missing from the listing."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from psycopg import Connection
from psycopg.types.json import Jsonb

from schemas.content.document import KeySpan, SourceEntry
from schemas.errors import LeaseLost
from schemas.reason import Reason
from worker.state import silent_backends
from worker.state.index.files import file_id, fitting, prefer_indexes
from worker.state.pool import Pool, autocommit
from worker.state.queries import load

#: Minimum number of vanished files for which a listing is doubted, and its removals are held back.
MIN_HELD_REMOVALS = 20
#: Share of the known files above which the vanished ones make a listing doubtful.
HELD_SHARE = 0.5

_SQL = load("index/listings")
_TASKS = load("index/tasks")


class ListedEntry(NamedTuple):
    """An entry as the listing records it."""

    entry: SourceEntry
    code_version: str
    reason: Reason | None


def record_page(
    pool: Pool,
    *,
    task_id: UUID,
    index_id: UUID,
    owner: UUID,
    listed: Sequence[ListedEntry],
    cursor: str | None,
    unlisted: Sequence[bytes],
    ignored: Mapping[str, int],
    matched: Sequence[str],
    first: bool,
    spans: Sequence[KeySpan] | None = None,
    keys: Sequence[bytes] | None = None,
) -> None:
    """Write a page of the listing and move the plan's cursor. Raises `LeaseLost` if another worker has the plan.

    `ignored` and `matched` are added to the values of earlier pages, unless this is the `first` page. The last page has
    no `cursor`. Without `spans`, the last page marks the files that all pages lack. With `spans`, each page marks the
    missing files within these; they also cover earlier pages without spans. `keys` are the only keys listed, with
    everything below them.
    """
    values: dict[str, object] = {"task_id": task_id, "index_id": index_id, "owner": owner, "cursor": cursor}
    values |= {"unlisted": list(unlisted), "ignored": Jsonb(dict(ignored)), "matched": list(matched), "first": first}
    with pool.connection() as connection:
        if not connection.execute(_TASKS["save_cursor"], values).rowcount:
            raise LeaseLost("another worker lists this folder")
        if first:
            connection.execute(_SQL["forget_absent"], values)
        prefer_indexes(connection)
        if spans is not None:
            starts, ends = zip(*spans, strict=True) if spans else ((), ())
            values |= {"starts": list(starts), "ends": list(ends)}
            if _is_known(connection, values, listed):
                if not first:  # the first page deletes the marks of an earlier listing
                    connection.execute(_SQL["need_not_last"])
                return
        _stage(connection, index_id, listed)
        connection.execute(_SQL["note_seen" if spans is None else "note_absent"], values)
        connection.execute(_SQL["merge_page"], values)
        if cursor is None and spans is None:
            query = "note_all_absent" if keys is None else "note_absent_at_keys"
            connection.execute(_SQL[query], {**values, "keys": keys})


def _is_known(connection: Connection[Any], values: Mapping[str, object], listed: Sequence[ListedEntry]) -> bool:
    """Return whether the rows of a page's spans match its files and need no work."""
    number, known = connection.execute(_SQL["hash_known"], {**values, "listed": len(listed)}).fetchone() or (0, None)
    return number == len(listed) and (not listed or known == _hash(listed))


def _hash(listed: Sequence[ListedEntry]) -> bytes:
    """Return the hash of listed files. Rows have the same hash if they need no work."""
    texts = []
    for e, code_version, reason in sorted(listed, key=lambda file: file.entry.key):
        path = fitting(e.path)
        key = "" if path.encode() == e.key else e.key.hex()
        mtime = "" if e.mtime_ms is None else e.mtime_ms
        lengths = f"{len(path)} {len(e.id_path)}"
        texts.append(f"{lengths} {path}{e.id_path}{e.stamp} {code_version} {reason or ''} {mtime} {key}\n")
    return hashlib.sha256("".join(texts).encode()).digest()


def _stage(connection: Connection[Any], index_id: UUID, listed: Sequence[ListedEntry]) -> None:
    connection.execute(_SQL["stage_page"])
    with connection.cursor().copy(_SQL["copy_page"]) as copy:
        for e, code_version, reason in listed:
            copy.write_row(
                (
                    *(file_id(index_id, e.key), e.key, fitting(e.path), e.id_path, e.node_id, e.type, e.size, e.stamp),
                    *(code_version, reason, e.mtime_ms),
                )
            )


def find_unchanged(pool: Pool, index_id: UUID, listed: Sequence[SourceEntry]) -> dict[bytes, str | None]:
    """Return the keys of listed files whose content is unchanged in the index, with the paths indexed for them."""
    values = {"ids": [file_id(index_id, entry.key) for entry in listed], "stamps": [entry.stamp for entry in listed]}
    with autocommit(pool) as connection:
        return dict(connection.execute(_SQL["unchanged"], values).fetchall())


class _Vanished(NamedTuple):
    """Numbers of files: missing from a listing, live among the missing, and, if that matters, all live ones."""

    files: int
    live: int
    all_live: int


def too_many_vanished(pool: Pool, *, task_id: UUID, index_id: UUID) -> bool:
    """Return whether so many files are missing from a complete listing that the source may be at fault."""
    with pool.connection() as connection:
        counts = _count_vanished(connection, {"task_id": task_id, "index_id": index_id})
    return _too_many(counts.live, counts.all_live)


def _count_vanished(connection: Connection[Any], values: Mapping[str, object]) -> _Vanished:
    """Count the files missing from a listing. Only live files have content that a user could lose."""
    gone, live = connection.execute(_SQL["count_vanished"], values).fetchone() or (0, 0)
    all_live = 0
    if live >= MIN_HELD_REMOVALS:
        (all_live,) = connection.execute(_SQL["count_live"], values).fetchone() or (0,)
    return _Vanished(gone, live, all_live)


def read_vanished(pool: Pool, *, task_id: UUID) -> Iterator[bytes]:
    """Yield the keys of live files that are missing from a complete listing, in order."""
    with pool.connection() as connection, connection.cursor(name="vanished") as cursor:
        silent_backends.take_time(connection)
        for (key,) in cursor.execute(_SQL["vanished_keys"], {"task_id": task_id}):
            yield key


def _too_many(vanished: int, total: int) -> bool:
    return vanished >= MIN_HELD_REMOVALS and vanished > HELD_SHARE * total


def ignored_if_empty(pool: Pool, task_id: UUID) -> dict[str, int] | None:
    """Return the files that each rule left out of a complete listing, if it found no file; None if it found any."""
    with pool.connection() as connection:
        prefer_indexes(connection)
        row = connection.execute(_SQL["ignored_if_empty"], {"task_id": task_id}).fetchone()
    return dict(row[0]) if row else None


def end_listing(
    pool: Pool,
    *,
    task_id: UUID,
    index_id: UUID,
    owner: UUID,
    hold: bool,
    left_out: int,
    warning: str | None,
    listing_warning: str | None,
    keys: Sequence[bytes] | None,
) -> int:
    """After the last page, mark vanished files for removal, or hold the removal of live ones. Returns the number held.

    `warning` is shown if removals are held, `listing_warning` until the next listing ends. A rule left out `left_out`
    of the vanished live files, which does not hold removals. `keys` are the only keys listed, with everything below
    them. Raises `LeaseLost` if another worker has the plan.
    """
    values: dict[str, object] = {"task_id": task_id, "index_id": index_id, "owner": owner, "cursor": None}
    values |= {"unlisted": [], "ignored": Jsonb({}), "matched": [], "first": False, "keys": keys}
    with pool.connection() as connection:
        if not connection.execute(_TASKS["save_cursor"], values).rowcount:
            raise LeaseLost("another worker lists this folder")
        counts = _count_vanished(connection, values)
        is_held = hold and _too_many(counts.live - left_out, counts.all_live - left_out)
        held_removals = counts.live if is_held else 0
        if counts.files > held_removals:
            connection.execute(_SQL["remove_vanished"], {**values, "keep_live": is_held})
        connection.execute(_SQL["note_returned"], values)
        if held_removals:
            connection.execute(_SQL["note_missing"], values)
        values |= {"held": held_removals, "warning": warning if held_removals else None}
        connection.execute(_TASKS["end_listing"], {**values, "listing_warning": listing_warning})
        return held_removals
