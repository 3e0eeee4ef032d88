"""Word pieces of the local model: BERT's, except that long words are split so that they can be counted."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.tokens.byte_tables import Offsets
from worker.tokens.remembered import MAX_CHARACTERS, MAX_ENTRIES

#: Characters per word that the model accepts. A longer word would become one unknown piece, whatever its length.
LONGEST_WORD = 100
#: The piece for a word with a character that the vocabulary lacks.
UNKNOWN = "[UNK]"
#: Characters encoded at a time. An encoding takes some hundred bytes per piece, so long texts are encoded in windows.
WINDOW = 1 << 16
#: Cache keys of pieces: only white space and ASCII signs separate words and thereby affect their pieces.
_WORDS = re.compile(r"[^ \t\n\r!-/:-@\[-`{-~]+")

_SPACE, _SIGN, _WORD = range(3)
_OFFSET = np.dtype(np.int32)


def _kind(character: str) -> int:
    return _WORD if _WORDS.match(character) else _SPACE if character in " \t\n\r" else _SIGN


#: The classes of ASCII characters, then the class of all others.
_KINDS = np.array([_kind(chr(code)) for code in range(129)], dtype=np.uint8)


class WordPieces:
    """The `Tokenizer` of a model directory. Thread-safe."""

    def __init__(self, directory: Path) -> None:
        self._tokenizer = load_tokenizer(directory / "tokenizer.json")
        #: Offsets of the pieces within each word, as bytes of `_OFFSET`.
        self._known: dict[str, bytes] = {}

    def starts(self, text: str) -> Offsets:
        """Return the ascending character offsets of the pieces. Pieces of one character (accented, Hangul) share it."""
        encoded = [self._starts(text[begin:end]) + begin for begin, end in windows(text)]
        return np.concatenate(encoded) if encoded else np.empty(0, dtype=np.int64)

    def letters_per_piece(self, text: str) -> float | None:
        """Return the mean letters per piece, over pieces with letters; None if there is none. Unknown pieces count 0.

        A low number means that the text's language differs from the vocabulary's.
        """
        (encoded,) = self._tokenizer.encode_batch([text], add_special_tokens=False)
        letters = [
            (sum(map(str.isalpha, text[start:end])), token != UNKNOWN)
            for token, (start, end) in zip(encoded.tokens, encoded.offsets, strict=True)
        ]
        known = [count * is_known for count, is_known in letters if count]
        return sum(known) / len(known) if known else None

    def ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the piece ids of each text as the model reads it, with the two special pieces at its ends."""
        return [encoding.ids for encoding in self._tokenizer.encode_batch_fast(list(texts))]

    def _starts(self, text: str) -> Offsets:
        words = _WORDS.findall(text)
        try:
            inside = [*map(self._known.__getitem__, words)]
        except KeyError:
            inside = [*map(self._pieces(words).__getitem__, words)]
        kinds = _kinds(text)
        begins = kinds != _SPACE
        # each sign is a piece, and a word begins after a character that belongs to no word
        begins[1:] &= (kinds[1:] == _SIGN) | (kinds[:-1] != _WORD)
        places = begins.nonzero()[0]
        is_word = kinds[places] == _WORD
        pieces = np.ones(len(places), dtype=np.int64)
        pieces[is_word] = np.fromiter(map(len, inside), dtype=np.int64, count=len(inside)) // _OFFSET.itemsize
        starts: Offsets = places.repeat(pieces)
        starts[is_word.repeat(pieces)] += np.frombuffer(b"".join(inside), dtype=_OFFSET)
        return starts

    def _pieces(self, words: Sequence[str]) -> dict[str, bytes]:
        """Return the piece offsets in each word. The library sees a word once, because few words make up most text."""
        known = self._known
        found = {word: known[word] for word in {*words} if word in known}
        new = [*{*words}.difference(found)]
        if new:
            fresh = dict(zip(new, self._divide(new), strict=True))
            found |= fresh
            # other threads may read this dictionary, so no entry is ever removed
            known = {} if len(known) > MAX_ENTRIES else known
            known.update((word, inside) for word, inside in fresh.items() if len(word) <= MAX_CHARACTERS)
            self._known = known
        return found

    def _divide(self, words: Sequence[str]) -> Iterator[bytes]:
        """Compute the piece offsets within each word by the library. One joined text takes it half the time."""
        # unlike `encode`, it releases the interpreter lock, which all callers of the API share
        (encoded,) = self._tokenizer.encode_batch([" ".join(words)], add_special_tokens=False)
        offsets = np.array([start for start, _ in encoded.offsets], dtype=np.int64)
        begins = np.cumsum([0, *(len(word) + 1 for word in words)])
        places = offsets.searchsorted(begins)
        inside = (offsets - begins[:-1].repeat(np.diff(places))).astype(_OFFSET).tobytes()
        return (inside[first:last] for first, last in pairwise((places * _OFFSET.itemsize).tolist()))


def _kinds(text: str) -> NDArray[np.uint8]:
    codes = np.frombuffer(text.encode("utf-32-le"), dtype="<u4")
    return _KINDS.take(codes, mode="clip")


def windows(text: str) -> list[tuple[int, int]]:
    """Return ranges of at most `WINDOW` characters that cover the text. They end after white space if there is any."""
    ranges = []
    begin = 0
    while begin < len(text):
        end = _window_end(text, begin)
        ranges.append((begin, end))
        begin = end
    return ranges


def _window_end(text: str, begin: int) -> int:
    end = begin + WINDOW
    if end >= len(text):
        return len(text)
    cut = max(text.rfind(space, begin, end) for space in " \t\n")
    return cut + 1 if cut >= begin else end


def load_tokenizer(path: Path) -> Any:
    """Load the tokenizer of a file. It neither truncates nor pads, and treats special pieces in a text as text."""
    # Forked workers would inherit the tokenizer's threads, and a request has few texts anyway.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    from tokenizers import Tokenizer, pre_tokenizers

    tokenizer = Tokenizer.from_file(str(path))
    # The file truncates and pads to 128 pieces. A text that is too long must be detected, not shortened.
    tokenizer.no_truncation()
    tokenizer.no_padding()
    # Treat "[SEP]" in a document as text.
    tokenizer.encode_special_tokens = True
    cut = pre_tokenizers.FixedLength(length=LONGEST_WORD)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([tokenizer.pre_tokenizer, cut])
    return tokenizer
