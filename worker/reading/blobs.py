r"""Binary data written as base64 or hex. It is read as a short placeholder: `[base64, 400 kB, image/png]`.

Blobs are recognised by their shape: a long run of an encoding's characters, or lines of equal length. It changes
between capitals, small letters and digits as often as random text. Words, hashes and names do not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from worker.reading import dumps
from worker.reading.edits import Edit, merged
from worker.tokens.byte_tables import byte_table, in_latin

_Bytes = NDArray[np.uint8]

#: Minimum characters of a run that is examined: a line of a key has 64, one in a property list 52.
_LINE = 52
#: Minimum characters of a blob: in several lines, in one run, and after `data:…;base64,`. Tokens of web services, such
#: as JWTs, have runs of hundreds of characters, and people search for them.
_MIN_LINES_CHARS = 200
_MIN_RUN = 512
_MIN_URI = 100
#: A longer run is a blob even in an address or a token.
_MIN_IN_TOKEN = 4_096
#: Number of lines of equal length above which they are not a list of tokens.
_MIN_LINES = 3
#: Equal characters at the beginning of all lines of a list of names or tokens.
_EQUAL_START = 4
#: Numbers of digits of common hashes. A list of hashes has lines of equal length, too.
_HASH_DIGITS = frozenset({56, 64, 96, 128})
#: Characters before a run that are searched for its media type, or the beginning of an address.
_BEFORE = 200
_TOKEN_BEFORE = 2_000

_ALPHABET = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_"
_MARKS = bytes(1 if byte in _ALPHABET else 0 for byte in range(256))
_LONG = b"\1" * _LINE
#: Bytes of a word of memory. Each byte of `_LOWEST_OF_EACH` is the least of the alphabet, and each of `_HIGH_BITS` has
#: its highest bit. Every run of `_LINE` characters holds so many whole words.
_WORD = 8
_LOWEST_OF_EACH, _HIGH_BITS = (np.frombuffer(byte * _WORD, dtype=np.uint64)[0] for byte in (b"+", b"\x80"))
#: Bytes searched together, so that their arrays stay in the processor's cache.
_WINDOW = 1 << 16
#: Characters up to which the exact search is faster.
_SHORT = 1 << 14
_LONG_OF_WORDS = b"\1" * ((_LINE - _WORD + 1) // _WORD)
_DATA_URI = re.compile(
    r"data:(?P<media>[\w.+-]{1,60}\\?/[\w.+-]{1,80})?(?:;[\w-]{1,40}=[\w.-]{1,40}){0,3};base64,[ \t\r\n]{0,20}\Z"
)
#: Separators between two lines of a blob: line ends, written or escaped, quotes, comment signs and joints.
_BETWEEN = re.compile(
    r"(?:[\s\"'`+\\.#*>|()]|=(?=\r?\n)|[bBrR](?=[\"'])|(?<=\\n[\"']),|&\#x?[0-9A-Fa-f]{1,3};|(?<=\\)[rnt]|//){1,120}"
)
#: Maximum characters between two lines.
_MAX_BETWEEN = 120
_IS_BETWEEN = byte_table(b" \t\n\r\f\v\"'`+\\.#*>|(),&;/=nrt\x85\xa0")
_LINE_END = re.compile(r"\n|\\n|&\#(?:10|x[aA]);")
#: The last line, which is shorter.
_REST = re.compile(r"[A-Za-z0-9+/_-]{1,4096}={0,2}(?![\w+/-])")
_PADDING = re.compile("=|%3D", re.IGNORECASE)
#: Characters of a line that mail programs break by such a sign.
_MAIL_LINE = range(70, 77)
#: Minimum characters of a last line without padding. A shorter one may be a word.
_MIN_REST = 12
_BEHIND_ADDRESS = re.compile(r"[\s\"'<>`]")

#: Minimum shares of kinds of characters, and of changes between them; random text has more.
_MIN_CHANGES = 0.38
#: Share of small letters after another one; words have more.
_MAX_SMALL = 0.31
_MIN_CASE = 0.08
_MIN_DIGITS = 0.02
_MIN_DISTINCT = 24
_MIN_VARIED = 48
#: In hex there are 16 characters, of which ten are digits.
_HEX_DISTINCT = 12
_HEX_LETTERS = (0.1, 0.7)
#: Of the 32 characters of base32 six are digits.
_BASE32_DIGITS = (0.08, 0.4)
#: Of the 36 characters of base36 ten are digits, and of its letters fewer are vowels than in words.
_BASE36_DIGITS, _MAX_VOWELS = (0.15, 0.45), 0.27
#: Repeated characters that are ignored: zeros, mostly.
_EQUAL = 4

_UPPER, _LOWER, _DIGIT, _OTHER = range(4)
_KINDS = bytes(
    _UPPER if 65 <= byte <= 90 else _LOWER if 97 <= byte <= 122 else _DIGIT if 48 <= byte <= 57 else _OTHER  # noqa: PLR2004 - ASCII
    for byte in range(256)
)
#: Number of bits that a character of an encoding represents.
_BITS = {"hex": 4, "base32": 5, "base36": 5, "base64": 6}


def may_have_blobs(text: str) -> bool:
    """Test fast whether a text, or a part of it, may have a blob."""
    return _may_have_runs(text) or dumps.may_have(text)


def _may_have_runs(text: str) -> bool:
    """Return whether a text has runs that may count. Most have no run of whole words of memory in the alphabet."""
    if len(text) > _SHORT and not any(
        _may_have_run(text[start : start + _WINDOW + _LINE]) for start in range(0, len(text), _WINDOW)
    ):
        return False
    raw = in_latin(text)
    marks = raw.translate(_MARKS)
    return _LONG in marks and _places(_array(raw), _array(marks))[0].size > 0


def _may_have_run(text: str) -> bool:
    window = in_latin(text)
    words = np.frombuffer(window, dtype=np.uint64, count=len(window) // _WORD)
    has_low = words - _LOWEST_OF_EACH
    has_low &= ~words
    has_low &= _HIGH_BITS
    return _LONG_OF_WORDS in (has_low == 0).tobytes()


def blobs(text: str) -> Sequence[Edit]:
    """Return the blobs of a text, in order, with their placeholders."""
    if len(text) < _MIN_URI:
        return ()
    raw = in_latin(text)
    marks = raw.translate(_MARKS)
    in_blocks = dumps.dumps(text)
    if _LONG not in marks:
        return in_blocks
    return list(merged(in_blocks, _apart(_found(text, _array(raw), _array(marks)))))


def _array(data: bytes) -> _Bytes:
    return np.frombuffer(data, dtype=np.uint8)


@dataclass(slots=True)
class _Lines:
    """Consecutive runs, one on each line, from the first character to the end of the last one."""

    runs: list[tuple[int, int]]
    end: int

    @property
    def width(self) -> int:
        """Number of characters of the full lines. Other text may precede the first one."""
        start, end = self.runs[min(1, len(self.runs) - 1)]
        return end - start

    @property
    def characters(self) -> int:
        """Characters of all lines."""
        return sum(end - start for start, end in self.runs)

    @property
    def longest(self) -> int:
        """Characters of the longest line."""
        return max(end - start for start, end in self.runs)

    @property
    def is_block(self) -> bool:
        """Whether there are enough lines for a blob."""
        return len(self.runs) >= _MIN_LINES and self.characters >= _MIN_LINES_CHARS


def _apart(found: Iterator[Edit]) -> Iterator[Edit]:
    """Yield the blobs, each without the beginning of the next one's data URI, whose letters may continue a run."""
    last = next(found, None)
    for blob in found:
        if last is not None:
            yield last._replace(end=min(last.end, blob.start))
        last = blob
    if last is not None:
        yield last


