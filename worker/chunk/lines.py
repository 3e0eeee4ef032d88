"""Cuts text at lines, and lines that are too long for a chunk within them. Source of the method: `minima`."""

from __future__ import annotations

from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from worker.chunk.measure import Measure, Span
from worker.chunk.minima import CLASS_SHIFT, NEVER, Keys, Places, divide
from worker.tokens import Bytes, Offsets, char_offsets

#: Classes of places, the better ones first; overlaps start at any but the last.
_PARAGRAPH, _OUTER, _LINE, _SENTENCE, _WORD, _WITHIN = range(6)

#: A line that starts so ends what stands above it.
_IS_CLOSER = np.zeros(256, dtype=np.bool_)
_IS_CLOSER[list(b")]}")] = True

#: What ends a sentence or statement within a line.
_STOPS = np.array([ord(c) for c in ".!?;}。！？；"], dtype=np.uint32)  # noqa: RUF001 - they are meant
_BLANKS = np.array([ord(c) for c in " \t\u00a0\u3000"], dtype=np.uint32)

#: Characters on either side of a place within a line that decide its key.
_AROUND = 8

_ODD = np.uint64(0x9E3779B97F4A7C15)


def cut(measure: Measure, start: int, end: int) -> list[Span]:
    """Spans of the text between two characters that cover all of it, each of which fits; later ones overlap."""
    if measure.fits(start, end):
        return [(start, end)]
    places = _places(measure, start, end)
    return _overlapped(measure, places, divide(measure, places, end))


def mix(hashes: Keys) -> Keys:
    """64-bit hashes whose high bits depend on all of their bits."""
    mixed = hashes * _ODD
    return (mixed ^ (mixed >> np.uint64(29))) * _ODD


def keys_of(classes: NDArray[np.uint8], hashes: Keys) -> Keys:
    """Keys that compare by class first and then by hash."""
    return (classes.astype(np.uint64) << np.uint64(CLASS_SHIFT)) | (hashes >> np.uint64(64 - CLASS_SHIFT))


def _places(measure: Measure, start: int, end: int) -> Places:
    data = measure.text[start:end].encode()
    raw = np.frombuffer(data, dtype=np.uint8)
    firsts = np.concatenate([[0], np.flatnonzero(raw[:-1] == ord("\n")) + 1])
    at = start + (firsts if len(raw) == end - start else char_offsets(raw, firsts))
    ends = np.append(at[1:], end)
    places = Places(at, _line_keys(data.split(b"\n")[: len(firsts)], firsts, raw))
    long = np.flatnonzero(~measure.surely_fit(at, ends))
    inner = [_within(measure, int(at[i]), int(ends[i])) for i in long]
    return _merged([places, *inner]) if inner else places


def _line_keys(lines: list[bytes], firsts: Offsets, raw: Bytes) -> Keys:
    """Keys of lines by class, the line's hash, and, to part equal lines, the hash of the three lines from it on."""
    own = mix(np.fromiter(map(crc32, lines), dtype=np.uint64, count=len(lines)))
    padded = np.concatenate([own, np.zeros(2, dtype=np.uint64)])
    tie = mix(own ^ (padded[1:-1] * np.uint64(3)) ^ (padded[2:] * np.uint64(5)))
    hashes = (own & ~np.uint64(2**32 - 1)) | (tie >> np.uint64(32))
    classes, blank = _line_classes(lines, firsts, raw)
    return np.asarray(np.where(blank, NEVER, keys_of(classes, hashes)))


def _line_classes(lines: list[bytes], firsts: Offsets, raw: Bytes) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
    """Each line's class, and whether it is blank."""
    lengths = np.fromiter(map(len, lines), dtype=np.int64, count=len(lines))
    indents = lengths - np.fromiter(map(len, map(bytes.lstrip, lines)), dtype=np.int64, count=len(lines))
    blank = indents == lengths
    heads = raw[np.minimum(firsts + indents, len(raw) - 1)]
    after_blank = np.concatenate([[False], blank[:-1]])
    dedents = (indents == 0) & np.concatenate([[False], indents[:-1] > 0])
    starts = (after_blank | dedents) & ~_IS_CLOSER[heads]
    classes = np.where(starts, np.where(after_blank & (indents == 0), _PARAGRAPH, _OUTER), _LINE).astype(np.uint8)
    return classes, blank


def _within(measure: Measure, start: int, end: int) -> Places:
    """The tokens' starts within a long line, keyed by the characters around them."""
    low, high = measure.starts.searchsorted((start + 1, end))
    at = np.unique(measure.starts[low:high])
    codes = np.frombuffer(measure.text[start:end].encode("utf-32-le"), dtype=np.uint32)
    index = at - start
    before, here = codes[index - 1], codes[index]
    classes = np.full(len(at), _WITHIN, dtype=np.uint8)
    classes[np.isin(before, _BLANKS) | np.isin(here, _BLANKS)] = _WORD
    classes[np.isin(before, _STOPS)] = _SENTENCE
    return Places(at, keys_of(classes, mix(_hashes_around(codes, index))))


def _hashes_around(codes: NDArray[np.uint32], index: Offsets) -> Keys:
    hashes = np.zeros(len(index), dtype=np.uint64)
    for step in range(-_AROUND, _AROUND):
        near = codes[np.clip(index + step, 0, len(codes) - 1)]
        hashes = (hashes ^ near) * _ODD
    return hashes


def _merged(parts: list[Places]) -> Places:
    at = np.concatenate([part.at for part in parts])
    order = np.argsort(at, kind="stable")
    return Places(at[order], np.concatenate([part.keys for part in parts])[order])


def _overlapped(measure: Measure, places: Places, spans: list[Span]) -> list[Span]:
    """The spans with their starts moved back by whole lines or words, as far as overlap and limits allow."""
    starts, ends = (np.array(side, dtype=np.int64) for side in zip(*spans, strict=True))
    earliest = np.maximum(_earliest(measure, starts, ends), np.append(starts[0], starts[:-1] + 1))
    good = places.at[places.keys >> np.uint64(CLASS_SHIFT) < _WITHIN]
    moved = np.append(good, len(measure.text))[good.searchsorted(earliest)]
    return list(zip(np.minimum(moved, starts).tolist(), ends.tolist(), strict=True))


def _earliest(measure: Measure, starts: Offsets, ends: Offsets) -> Offsets:
    """The first character that each span may start at."""
    tokens = np.maximum(
        measure.tokens(ends) - (measure.max_tokens - measure.slack), measure.tokens(starts) - measure.overlap_tokens
    )
    by_tokens = measure.starts[np.clip(tokens, 0, len(measure.starts) - 1)]
    by_chars = np.maximum(ends - measure.max_chars, starts - measure.overlap_chars)
    earliest: Offsets = np.maximum(by_tokens, by_chars)
    return earliest
