"""Counts cl100k's tokens several times faster than its library does, in alphabets; the library has the rest.

cl100k parts a text into words by a regular expression and then looks for a word's bytes among its tokens; only what is
not there is merged from parts. Here numpy does both steps for whole texts: the expression's cases are decided by the
kinds of neighbouring bytes, and words of up to 16 bytes are looked up as pairs of 64-bit numbers. Words that are no
token go through the library one by one, and are remembered. The tokens are the library's, all of them.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterator
from itertools import accumulate
from threading import Lock

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Offsets = NDArray[np.int64]
Flags = NDArray[np.bool_]
Pair = tuple[NDArray[np.uint64], NDArray[np.uint64]]

#: One bit per kind. What is `_ODD` is left to the library: NUL, white space and digits that are rare, and scripts whose
#: words are not parted by spaces, so that nearly every word is new.
_LETTER, _DIGIT, _BLANK, _BREAK, _SIGN, _ODD = 1, 2, 4, 8, 16, 32
_WHITE = _BLANK | _BREAK

#: Bytes that are looked at together: what is known of them stays in the processor's cache.
_WINDOW = 1 << 16
#: Windows that may be looked at as one where no word surely begins between them: the library takes less memory.
_MOST_WINDOWS = 8

#: Bytes for each word that was not met before, below which the library has a window: each takes it a call.
_FOR_NEW = 20

#: Bytes between two odd ones from which on the library sees them apart: each call costs as much as so many bytes.
_GAP = 256

#: Bytes of the longest word that is looked up at once: two numbers.
_LONGEST = 16
_HALF = 8

#: Slots of the tables of tokens and of other words, as powers of two. A word whose slot another took is looked up
#: the slow way.
_TOKEN_BITS, _LEARNED_BITS = 18, 17
_FIRST, _SECOND = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)

#: Words that are remembered besides, and the bytes of the longest.
_REMEMBERED = 1 << 15
_LONGEST_REMEMBERED = 64

#: The parts behind an apostrophe that go with it: `'s`, but also the start of `'tis`.
_AFTER_APOSTROPHE = np.zeros(256, dtype=np.bool_)
_AFTER_APOSTROPHE[list(b"sdmtSDMT")] = True
_PAIRS = {ord(a) << 8 | ord(b) for pair in ("lL lL", "vV eE", "rR eE") for a in pair[:2] for b in pair[3:]}


def _kind(byte: int) -> int:
    character = chr(byte)
    if byte in b"\n\r":
        return _BREAK
    if byte in b" \t":
        return _BLANK
    if not 0 < byte < 0x80 or character.isspace():  # noqa: PLR2004 - the end of ASCII
        return _ODD
    return _LETTER if character.isalpha() else _DIGIT if character.isdigit() else _SIGN


_KINDS = bytes(map(_kind, range(256)))


def _wide_kind(character: str) -> int:
    """The kind of a character beyond ASCII, of which few are digits and white space."""
    category = unicodedata.category(character)
    # a long s is an s in another case, and so goes with an apostrophe
    if (category[0] not in "LMPS" and category != "Cf") or character == "\u017f":
        return _ODD
    return _LETTER if category[0] == "L" else _SIGN


#: Code points of alphabets, and of signs: up to what begins with the byte 0xE2.
_ALPHABETS = (*range(0x80, 0x800), *range(0x1E00, 0x2C00))
_WIDE_KINDS = np.full(0x3000, _ODD, dtype=np.uint8)
_WIDE_KINDS[list(_ALPHABETS)] = [_wide_kind(chr(code)) for code in _ALPHABETS]
#: The first bytes of characters of two bytes, of three, and of those of three that have an entry.
_LEADS = (0xC2, 0xE0, 0xE3)
_WIDTHS = np.ones(256, dtype=np.int64)
_WIDTHS[0xC2:0xE0], _WIDTHS[0xE0:0xF0] = 2, 3
#: All bits of the first so many bytes of a number in memory's order, by the length of a word of two numbers.
_FIRST_MASKS = np.array([(1 << 8 * min(n, _HALF)) - 1 for n in range(_LONGEST + 1)], dtype="<u8").astype(np.uint64)
_SECOND_MASKS = np.concatenate([np.zeros(_HALF, dtype=np.uint64), _FIRST_MASKS[: _HALF + 1]])


class Words:
    """Finds tokens in texts, given all of them by number, and the library's way with one word."""

    def __init__(self, tokens: list[bytes], split: Callable[[bytes], list[bytes]]) -> None:
        self._split = split
        self._remembered: dict[bytes, list[int]] = {}
        short = [token for token in tokens if len(token) <= _LONGEST]
        padded = np.frombuffer(b"".join(token.ljust(_LONGEST, b"\0") for token in short), dtype="<u8").reshape(-1, 2)
        # the common ones are the first, and shall keep their slots
        self._tokens = _Table(_TOKEN_BITS)
        self._tokens.put((padded[::-1, 0], padded[::-1, 1]))
        self._learned = _Table(_LEARNED_BITS)
        self._inner = np.zeros(1 << _LEARNED_BITS, dtype="<u2")
        self._lock = Lock()

    def starts(self, data: bytes, whole: Callable[[bytes], Offsets]) -> Offsets:
        """Byte offsets of the tokens' starts in UTF-8; `whole` finds those of parts, in the library's way.

        It has what is odd, windows of which too many words are new, and those too long to be looked at.
        """
        return np.concatenate([start + found for start, found in self._windows(data, whole)])

    def _windows(self, data: bytes, whole: Callable[[bytes], Offsets]) -> Iterator[tuple[int, Offsets]]:
        kinds = _kinds(data)
        start, further = 0, 1
        while start < len(data):
            end = _safe(kinds, start + _WINDOW)
            is_long = end - start > _MOST_WINDOWS * _WINDOW
            found = None if is_long else self._window(data[start:end], kinds[start:end], whole)
            if found is None:
                # what follows is most likely the same
                end = _safe(kinds, end + further * _WINDOW)
                found = whole(data[start:end])
                further = min(2 * further, _MOST_WINDOWS)
            else:
                further = 1
            yield start, found
            start = end

    def _window(self, data: bytes, kinds: Bytes, whole: Callable[[bytes], Offsets]) -> Offsets | None:
        """The starts in a window; None where so many words are new that the library is faster."""
        flags = _word_starts(data, kinds)
        odd = _odd_parts(kinds)
        for start, end in odd:
            flags[start:end] = False
        words = _places(flags)
        ends = np.concatenate([words[1:], [len(data)]])
        for start, _ in odd:
            # the last word before such a part ends where that begins
            before = int(words.searchsorted(start)) - 1
            if before >= 0:
                ends[before] = min(ends[before], start)
        if not self._divide(data, words, ends - words, flags):
            return None
        for start, end in odd:
            flags[start + whole(data[start:end])] = True
        return _places(flags)

    def _divide(self, data: bytes, words: Offsets, lengths: Offsets, flags: Flags) -> bool:
        """Flag the starts of the tokens in the words that are more than one; False: too many of them are new."""
        numbers = _numbers(data, words, lengths)
        missed = _places(~self._tokens.has(numbers, self._tokens.slots(numbers)) | (lengths > _LONGEST))
        words, lengths, numbers = words[missed], lengths[missed], (numbers[0][missed], numbers[1][missed])
        slots = self._learned.slots(numbers)
        with self._lock:
            known = self._learned.has(numbers, slots) & (lengths <= _LONGEST)
            inner = self._inner[slots[known]]
        _flag(flags, words[known], inner)
        new = _places(~known)
        at = words[new].tolist()
        parts = [data[start:end] for start, end in zip(at, (words + lengths)[new].tolist(), strict=True)]
        if len(set(parts).difference(self._remembered)) * _FOR_NEW > len(data):
            return False
        starts = list(map(self._starts_in, parts))
        places = [word + start for word, inside in zip(at, starts, strict=True) for start in inside]
        flags[np.array(places, dtype=np.int64)] = True
        self._learn((numbers[0][new], numbers[1][new]), lengths[new], starts)
        return True

    def _learn(self, numbers: Pair, lengths: Offsets, starts: list[list[int]]) -> None:
        """Remember where the tokens of words start, of those that are not too long for it."""
        short = _places(lengths <= _LONGEST)
        if not short.size:
            return
        inner = np.array([sum(1 << start for start in starts[i]) for i in short.tolist()], dtype="<u2")
        pair = (numbers[0][short], numbers[1][short])
        with self._lock:
            try:
                # one after the other, so that of two in one slot all is the last's
                self._inner[self._learned.put(pair)] = inner
            except BaseException:
                # a signal came in between: a word without its own tokens would be cut wrongly from now on
                self._learned.clear()
                raise

    def _starts_in(self, word: bytes) -> list[int]:
        """Where the tokens of a word start."""
        found = self._remembered.get(word)
        if found is None:
            lengths = map(len, self._split(word))
            found = [0, *accumulate(lengths)][:-1]
            if len(word) <= _LONGEST_REMEMBERED:
                if len(self._remembered) >= _REMEMBERED:
                    self._remembered.clear()
                self._remembered[word] = found
        return found