def _found(text: str, raw: _Bytes, marks: _Bytes) -> Iterator[Edit]:
    for lines in _joined(text, _runs(raw, marks)):
        start = lines.runs[0][0]
        if lines.characters < _MIN_URI:
            continue
        uri = _DATA_URI.search(text, max(0, start - _BEFORE), start)
        if not uri and not lines.is_block and lines.longest < _MIN_RUN:
            continue
        characters = np.concatenate([raw[first:last] for first, last in lines.runs])
        characters = characters[characters != ord("\\")]
        kind = "base64" if uri else _kind(text, lines, characters)
        if kind:
            size, media = len(characters) * _BITS[kind] // 8, uri["media"] if uri else None
            placeholder = dumps.placeholder(kind, size, (media or "").replace("\\", ""))
            yield Edit(uri.start() if uri else start, lines.end, placeholder)


def _runs(raw: _Bytes, marks: _Bytes) -> Iterator[tuple[int, int]]:
    """Yield the long runs of characters of the alphabet, also with escaped slashes and with characters of addresses."""
    starts, ends = _places(raw, marks)
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        # the letter of an escaped line end does not belong to the line
        is_escape = start > 0 and raw[start - 1] == ord("\\") and raw[start] in b"nrt"
        yield start + bool(is_escape), end


