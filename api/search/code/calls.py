"""Follows calls from a definition, level by level: who calls it, or what it calls."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from uuid import UUID

from api.search.code.code_of_file import CONFIDENCES
from api.search.code.reads import innermost
from api.search.code.renamed import other_names
from api.search.code.surroundings import CLASSES
from api.search.code.values import Values
from schemas.queries.symbol import Call, Confidence
from worker.state.pool import Pool
from worker.state.search import code_texts
from worker.state.search.code_texts import CalledName, Defined, Only

#: Maximum number of items in an answer.
MAX_CALLS = 500
#: Calls that are considered on one level.
MAX_CONSIDERED = 5000
#: Definitions that a call may mean, and that are still followed.
MAX_FOLLOWED = 8

_CONSTRUCTORS = frozenset({"__init__", "constructor", "__construct", "initialize"})


@dataclass(frozen=True, slots=True)
class Edge:
    """A call from `caller` to one of the definitions that it may mean.

    `caller` is None outside all definitions. `target` is None if the folder does not define what is called.
    """

    file_id: UUID
    line: int
    name: str
    caller: Defined | None
    target: Defined | None
    definitions: int
    confidence: Confidence


@dataclass(slots=True)
class FoundCalls:
    """The edges found so far, nearest first. `is_cut`: there is more."""

    items: list[Call]
    is_cut: bool


def callers(
    pool: Pool, index_id: UUID, name: str, start: Sequence[Defined], depth: int, only: Only = None
) -> FoundCalls:
    """Return the definitions that call any of these, their callers, and so on, in `only` these files.

    Without any, return those that call the name, though the folder does not define it.
    """
    meanings = Values(pool, index_id, only)

    def step(nodes: Sequence[Defined]) -> tuple[list[Edge], bool]:
        called = [*nodes, *_made_by(meanings, nodes)]
        meanings.want(called)
        names = {node.name for node in called} or {name}
        others = other_names(meanings, called, names)
        used = code_texts.calls_by(pool, index_id, sorted(others.in_files)) if others.in_files else []
        everywhere = sorted(names | others.everywhere)
        used += code_texts.calls_of(pool, index_id, everywhere, MAX_CONSIDERED + 1, only=only)
        wanted: set[Defined | None] = set(called) or {None}
        edges = [edge for edge in _edges(meanings, used[:MAX_CONSIDERED]) if edge.target in wanted]
        return edges, others.is_cut or len(used) > MAX_CONSIDERED

    return _walk(meanings, start, step, depth, _caller)


def callees(pool: Pool, index_id: UUID, start: Sequence[Defined], depth: int, only: Only = None) -> FoundCalls:
    """Return what these definitions call, what those call, and so on, in `only` these files."""
    meanings = Values(pool, index_id, only)

    def step(nodes: Sequence[Defined]) -> tuple[list[Edge], bool]:
        used = code_texts.calls_in(
            pool, [inner for node in nodes for inner in _run(meanings, node)], MAX_CONSIDERED + 1
        )
        return list(_edges(meanings, used[:MAX_CONSIDERED])), len(used) > MAX_CONSIDERED

    return _walk(meanings, start, step, depth, _callee)


def _made_by(meanings: Values, nodes: Sequence[Defined]) -> Iterator[Defined]:
    """The classes that constructors among these definitions make: what calls the class calls them."""
    for node in nodes:
        if node.name in _CONSTRUCTORS and node.scope:
            outline = meanings.outline(node.file_id)
            yield from (each for each in outline if each.path == node.scope and each.kind in CLASSES)


def _run(meanings: Values, node: Defined) -> Iterable[Defined]:
    """The code that runs if a definition is called: for a class, its constructor."""
    code = meanings.file(node.file_id) if node.kind in CLASSES else None
    if code is None:
        return [node]
    made = [each for each in code.outline if each.scope == node.path and each.name in _CONSTRUCTORS]
    return made or [node]


def _edges(meanings: Values, used: Sequence[CalledName]) -> Iterator[Edge]:
    """An edge for each definition that each call may mean."""
    meanings.read(call.file_id for call in used)
    for call in used:
        code = meanings.file(call.file_id)
        outline = code.outline if code else meanings.outline(call.file_id)
        around = [each for each in outline if each.path == call.scope]
        caller = innermost(around, call.line) or innermost(outline, call.line) if call.scope else None
        for meaning in meanings.of_call(call.file_id, call.line, call.name, caller):
            # overloads of one name are one
            number = len({(target.file_id, target.path) for target in meaning.targets})
            for target in meaning.targets or [None]:
                yield Edge(call.file_id, call.line, call.name, caller, target, number, meaning.confidence)


@dataclass(slots=True)
class _Step:
    """The item that one edge adds to an answer, its identity and order, and the definition to follow from it."""

    key: Hashable
    item: Call
    node: Defined | None
    place: tuple[str, ...] = ()

    @property
    def order(self) -> tuple[object, ...]:
        """By the definition that is one call nearer, then by place."""
        item = self.item
        return (item.via, self.place, item.line, item.name or "", item.file_path or "", item.start_line or 0)


def _walk(
    meanings: Values,
    start: Sequence[Defined],
    step: Callable[[Sequence[Defined]], tuple[list[Edge], bool]],
    depth: int,
    taken: Callable[[Values, Edge], _Step],
) -> FoundCalls:
    """Walk breadth first, with each item once, at its nearest level; a start that recurs is shown but not followed."""
    items: dict[Hashable, Call] = {}
    nodes, is_cut = list(start), False
    for level in range(1, depth + 1):
        edges, more = step(nodes)
        is_cut |= more
        fresh: dict[Hashable, _Step] = {}
        # by paths, never by ids: equal folders give equal answers
        ranked = sorted(
            edges, key=lambda each: (CONFIDENCES.index(each.confidence), meanings.path(each.file_id) or "", each.line)
        )
        for edge in ranked:
            found = taken(meanings, edge)
            if found.key not in items:
                known = fresh.setdefault(found.key, found)
                known.item.line = min(known.item.line, found.item.line)
        followed = []
        for each in sorted(fresh.values(), key=lambda found: found.order):
            each.item.depth = level
            if each.node is None or each.node in start:
                pass
            elif level == depth:
                each.item.stopped = "depth"
            else:
                followed.append(each.node)
            items[each.key] = each.item
        nodes = followed
        if not nodes or len(items) > MAX_CALLS:
            break
    is_cut |= meanings.exports.is_cut or len(items) > MAX_CALLS
    return FoundCalls(list(items.values())[:MAX_CALLS], is_cut)


def _caller(meanings: Values, edge: Edge) -> _Step:
    """The definition that calls. Code outside all definitions cannot be called."""
    caller = edge.caller
    item = _item(meanings, edge, caller, edge.target.name if edge.target else edge.name)
    item.file_id, item.file_path = edge.file_id, meanings.path(edge.file_id)
    place = (item.file_path or "",)
    if caller is None:
        item.name, item.stopped = None, "top_level"
        item.start_line = item.end_line = edge.line
        return _Step((edge.file_id, None), item, None, place)
    if edge.definitions > MAX_FOLLOWED:
        item.stopped = "ambiguous"
        return _Step(caller, item, None, place)
    return _Step(caller, item, caller, place)


def _callee(meanings: Values, edge: Edge) -> _Step:
    """The definition that is called. Of very many that it may be, none is shown."""
    via = edge.caller.name if edge.caller else ""
    if edge.definitions > MAX_FOLLOWED or edge.target is None:
        item = _item(meanings, edge, None, via)
        item.stopped = "ambiguous" if edge.definitions else "outside"
        return _Step(edge.name, item, None)
    return _Step(edge.target, _item(meanings, edge, edge.target, via), edge.target)


def _item(meanings: Values, edge: Edge, shown: Defined | None, via: str) -> Call:
    return Call(
        name=shown.name if shown else edge.name,
        kind=shown.kind if shown else None,
        scope=(shown.scope or None) if shown else None,
        file_id=shown.file_id if shown else None,
        file_path=meanings.path(shown.file_id) if shown else None,
        start_line=shown.start_line if shown else None,
        end_line=shown.end_line if shown else None,
        signature=shown.signature if shown else None,
        line=edge.line,
        depth=0,
        via=via,
        definitions=edge.definitions,
        confidence=edge.confidence,
        stopped=None,
    )
