"""The callers and callees of a definition, level by level, as far as names determine them.

A call only has a name. It means a definition if no other has that name. If several have it, it means the one in the
call's own file, unless that is a method: methods are called on objects of any file.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, NamedTuple
from uuid import UUID

from psycopg.rows import class_row

from schemas.fields import HIDDEN
from schemas.queries.symbol import Call
from worker.state.pool import Pool
from worker.state.queries import load

#: Maximum number of items in an answer, and of calls per level.
MAX_CALLS = 500

#: Maximum number of calls of one name, or in one definition, that are considered.
_MAX_CONSIDERED = 5000

#: Maximum number to which definitions of one name are counted.
_MAX_COUNTED = 100

_SQL = load("search/call_graph")


@dataclass(frozen=True, slots=True)
class Definition:
    """A definition of the name that a walk starts from."""

    file_id: UUID
    number: int
    kind: str
    scope: str
    start_line: int
    end_line: int


class FoundCall(Call):
    """A call from the definition at `place` of those that were asked about; `more`: some calls were not considered."""

    depth: int = 0
    via: str = ""
    number: Annotated[int | None, HIDDEN]
    place: Annotated[int, HIDDEN]
    more: Annotated[bool, HIDDEN]

    @property
    def key(self) -> Hashable:
        """Identifies a definition, a name without a location, or a file's code outside all definitions."""
        return (self.file_id, self.name if self.number is None else self.number)


class _Node(NamedTuple):
    """A name to follow: in a file if its calls elsewhere may mean another definition, or a definition's own lines."""

    name: str
    file_id: UUID | None
    scope: str | None = None
    first: int | None = None
    last: int | None = None


@dataclass(frozen=True, slots=True)
class CallGraphStart:
    """A name, and those of its definitions whose callers or callees are requested.

    `others` are files whose calls of the name mean a definition that is not requested. `is_shared`: there are such
    definitions, so that only calls in `own` files certainly mean a requested one.
    """

    name: str
    definitions: Sequence[Definition]
    others: Sequence[UUID]
    own: frozenset[UUID]
    is_shared: bool


def start(pool: Pool, index_id: UUID, name: str, *, scope: str = "", file: UUID | None = None) -> CallGraphStart:
    """Find definitions of a name: all, or those in a scope (its end suffices: "inner" of "outer/inner") or a file.

    At most 100. If scope and file leave none, the result has an empty name, so that nothing is found.
    """
    values = {"index_id": index_id, "name": name, "scope": scope, "file": file, "limit": _MAX_COUNTED}
    with pool.connection() as connection:
        cursor = connection.cursor(row_factory=class_row(Definition))
        definitions = cursor.execute(_SQL["definitions"], values).fetchall()
        same_name = cursor.execute(_SQL["definitions"], {**values, "scope": "", "file": None}).fetchall()
    is_narrowed = bool(scope) or file is not None
    own = {each.file_id for each in definitions}
    others = {each.file_id for each in same_name if each.kind != "method"} - own
    sure = frozenset(each.file_id for each in definitions if each.kind != "method")
    return CallGraphStart(
        "" if is_narrowed and not definitions else name,
        definitions,
        sorted(others),
        sure,
        len(same_name) > len(definitions),
    )


def callers(pool: Pool, index_id: UUID, of: CallGraphStart, depth: int) -> tuple[list[FoundCall], bool]:
    """Return the definitions that call a name, their callers, and so on, and whether there are more.

    A call's `name` is None outside all definitions. If other definitions share a caller's name, calls in other
    files may mean any of them. Then only calls in its own file are followed, and none if it is a method.
    """

    def step(nodes: Sequence[_Node]) -> list[FoundCall]:
        values = {"names": [node.name for node in nodes], "files": [node.file_id for node in nodes]}
        return _calls(pool, index_id, "callers", {**values, "without": list(of.others) if nodes is first else []})

    def followed(call: FoundCall) -> _Node | None:
        if call.name is None or (call.ambiguous and call.kind == "method"):
            return None
        return _Node(call.name, call.file_id if call.ambiguous else None)

    first = [_Node(of.name, None)]
    return _walk(of, first, step, followed, depth)


def callees(pool: Pool, index_id: UUID, of: CallGraphStart, depth: int) -> tuple[list[FoundCall], bool]:
    """Return what the definitions of a name call, what those call, and so on, and whether there are more.

    A name that the folder does not define, or that may be one of several `definitions`, has no location and is not
    followed.
    """

    def step(nodes: Sequence[_Node]) -> list[FoundCall]:
        paths = ["/".join(filter(None, (node.scope, node.name))) for node in nodes]
        values = {"files": [node.file_id for node in nodes], "paths": paths}
        values |= {"first": [node.first for node in nodes], "last": [node.last for node in nodes]}
        return _calls(pool, index_id, "callees", values)

    first = [_Node(of.name, each.file_id, each.scope, each.start_line, each.end_line) for each in of.definitions]
    calls, is_cut = _walk(of, first, step, _if_certain, depth)
    return calls, is_cut or len(first) == _MAX_COUNTED


def _if_certain(call: FoundCall) -> _Node | None:
    is_certain = call.name is not None and call.definitions == 1
    return _Node(call.name or "", call.file_id, call.scope, call.start_line, call.end_line) if is_certain else None


def _walk(
    of: CallGraphStart,
    nodes: list[_Node],
    step: Callable[[Sequence[_Node]], list[FoundCall]],
    followed: Callable[[FoundCall], _Node | None],
    depth: int,
) -> tuple[list[FoundCall], bool]:
    """Walk breadth first, with each item once, at its nearest level; a start that recurs is shown but not followed."""
    starts: set[Hashable] = {(each.file_id, each.number) for each in of.definitions}
    items: dict[Hashable, FoundCall] = {}
    is_cut = False
    for level in range(1, depth + 1):
        if not nodes or len(items) > MAX_CALLS:
            break
        calls = step(nodes)
        is_cut |= len(calls) > MAX_CALLS or any(call.more for call in calls)
        fresh: dict[Hashable, FoundCall] = {}
        for call in calls:
            if call.key not in items and call.key not in fresh:
                call.depth, call.via = level, nodes[call.place - 1].name
                fresh[call.key] = call
        items |= fresh
        nodes = [node for key, call in fresh.items() if key not in starts and (node := followed(call))]
    return list(items.values())[:MAX_CALLS], is_cut or len(items) > MAX_CALLS


def _calls(pool: Pool, index_id: UUID, query: str, values: Mapping[str, object]) -> list[FoundCall]:
    values = {**values, "index_id": index_id, "considered": _MAX_CONSIDERED, "counted": _MAX_COUNTED}
    with pool.connection() as connection:
        cursor = connection.cursor(row_factory=class_row(FoundCall))
        return cursor.execute(_SQL[query], {**values, "limit": MAX_CALLS + 1}).fetchall()
