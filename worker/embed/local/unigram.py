"""Pieces of a Unigram vocabulary (Kudo 2018), as XLM-RoBERTa cuts text."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np

from worker.embed.local.wordpieces import windows
from worker.tokens.byte_tables import Offsets

#: The ids of the pieces at both ends of a text.
_BEGIN, _END = 0, 2
#: The character that represents a space in pieces.
_SPACE = "\u2581"
#: Control characters, which are removed, and characters that become spaces. Other text is normalised by NFKC.
_LEFT_OUT = "[\x00-\x08\x0b\x0e-\x1f\x7f\x8f\x9f]"
_SPACES = f"[\t\n\x0c\r\u1680\u200b-\u200f\u2028\u2029\ufeff\ufffd{_SPACE}]"
#: Pieces that never occur in a text, because the model treats them separately, such as `<s>`.
_SPECIAL = frozenset({"<s>", "<pad>", "</s>", "<unk>", "<mask>"})


class UnigramPieces:
    """The `Tokenizer` of a vocabulary. Thread-safe, because nothing changes after loading."""

    def __init__(self, pieces: Sequence[str], scores: Sequence[float], unknown: int) -> None:
        self._tokenizer = _tokenizer(pieces, scores, unknown)
        self._longest = max(map(len, pieces))

    def starts(self, text: str) -> Offsets:
        """Return the character offsets of the pieces, ascending. Unknown text is one piece but counts as several."""
        encoded = [self._starts(text[begin:end]) + begin for begin, end in windows(text)]
        return np.concatenate(encoded) if encoded else np.empty(0, dtype=np.int64)

    def ids(self, texts: Sequence[str], prefix: str) -> list[list[int]]:
        """Return the piece ids of each text after a prefix, with the two special pieces at the ends."""
        (before,) = self._encoded([prefix])
        return [[_BEGIN, *before.ids, *encoding.ids, _END] for encoding in self._encoded(texts)]

    def _encoded(self, texts: Sequence[str]) -> list[Any]:
        found: list[Any] = self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        return found

    def _starts(self, text: str) -> Offsets:
        # unlike `encode`, it releases the interpreter lock, which all callers of the API share
        (encoded,) = self._tokenizer.encode_batch([text], add_special_tokens=False)
        starts = (range(start, max(end, start + 1), self._longest) for start, end in encoded.offsets)
        return np.fromiter(chain.from_iterable(starts), dtype=np.int64)


def _tokenizer(pieces: Sequence[str], scores: Sequence[float], unknown: int) -> Any:
    # Forked workers would inherit the tokenizer's threads, and a request has few texts anyway.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers

    # control characters are removed from every text, so a piece with one never occurs
    named = [f"\0{piece}" if piece in _SPECIAL else piece for piece in pieces]
    tokenizer = Tokenizer(models.Unigram(list(zip(named, scores, strict=True)), unk_id=unknown))
    tokenizer.normalizer = normalizers.Sequence(
        [
            normalizers.Replace(Regex(_LEFT_OUT), ""),
            normalizers.Replace(Regex(_SPACES), " "),
            normalizers.NFKC(),
        ]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.WhitespaceSplit(),
            pre_tokenizers.Metaspace(replacement=_SPACE, prepend_scheme="always", split=False),
        ]
    )
    return tokenizer
