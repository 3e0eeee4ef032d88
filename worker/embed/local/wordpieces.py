"""Word pieces of the local model: BERT's, except that long words are split so that they can be counted."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from worker.tokens.tokenizers import Offsets

#: Characters per word that the model accepts. A longer word would become one unknown piece, whatever its length.
LONGEST_WORD = 100
#: Characters encoded at a time. An encoding takes some hundred bytes per piece, so long texts are encoded in windows.
WINDOW = 1 << 16


class WordPieces:
    """The `Tokenizer` of a model directory. Thread-safe, because nothing changes after loading."""

    def __init__(self, directory: Path) -> None:
        self._tokenizer = load_tokenizer(directory / "tokenizer.json")

    def starts(self, text: str) -> Offsets:
        """Character offsets of the pieces, ascending. Pieces of one character (accented, Hangul) share its offset."""
        encoded = [self._starts(text[begin:end]) + begin for begin, end in windows(text)]
        return np.concatenate(encoded) if encoded else np.empty(0, dtype=np.int64)

    def ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Piece ids of each text as the model reads it, with the two special pieces at its ends."""
        return [encoding.ids for encoding in self._tokenizer.encode_batch_fast(list(texts))]

    def _starts(self, text: str) -> Offsets:
        # unlike `encode`, it does not hold the interpreter, which all callers of the API share
        (encoded,) = self._tokenizer.encode_batch([text], add_special_tokens=False)
        offsets = encoded.offsets
        return np.fromiter((start for start, _ in offsets), dtype=np.int64, count=len(offsets))


def windows(text: str) -> list[tuple[int, int]]:
    """Ranges of at most `WINDOW` characters that cover the text, cut after white space where there is any."""
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
    """The tokenizer of a file, which neither cuts nor pads, and takes special pieces in a text as text."""
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