class _Table:
    """A set of pairs of numbers; of two that share a slot, it has the one that was put there last."""

    def __init__(self, bits: int) -> None:
        self._shift = np.uint64(64 - bits)
        # side by side, so that a pair is in one line of the processor's cache
        self._first, self._second = np.zeros((1 << bits, 2), dtype=np.uint64).T

    def slots(self, pair: Pair) -> Offsets:
        mixed = (pair[0] * _FIRST) ^ (pair[1] * _SECOND)
        mixed ^= mixed >> np.uint64(29)
        mixed *= _FIRST
        mixed >>= self._shift
        return mixed.view(np.int64)

    def has(self, pair: Pair, slots: Offsets) -> Flags:
        """Which of the pairs are in the table, given their slots."""
        found: Flags = (self._first[slots] == pair[0]) & (self._second[slots] == pair[1])
        return found

    def clear(self) -> None:
        """Forget all pairs; no word is two zeros."""
        self._first[:] = self._second[:] = 0

    def put(self, pair: Pair) -> Offsets:
        """The slots that the pairs have now."""
        slots = self.slots(pair)
        self._first[slots], self._second[slots] = pair
        return slots


def _places(flags: Flags) -> Offsets:
    # numpy's own function for it takes several calls, which short texts are slow by
    places: Offsets = flags.nonzero()[0]
    return places


