"""Cuts JSON along its containers. A piece has the keys above it as context and an RFC 6901 pointer as its place."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from typing import NamedTuple
from zlib import crc32

import numpy as np

from schemas.content.jsonc import comments, is_by_hand, plain
from schemas.errors import NotFound
from worker.chunk import lines
from worker.chunk.content_defined import NEVER, CutPlaces, divide
from worker.chunk.json_containers import JsonMembers, JsonStructure, scan
from worker.chunk.measure import ChunkSpan, Measure, Span, made_piece
from worker.tokens.byte_tables import Offsets

#: A container of at least this many tokens gets its own chunk; smaller ones share a chunk with their neighbours.
_SEPARATE_TOKENS = 16

#: Containers above this depth are divided even if they fit, so that `{"config": {"auth": …}}` has a chunk for `auth`.
_DIVIDED_DEPTH = 2

#: A container whose pointer is longer than this many characters is cut as text: pointers of deep, long keys grow
#: quadratically.
_MAX_POINTER_CHARS = 8192


class _Value(NamedTuple):
    """A value to cut. Its span starts at the member's key, if it has one; `above` are the enclosing keys."""

    start: int
    end: int
    node_type: str
    container: int | None
    pointer: str = ""
    above: tuple[str, ...] = ()
    key: str | None = None
    depth: int = 0
    in_array: bool = False

    @property
    def inside(self) -> tuple[str, ...]:
        """The keys that enclose the value's members."""
        return self.above if self.key is None else (*self.above, self.key)


#: What each value is, by its last character. All others are numbers.
_NODE_TYPES = {"}": "object", "]": "array", '"': "string", "e": "boolean", "l": "null"}

#: Builds a `_Value` from a tuple of all its fields, in half the time of its own constructor.
_made_value = partial(tuple.__new__, _Value)


def cut(measure: Measure, pointer: str, stays_whole: Callable[[int, int], bool]) -> Iterator[ChunkSpan]:
    """Yield pieces of the value at `pointer`, or one piece if it stays whole. Raises `NotFound` without a value."""
    if is_by_hand(measure.text):
        yield from _with_comments(measure, _pieces(measure, scan(plain(measure.text)), pointer, stays_whole), pointer)
    else:
        yield from _pieces(measure, scan(measure.text), pointer, stays_whole)


def _pieces(
    measure: Measure, structure: JsonStructure, pointer: str, stays_whole: Callable[[int, int], bool]
) -> Iterator[ChunkSpan]:
    value = _value_at(structure, pointer)._replace(depth=0, in_array=False)
    if value.end - value.start and stays_whole(value.start, value.end):
        yield _piece(value)
        return
    pending = [value]
    while pending:
        value = pending.pop()
        members = _members(structure, value)
        if members is None:
            yield from _as_text(measure, value)
        elif _is_divided(measure, value, members):
            yield from _runs(measure, structure, value, members)
            separate = _stands_alone(measure, members).nonzero()[0]
            undivided = _surely_undivided(measure, structure, value, members)[separate].tolist()
            for member, is_leaf in zip(_members_at(structure, value, members, separate), undivided, strict=True):
                if is_leaf:
                    yield _piece(member)
                else:
                    pending.append(member)
        else:
            yield _piece(value)


def _with_comments(measure: Measure, pieces: Iterator[ChunkSpan], pointer: str) -> Iterator[ChunkSpan]:
    """Yield the pieces in order, with comments attached. With a pointer, comments outside the value are left out."""
    ordered = sorted(pieces)
    low, high = (ordered[0].start, ordered[-1].end) if pointer else (0, len(measure.text))
    pending = [span for span in comments(measure.text) if low <= span[0] and span[1] <= high][::-1]
    for piece in ordered:
        above = []
        while pending and pending[-1][0] < piece.end:
            span = pending.pop()
            above += [span] if span[0] < piece.start else []
        yield from _joined(measure, piece, above)
    trailing = pending[::-1]
    yield from _comment_pieces(measure, ordered[-1], trailing)


def _joined(measure: Measure, piece: ChunkSpan, above: list[Span]) -> Iterator[ChunkSpan]:
    """Yield a piece joined with the comments above it, or after them as separate pieces if they do not fit."""
    if above and measure.fits(above[0][0], piece.end):
        yield piece._replace(start=above[0][0])
        return
    yield from _comment_pieces(measure, piece, above)
    yield piece


def _comment_pieces(measure: Measure, neighbour: ChunkSpan, spans: list[Span]) -> Iterator[ChunkSpan]:
    if spans:
        for start, end in lines.cut(measure, spans[0][0], spans[-1][1]):
            yield neighbour._replace(start=start, end=end)


def _members(structure: JsonStructure, value: _Value) -> JsonMembers | None:
    """Return the members of a container; None for a value that can only be cut as text."""
    if value.container is None or len(value.pointer) > _MAX_POINTER_CHARS:
        return None
    members = structure.members(value.container)
    return members if members.starts.size else None


def _is_divided(measure: Measure, value: _Value, members: JsonMembers) -> bool:
    has_separate = bool((_tokens(measure, members)[members.containers >= 0] >= _SEPARATE_TOKENS).any())
    if has_separate and value.depth < _DIVIDED_DEPTH and not value.in_array:
        return True
    return not measure.fits(value.start, value.end)


def _tokens(measure: Measure, members: JsonMembers) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return measure.tokens(members.ends) - measure.tokens(members.starts)


