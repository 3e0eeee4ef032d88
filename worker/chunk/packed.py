"""Joins neighbouring pieces up to the size of a chunk, so that a folder has fewer chunks to embed and store.

Only nearby text decides which pieces are joined: a border between pieces stays a border if no better one is near. This
is the method of `content_defined`, with the borders between pieces as its places.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, pairwise
from operator import itemgetter
from zlib import crc32

import numpy as np

from worker.chunk.content_defined import NEVER, CutPlaces, divide
from worker.chunk.lines import keys_of, mix
from worker.chunk.measure import MINOR_KINDS, ChunkSpan, Measure

#: Characters at the start of a piece that decide how its border ranks among borders of the same depth.
_HASHED_CHARS = 64
#: Depth from which all borders rank alike.
_MAX_DEPTH = 3


def pack(measure: Measure, pieces: Iterable[ChunkSpan]) -> Iterator[ChunkSpan]:
    """Join pieces in their order. Pieces that overlap stay apart; no result is longer than the limit."""
    ordered = sorted(pieces, key=itemgetter(0, 1))
    for section in _sections(ordered):
        yield from _packed(measure, section)


def _sections(ordered: Sequence[ChunkSpan]) -> Iterator[Sequence[ChunkSpan]]:
    """Yield runs of pieces without overlaps."""
    borders = [n for n, (one, other) in enumerate(pairwise(ordered), start=1) if other.start < one.end]
    for first, last in pairwise([0, *borders, len(ordered)]):
        yield ordered[first:last]


def _packed(measure: Measure, section: Sequence[ChunkSpan]) -> Iterator[ChunkSpan]:
    if measure.fits(section[0].start, section[-1].end):
        yield _joined(section)
        return
    starts = np.array([piece.start for piece in section])
    places = CutPlaces(np.append(starts, section[-1].end), np.append(_keys(measure.text, section), NEVER))
    spans = divide(measure, places, np.array([0]), np.array([len(section)]))
    # parts of a divided piece count as its first part
    span_of_piece = np.array([start for start, _ in spans]).searchsorted(starts, side="right").tolist()
    for _, numbered in groupby(zip(span_of_piece, section, strict=True), key=itemgetter(0)):
        yield _joined([piece for _, piece in numbered])


def _keys(text: str, section: Sequence[ChunkSpan]) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    """Return keys of the borders before the pieces: outer ones are the better places to cut."""
    depths = np.array([min(len(piece.above), _MAX_DEPTH) for piece in section], dtype=np.uint8)
    heads = (text[piece.start : min(piece.end, piece.start + _HASHED_CHARS)] for piece in section)
    hashes = np.fromiter((crc32(head.encode()) for head in heads), dtype=np.uint64, count=len(section))
    return keys_of(depths, mix(hashes))


def _joined(pieces: Sequence[ChunkSpan]) -> ChunkSpan:
    """Return one piece for neighbours, with their common surroundings as context and their only name, if any."""
    first = pieces[0]
    if len(pieces) == 1:
        return first
    named = [piece for piece in pieces if piece.symbol and piece.node_type not in MINOR_KINDS]
    joined = first._replace(end=pieces[-1].end, above=_common(piece.above for piece in pieces))
    if first.pointer is not None:
        pointer = "/".join(_common(tuple((piece.pointer or "").split("/")) for piece in pieces))
        return joined._replace(pointer=pointer, node_type=None, scope="/".join(joined.above) or None)
    if len(named) == 1:
        return joined._replace(symbol=named[0].symbol, node_type=named[0].node_type, scope=named[0].scope)
    around = _common(map(_path, pieces))
    kinds = [piece.node_type for piece in pieces if _path(piece) == around]
    return joined._replace(
        symbol=around[-1] if around else None,
        node_type=kinds[0] if kinds else None,
        scope="/".join(around[:-1]) or None,
    )


def _path(piece: ChunkSpan) -> tuple[str, ...]:
    """Return the names of the definitions around a piece, and its own."""
    return tuple(name for name in (*(piece.scope or "").split("/"), piece.symbol) if name)


def _common(paths: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    """Return the longest common prefix of all paths."""
    first, *others = paths
    length = min(map(len, (first, *others)))
    return next((first[:n] for n in range(length) if any(path[n] != first[n] for path in others)), first[:length])
