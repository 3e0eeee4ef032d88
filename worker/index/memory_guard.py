"""Estimates from a text's tokens, lines and chunks whether cutting it fits the memory allowed for a file."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import numpy as np

from schemas.content.jsonc import strings
from schemas.content.source import ChunkSettings
from worker.parse.limits import too_large
from worker.tokens.byte_tables import Offsets
from worker.tokens.tokenizers import Tokenizer

#: Measured bytes that cutting takes per token.
_TOKEN_BYTES = 12
#: Bytes per position in a line longer than a chunk, on top of the token's.
_LONG_LINE_BYTES = 36
#: Bytes per line.
_LINE_BYTES = 48
#: Bytes per chunk.
_CHUNK_BYTES = 900
#: Bytes per chunk with its row.
_ROW_BYTES = 1000
#: Bytes per comma of JSON.
_COMMA_BYTES = 60
#: Bytes per container of JSON.
_CONTAINER_BYTES = 50
#: Bytes per member of a JSON container that is divided.
_MEMBER_BYTES = 180
#: Average number of members per container above which one container may hold nearly all of them.
_MANY_MEMBERS = 128
#: Share of the size limit that an average chunk fills.
_FILLED_SHARE = 0.5
#: Share of the size limit above which a line may be cut inside.
_LONG_SHARE = 0.75
#: Share of a model's limit that the context in front of each chunk leaves.
_TEXT_SHARE = 0.75
#: Characters above which tokens are first estimated from samples.
_SAMPLED_CHARS = 8_000_000
#: Number of samples of such a text.
_SAMPLES = 64
#: Characters per sample.
_SAMPLE_CHARS = 16_384
#: Characters per window.
_WINDOW_CHARS = 1 << 20
#: Characters at a window's end that are searched for the end of a line or word.
_WINDOW_END_CHARS = 1 << 16
#: Characters below which a text is not checked here; headings and chunks are also counted one by one.
_UNCHECKED_CHARS = 1 << 16


class GuardedTokenizer:
    """A tokenizer that rejects a text whose cutting would take too much memory.

    `settings` and the model's `max_tokens` determine the number of chunks of a text. `markup` determines where they are
    cut.
    """

    def __init__(
        self, tokenizer: Tokenizer, settings: ChunkSettings, max_tokens: int, markup: str, memory_bytes: int
    ) -> None:
        self._tokenizer, self._memory_bytes = tokenizer, memory_bytes
        self._is_json = markup == "json"
        self._by_chars = settings.unit == "characters"
        self._limit = min(settings.size, int(_TEXT_SHARE * max_tokens))

    def starts(self, text: str) -> Offsets:
        """Return the start positions of tokens, as `Tokenizer` does. Raises `FileError` (`too_large`)."""
        if len(text) < _UNCHECKED_CHARS:
            return self._tokenizer.starts(text)
        self.check(text)
        starts = self._starts(text)
        if self._needed(text, len(starts), len(starts)) > self._memory_bytes:
            long = self._in_long_strings(text, starts) if self._is_json else self._in_long_lines(text, starts)
            self._require(self._needed(text, len(starts), long))
        return starts

    def check(self, text: str) -> None:
        """Reject a text by its lines and samples, because tokenizing alone takes much memory.

        Raises `FileError` (`too_large`).
        """
        self._require(self._needed(text, 0, 0))
        if len(text) > _SAMPLED_CHARS:
            tokens = long = 0
            starts = range(0, len(text), len(text) // _SAMPLES)
            for start in starts:
                sample = text[start : start + _SAMPLE_CHARS]
                in_sample = len(self._tokenizer.starts(sample))
                tokens += in_sample
                long += 0 if self._is_json or "\n" in sample else min(in_sample, len(sample))
            share = len(text) / (len(starts) * _SAMPLE_CHARS)
            self._require(self._needed(text, int(tokens * share), int(long * share)))

    def check_chunks(self, number: int, dimensions: int) -> None:
        """Reject a text whose chunks and vectors exceed the memory. Raises `FileError` (`too_large`)."""
        self._require(number * (_ROW_BYTES + dimensions * np.dtype(np.float32).itemsize))

    def _starts(self, text: str) -> Offsets:
        """Find the tokens of a long text window by window, so that they never exceed the memory."""
        if len(text) <= _SAMPLED_CHARS:
            return self._tokenizer.starts(text)
        parts: list[Offsets] = []
        tokens = 0
        for start, end in _windows(text):
            parts.append(self._tokenizer.starts(text[start:end]) + start)
            tokens += len(parts[-1])
            self._require(tokens * _TOKEN_BYTES)
        return np.concatenate(parts)

    def _needed(self, text: str, tokens: int, long: int) -> int:
        """Return the bytes needed for a text with `tokens` tokens and `long` positions in lines longer than a chunk."""
        lines = text.count("\n") + 1
        chunks = int((len(text) if self._by_chars else tokens) / (_FILLED_SHARE * self._limit))
        # the text is also held as bytes and as chunks
        needed = len(text) + sys.getsizeof(text) + (_of_json(text) if self._is_json else 0)
        return needed + tokens * _TOKEN_BYTES + long * _LONG_LINE_BYTES + lines * _LINE_BYTES + chunks * _CHUNK_BYTES

    def _in_long_lines(self, text: str, starts: Offsets) -> int:
        long = 0
        for start, end in _windows(text):
            lines = text[start:end].split("\n")
            lengths = np.fromiter(map(len, lines), dtype=np.int64, count=len(lines)) + 1
            tokens = np.diff(starts.searchsorted(start + np.cumsum(lengths)), prepend=starts.searchsorted(start))
            units = lengths if self._by_chars else tokens
            # several tokens may share a character, but each position is counted once
            long += int(np.minimum(tokens, lengths)[units > _LONG_SHARE * self._limit].sum())
        return long

    def _in_long_strings(self, text: str, starts: Offsets) -> int:
        """Count tokens in JSON strings longer than a chunk.

        JSON is cut inside a value only if the value is that long.
        """
        sides = [side for start, end in strings(text) if end - start > self._limit for side in (start, end)]
        first, last = starts.searchsorted(sides).reshape(-1, 2).T
        return int((last - first).sum())

    def _require(self, needed: int) -> None:
        if needed > self._memory_bytes:
            megabytes = self._memory_bytes >> 20
            remedy = "save it as JSON Lines (.jsonl)" if self._is_json else "split it"
            raise too_large(f"Chunking the file takes more memory than PARSE_MEMORY_MB ({megabytes:,} MB)", remedy)


def _of_json(text: str) -> int:
    commas, containers = text.count(","), text.count("[") + text.count("{")
    members = min(commas, containers) if containers * _MANY_MEMBERS > commas else commas
    return commas * _COMMA_BYTES + containers * _CONTAINER_BYTES + members * _MEMBER_BYTES


def _windows(text: str) -> Iterator[tuple[int, int]]:
    """Yield spans that cover the text. Each ends after a line end, else before a blank, if there is one."""
    start = 0
    while start < len(text):
        end = start + _WINDOW_CHARS
        if end < len(text):
            line = text.rfind("\n", end - _WINDOW_END_CHARS, end) + 1
            end = line or max(text.rfind(" ", end - _WINDOW_END_CHARS, end), 0) or end
        yield start, min(end, len(text))
        start = end
