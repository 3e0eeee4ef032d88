"""The readable form of a text, without its file's escapes, combining accents and encoded bytes.

The readable form is embedded, counted in tokens, and searched by words. The written form is stored and shown. The
readable form is computed from the written one alone, in linear time, so nothing stores it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial
from operator import add

import numpy as np
from numpy.typing import NDArray

from worker.formats.registry import BY_TYPE, import_function
from worker.reading.blobs import blobs, may_have_blobs
from worker.reading.borders import Borders
from worker.reading.edits import Edit, merged
from worker.tokens.byte_tables import Offsets
from worker.tokens.invisible import OTHER_FORMS
from worker.tokens.normal_forms import normalized


@dataclass(frozen=True, slots=True, eq=False)
class Way:
    """The rules for reading texts of a format.

    `edits` replace written text for embedding. `full` edits also replace text that only words and a grep read; they are
    separate where few texts should be embedded again. `twins` are words of the other reading of ambiguous text: a
    Windows path, or a line break before a word. If `may` rejects a text, neither it nor a part of it has edits. Each
    text with full edits or twins contains a sign of `coded` and matches the sign's pattern. In the syntax of ripgrep,
    each text with an edit matches `mark`, and `unit` matches the written form of a character. A line with `anything`
    may have any words. Parts between `borders` are read alone as within their text. Only a grep joins `folds`: ends of
    lines within words, which look like others.
    """

    edits: Callable[[str], Iterable[Edit]]
    full: Callable[[str], Iterable[Edit]]
    twins: Callable[[str], Iterable[str]]
    may: Callable[[str], bool]
    coded: Mapping[str, re.Pattern[str]]
    mark: str
    unit: str
    borders: Borders
    anything: str = ""
    folds: Callable[[str], Iterable[Edit]] = lambda _: ()

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
    may_differ = way is not None and way.may(text)
    of_format = way.edits(text) if way is not None and may_differ else ()
    found = list(merged(blobs(text), of_format)) if has_blobs else list(of_format)
    whole = ReadText(text, found) if found else None
    return ReadForm(type_, text, whole, has_blobs=has_blobs, way=way if may_differ else None)


def _part_as_read(way: Way, part: str) -> str | None:
    """Read a part of a text without blobs, as `as_read`."""
    read = applied(part, way.edits(part)) if way.may(part) else part
    return None if read == part else read


def _words_of_part(way: Way, part: str) -> str:
    """Return the words of a part of a text without blobs, as `words`."""
    return _words(way, part, ()) if way.may_have_words(part) else part


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
    """Return the edits for a grep: the format's edits, without blobs, and those for other forms of characters."""
    way = way_of(type_)
    found = merged(way.full(text), way.folds(text)) if way else iter(())
    return found if text.isascii() else merged(_in_usual_form(text), found)


def _in_usual_form(text: str) -> Iterator[Edit]:
    """Yield edits that remove invisible characters, compose accents, and replace ligatures and wide letters."""
    done = 0
    for match in OTHER_FORMS.finditer(text):
        start, end = match.span()
        if match["accents"]:
            start = max(done, start - 1)
        read = "" if match["invisible"] else normalized("NFKC", text[start:end])
        if read != text[start:end]:
            yield Edit(start, end, read)
            done = end


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


#: Offsets from which it is faster to look up each edit in them.
_MANY = 1_000


