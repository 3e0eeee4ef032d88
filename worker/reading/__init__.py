"""The readable form of a text, without its file's escapes, combining accents and encoded bytes.

The readable form is embedded, counted in tokens, and searched by words. The written form is stored and shown. The
readable form is computed from the written one alone, in linear time, so nothing stores it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from worker.formats.registry import BY_TYPE, import_function
from worker.reading.blobs import blobs, may_have_blobs
from worker.reading.edits import Edit, merged
from worker.tokens.invisible import INVISIBLE

Offsets = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Way:
    """The rules for reading texts of a format.

    `edits` replace written text for embedding. `full` edits also replace text that only words and a grep read; they are
    separate where few texts should be embedded again. `twins` are words of the other reading of ambiguous text: a
    Windows path, or a line break before a word. If `may` rejects a text, neither it nor a part of it has edits. Each
    text with full edits or twins contains a sign of `coded` and matches the sign's pattern. In the syntax of ripgrep,
    each text with an edit matches `mark`, and `unit` matches the written form of a character. A line with `anything`
    may have any words.
    """

    edits: Callable[[str], Iterable[Edit]]
    full: Callable[[str], Iterable[Edit]]
    twins: Callable[[str], Iterable[str]]
    may: Callable[[str], bool]
    coded: Mapping[str, re.Pattern[str]]
    mark: str
    unit: str
    anything: str = ""

    def may_have_words(self, text: str) -> bool:
        """Return whether a text, or a part of it, may have full edits or twins. Patterns with a first sign are fast."""
        return any(sign in text and pattern.search(text) for sign, pattern in self.coded.items())


def way_of(type_: str | None) -> Way | None:
    """Return the reading rules for texts of a type; None if these are already readable."""
    format_ = BY_TYPE.get(type_ or "")
    return _imported(format_.reading) if format_ is not None and format_.reading else None


@cache
def _imported(reference: str) -> Way:
    way: Way = import_function(reference)
    return way


def embedded(type_: str | None, text: str) -> str:
    """Return the text to embed: the text itself if nothing needs an edit."""
    return applied(text, _edits(type_, text)) if may_differ(type_, text) else text


def as_read(type_: str | None, text: str) -> str | None:
    """Return the text to embed; None if it equals the written text."""
    return None if (read := embedded(type_, text)) == text else read


def read_form(type_: str | None, text: str) -> ReadForm:
    """Return the read form of a text and its parts. Parts are searched only for edits that the whole text may have."""
    way, has_blobs = way_of(type_), may_have_blobs(text)
    may_differ, may_have_words = way is not None and way.may(text), way is not None and way.may_have_words(text)
    of_format = way.edits(text) if way is not None and may_differ else ()
    found = list(merged(blobs(text), of_format)) if has_blobs else list(of_format)
    whole = ReadText(text, found) if found else None
    if has_blobs:
        return ReadForm(whole, partial(as_read, type_), partial(words, type_))
    return ReadForm(
        whole,
        partial(_part_as_read, way) if way is not None and may_differ else as_written,
        partial(_words_of_part, way) if way is not None and may_have_words else str,
    )


def _part_as_read(way: Way, part: str) -> str | None:
    """Read a part of a text without blobs, as `as_read`."""
    read = applied(part, way.edits(part)) if way.may(part) else part
    return None if read == part else read


def _words_of_part(way: Way, part: str) -> str:
    """Return the words of a part of a text without blobs, as `words`."""
    return _words(way, part, ()) if way.may_have_words(part) else part


def as_written(_part: str) -> None:
    """Return None for each part, because the whole text is already readable."""


def words(type_: str | None, text: str) -> str:
    """Return the text for word search, followed by the words of the other reading of ambiguous text."""
    way = way_of(type_)
    if way is None or not way.may_have_words(text):
        return applied(text, found) if (found := blobs(text)) else text
    return _words(way, text, blobs(text))


def _words(way: Way, text: str, found: Iterable[Edit]) -> str:
    edits = list(merged(found, way.full(text)))
    twins = list(way.twins(text))
    return "\n".join([applied(text, edits), *twins]) if edits or twins else text


def full(type_: str | None, text: str) -> Iterator[Edit]:
    """Return the edits for a grep: the format's edits, without blobs, and the removal of invisible characters."""
    way = way_of(type_)
    found = iter(way.full(text)) if way else iter(())
    if text.isascii():
        return found
    return merged((Edit(*match.span(), "") for match in INVISIBLE.finditer(text)), found)


