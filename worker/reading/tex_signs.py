"""Finds where an edit of LaTeX may begin in a long text. To try a pattern at each backslash takes 15 times as long."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from worker.tokens.byte_tables import Bytes, Flags, Offsets, byte_table, in_latin

#: Characters from which this is faster than to try the pattern everywhere.
MIN_CHARS = 4_096
#: Bytes examined together, so that their arrays stay in the processor's cache.
_WINDOW = 1 << 16
#: Characters before and behind a sign that are examined: a command's name and its backslash, and letters in braces.
_BEFORE, _BEHIND = 32, 12
#: Letters between braces, which are capitals that BibTeX must keep.
_MAX_LETTERS = 8
_SLASH, _OPEN, _CLOSE, _CARET, _QUOTE = b'\\{}^"'
_BYTES = 256
#: The beginning of most long names. What follows it decides.
_TEXT = "text"


_ASCII_LETTERS = [byte for byte in range(_BYTES // 2) if chr(byte).isalpha()]
_IS_ASCII_LETTER = byte_table(_ASCII_LETTERS)
#: Bytes that may be letters. A question mark stands for all characters outside Latin-1.
_MAY_BE_LETTER = byte_table((*_ASCII_LETTERS, ord("?"), *range(_BYTES // 2, _BYTES)))
#: Bytes that may precede capitals in braces at the start of a word.
_MAY_PRECEDE = byte_table(byte for byte in range(_BYTES) if not (chr(byte).isalnum() or byte in b"_\\}]"))
_BEGINS_REST = _MAY_BE_LETTER | byte_table(b"\\")


class TexSigns:
    """Finds the places where an edit may begin, given the names of the commands that edits decode.

    A quotation mark counts within a word in front of the signs `behind_quote`, and in front of the two letters that are
    `beginnings` of words.
    """

    def __init__(self, names: Iterable[str], behind_quote: Iterable[str], beginnings: Iterable[str]) -> None:
        self._is_sign, self._is_short = byte_table(()), byte_table(())
        self._is_pair, self._is_long = np.zeros((2, _BYTES * _BYTES), dtype=np.bool_)
        self._continues_text = np.zeros(_BYTES * _BYTES, dtype=np.bool_)
        self._is_behind_quote = byte_table(map(ord, behind_quote))
        self._begins_word = np.zeros(_BYTES * _BYTES, dtype=np.bool_)
        self._begins_word[[*map(_pair, beginnings)]] = True
        for name in names:
            if not name.isalpha():
                self._is_sign[ord(name)] = True
            elif len(name) == 1:
                self._is_short[ord(name)] = True
            elif name.startswith(_TEXT):
                self._is_long[_pair(name)] = self._continues_text[_pair(name[len(_TEXT) :])] = True
            else:
                (self._is_pair if len(name) == len("ss") else self._is_long)[_pair(name)] = True
        self._text = _pair(_TEXT)

    def places(self, text: str) -> Iterator[int]:
        """Yield the places in order. An edit begins at none but these."""
        for start in range(0, len(text), _WINDOW):
            low = max(0, start - _BEFORE)
            found = self._places(text[low : start + _WINDOW + _BEHIND], start - low) + low
            yield from found.tolist()

    def _places(self, text: str, first: int) -> Offsets:
        """Return the places among a window's characters from the `first` one on."""
        # blanks stand for the characters behind the text's end
        octets = np.frombuffer(in_latin(text) + b" " * _BEHIND, dtype=np.uint8)
        examined = octets[first : first + _WINDOW]
        slashes, braces, carets, quotes = (
            (examined == sign).nonzero()[0] + first for sign in (_SLASH, _OPEN, _CARET, _QUOTE)
        )
        # a command may begin behind the window's last brace
        is_before_command = octets[braces + 1] == _SLASH
        before_commands = braces[is_before_command]
        before_commands = before_commands[self._begin_command(octets, before_commands + 1)]
        is_in_word = self._is_behind_quote.take(octets[quotes + 1]) & _MAY_BE_LETTER.take(_before(octets, quotes))
        quotes = quotes[is_in_word | self._begins_word.take(_pairs(octets[quotes + 1], octets[quotes + 2]))]
        return np.sort(
            np.concatenate(
                [
                    slashes[self._begin_command(octets, slashes)],
                    before_commands,
                    _in_words(octets, braces[~is_before_command]),
                    carets[octets[carets + 1] == _CARET],
                    quotes,
                ]
            )
        )

    def _begin_command(self, octets: Bytes, slashes: Offsets) -> Flags:
        """Return a mask of the backslashes that may begin the name of a command."""
        first, second = octets[slashes + 1], octets[slashes + 2]
        pairs = _pairs(first, second)
        is_long = self._is_long.take(pairs)
        texts = (pairs == self._text).nonzero()[0]
        behind = slashes[texts] + len(_TEXT) + 1
        is_long[texts] = self._continues_text.take(_pairs(octets[behind], octets[behind + 1]))
        is_short = self._is_short.take(first) & ~_IS_ASCII_LETTER.take(second)
        is_pair = self._is_pair.take(pairs) & ~_IS_ASCII_LETTER.take(octets[slashes + 3])
        flags: Flags = self._is_sign.take(first) | is_short | is_pair | is_long
        return flags


def _in_words(octets: Bytes, braces: Offsets) -> Offsets:
    """Return the opening braces that may be within a word, or around its first letters: few characters are inside."""
    closing = np.append((octets == _CLOSE).nonzero()[0], len(octets) + _MAX_LETTERS + 1)
    ends = closing[closing.searchsorted(braces)]
    is_short = ends - braces <= _MAX_LETTERS + 1
    braces, ends = braces[is_short], ends[is_short]
    before, has_rest = _before(octets, braces), _BEGINS_REST.take(octets[ends + 1])
    is_within = _MAY_BE_LETTER.take(before) & (has_rest | (ends > braces + 1))
    return np.concatenate([_behind_word(octets, braces[is_within]), braces[_MAY_PRECEDE.take(before) & has_rest]])


def _behind_word(octets: Bytes, braces: Offsets) -> Offsets:
    """Return the braces without those that follow a command."""
    follow_command = np.zeros(len(braces), dtype=np.bool_)
    numbers = np.arange(len(braces))
    for distance in range(1, _BEFORE + 1):
        signs = octets.take(braces[numbers] - distance, mode="clip")
        follow_command[numbers[signs == _SLASH]] = True
        numbers = numbers[_IS_ASCII_LETTER.take(signs)]
        if not numbers.size:
            break
    return braces[~follow_command]


def _before(octets: Bytes, places: Offsets) -> Bytes:
    """Return the bytes before these; a blank before the first one of all."""
    return np.where(places > 0, octets[places - 1], np.uint8(ord(" ")))


def _pair(name: str) -> int:
    return ord(name[0]) * _BYTES + ord(name[1])


def _pairs(first: Bytes, second: Bytes) -> NDArray[np.uint16]:
    return first.astype(np.uint16) * np.uint16(_BYTES) + second
