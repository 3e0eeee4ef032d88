"""The callers and callees of a definition, level by level, as far as names determine them.

A call only has a name. It means a definition if no other has that name. If several have it, it means the one in the
call's own file, unless that is a method: methods are called on objects of any file.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from psycopg.rows import dict_row

from worker.state.pool import Pool
from worker.state.queries import load

#: Maximum number of items in an answer, and of calls per level.
MAX_CALLS = 500

#: Maximum number of calls of one name, or in one definition, that are considered.
_MAX_CONSIDERED = 5000

#: Maximum number to which definitions of one name are counted.
_MAX_COUNTED = 100

_SQL = load("search/call_graph")

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class CallGraphStart:
    """A name, and those of its definitions whose callers or callees are requested.

    `others` are files whose calls of the name mean a definition that is not requested. `is_shared`: there are such
    definitions, so that only calls in `own` files certainly mean a requested one.
    """

    name: str
    definitions: Sequence[Row]
    others: Sequence[UUID]
    own: frozenset[UUID]
    is_shared: bool


def start(pool: Pool, index_id: UUID, name: str, *, scope: str = "", file: UUID | None = None) -> CallGraphStart:
    """Find definitions of a name: all, or those in a scope (its end suffices: "inner" of "outer/inner") or a file.

    At most 100. If scope and file leave none, the result has an empty name, so that nothing is found.
    """
    values = {"index_id": index_id, "name": name, "scope": scope, "file": file, "limit": _MAX_COUNTED}
    with pool.connection() as connection:
        cursor = connection.cursor(row_factory=dict_row)
        definitions = cursor.execute(_SQL["definitions"], values).fetchall()
        same_name = cursor.execute(_SQL["definitions"], {**values, "scope": "", "file": None}).fetchall()
    is_narrowed = bool(scope) or file is not None
    own = {row["file_id"] for row in definitions}
    others = {row["file_id"] for row in same_name if row["kind"] != "method"} - own
    sure = frozenset(row["file_id"] for row in definitions if row["kind"] != "method")
    return CallGraphStart(
        "" if is_narrowed and not definitions else name,
        definitions,
        sorted(others),
        sure,
        len(same_name) > len(definitions),
    )


def callers(pool: Pool, index_id: UUID, of: CallGraphStart, depth: int) -> tuple[list[Row], bool]:
    """Return the definitions that call a name, their callers, and so on, and whether there are more.

    A row's `name` is None for calls outside all definitions. If other definitions share a caller's name, calls in other
    files may mean any of them. Then only calls in its own file are followed, and none if it is a method.
    """

    def step(nodes: Sequence[Row]) -> list[Row]:
        values = {"names": [node["name"] for node in nodes], "files": [node["only"] for node in nodes]}
        return _rows(pool, index_id, "callers", {**values, "without": list(of.others) if nodes == first else []})

    def followed(row: Row) -> Row | None:
        if row["name"] is None or (row["definitions"] > 1 and row["kind"] == "method"):
            return None
        return {**row, "only": row["file_id"] if row["definitions"] > 1 else None}

    first = [{"name": of.name, "only": None}]
    return _walk(first, step, followed, depth, {_key(row) for row in of.definitions})


def callees(pool: Pool, index_id: UUID, of: CallGraphStart, depth: int) -> tuple[list[Row], bool]:
    """Return what the definitions of a name call, what those call, and so on, and whether there are more.

    A name that the folder does not define, or that may be one of several `definitions`, has no location and is not
    followed.
    """

    def step(nodes: Sequence[Row]) -> list[Row]:
        values = {"files": [node["file_id"] for node in nodes], "paths": [_path(node) for node in nodes]}
        values |= {"first": [node["start_line"] for node in nodes], "last": [node["end_line"] for node in nodes]}
        return _rows(pool, index_id, "callees", values)

    first = [{**row, "name": of.name} for row in of.definitions]
    rows, is_cut = _walk(first, step, _if_certain, depth, set(map(_key, first)))
    return rows, is_cut or len(first) == _MAX_COUNTED


def _if_certain(row: Row) -> Row | None:
    return row if row["definitions"] == 1 else None


def _walk(
    nodes: list[Row],
    step: Callable[[Sequence[Row]], list[Row]],
    followed: Callable[[Row], Row | None],
    depth: int,
    starts: set[Hashable],
) -> tuple[list[Row], bool]:
    """Walk breadth first, with each item once, at its nearest level; a start that recurs is shown but not followed."""
    items: dict[Hashable, Row] = {}
    is_cut = False
    for level in range(1, depth + 1):
        if not nodes or len(items) > MAX_CALLS:
            break
        rows = step(nodes)
        is_cut |= len(rows) > MAX_CALLS or any(row["more"] for row in rows)
        fresh: dict[Hashable, Row] = {}
        for row in rows:
            if _key(row) not in items:
                fresh.setdefault(_key(row), {**row, "depth": level, "via": nodes[row["place"] - 1]["name"]})
        items |= fresh
        nodes = [node for key, row in fresh.items() if key not in starts and (node := followed(row))]
    return list(items.values())[:MAX_CALLS], is_cut or len(items) > MAX_CALLS


def _key(row: Row) -> Hashable:
    """Identify a definition, a name without a location, or a file's code outside all definitions."""
    return (row["file_id"], row["number"]) if row["number"] is not None else (row["file_id"], row["name"])


def _path(node: Row) -> str:
    return "/".join(filter(None, (node["scope"], node["name"])))


def _rows(pool: Pool, index_id: UUID, query: str, values: Row) -> list[Row]:
    values = {**values, "index_id": index_id, "considered": _MAX_CONSIDERED, "counted": _MAX_COUNTED}
    with pool.connection() as connection:
        cursor = connection.cursor(row_factory=dict_row)
        return cursor.execute(_SQL[query], {**values, "limit": MAX_CALLS + 1}).fetchall()
