"""Cuts text at lines, and lines that are too long for a chunk within them. Uses the method of `content_defined`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from worker.chunk.content_defined import CLASS_SHIFT, NEVER, CutPlaces, Keys, divide
from worker.chunk.measure import Measure, Span
from worker.tokens.byte_tables import Bytes, Offsets, byte_table
from worker.tokens.tokenizers import char_offsets

#: Classes of places, best first. Overlaps may start at any class but the last.
_PARAGRAPH = 0
_OUTER = 1
_LINE = 2
_SENTENCE = 3
_WORD = 4
_WITHIN = 5

#: A line that starts with one of these characters closes the block above it.
_IS_CLOSER = byte_table(b")]}")

#: The characters that `bytes.lstrip` removes.
_IS_WHITE = byte_table(b" \t\n\r\f\v")

#: Characters that end a sentence or statement within a line, and blanks. Characters past the table's end are neither.
_IS_STOP = np.zeros(1 << 16, dtype=np.bool_)
_IS_BLANK = np.zeros(1 << 16, dtype=np.bool_)
_IS_STOP[[ord(c) for c in ".!?;}。！？；"]] = True  # noqa: RUF001 - these characters are intended
_IS_BLANK[[ord(c) for c in " \t\u00a0\u3000"]] = True

#: Lines or tokens processed together, to bound memory.
_BLOCK = 1 << 18

#: Number of characters on either side of a place within a line that decide its key.
_HASH_RADIUS = 8

_ODD_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


def cut(measure: Measure, start: int, end: int, blocks: Sequence[Span] | Offsets = ()) -> list[Span]:
    """Return spans that cover the text between two character offsets. Each fits, and may overlap the one before.

    `blocks` are ascending spans of lines that belong together. None is cut inside if that can be avoided.
    """
    return [(start, end)] if measure.fits(start, end) else cut_all(measure, [(start, end)], blocks)


def cut_all(measure: Measure, sections: Sequence[Span], blocks: Sequence[Span] | Offsets = ()) -> list[Span]:
    """Run `cut` for several ascending sections at once, each too long to fit; no span crosses a section's border."""
    starts, ends = (np.array(side, dtype=np.int64) for side in zip(*sections, strict=True))
    places = _bordered(_places(measure, int(starts[0]), int(ends[-1])), starts, ends)
    if len(blocks):
        places.keys[_inside(places.offsets, blocks)] = NEVER
    if measure.read is not None:
        places.keys[measure.read.is_inside(places.offsets)] = NEVER
    firsts, lasts = places.offsets.searchsorted(starts), places.offsets.searchsorted(ends)
    return _overlapped(measure, places, divide(measure, places, firsts, lasts), starts)


def _bordered(places: CutPlaces, starts: Offsets, ends: Offsets) -> CutPlaces:
    """Return the places, with the starts and ends of sections added."""
    borders = np.concatenate([starts, ends[~_among(ends, starts)]])
    new = borders[~_among(borders, places.offsets)]
    offsets, keys = np.concatenate([places.offsets, new]), np.concatenate([places.keys, np.full(len(new), NEVER)])
    order = offsets.argsort(kind="stable")
    return CutPlaces(offsets[order], keys[order])


def _among(values: Offsets, ascending: Offsets) -> NDArray[np.bool_]:
    """Return a mask of `values` that occur in `ascending`. For few values, numpy's `isin` takes many times as long."""
    index = ascending.searchsorted(values)
    among: NDArray[np.bool_] = ascending[np.minimum(index, len(ascending) - 1)] == values
    return among


def _inside(offsets: Offsets, blocks: Sequence[Span] | Offsets) -> NDArray[np.bool_]:
    """Return a mask of the places after the start of a block and before its end."""
    starts, ends = np.asarray(blocks, dtype=np.int64).T
    block = starts.searchsorted(offsets) - 1
    inside: NDArray[np.bool_] = (block >= 0) & (offsets < ends[block])
    return inside


