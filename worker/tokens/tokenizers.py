"""Counts tokens: a tokenizer gives the character offset at which each token of a text starts."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, reduce
from importlib.util import find_spec
from operator import or_
from pathlib import Path
from typing import Protocol

import numpy as np
import tiktoken
from numpy.typing import NDArray

from worker.tokens.byte_tables import Bytes, Offsets
from worker.tokens.cl100k import WordTokens

#: Bytes of a block that is tested for being a single run of letters, white space or symbols. tiktoken's regex fails on
#: a million blanks, and its merging slows down on long runs. A run of two blocks is therefore always cut.
_RUN_BLOCK_BYTES = 1024
#: Distance in bytes between the sampled bytes of a block.
_SAMPLE_STEP_BYTES = 64

#: One bit per kind of byte: letters, white space, digits (never a long token), symbols. Bytes of non-ASCII characters
#: may be of any kind and have no bit.
_LETTER = 1
_SPACE = 2
_DIGIT = 4
_SIGN = 8


#: Bytes of a text from which numpy is faster than tiktoken.
_NUMPY_MIN_BYTES = 1300

#: Bytes whose characters are counted at a time, to bound memory.
_WINDOW_BYTES = 1 << 22


class Tokenizer(Protocol):
    """Splits texts as an embedding model does, or counts at least as many tokens."""

    def starts(self, text: str) -> Offsets:
        """Return the ascending character offsets of token starts, one per token."""
        ...


@cache
def cl100k() -> Tokenizer:
    """Return the tokenizer of OpenAI's embedding models, an estimate for models without their own. Uses no network."""
    with _encodings_of_litellm():
        return _Cl100kTokenizer(tiktoken.get_encoding("cl100k_base"))


def counted(text: str, tokenizer: Tokenizer) -> tuple[int, Tokenizer]:
    """Return the number of cl100k tokens in a text, and `tokenizer`. If that is cl100k itself, it reuses the split."""
    counter = cl100k()
    starts = counter.starts(text)
    return len(starts), _Remembering(tokenizer, text, starts) if tokenizer is counter else tokenizer


def truncated(text: str, max_tokens: int, tokenizer: Callable[[], Tokenizer]) -> str:
    """Return the first `max_tokens` tokens of a text. Opens the tokenizer only for a text that may be longer."""
    if len(text.encode(errors="surrogatepass")) <= max_tokens:
        return text  # a token has at least one byte, though one character may be several tokens
    starts = tokenizer().starts(text)
    return text if len(starts) <= max_tokens else text[: starts[max_tokens]]


def characters() -> Tokenizer:
    """Return a tokenizer that counts every character: an upper bound for any model without unknown characters."""
    return _CharacterTokenizer()


def char_offsets(raw: Bytes, offsets: Offsets) -> Offsets:
    """Convert strictly ascending byte offsets in UTF-8 to character offsets. A byte within one counts as it."""
    counted, first, parts = 0, 0, []
    for start in range(0, len(raw), _WINDOW_BYTES):
        continued = (raw[start : start + _WINDOW_BYTES] & 0xC0) == 0x80  # noqa: PLR2004 - UTF-8's mark of a continuation byte
        before = continued.cumsum(dtype=np.int32)
        last = int(offsets.searchsorted(start + _WINDOW_BYTES))
        parts.append(offsets[first:last] - before[offsets[first:last] - start] - counted)
        counted, first = counted + int(before[-1]), last
    return parts[0] if len(parts) == 1 else np.concatenate([offsets[:0], *parts])


class _Remembering:
    """A tokenizer that caches the split of one text."""

    def __init__(self, tokenizer: Tokenizer, text: str, starts: Offsets) -> None:
        self._tokenizer, self._text, self._starts = tokenizer, text, starts

    def starts(self, text: str) -> Offsets:
        return self._starts if text is self._text else self._tokenizer.starts(text)


class _CharacterTokenizer:
    def starts(self, text: str) -> Offsets:
        return np.arange(len(text), dtype=np.int64)


