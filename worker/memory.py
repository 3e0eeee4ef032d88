"""Whether the memory a file may take is enough to cut its text: told by its tokens, lines and chunks beforehand."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import numpy as np

from schemas.source import ChunkSettings
from worker.parse.limits import too_large
from worker.tokens import Offsets, Tokenizer

#: Bytes that cutting takes for each token, for one in a line that is longer than a chunk besides, for each line, each
#: chunk, and each chunk with its row: measured.
_TOKEN, _PLACE, _LINE, _CHUNK, _ROW = 20, 40, 60, 800, 1000
#: The same for each value of JSON, and each list or object.
_VALUE, _CONTAINER = 200, 50
#: Copies of the text that there are at a time.
_COPIES = 2
#: A chunk's share of the limit, on average, that from which on a line may be cut within, and of a model's limit that
#: which is left by what stands in front of the chunks.
_FILLED, _LONG, _LEFT = 0.5, 0.75, 0.75
#: Characters above which a text's tokens are estimated first, by so many samples of so many characters.
_SAMPLED, _SAMPLES, _SAMPLE = 8_000_000, 64, 16_384
#: Characters that are looked at together, and those in which a line's or a word's end is looked for.
_WINDOW, _NEAR = 1 << 20, 1 << 16
#: Characters below which nothing is worth a look: headings and chunks are counted one by one, too.
_LITTLE = 1 << 16


class Bounded:
    """A tokenizer that refuses a text whose cutting would take more memory than there is.

    `settings` and the model's `max_tokens` tell how many chunks it makes, and `markup` what they are cut by.
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
            self._require(self._needed(text, len(found), self._in_long_lines(text, found)))
        return found

    def check(self, text: str) -> None:
        """Refuse a text by its lines and by samples: splitting alone takes much. Raises `FileError` (`too_large`)."""
        self._require(self._needed(text, 0, 0))
        if len(text) > _SAMPLED:
            tokens = long = 0
            steps = range(0, len(text), len(text) // _SAMPLES)
            for at in steps:
                sample = text[at : at + _SAMPLE]
                found = len(self._tokenizer.starts(sample))
                tokens += found
                long += 0 if "\n" in sample else found
            share = len(text) / (len(steps) * _SAMPLE)
            self._require(self._needed(text, int(tokens * share), int(long * share)))

    def check_chunks(self, number: int, dimensions: int) -> None:
        """Refuse more chunks than can be held with their vectors. Raises `FileError` (`too_large`)."""
        self._require(number * (_ROW + dimensions * np.dtype(np.float32).itemsize))

    def _starts(self, text: str) -> Offsets:
        """Tokens of a long text are found in windows, so that they are never more than there is memory for."""
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
        """Bytes for a text of so many tokens, so many of them in lines that are longer than a chunk."""
        lines = text.count("\n") + 1
        chunks = int((len(text) if self._by_chars else tokens) / (_FILLED * self._limit))
        needed = _COPIES * (len(text) + sys.getsizeof(text))
        if self._is_json:
            needed += text.count(",") * _VALUE + (text.count("[") + text.count("{")) * _CONTAINER
        return needed + tokens * _TOKEN + long * _PLACE + lines * _LINE + chunks * _CHUNK

    def _in_long_lines(self, text: str, starts: Offsets) -> int:
        long = 0
        for start, end in _windows(text):
            lines = text[start:end].split("\n")
            lengths = np.fromiter(map(len, lines), dtype=np.int64, count=len(lines)) + 1
            tokens = np.diff(starts.searchsorted(start + np.cumsum(lengths)), prepend=starts.searchsorted(start))
            units = lengths if self._by_chars else tokens
            long += int(tokens[units > _LONG * self._limit].sum())
        return long

    def _require(self, needed: int) -> None:
        if needed > self._memory_bytes:
            megabytes = self._memory_bytes >> 20
            raise too_large(f"Cutting the file takes more memory than PARSE_MEMORY_MB ({megabytes:,} MB)")


def _windows(text: str) -> Iterator[tuple[int, int]]:
    """Spans that cover the text, cut behind a line's end or before a blank where there is one."""
    start = 0
    while start < len(text):
        end = start + _WINDOW
        if end < len(text):
            line = text.rfind("\n", end - _NEAR, end) + 1
            end = line or max(text.rfind(" ", end - _NEAR, end), 0) or end
        yield start, min(end, len(text))
        start = end