class ReadText:
    """A text in its readable form, and the positions of its characters in the written text."""

    def __init__(self, written: str, edits: Sequence[Edit]) -> None:
        self.text = applied(written, edits)
        starts, ends, texts = zip(*edits, strict=True)
        # one more edit, of nothing before the text, spares the question whether a position has an edit before it
        self._starts, self._ends = np.array((-1, *starts)), np.array((0, *ends))
        grown = np.array((0, *map(len, texts))) - (self._ends - self._starts)
        grown[0] = 0
        grown = grown.cumsum()
        self._read_ends = self._ends + grown
        self._read_starts = self._starts + np.concatenate((grown[:1], grown[:-1]))

    def written_at(self, offsets: Offsets) -> Offsets:
        """Return the positions in the written text of read offsets; offsets within an edit map to its start."""
        edit = self._read_starts.searchsorted(offsets, side="right") - 1
        after = offsets - self._read_ends[edit]
        return np.asarray(np.where(after < 0, self._starts[edit], self._ends[edit] + after))

    def all_written_at(self, ascending: Offsets) -> Offsets:
        """Return `written_at` of many ascending offsets, in a fraction of the time: each edit is looked up in them."""
        if len(ascending) < _MANY:
            return self.written_at(ascending)
        firsts, lasts = (ascending.searchsorted(side[1:]) for side in (self._read_starts, self._read_ends))
        borders = np.concatenate(([0], firsts, [len(ascending)]))
        written: Offsets = ascending + np.repeat(self._ends - self._read_ends, borders[1:] - borders[:-1])
        numbers = lasts - firsts
        inside = np.repeat(firsts - (numbers.cumsum() - numbers), numbers)
        inside += np.arange(len(inside))
        written[inside] = np.repeat(self._starts[1:], numbers)
        return written

    def between(self, starts: Sequence[int], ends: Sequence[int]) -> list[str]:
        """Return the read text of each span of the written one."""
        firsts, lasts = self.read_at(np.array((starts, ends), dtype=np.int64)).tolist()
        return [self.text[first:last] for first, last in zip(firsts, lasts, strict=True)]

    def behind(self, offsets: Offsets, *, where: NDArray[np.bool_]) -> Offsets:
        """Return these positions of the written text; `where` they start an edit, return its end."""
        edit = self._starts.searchsorted(offsets, side="right") - 1
        return np.asarray(np.where(where & (self._starts[edit] == offsets), self._ends[edit], offsets))

    def is_inside(self, offsets: Offsets) -> NDArray[np.bool_]:
        """Return a mask of the positions of the written text that are within an edit."""
        return np.asarray(offsets < self._ends[self._starts.searchsorted(offsets) - 1])

    def read_at(self, offsets: Offsets) -> Offsets:
        """Return the positions in the read text of written offsets; offsets within an edit map to its end."""
        edit = self._starts.searchsorted(offsets) - 1
        return np.asarray(self._read_ends[edit] + np.maximum(offsets - self._ends[edit], 0))


@dataclass(frozen=True, eq=False)
class ReadForm:
    """The readable form of a text: `whole` is None if the written text is already readable.

    `way` has the rules for parts, if these may need edits.
    """

    type: str | None
    text: str
    whole: ReadText | None
    has_blobs: bool
    way: Way | None

    def part(self, part: str) -> str | None:
        """Read a separate part, as `as_read`."""
        if self.has_blobs:
            return as_read(self.type, part)
        return None if self.way is None else _part_as_read(self.way, part)

    @cached_property
    def words(self) -> Callable[[str], str]:
        """A function that returns the text of a separate part for word search, as `words`."""
        way = way_of(self.type)
        if self.has_blobs:
            return partial(words, self.type)
        return partial(_words_of_part, way) if way is not None and way.may_have_words(self.text) else str

    def parts(self, starts: Sequence[int], parts: Sequence[str]) -> tuple[list[str | None], dict[int, str]]:
        """Return how each part is read alone, as `as_read`, and how the whole text reads those that may differ."""
        reads: list[str | None] = [None] * len(parts)
        if self.way is None and not self.has_blobs:
            return reads, {}
        ends = list(map(add, starts, map(len, parts)))
        unlike, signed = self._unlike(starts, ends)
        in_whole: dict[int, str] = {}
        if self.whole is not None:
            within = self.whole.between(starts, ends)
            reads = [None if read == part else read for read, part in zip(within, parts, strict=True)]
            for number in unlike:
                in_whole[number], reads[number] = within[number], None
        for number in signed:
            reads[number] = self.part(parts[number])
        return reads, in_whole

    def _unlike(self, starts: Sequence[int], ends: Sequence[int]) -> tuple[Sequence[int], Sequence[int]]:
        """Return the numbers of parts that may be read differently alone, and of those that then may have edits."""
        if self.way is None or self.has_blobs:
            return range(len(starts)), range(len(starts))
        return self.way.borders.unlike(self.text, starts, ends)
