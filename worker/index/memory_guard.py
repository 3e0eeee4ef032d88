"""Estimates from a text's tokens, lines and chunks whether cutting it fits the memory allowed for a file."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import numpy as np

from schemas.jsonc import strings
from schemas.source import ChunkSettings
from worker.parse.limits import too_large
from worker.tokens.tokenizers import Offsets, Tokenizer

#: Measured bytes that cutting takes: per token, also per position in a line longer than a chunk, per line, per chunk,
#: and per chunk with its row.
_TOKEN, _PLACE, _LINE, _CHUNK, _ROW = 12, 36, 48, 900, 1000
#: Likewise per comma and per container of JSON, and per member of a container that is divided.
_COMMA, _CONTAINER, _MEMBER = 60, 50, 180
#: Average number of members per container above which one container may hold nearly all of them.
_MEMBERS = 128
#: The average chunk's share of the size limit; the share above which a line may be cut inside; and the share of a
#: model's limit that the context in front of each chunk leaves.
_FILLED, _LONG, _LEFT = 0.5, 0.75, 0.75
#: Characters above which tokens are first estimated from samples, the number of samples, and characters per sample.
_SAMPLED, _SAMPLES, _SAMPLE = 8_000_000, 64, 16_384
#: Characters per window, and characters at its end that are searched for the end of a line or word.
_WINDOW, _NEAR = 1 << 20, 1 << 16
#: Characters below which a text is not checked here; headings and chunks are also counted one by one.
_LITTLE = 1 << 16


class Bounded:
    """A tokenizer that rejects a text whose cutting would take too much memory.

    `settings` and the model's `max_tokens` determine how many chunks the text makes, `markup` determines what they are
    cut by.
    """

    def __init__(
        self, tokenizer: Tokenizer, settings: ChunkSettings, max_tokens: int, markup: str, memory_bytes: int
    ) -> None:
        self._tokenizer, self._memory_bytes = tokenizer, memory_bytes
        self._is_json = markup == "json"
        self._by_chars = settings.unit == "characters"
        self._limit = min(settings.size, int(_LEFT * max_tokens))

    def starts(self, text: str) -> Offsets:
        """See `Tokenizer`. Raises `FileError` (`too_large`)."""
        if len(text) < _LITTLE:
            return self._tokenizer.starts(text)
        self.check(text)
        found = self._starts(text)
        if self._needed(text, len(found), len(found)) > self._memory_bytes:
            long = self._in_long_strings(text, found) if self._is_json else self._in_long_lines(text, found)
            self._require(self._needed(text, len(found), long))
        return found

    def check(self, text: str) -> None:
        """Reject a text by its lines and samples, because tokenizing alone takes much memory.

        Raises `FileError` (`too_large`).
        """
        self._require(self._needed(text, 0, 0))
        if len(text) > _SAMPLED:
            tokens = long = 0
            steps = range(0, len(text), len(text) // _SAMPLES)
            for at in steps:
                sample = text[at : at + _SAMPLE]
                found = len(self._tokenizer.starts(sample))
                tokens += found
                long += 0 if self._is_json or "\n" in sample else min(found, len(sample))
            share = len(text) / (len(steps) * _SAMPLE)
            self._require(self._needed(text, int(tokens * share), int(long * share)))

    def check_chunks(self, number: int, dimensions: int) -> None:
        """Reject more chunks than fit in memory with their vectors. Raises `FileError` (`too_large`)."""
        self._require(number * (_ROW + dimensions * np.dtype(np.float32).itemsize))

    def _starts(self, text: str) -> Offsets:
        """Find the tokens of a long text in windows, so that they never exceed the memory."""
        if len(text) <= _SAMPLED:
            return self._tokenizer.starts(text)
        parts: list[Offsets] = []
        tokens = 0
        for start, end in _windows(text):
            parts.append(self._tokenizer.starts(text[start:end]) + start)
            tokens += len(parts[-1])
            self._require(tokens * _TOKEN)
        return np.concatenate(parts)

    def _needed(self, text: str, tokens: int, long: int) -> int:
        """Bytes needed for a text with `tokens` tokens and `long` positions in lines longer than a chunk."""
        lines = text.count("\n") + 1
        chunks = int((len(text) if self._by_chars else tokens) / (_FILLED * self._limit))
        # the text is also held as bytes and as chunks
        needed = len(text) + sys.getsizeof(text) + (_of_json(text) if self._is_json else 0)
        return needed + tokens * _TOKEN + long * _PLACE + lines * _LINE + chunks * _CHUNK

    def _in_long_lines(self, text: str, starts: Offsets) -> int:
        long = 0
        for start, end in _windows(text):
            lines = text[start:end].split("\n")
            lengths = np.fromiter(map(len, lines), dtype=np.int64, count=len(lines)) + 1
            tokens = np.diff(starts.searchsorted(start + np.cumsum(lengths)), prepend=starts.searchsorted(start))
            units = lengths if self._by_chars else tokens
            # several tokens may share a character, but each position is counted once
            long += int(np.minimum(tokens, lengths)[units > _LONG * self._limit].sum())
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
            raise too_large(f"Cutting the file takes more memory than PARSE_MEMORY_MB ({megabytes:,} MB)", remedy)


def _of_json(text: str) -> int:
    commas, containers = text.count(","), text.count("[") + text.count("{")
    members = min(commas, containers) if containers * _MEMBERS > commas else commas
    return commas * _COMMA + containers * _CONTAINER + members * _MEMBER


def _windows(text: str) -> Iterator[tuple[int, int]]:
    """Yield spans that cover the text, cut after a line end or before a blank where there is one."""
    start = 0
    while start < len(text):
        end = start + _WINDOW
        if end < len(text):
            line = text.rfind("\n", end - _NEAR, end) + 1
            end = line or max(text.rfind(" ", end - _NEAR, end), 0) or end
        yield start, min(end, len(text))
        start = end