def _kinds(data: bytes) -> Bytes:
    """The kind of each byte; those of a character are of its kind."""
    kinds = np.frombuffer(bytearray(data.translate(_KINDS)), dtype=np.uint8)
    if data.isascii():
        return kinds
    raw = np.frombuffer(data, dtype=np.uint8)
    for start in range(0, len(data), _WINDOW):
        leads = start + _places(raw[start : start + _WINDOW] >= _LEADS[0])
        for width, first, end in ((2, _LEADS[0], _LEADS[1]), (3, _LEADS[1], _LEADS[2])):
            at = leads[(raw[leads] >= first) & (raw[leads] < end)]
            code = raw[at].astype(np.int64) & (0x7F >> width)
            for further in range(1, width):
                code = (code << 6) | (raw[at + further] & 0x3F)
            for byte in range(width):
                kinds[at + byte] = _WIDE_KINDS[code]
    return kinds


def _numbers(data: bytes, words: Offsets, lengths: Offsets) -> Pair:
    """The first eight bytes of each word, and the eight behind them, filled up with zeros."""
    memory = data + bytes(_LONGEST)
    numbers = np.ndarray((len(data) + _HALF,), dtype="<u8", buffer=memory, strides=(1,))
    lengths = np.minimum(lengths, _LONGEST)
    # on what is not aligned, `take` is faster than an index
    first, second = numbers.take(words), numbers.take(words + _HALF)
    return first & _FIRST_MASKS.take(lengths), second & _SECOND_MASKS.take(lengths)