def mix(hashes: Keys) -> Keys:
    """Return 64-bit hashes whose high bits depend on all bits of the values."""
    mixed = hashes * _ODD_MULTIPLIER
    return (mixed ^ (mixed >> np.uint64(29))) * _ODD_MULTIPLIER


def keys_of(classes: NDArray[np.uint8], hashes: Keys) -> Keys:
    """Return keys that compare by class first and then by hash."""
    return (classes.astype(np.uint64) << np.uint64(CLASS_SHIFT)) | (hashes >> np.uint64(64 - CLASS_SHIFT))


def _places(measure: Measure, start: int, end: int) -> CutPlaces:
    data = measure.text[start:end].encode()
    raw = np.frombuffer(data, dtype=np.uint8)
    # no flatnonzero, append, clip or unique: each makes several calls, which is slow for short texts
    firsts = np.concatenate([[0], (raw[:-1] == ord("\n")).nonzero()[0] + 1])
    offsets = start + (firsts if len(raw) == end - start else char_offsets(raw, firsts))
    ends = np.concatenate([offsets[1:], [end]])
    keys = _keys(data, firsts)
    # drop blank lines, which are never cut: a text may have many
    is_kept = keys != NEVER
    is_kept[0] = True
    offsets, ends, keys = offsets[is_kept], ends[is_kept], keys[is_kept]
    parts, done = [], 0
    for i in (~measure.surely_fit(offsets, ends)).nonzero()[0].tolist():
        parts += [
            CutPlaces(offsets[done : i + 1], keys[done : i + 1]),
            *_within(measure, int(offsets[i]), int(ends[i])),
        ]
        done = i + 1
    parts.append(CutPlaces(offsets[done:], keys[done:]))
    return CutPlaces(np.concatenate([part.offsets for part in parts]), np.concatenate([part.keys for part in parts]))


def _keys(data: bytes, firsts: Offsets) -> Keys:
    """Return the keys of the lines that begin at the bytes `firsts`."""
    raw = np.frombuffer(data, dtype=np.uint8)
    borders = np.concatenate([firsts, [len(data)]])
    keys = np.empty(len(firsts), dtype=np.uint64)
    for begin in range(0, len(firsts), _BLOCK):
        end = min(begin + _BLOCK, len(firsts))
        # a line's key depends on the line above and the two below it
        low, high = max(begin - 1, 0), min(end + 2, len(firsts))
        first, last = int(borders[low]), int(borders[high])
        lines = data[first:last].split(b"\n")[: high - low]
        keys[begin:end] = _line_keys(lines, firsts[low:high] - first, raw[first:last])[begin - low : end - low]
    return keys


def _line_keys(lines: list[bytes], firsts: Offsets, raw: Bytes) -> Keys:
    """Return line keys by class, then by the line's hash; a hash with the next two lines orders equal lines."""
    line_hashes = mix(np.fromiter(map(crc32, lines), dtype=np.uint64, count=len(lines)))
    padded = np.concatenate([line_hashes, np.zeros(2, dtype=np.uint64)])
    tie = mix(line_hashes ^ (padded[1:-1] * np.uint64(3)) ^ (padded[2:] * np.uint64(5)))
    hashes = (line_hashes & ~np.uint64(2**32 - 1)) | (tie >> np.uint64(32))
    classes, blank = _line_classes(lines, firsts, raw)
    return np.asarray(np.where(blank, NEVER, keys_of(classes, hashes)))


def _line_classes(lines: list[bytes], firsts: Offsets, raw: Bytes) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
    """Return each line's class, and whether it is blank."""
    lengths = np.concatenate([firsts[1:] - 1, [firsts[-1] + len(lines[-1])]]) - firsts
    # the least number of steps for each line: most are not indented
    indents = np.zeros(len(lines), dtype=np.int64)
    indented = ((lengths > 0) & _IS_WHITE.take(raw.take(firsts, mode="clip"))).nonzero()[0]
    stripped = map(bytes.lstrip, map(lines.__getitem__, indented.tolist()))
    indents[indented] = lengths[indented] - np.fromiter(map(len, stripped), dtype=np.int64, count=len(indented))
    blank = indents == lengths
    heads = raw[np.minimum(firsts + indents, len(raw) - 1)]
    after_blank = np.concatenate([[False], blank[:-1]])
    dedents = (indents == 0) & np.concatenate([[False], indents[:-1] > 0])
    starts = (after_blank | dedents) & ~_IS_CLOSER[heads]
    classes = np.where(starts, np.where(after_blank & (indents == 0), _PARAGRAPH, _OUTER), _LINE).astype(np.uint8)
    return classes, blank