def may_differ(type_: str | None, text: str) -> bool:
    """Test fast whether the embedded form of a text, or of a part of it, may differ from the written one."""
    way = way_of(type_)
    return may_have_blobs(text) or (way is not None and way.may(text))


def _edits(type_: str | None, text: str) -> Sequence[Edit]:
    way = way_of(type_)
    return blobs(text) if way is None else list(merged(blobs(text), way.edits(text)))


def applied(text: str, edits: Iterable[Edit]) -> str:
    """Apply edits to a text."""
    parts: list[str] = []
    done = 0
    for start, end, replacement in edits:
        parts += (text[done:start], replacement)
        done = end
    return "".join([*parts, text[done:]]) if done else text


@dataclass(frozen=True, slots=True)
class _Places:
    """The starts and ends of edits, in the written text and in the read one."""

    starts: Offsets
    ends: Offsets
    read_starts: Offsets
    read_ends: Offsets


class ReadText:
    """A text in its readable form, and the positions of its characters in the written text."""

    def __init__(self, written: str, edits: Sequence[Edit]) -> None:
        self.text = applied(written, edits)
        starts, ends = (np.array([edit[side] for edit in edits], dtype=np.int64) for side in range(2))
        lengths = np.fromiter((len(edit.text) for edit in edits), dtype=np.int64, count=len(edits))
        grown = np.cumsum(lengths - (ends - starts))
        self._places = _Places(starts, ends, ends + grown - lengths, ends + grown)

    def written_at(self, offsets: Offsets) -> Offsets:
        """Return the positions in the written text of read offsets; offsets within an edit map to its start."""
        places = self._places
        edit = places.read_starts.searchsorted(offsets, side="right") - 1
        is_inside = offsets < places.read_ends[edit]
        after = np.where(is_inside, places.starts[edit], places.ends[edit] + offsets - places.read_ends[edit])
        return np.asarray(np.where(edit < 0, offsets, after))

    def between(self, starts: Sequence[int], ends: Sequence[int]) -> Iterator[str]:
        """Return the read text of each span of the written one."""
        firsts, lasts = (self.read_at(np.array(side, dtype=np.int64)).tolist() for side in (starts, ends))
        return map(self.text.__getitem__, map(slice, firsts, lasts))

    def behind(self, offsets: Offsets, *, where: NDArray[np.bool_]) -> Offsets:
        """Return these positions of the written text; `where` they start an edit, return its end."""
        edit = self._places.starts.searchsorted(offsets, side="right") - 1
        return np.asarray(np.where(where & (self._places.starts[edit] == offsets), self._places.ends[edit], offsets))

    def is_inside(self, offsets: Offsets) -> NDArray[np.bool_]:
        """Return a mask of the positions of the written text that are within an edit."""
        edit = self._places.starts.searchsorted(offsets) - 1
        return np.asarray((edit >= 0) & (offsets < self._places.ends[edit]))

    def read_at(self, offsets: Offsets) -> Offsets:
        """Return the positions in the read text of written offsets; offsets within an edit map to its end."""
        places = self._places
        edit = places.starts.searchsorted(offsets, side="right") - 1
        after = places.read_ends[edit] + np.maximum(offsets - places.ends[edit], 0)
        at_start = np.where(offsets == places.starts[edit], places.read_starts[edit], after)
        return np.asarray(np.where(edit < 0, offsets, at_start))


class ReadForm(NamedTuple):
    """The readable form of a text: `whole` is None if the written text is already readable.

    `part` reads a separate part, as `as_read`, and `words` returns its text for word search.
    """

    whole: ReadText | None
    part: Callable[[str], str | None]
    words: Callable[[str], str]