def _places(raw: _Bytes, marks: _Bytes) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the starts and ends of long runs that may count. A text has some if a part of it has some."""
    is_inside = np.zeros(len(marks) + 2, dtype=np.bool_)
    is_inside[1:-1] = marks
    _take_escaped(raw, is_inside[1:-1])
    edges = (is_inside[1:] != is_inside[:-1]).nonzero()[0]
    starts, ends = edges[::2], edges[1::2]
    is_long = ends - starts >= _LINE
    starts, ends = starts[is_long], ends[is_long]
    kept = _may_count(raw, starts, ends)
    return starts[kept], ends[kept]


def _may_count(raw: _Bytes, starts: NDArray[np.int64], ends: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return a mask of the runs that are long enough alone, or may be a line next to another one."""
    joins = (starts[1:] - ends[:-1] <= _MAX_BETWEEN) & _IS_BETWEEN[raw[starts[1:] - 1]] & _IS_BETWEEN[raw[ends[:-1]]]
    kept = ends - starts >= _MIN_URI
    kept[1:] |= joins
    kept[:-1] |= joins
    return kept


def _take_escaped(raw: _Bytes, is_inside: NDArray[np.bool_]) -> None:
    slashes = (raw[:-1] == ord("\\")).nonzero()[0]
    is_inside[slashes[raw[slashes + 1] == ord("/")]] = True
    percents = (raw[:-2] == ord("%")).nonzero()[0]
    # plus and slash as encoded in addresses
    second = raw[percents + 2] & ~np.uint8(0x20)
    is_inside[percents[(raw[percents + 1] == ord("2")) & ((second == ord("B")) | (second == ord("F")))]] = True


def _joined(text: str, runs: Iterator[tuple[int, int]]) -> Iterator[_Lines]:
    """Join runs that are lines of one blob: of equal length, except the first and the last."""
    lines: _Lines | None = None
    for start, end in runs:
        if lines is None:
            lines = _Lines([(start, end)], end)
        elif _continues(text, lines, start, end):
            lines.runs.append((start, end))
            lines.end = end
        else:
            yield _ended(text, lines)
            # the last line or the padding may be a part of this run
            run = max(start, lines.end), max(end, lines.end)
            lines = _Lines([run], run[1])
    if lines is not None:
        yield _ended(text, lines)


def _continues(text: str, lines: _Lines, start: int, end: int) -> bool:
    first, last = lines.runs[-1]
    if start - last > _MAX_BETWEEN or not _BETWEEN.fullmatch(text, last, start):
        return False
    if text[last:start] == " ":
        # lines that are folded, or pasted as one
        return end - start == last - first
    if text[last] == "=" and last - first not in _MAIL_LINE:
        # the end of a token
        return False
    if not _LINE_END.search(text, last, start):
        return False
    if len(lines.runs) == 1:
        return True
    return last - first == lines.width and end - start <= lines.width


def _ended(text: str, lines: _Lines) -> _Lines:
    """Return the lines with the last one, if it is short, and with padding."""
    between = _BETWEEN.match(text, lines.end) if len(lines.runs) > 1 else None
    rest = _REST.match(text, between.end()) if between and _LINE_END.search(text, *between.span()) else None
    if rest and rest.end() - rest.start() <= lines.width and _is_rest(rest[0]):
        lines.runs.append(rest.span())
        lines.end = rest.end()
    while padding := _PADDING.match(text, lines.end):
        lines.end = padding.end()
    return lines


