"""How a text is read: without the escapes, accents and bytes in which its file writes it.

What is read is embedded, counted in tokens, and found by its words. What is written is stored and shown. The read form
is computed from the written one alone, in linear time, so nothing stores it.
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
    """How texts of a format are read.

    `edits` replace what is written by what is embedded. `full` edits also replace what only words and a grep read: it
    is more where few texts should be embedded again. `twins` are words of the other reading of what is ambiguous: a
    Windows path, or a line break before a word. A text that `may` not be read otherwise is not, and no part of it is.
    Each text with full edits or twins has a sign of `coded`, and what the sign's pattern matches. In the syntax of
    ripgrep, each text with an edit matches `mark`, and `unit` matches what is written for a character. A line with
    `anything` may have any words.
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
        """Whether a text, or a part of it, may have full edits or twins. Patterns that begin with a sign are fast."""
        return any(sign in text and pattern.search(text) for sign, pattern in self.coded.items())


def way_of(type_: str | None) -> Way | None:
    """The way in which texts of a type are read; None if they are written as they are read."""
    format_ = BY_TYPE.get(type_ or "")
    return _imported(format_.reading) if format_ is not None and format_.reading else None


@cache
def _imported(reference: str) -> Way:
    way: Way = import_function(reference)
    return way


def embedded(type_: str | None, text: str) -> str:
    """A text as it is embedded: the text itself where nothing is read otherwise."""
    return applied(text, _edits(type_, text)) if may_differ(type_, text) else text


def as_read(type_: str | None, text: str) -> str | None:
    """A text as it is embedded; None if that is as it is written."""
    return None if (read := embedded(type_, text)) == text else read


def read_form(type_: str | None, text: str) -> ReadForm:
    """How a text and its parts are read. Parts are not searched for what the whole text lacks."""
    way, has_blobs = way_of(type_), may_have_blobs(text)
    may_differ, may_have_words = way is not None and way.may(text), way is not None and way.may_have_words(text)
    found = _edits(type_, text) if has_blobs or may_differ else ()
    whole = ReadText(text, found) if found else None
    if has_blobs:
        return ReadForm(whole, partial(as_read, type_), partial(words, type_))
    return ReadForm(
        whole,
        partial(_part_as_read, way) if way is not None and may_differ else as_written,
        partial(_words_of_part, way) if way is not None and may_have_words else str,
    )


def _part_as_read(way: Way, part: str) -> str | None:
    """A part of a text without blobs, as `as_read`."""
    read = applied(part, way.edits(part)) if way.may(part) else part
    return None if read == part else read


def _words_of_part(way: Way, part: str) -> str:
    """The words of a part of a text without blobs, as `words`."""
    return _words(way, part, ()) if way.may_have_words(part) else part


def as_written(_part: str) -> None:
    """Return None for each part: the whole text is read as it is written."""


def words(type_: str | None, text: str) -> str:
    """A text as its words are found, with the words of the other reading of what is ambiguous at its end."""
    way = way_of(type_)
    if way is None or not way.may_have_words(text):
        return applied(text, found) if (found := blobs(text)) else text
    return _words(way, text, blobs(text))


def _words(way: Way, text: str, found: Iterable[Edit]) -> str:
    edits = list(merged(found, way.full(text)))
    twins = list(way.twins(text))
    return "\n".join([applied(text, edits), *twins]) if edits or twins else text


def full(type_: str | None, text: str) -> Iterator[Edit]:
    """The edits that a grep applies: those of the format, without blobs, and the removal of invisible characters."""
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
    """A text with what its edits say."""
    parts: list[str] = []
    done = 0
    for start, end, replacement in edits:
        parts += (text[done:start], replacement)
        done = end
    return "".join([*parts, text[done:]]) if done else text


@dataclass(frozen=True, slots=True)
class _Places:
    """Where edits begin and end, in the written text and in the read one."""

    starts: Offsets
    ends: Offsets
    read_starts: Offsets
    read_ends: Offsets


class ReadText:
    """A text as it is read, and where its characters stand in the written text."""

    def __init__(self, written: str, edits: Sequence[Edit]) -> None:
        self.text = applied(written, edits)
        starts, ends = (np.array([edit[side] for edit in edits], dtype=np.int64) for side in range(2))
        lengths = np.fromiter((len(edit.text) for edit in edits), dtype=np.int64, count=len(edits))
        grown = np.cumsum(lengths - (ends - starts))
        self._places = _Places(starts, ends, ends + grown - lengths, ends + grown)

    def written_at(self, offsets: Offsets) -> Offsets:
        """The places in the written text of offsets in the read one; those within an edit are at its start."""
        places = self._places
        edit = places.read_starts.searchsorted(offsets, side="right") - 1
        is_inside = offsets < places.read_ends[edit]
        after = np.where(is_inside, places.starts[edit], places.ends[edit] + offsets - places.read_ends[edit])
        return np.asarray(np.where(edit < 0, offsets, after))

    def between(self, start: int, end: int) -> str:
        """The read text between two places of the written one."""
        first, last = self.read_at(np.array((start, end))).tolist()
        return self.text[first:last]

    def behind(self, offsets: Offsets, *, where: NDArray[np.bool_]) -> Offsets:
        """These places of the written text; `where` they are the start of an edit, its end."""
        edit = self._places.starts.searchsorted(offsets, side="right") - 1
        return np.asarray(np.where(where & (self._places.starts[edit] == offsets), self._places.ends[edit], offsets))

    def is_inside(self, offsets: Offsets) -> NDArray[np.bool_]:
        """Which places of the written text are within an edit."""
        edit = self._places.starts.searchsorted(offsets) - 1
        return np.asarray((edit >= 0) & (offsets < self._places.ends[edit]))

    def read_at(self, offsets: Offsets) -> Offsets:
        """The places in the read text of offsets in the written one; those within an edit are at its end."""
        places = self._places
        edit = places.starts.searchsorted(offsets, side="right") - 1
        after = places.read_ends[edit] + np.maximum(offsets - places.ends[edit], 0)
        at_start = np.where(offsets == places.starts[edit], places.read_starts[edit], after)
        return np.asarray(np.where(edit < 0, offsets, at_start))


class ReadForm(NamedTuple):
    """How a text is read: `whole` is None if that is as it is written.

    `part` reads a part on its own, as `as_read`, and `words` as its words are found.
    """

    whole: ReadText | None
    part: Callable[[str], str | None]
    words: Callable[[str], str]