def _flag(flags: Flags, words: Offsets, inner: NDArray[np.uint16]) -> None:
    """Flag the bytes of each word whose bits are set."""
    bits = _places(np.unpackbits(inner.view(np.uint8), bitorder="little").view(np.bool_))
    flags[words[bits // _LONGEST] + bits % _LONGEST] = True


def _safe(kinds: Bytes, end: int) -> int:
    """Where a word begins whatever is around it, at or behind `end`."""
    while end < len(kinds):
        found = _safe_places(kinds[end - 1 : end + _WINDOW])
        if found.size:
            return end - 1 + int(found[0])
        end += _WINDOW
    return len(kinds)


def _safe_places(kinds: Bytes) -> Offsets:
    """Where letters, digits, signs or lines are over, and a word begins whatever is further off."""
    before, here = kinds[:-1], kinds[1:]
    ends = (before & (_LETTER | _DIGIT) != 0) & (here != before) & (here != _ODD)
    ends |= (before == _BREAK) & (here & (_WHITE | _ODD) == 0)
    ends |= (before == _SIGN) & (here == _BLANK)
    return _places(ends) + 1


def _odd_parts(kinds: Bytes) -> list[tuple[int, int]]:
    """Spans from where a word begins in any case to where one does, that hold all that is odd."""
    odd = _places(kinds == _ODD)
    if not odd.size:
        return []
    # those close to one another go through the library together
    gaps = _places(np.diff(odd) > _GAP)
    borders = np.concatenate([[0], _safe_places(kinds), [len(kinds)]])
    firsts = borders[borders.searchsorted(odd[np.append(0, gaps + 1)], side="right") - 1]
    lasts = borders[borders.searchsorted(odd[np.append(gaps, len(odd) - 1)], side="right")]
    apart = _places(firsts[1:] > lasts[:-1])
    return list(
        zip(firsts[np.append(0, apart + 1)].tolist(), lasts[np.append(apart, len(lasts) - 1)].tolist(), strict=True)
    )


def _word_starts(data: bytes, kinds: Bytes) -> Flags:
    r"""Which bytes begin a word, where nothing is odd.

    The expression, of whose cases the first that fits is taken: `'(?i:[sdmt]|ll|ve|re)`, `[^\r\n\p{L}\p{N}]?+\p{L}++`,
    `\p{N}{1,3}+`, ` ?[^\s\p{L}\p{N}]++[\r\n]*+`, `\s++$`, `\s*[\r\n]`, `\s+(?!\S)`, `\s`.
    """
    raw = np.frombuffer(data, dtype=np.uint8)
    around = _between(0, kinds, _BREAK)
    before = around[:-2]
    flags: Flags = kinds != before
    # one blank goes with the letters behind it, a space with signs; line breaks with the signs before them
    is_sign, is_letter = kinds == _SIGN, kinds == _LETTER
    flags &= ~((is_letter & (before == _BLANK)) | ((kinds == _BREAK) & (before & (_SIGN | _WHITE) != 0)))
    flags[1:] &= ~(is_sign[1:] & (raw[:-1] == ord(" ")))
    # a single sign goes with the letters behind it
    single = (is_sign & _first_ends(raw, flags))[:-1] & is_letter[1:]
    flags[1:] &= ~single
    _part_apostrophes(raw, kinds, _places(single & (raw[:-1] == ord("'"))), flags)
    _part_blanks(kinds, around, flags)
    _part_digits(kinds, flags)
    return flags


def _first_ends(raw: Bytes, flags: Flags) -> Flags:
    """Which bytes are the last of a word's first character."""
    wide = _places(raw >= _LEADS[0])
    if not wide.size:
        return flags
    ends = flags.copy()
    ends[wide] = False
    ends[wide + _WIDTHS[raw[wide]] - 1] = flags[wide]
    return ends


def _part_apostrophes(raw: Bytes, kinds: Bytes, at: Offsets, flags: Flags) -> None:
    """Have words begin behind the contractions at the apostrophes `at`."""
    for index in at.tolist():
        length = 0
        if _AFTER_APOSTROPHE[raw[index + 1]]:
            length = 2
        elif index + 2 < len(raw) and int(raw[index + 1]) << 8 | int(raw[index + 2]) in _PAIRS:
            length = 3
        if length and index + length < len(raw) and kinds[index + length] == _LETTER:
            flags[index + length] = True


def _part_blanks(kinds: Bytes, around: Bytes, flags: Flags) -> None:
    """Have words begin in runs of blanks as what is around them tells; the text's end is as good as a line break."""
    firsts, ends = _runs(around == _BLANK)
    # the last blank stands by itself, or with what is behind it, unless that is a line break or the end
    inner = around[ends + 1] & _WHITE == 0
    flags[ends[inner] - 1] = True
    # blanks between line breaks belong to them, unless signs have the first of these
    between = firsts[~inner & (firsts > 0)]
    between = between[kinds[between - 1] == _BREAK]
    flags[between] = False
    if between.size:
        starts, ends = _runs(_between(0, kinds, 0) == _BREAK)
        starts = starts[ends.searchsorted(between)]
        flags[between[(starts > 0) & (kinds[starts - 1] == _SIGN)]] = True


def _part_digits(kinds: Bytes, flags: Flags) -> None:
    """Have a word begin at every third digit."""
    at = _places(kinds == _DIGIT)
    if not at.size:
        return
    number = np.arange(len(at))
    firsts = np.maximum.accumulate(np.where(flags[at], number, 0))
    flags[at[(number - firsts) % 3 == 0]] = True


def _between(first: int, kinds: Bytes, last: int) -> Bytes:
    """Kinds with one more at either end."""
    around = np.empty(len(kinds) + 2, dtype=np.uint8)
    around[0], around[1:-1], around[-1] = first, kinds, last
    return around


def _runs(flags: Flags) -> tuple[Offsets, Offsets]:
    """Where the runs of flagged bytes begin and end, of a text with one more, not flagged, at either end."""
    edges = _places(flags[1:] != flags[:-1])
    return edges[::2], edges[1::2]