def _is_rest(line: str) -> bool:
    """Return whether a line is the rest of a blob rather than a word."""
    is_mixed = any(map(str.isdigit, line)) and any(map(str.isupper, line)) and any(map(str.islower, line))
    return line.endswith("=") or (len(line) >= _MIN_REST and is_mixed)


def _kind(text: str, lines: _Lines, characters: _Bytes) -> str | None:
    """Return the encoding of a blob; None if it is not a blob."""
    kind = _encoding(characters)
    is_list = lines.width in _HASH_DIGITS if kind == "hex" else _begin_alike(text, lines)
    if kind is None or (lines.is_block and not is_list):
        return kind
    return kind if lines.longest >= (_MIN_IN_TOKEN if _is_in_token(text, lines) else _MIN_RUN) else None


def _begin_alike(text: str, lines: _Lines) -> bool:
    """Return whether all lines have a common prefix, as paths and tokens of one kind do. Zero bytes have one, too."""
    starts = {text[start : start + _EQUAL_START] for start, _ in lines.runs[:-1]}
    return len(lines.runs) > _MIN_LINES - 1 and len(starts) == 1 and len(set(starts.pop())) > 1


def _is_in_token(text: str, lines: _Lines) -> bool:
    """Return whether a run is a part of an address, or of a token whose parts are joined by dots."""
    start, end = lines.runs[0]
    is_joined = text[start - 1 : start] == "." or text[end : end + 1] == "."
    address = text.rfind("://", max(0, start - _TOKEN_BEFORE), start)
    return is_joined or (address >= 0 and _BEHIND_ADDRESS.search(text, address, start) is None)


def _encoding(characters: _Bytes) -> str | None:
    """Return base64, base32 or hex, if the characters look random."""
    varied = _varied(characters)
    total = len(varied)
    if total < _MIN_VARIED:
        return None
    counts = np.bincount(varied, minlength=256)
    distinct = int(np.count_nonzero(counts))
    digits, upper, lower = (int(counts[first : last + 1].sum()) for first, last in (b"09", b"AZ", b"az"))
    hexes = max(int(counts[first : last + 1].sum()) for first, last in (b"AF", b"af"))
    # an `x` may follow the first zero
    if total - digits - hexes <= 1:
        return "hex" if distinct >= _HEX_DISTINCT and _HEX_LETTERS[0] <= hexes / total <= _HEX_LETTERS[1] else None
    if upper + digits == total and _BASE32_DIGITS[0] <= digits / total <= _BASE32_DIGITS[1]:
        return "base32" if distinct >= _MIN_DISTINCT else None
    if lower + digits == total and _BASE36_DIGITS[0] <= digits / total <= _BASE36_DIGITS[1]:
        vowels = int(counts[list(b"aeiou")].sum())
        return "base36" if distinct >= _MIN_DISTINCT and vowels <= _MAX_VOWELS * lower else None
    kinds = np.frombuffer(varied.tobytes().translate(_KINDS), dtype=np.uint8)
    changes = np.count_nonzero(kinds[1:] != kinds[:-1])
    is_mixed = min(upper, lower) >= _MIN_CASE * total and digits >= _MIN_DIGITS * total and distinct >= _MIN_DISTINCT
    small = np.count_nonzero((kinds[1:] == _LOWER) & (kinds[:-1] == _LOWER))
    is_random = changes >= _MIN_CHANGES * total and small <= _MAX_SMALL * total
    return "base64" if is_mixed and is_random else None


def _varied(characters: _Bytes) -> _Bytes:
    """Return the characters without repetitions."""
    if len(characters) < _EQUAL:
        return characters
    equal = characters[1:] == characters[:-1]
    runs = equal[:-2] & equal[1:-1] & equal[2:]
    is_run = np.zeros(len(characters), dtype=np.bool_)
    for step in range(_EQUAL):
        is_run[step : len(runs) + step] |= runs
    return characters[~is_run]