def _within(measure: Measure, start: int, end: int) -> Iterator[CutPlaces]:
    """Yield the token starts within a long line, keyed by the characters around them, block by block."""
    low, high = (int(side) for side in measure.starts.searchsorted((start + 1, end)))
    previous = start
    for i in range(low, high, _BLOCK):
        offsets = measure.starts[i : min(i + _BLOCK, high)]
        # tokens that share a character have the same start, and may fall into two blocks
        offsets = offsets[np.diff(offsets, prepend=previous) > 0]
        if offsets.size:
            yield _within_block(measure, start, end, offsets)
            previous = int(offsets[-1])


def _within_block(measure: Measure, start: int, end: int, offsets: Offsets) -> CutPlaces:
    """Return the places `offsets` of a line, with keys that depend only on the characters near them."""
    start, end = max(start, int(offsets[0]) - _HASH_RADIUS), min(end, int(offsets[-1]) + _HASH_RADIUS)
    codes = np.frombuffer(measure.text[start:end].encode("utf-32-le"), dtype=np.uint32)
    index = offsets - start
    previous, current = codes[index - 1], codes[index]
    classes = np.full(len(offsets), _WITHIN, dtype=np.uint8)
    classes[_IS_BLANK.take(previous, mode="clip") | _IS_BLANK.take(current, mode="clip")] = _WORD
    classes[_IS_STOP.take(previous, mode="clip")] = _SENTENCE
    return CutPlaces(offsets, keys_of(classes, mix(_hashes_around(codes, index))))


def _hashes_around(codes: NDArray[np.uint32], index: Offsets) -> Keys:
    hashes = np.zeros(len(index), dtype=np.uint64)
    for step in range(-_HASH_RADIUS, _HASH_RADIUS):
        hashes ^= codes.take(index + step, mode="clip")
        hashes *= _ODD_MULTIPLIER
    return hashes


def _overlapped(measure: Measure, places: CutPlaces, spans: list[Span], firsts: Offsets) -> list[Span]:
    """Move the spans' starts back by whole lines or words, as far as overlap and limits allow.

    No start leaves its section; sections begin at `firsts`.
    """
    starts, ends = (np.array(side, dtype=np.int64) for side in zip(*spans, strict=True))
    bounds = np.where(_among(starts, firsts), starts, np.concatenate([starts[:1], starts[:-1] + 1]))
    earliest = np.maximum(_earliest(measure, starts, ends), bounds)
    allowed = np.concatenate([places.offsets[places.keys < np.uint64(_WITHIN << CLASS_SHIFT)], [len(measure.text)]])
    moved = allowed[allowed.searchsorted(earliest)]
    return list(zip(np.minimum(moved, starts).tolist(), ends.tolist(), strict=True))


def _earliest(measure: Measure, starts: Offsets, ends: Offsets) -> Offsets:
    """Return the earliest character offset at which each span may start."""
    tokens = np.maximum(
        measure.tokens(ends) - (measure.max_tokens - measure.slack), measure.tokens(starts) - measure.overlap_tokens
    )
    by_tokens = measure.at_tokens(tokens)
    if min(measure.overlap_chars, measure.max_chars) >= len(measure.text):
        return by_tokens
    by_chars = measure.at_chars(
        np.maximum(measure.chars(ends) - measure.max_chars, measure.chars(starts) - measure.overlap_chars)
    )
    earliest: Offsets = np.maximum(by_tokens, by_chars)
    return earliest