class _Cl100kTokenizer:
    def __init__(self, encoding: tiktoken.Encoding) -> None:
        self._encoding = encoding
        ordinary = len(encoding.token_byte_values())
        tokens = [encoding.decode_single_token_bytes(i) for i in range(ordinary)]
        self._lengths = np.array(list(map(len, tokens)), dtype=np.uint8)
        self._words = WordTokens(tokens)

    def starts(self, text: str) -> Offsets:
        data = text.encode()
        pieces = list(_pieces(text, data))
        if len(data) >= _NUMPY_MIN_BYTES and len(pieces) == 1:
            offsets = self._words.starts(data, lambda part: self._offsets([part.decode()]))
        else:
            offsets = self._offsets(pieces)
        return offsets if len(data) == len(text) else char_offsets(np.frombuffer(data, dtype=np.uint8), offsets)

    def _offsets(self, pieces: list[str]) -> Offsets:
        """Return the byte offsets of token starts in consecutive texts."""
        parts = [self._ids(piece) for piece in pieces]
        lengths = self._lengths[parts[0] if len(parts) == 1 else np.concatenate(parts)]
        offsets: Offsets = lengths.cumsum(dtype=np.int64)
        offsets -= lengths
        return offsets

    def _ids(self, text: str) -> NDArray[np.uint32]:
        # nothing is disallowed: the name of a special token is ordinary text
        return self._encoding.encode_to_numpy(text, disallowed_special=())


def _pieces(text: str, data: bytes) -> Iterator[str]:
    """Return the text, divided only inside long runs of one kind of character."""
    cuts = _run_cuts(data) if len(data) >= _RUN_BLOCK_BYTES else ()
    if not len(cuts):
        yield text
        return
    for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True):
        yield data[start:end].decode()


def _run_cuts(data: bytes) -> Offsets:
    """Return byte offsets at which to cut long runs: where a hash of their content says so, else at block starts."""
    raw = np.frombuffer(data, dtype=np.uint8)
    cuts = [_block_cuts(raw, start) for start in _likely_runs(data) if _is_run(data[start : start + _RUN_BLOCK_BYTES])]
    return np.unique(np.concatenate(cuts)) if cuts else np.empty(0, dtype=np.int64)


def _likely_runs(data: bytes) -> list[int]:
    """Return the starts of blocks whose sampled bytes are all of one kind."""
    blocks = len(data) // _RUN_BLOCK_BYTES
    if not blocks:
        return []
    kinds = np.frombuffer(
        data[: blocks * _RUN_BLOCK_BYTES : _SAMPLE_STEP_BYTES].translate(_KINDS), dtype=np.uint8
    ).reshape(blocks, -1)
    starts: list[int] = (_IS_RUN[np.bitwise_or.reduce(kinds, axis=1)].nonzero()[0] * _RUN_BLOCK_BYTES).tolist()
    return starts


def _is_run(block: bytes) -> bool:
    return bool(_IS_RUN[reduce(or_, set(block.translate(_KINDS)))])


def _block_cuts(raw: Bytes, start: int) -> Offsets:
    """Return offsets where a hash of four bytes is small, so that an insertion moves few tokens; else the start."""
    block = raw[start : start + _RUN_BLOCK_BYTES].astype(np.uint32)
    mixed = ((block[:-3] << 24) | (block[1:-2] << 16) | (block[2:-1] << 8) | block[3:]) * np.uint32(0x9E3779B1)
    lead = (block[:-3] & 0xC0) != 0x80  # noqa: PLR2004 - UTF-8's mark of a continuation byte
    hits = np.flatnonzero((mixed < 2**32 // 512) & lead)
    if not hits.size or hits.size > 16:  # noqa: PLR2004 - a constant run, where every byte hits, is also cut once
        hits = np.flatnonzero(lead)[:1]
    return hits[hits + start > 0] + start


@contextmanager
def _encodings_of_litellm() -> Iterator[None]:
    """Point tiktoken at the encoding files that litellm ships, without importing litellm (seconds, 180 MB)."""
    spec = find_spec("litellm")
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError("litellm is not installed; its encoding files are needed to count tokens")
    previous = os.environ.get("TIKTOKEN_CACHE_DIR")
    folder = Path(spec.submodule_search_locations[0], "litellm_core_utils", "tokenizers")
    os.environ["TIKTOKEN_CACHE_DIR"] = str(folder)
    try:
        yield
    finally:
        if previous is None:
            del os.environ["TIKTOKEN_CACHE_DIR"]
        else:
            os.environ["TIKTOKEN_CACHE_DIR"] = previous


def _kind(byte: int) -> int:
    character = chr(byte)
    if not character.isascii():
        return 0
    if character.isalpha():
        return _LETTER
    if character.isspace():
        return _SPACE
    return _DIGIT if character.isdigit() else _SIGN


_KINDS = bytes(_kind(byte) for byte in range(256))
_IS_RUN = np.zeros(16, dtype=np.bool_)
_IS_RUN[[0, _LETTER, _SPACE, _SIGN]] = True