def _stands_alone(measure: Measure, members: JsonMembers) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Return a mask of the members to cut separately: large containers, and members that may not fit a chunk."""
    separate = (members.containers >= 0) & (_tokens(measure, members) >= _SEPARATE_TOKENS)
    return separate | ~measure.surely_fit(members.starts, members.ends)


def _surely_undivided(
    measure: Measure, structure: JsonStructure, value: _Value, members: JsonMembers
) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Return a mask of the members that certainly become one piece, decided for all at once."""
    fit = measure.surely_fit(members.starts, members.ends)
    if value.depth + 1 < _DIVIDED_DEPTH and value.node_type == "object":
        return fit & ~structure.have_containers(members)
    return fit


def _members_at(structure: JsonStructure, value: _Value, members: JsonMembers, numbers: Offsets) -> Iterator[_Value]:
    """Yield the members with these numbers. Their arrays become lists first: an array's single values are slow."""
    text, inside, depth, has_keys = structure.text, value.inside, value.depth + 1, value.node_type == "object"
    some = members.only(numbers)
    columns = [each.tolist() for each in (numbers, some.starts, some.ends, some.values, some.containers)]
    for number, first, last, after_key, container in zip(*columns, strict=True):
        key = structure.key(first, after_key) if has_keys else None
        start, end = _strip(text, first, last)
        pointer = f"{value.pointer}/{number if key is None else _escape(key)}"
        node_type, opener = _NODE_TYPES.get(text[end - 1], "number"), container if container >= 0 else None
        yield _made_value((start, end, node_type, opener, pointer, inside, key, depth, key is None))


def _member(structure: JsonStructure, value: _Value, members: JsonMembers, number: int) -> _Value:
    return next(_members_at(structure, value, members, np.array([number])))


def _runs(measure: Measure, structure: JsonStructure, value: _Value, members: JsonMembers) -> Iterator[ChunkSpan]:
    """Yield pieces of the members that share chunks: the runs between members with their own."""
    small = (~_stands_alone(measure, members)).nonzero()[0]
    borders = (small[1:] - small[:-1] != 1).nonzero()[0] + 1
    for first, end in pairwise((0, *borders.tolist(), len(small))):
        if end - first == 1:
            yield _piece(_member(structure, value, members, int(small[first])))
        elif end > first:
            yield from _shared(measure, structure, value, members.only(small[first:end]))


def _shared(measure: Measure, structure: JsonStructure, value: _Value, members: JsonMembers) -> Iterator[ChunkSpan]:
    """Yield pieces of neighbouring members, cut by their hashes; their pointer is the container's."""
    text, starts, ends = structure.text, members.starts, members.ends
    stop = int(ends[-1])
    spans = [(int(starts[0]), stop)]
    if not measure.fits(*spans[0]):
        edges = zip(starts.tolist(), ends.tolist(), strict=True)
        hashes = np.fromiter((crc32(text[a:b].encode()) for a, b in edges), dtype=np.uint64, count=len(starts))
        keys = lines.keys_of(np.zeros(len(starts), dtype=np.uint8), lines.mix(hashes))
        places = CutPlaces(np.append(starts, stop), np.append(keys, NEVER))
        spans = divide(measure, places, np.array([0]), np.array([len(starts)]))
    for start, end in spans:
        # ends after the last member that begins before `end`, so before the comma
        end_of_member = min(end, int(ends[starts.searchsorted(end) - 1]))
        yield _part(value, _strip(text, start, end_of_member), value.inside)


def _as_text(measure: Measure, value: _Value) -> Iterator[ChunkSpan]:
    """Cut a value as text. If it is divided, its own key is part of the context."""
    spans = lines.cut(measure, value.start, value.end)
    if len(spans) == 1:
        yield _piece(value)
        return
    for part in spans:
        yield _part(value, part, value.inside)


def _piece(value: _Value) -> ChunkSpan:
    return _part(value, (value.start, value.end), value.above)


def _part(value: _Value, span: Span, above: tuple[str, ...]) -> ChunkSpan:
    return made_piece((*span, above, value.pointer, None, value.node_type, None, "/".join(above) or None))


def _value_at(structure: JsonStructure, pointer: str) -> _Value:
    """Return the value at an RFC 6901 pointer. Of members with equal keys the last one counts, as in JSON parsers."""
    start, end = _strip(structure.text, 0, len(structure.text))
    value = _Value(start, end, _NODE_TYPES.get(structure.text[end - 1 : end], "number"), structure.root)
    if pointer and not pointer.startswith("/"):
        raise NotFound(f'The JSON pointer "{pointer}" does not begin with "/"; see RFC 6901.')
    for part in pointer.split("/")[1:]:
        child = None if value.container is None else _step(structure, value, part.replace("~1", "/").replace("~0", "~"))
        if child is None:
            raise NotFound(f'There is no value at the JSON pointer "{pointer}"; send one that exists.')
        value = child
    return value


def _step(structure: JsonStructure, value: _Value, part: str) -> _Value | None:
    assert value.container is not None  # noqa: S101 - the caller has checked
    members = structure.members(value.container)
    if value.node_type != "object":
        exists = part.isdecimal() and str(int(part[:20])) == part and int(part) < len(members.starts)
        return _member(structure, value, members, int(part)) if exists else None
    edges = zip(members.starts.tolist(), members.values.tolist(), strict=True)
    matching = [number for number, edge in enumerate(edges) if structure.key(*edge) == part]
    return _member(structure, value, members, matching[-1]) if matching else None


def _escape(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


def _strip(text: str, start: int, end: int) -> tuple[int, int]:
    """Return the span without white space at either end."""
    part = text[start:end].lstrip()
    start = end - len(part)
    return start, start + len(part.rstrip())
