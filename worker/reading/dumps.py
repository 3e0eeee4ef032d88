"""Binary data written in lines of a fixed form, or byte by byte: hex dumps, uuencode, base85, arrays in code.

Each form is unique: addresses that count the bytes of the line, a mark at each line, a prefix at each byte. The
distribution of decimal byte values, and of signs in a run, distinguishes them from tables and code.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from worker.reading.edits import Edit
from worker.tokens.byte_tables import Bytes, Offsets, byte_table, in_latin

#: Minimum characters of a block. Most chunks are shorter, and each search in them takes time.
MIN_CHARS = 1_000
_MIN_LINES = 6
#: Minimum bytes of an array. A program's table has up to 256 values, or a few such rows.
_MIN_ARRAY = 2_048
#: A byte takes at least three characters, and the last one two.
_MIN_CHARS_OF_ARRAY = 3 * _MIN_ARRAY - 1
#: Maximum columns of a table. An array without indents has more numbers on each line.
_MAX_COLUMNS = 7
#: Share of a dump's lines whose address is the previous line's plus its bytes.
_MIN_COUNTED = 0.7
#: Bases of addresses.
_BASES = (16, 8, 10)
#: Share of letters in uuencode; capital words have more.
_MAX_LETTERS = 0.6

_KILO, _MEGA = 1_000, 1_000_000
_HEX = "[0-9A-Fa-f]"
_DIGITS = rf"(?:0x)?{_HEX}{{2,8}}"
_START = rf"[ \t]{{0,8}}(?:0x)?{_HEX}{{4,16}}[:h]?[ \t]{{1,4}}"
#: A line: its address, at least four groups of digits, and the characters for these bytes.
_LINE = rf"\n{_START}{_DIGITS}(?:(?:[ \t]{{1,3}}|-){_DIGITS}){{3,31}}[^\n]{{0,90}}"
_DUMP = re.compile(rf"{_LINE}(?:\n\*\r?(?=\n)|{_LINE})+")
_ADDRESS = re.compile(rf"\n[ \t]*(?:0x)?({_HEX}+)[:h]?((?:(?:[ \t]{{1,4}}|-)(?:0x)?{_HEX}{{2,8}})+)")
_GROUP = re.compile(rf"{_HEX}{{2,8}}(?!x)")
_OF_UUENCODE = r"M[ -`]{60}\r?"
_UUENCODED = re.compile(rf"\n{_OF_UUENCODE}(?:\n{_OF_UUENCODE}){{2,}}(?:\n[ -L][ -`]{{1,60}}\r?(?=\n|\Z))?")
#: A binary file in a patch of git, and Adobe's base85.
_BASE85 = "[0-9A-Za-z!#$%&()*+;<=>?@^_`{|}~-]"
_OF_PATCH = rf"z{_BASE85}{{65}}"
_PATCH = re.compile(rf"\n{_OF_PATCH}(?:\n{_OF_PATCH}){{2,}}(?:\n[A-Za-z]{_BASE85}{{5,65}}(?=\n|\Z))?")
_ASCII85 = re.compile(r"<~[!-uz\s]{200,}~>")
_PREFIX = r"(?:0[xX]|\$|&H)"
_ONE_OF_ARRAY = rf"{_PREFIX}{_HEX}{{1,16}}[uUlL]{{0,3}}\b"
#: A cast, or the word of an assembler in front of the numbers of a line.
_IN_FRONT = r"(?:\(byte\)[ ]?|(?:\.[a-z]{3,5}|[dD][bBwWdDqQ]|DC\.[BWL])[ \t]{1,9})"
_ARRAY = re.compile(rf"{_ONE_OF_ARRAY}(?:[,\s]{{1,60}}{_IN_FRONT}?{_ONE_OF_ARRAY})+")
_DIGITS_OF_ARRAY = re.compile(rf"{_PREFIX}({_HEX}+)")
#: Bytes or words of 32 bits as decimal numbers, perhaps with a sign, as in JSON and Java.
_DECIMAL = "-?[0-9]{1,10}"
#: Repeats single characters alone: to repeat a group takes 200 bytes of memory for each number.
_DECIMALS = re.compile(rf"(?<![\w.-]){_DECIMAL},[-0-9, \t\r\n]*[0-9](?![\w.])")
_EACH_DECIMAL = re.compile(_DECIMAL)
_INDENTED = re.compile(r"\n[ \t]")
_SOME_DECIMALS = re.compile(rf"[0-9],[ \t\r\n]{{0,20}}{_DECIMAL},")
_ONE_ESCAPED = rf"(?:\\(?:x{_HEX}{{2}}|[0-3][0-7]{{2}}|u00{_HEX}{{2}})|%{_HEX}{{2}})"
#: Escapes, with unescaped signs between them.
_ESCAPED = re.compile(rf"{_ONE_ESCAPED}(?:(?:[^\\]|\\[^xu]){{0,60}}?{_ONE_ESCAPED})+")
#: Share of escapes among the bytes.
_MIN_ESCAPED = 0.4
_CODE = re.compile(rf"\\(?:x|u00)({_HEX}{{2}})|\\([0-3][0-7]{{2}})|%({_HEX}{{2}})")
#: Bytes in hex with one sign between them, also at the ends of lines, as dumps of keys and registries have, or blanks.
_BY_SIGN = rf"{_HEX}{{2}}(?P<sign>[:,.|-]){_HEX}{{2}}(?:(?P=sign){_HEX}{{2}}){{6,}}"
_BY_SAME = rf"(?P=sign)\\?\r?\n[ \t]{{0,20}}{_HEX}{{2}}(?:(?P=sign){_HEX}{{2}}){{7,}}"
_BY_BLANK = rf"{_HEX}{{2}}(?: {_HEX}{{2}}){{7,}}"
_SEPARATED = re.compile(rf"\b(?:{_BY_SIGN}(?:{_BY_SAME})*|{_BY_BLANK}(?: ?\r?\n[ \t]{{0,20}}{_BY_BLANK})*)")
_SOME_SEPARATED = re.compile(rf"{_HEX}{_HEX}[:,.| -](?:{_HEX}{{2}}[:,.| -]){{3}}")
#: Maximum bytes of a truncated character.
_MAX_CUT = 3
#: Number of byte values, and the minimum share of each quarter of them among the bytes of most files.
_VALUES, _MIN_QUARTER = 256, 0.02
#: Fewest different bytes of an array.
_MIN_DISTINCT = 64
#: Minimum shares of downward and upward steps, which sorted tables lack. Maximum share of small steps; curves have
#: more.
_MIN_STEPS, _SMALL_STEP, _MAX_SMALL_STEPS = 0.1, 2, 0.6
#: Signs of a long run, on one line or on several.
_RUN = re.compile(r"(?<![!-~])[!-~]{60,}(?:\r?\n[!-~]{60,})*(?:\r?\n[!-~]{1,60}(?![^\s]))?")
_MIN_RUN, _BLANKLESS = 512, 256
#: Ranges of the shares of capitals, small letters, digits and others in random signs.
_SHARES = {"A": (0.2, 0.4), "a": (0.2, 0.4), "0": (0.06, 0.2), ".": (0.15, 0.45)}
_LETTERS_AND_DIGITS = bytes(n for n in range(128) if chr(n).isalnum())
_KINDS = bytes(
    ord("A" if 65 <= n <= 90 else "a" if 97 <= n <= 122 else "0" if 48 <= n <= 57 else ".")  # noqa: PLR2004 - ASCII
    for n in range(256)
)
#: Maximum share of small letters after another one, which code exceeds, and the minimum number of distinct signs.
_MAX_SMALL_PAIRS, _MIN_SIGNS = 0.15, 60
#: Maximum share of one sign among the others than letters and digits: a list of ids has more quotes or commas.
_MAX_OF_ONE_SIGN = 0.25
#: Share of letters among the digits of hex; numbers have none.
_MIN_HEX_LETTERS = 0.2
#: Minimum share of small numbers in an array of words. A fifth of random words are small, but few ids of accounts.
_MIN_SMALL, _LARGE = 0.1, 10**9
#: Files for chip programmers: Intel's and Motorola's.
_OF_RECORDS = rf"\n(?::|S[0-3]){_HEX}{{10,80}}\r?"
_RECORDS = re.compile(rf"{_OF_RECORDS}(?:{_OF_RECORDS}){{{_MIN_LINES - 1},}}(?=\n|\Z)")

#: Characters of addresses and digits are one kind here.
_SHAPES = bytes(
    ord("x" if chr(n) in "0123456789abcdefABCDEFx:h" else "\n" if chr(n) == "\n" else ".") for n in range(256)
)
#: The characters in the shape of a dump's line, without blanks.
_DUMPED_LINE = b"\n" + b"x" * 12
#: A line of uuencode, a patch, or a file for chips.
_MARKED_LINE = re.compile(rf"{_OF_UUENCODE}|{_OF_PATCH}|(?::|S[0-3]){_HEX}{{10}}")
_IS_MARK, _IS_SHAPE, _IS_BLANK, _BEGINS_ESCAPE = (
    byte_table(signs) for signs in (b"MzS:", b"0123456789abcdefABCDEFx:h", b" \t", b"xu0123456789abcdefABCDEF")
)
_IS_DUMPED = _IS_SHAPE | _IS_BLANK
_BEGINS_LINE = _IS_DUMPED | _IS_MARK
#: Columns that each line of a dump has. Few other lines have such characters in all of these.
_COLUMNS = (15, 13, 11, 14, 9, 12)
#: Characters of the shortest address in a dump, of the longest one, and in front of it.
_MIN_ADDRESS, _MAX_ADDRESS, _MAX_INDENT = 4, 20, 8
#: Any `_BETWEEN` characters in a row of an array contain its prefix. The search examines that many at each `_STEP`. The
#: shortest array spans two steps.
_BETWEEN, _STEP = 80, _MIN_CHARS_OF_ARRAY // 2
#: Arrays of numbers have no other characters.
_IN_NUMBERS = re.compile(rf"[-0-9a-fA-FxXuUlL:,.|$&H\s\\()ytdDwWqQonghrsi]{{{_BETWEEN}}}")
#: Escapes that are counted together, and the nonblank characters among so many of a block: 7.5 for each on average, and
#: as a block may begin and end between them, 10 in three of its stretches.
_COUNTED, _MAX_OF_COUNTED = 256, 3_200
#: Bytes examined together, so that their arrays stay in the processor's cache.
_WINDOW = 1 << 16
#: Line ends within so many signs of a run, each of whose lines but the last has at least sixty.
_MAX_LINE_ENDS = 6


class _Form(NamedTuple):
    """A form of a block. Its `size` returns 0 for a block without that form.

    Every text with a part of such a block, even one that begins within a line, matches `least`.
    """

    kind: str
    pattern: re.Pattern[str]
    least: re.Pattern[str]
    size: Callable[[str], int]


def _dumped(block: str) -> int:
    """Return the bytes of a dump whose addresses count them, in one of the usual bases."""
    lines = _ADDRESS.findall(block)
    groups = [_GROUP.findall(of_line) for _, of_line in lines]
    addresses = [address for address, _ in lines]
    # two digits are a byte, or three in octal
    for sizes in ([sum(map(len, of_line)) // 2 for of_line in groups], list(map(len, groups))):
        counted = max(_counted(addresses, sizes, base) for base in _BASES)
        if len(lines) >= _MIN_LINES and counted >= _MIN_COUNTED * (len(lines) - 1):
            return sum(sizes)
    return 0


def _counted(addresses: Sequence[str], sizes: Sequence[int], base: int) -> int:
    """Return the number of lines whose bytes lead from their address to the next one."""
    try:
        places = [int(address, base) for address in addresses]
    except ValueError:
        return 0
    return sum(after - before == size for (before, after), size in zip(pairwise(places), sizes, strict=False))


def _uuencoded(block: str) -> int:
    """Return the bytes of lines whose letters are no more frequent than in random text."""
    return len(block) * 45 // 62 if sum(map(str.isalpha, block)) <= _MAX_LETTERS * len(block) else 0


def _array(block: str) -> int:
    """Return the bytes of an array of bytes, or of byte pairs that are not a sorted table."""
    digits = _DIGITS_OF_ARRAY.findall(block)
    if len(digits) < _MIN_ARRAY or (block[0] in "$&" and not _is_hex(digits)):
        return 0
    numbers = np.array([int(each, 16) for each in digits], dtype=np.uint64)
    highest = int(numbers.max())
    if highest < _VALUES:
        return len(digits)
    if highest < _VALUES**2:
        words = numbers.astype(np.int64)
        is_array = _is_spread(words >> 8) and _goes_up_and_down(words)
        return 2 * len(digits) if is_array and not _is_in_order(_rows(block, _DIGITS_OF_ARRAY)) else 0
    return _of_words(numbers, 4 if highest < _VALUES**4 else 8)


def _of_words(numbers: NDArray[np.uint64], width: int) -> int:
    """Return the bytes of words if each of their bytes varies like a file's: addresses, colours and code do not."""
    octets = numbers.astype("<u8").view(np.uint8).reshape(-1, 8)[:, :width]
    is_array = all(_is_spread(octets[:, place].astype(np.int64)) for place in range(width))
    return width * len(numbers) if is_array else 0


def _decimals(block: str) -> int:
    """Return the bytes of an array of numbers that are distributed like a file's bytes."""
    try:
        numbers = np.fromstring(block, dtype=np.int64, sep=",")
    except ValueError:
        # such as two commas in a row
        return 0
    low, high = int(numbers.min()), int(numbers.max())
    if len(numbers) >= _MIN_ARRAY and (high - low) >= _VALUES**2 and -(_VALUES**4) // 2 <= low <= high < _VALUES**4:
        is_mixed = np.mean(np.abs(numbers) < _LARGE) >= _MIN_SMALL
        return _of_words(numbers.view(np.uint64), 4) if is_mixed else 0
    if len(numbers) < _MIN_ARRAY or not (0 <= low <= high < _VALUES or -_VALUES // 2 <= low <= high < _VALUES // 2):
        return 0
    if not _is_spread(numbers % _VALUES) or not _goes_up_and_down(numbers):
        return 0
    is_table = _rows(block, _EACH_DECIMAL) and not _INDENTED.search(block)
    return 0 if is_table else len(numbers)


def _rows(block: str, number: re.Pattern[str]) -> Sequence[Sequence[str]]:
    """Return the numbers on each line of a table. The first and the last line may be truncated."""
    rows = list(filter(None, map(number.findall, block.split("\n")[1:-1])))
    return rows if len({*map(len, rows)}) == 1 and len(rows[0]) <= _MAX_COLUMNS else []


def _is_in_order(rows: Sequence[Sequence[str]]) -> bool:
    """Return whether the first numbers of rows rise, as in a table of code points."""
    return bool(rows) and all(int(one, 16) < int(two, 16) for (one, *_), (two, *_) in pairwise(rows))


def _is_spread(octets: NDArray[np.int64]) -> bool:
    """Return whether bytes have many values, from all quarters: codes and categories have few."""
    counts = np.bincount(octets, minlength=_VALUES)
    quarters = counts.reshape(4, -1).sum(axis=1)
    return bool(np.count_nonzero(counts) >= _MIN_DISTINCT and quarters.min() >= _MIN_QUARTER * len(octets))


def _goes_up_and_down(numbers: NDArray[np.int64]) -> bool:
    """Return whether numbers are neither sorted nor points of a curve."""
    steps = np.diff(numbers)
    steps = steps[steps != 0]
    small = np.count_nonzero(np.abs(steps) <= _SMALL_STEP)
    fewer = min(np.count_nonzero(steps < 0), np.count_nonzero(steps > 0))
    return bool(fewer >= _MIN_STEPS * len(steps) and small <= _MAX_SMALL_STEPS * len(steps) and fewer)


def _escaped(block: str) -> int:
    """Return the bytes of escapes that are not UTF-8 text, and of the signs between them."""
    data = bytes(int(hexes or octal or percent, 8 if octal else 16) for hexes, octal, percent in _CODE.findall(block))
    between = len("".join(_CODE.sub("", block).split()))
    size = len(data) + between
    is_dense = len(data) >= max(_MIN_ARRAY // 2, _MIN_ESCAPED * size)
    return size if size >= _MIN_ARRAY and is_dense and not _is_text(data) else 0


def _random(block: str) -> int:
    """Return the bytes of random signs, as in base85 and passwords."""
    signs = "".join(block.split()).encode()
    if len(signs) < _MIN_RUN or len(set(signs)) < _MIN_SIGNS:
        return 0
    kinds = signs.translate(_KINDS)
    is_mixed = all(
        low * len(kinds) <= kinds.count(kind.encode()) <= high * len(kinds) for kind, (low, high) in _SHARES.items()
    )
    pairs = np.frombuffer(kinds, dtype=np.uint8) == ord("a")
    small = np.count_nonzero(pairs[1:] & pairs[:-1])
    is_random = is_mixed and small <= _MAX_SMALL_PAIRS * len(signs) and not _is_list(signs)
    return len(signs) * 4 // 5 if is_random else 0


def _is_list(signs: bytes) -> bool:
    """Return whether one sign is so frequent that it separates words, which people search for."""
    others = signs.translate(None, _LETTERS_AND_DIGITS)
    return any(others.count(sign) > _MAX_OF_ONE_SIGN * len(others) for sign in set(others))


def _is_text(data: bytes) -> bool:
    """Return whether bytes are UTF-8. The first and the last character may be truncated."""
    return len(data) - len(data.decode(errors="ignore").encode()) <= 2 * _MAX_CUT


def _separated(block: str) -> int:
    pairs = re.findall(_HEX + "{2}", block)
    return len(pairs) if len(pairs) >= _MIN_ARRAY and _is_hex(pairs) else 0


def _is_hex(numbers: Sequence[str]) -> bool:
    """Return whether numbers have as many letters as hex: prices have none."""
    digits = "".join(numbers)
    return sum(map(str.isalpha, digits)) >= _MIN_HEX_LETTERS * len(digits)


_HEX_DUMP = _Form("hex dump", _DUMP, re.compile(_LINE), _dumped)
_UUENCODE = _Form("uuencode", _UUENCODED, re.compile(rf"\n{_OF_UUENCODE}"), _uuencoded)
_OF_GIT = _Form("base85", _PATCH, re.compile(rf"\n{_OF_PATCH}"), lambda block: len(block) * 52 // 67)
_OF_ADOBE = _Form("base85", _ASCII85, _ASCII85, lambda block: len(block) * 4 // 5)
_OF_CHIPS = _Form("hex dump", _RECORDS, re.compile(_OF_RECORDS), lambda block: sum(map(str.isalnum, block)) // 2)
_OF_CHANCE = _Form("random characters", _RUN, _RUN, _random)
_OF_ESCAPES = _Form("bytes", _ESCAPED, _ESCAPED, _escaped)
_SOME_ESCAPED = re.compile(_ONE_ESCAPED)
#: Arrays of numbers, with a pattern that some part of each matches.
_ARRAYS = {
    re.compile(rf"{_PREFIX}{_HEX}"): _Form("bytes", _ARRAY, _ARRAY, _array),
    _SOME_DECIMALS: _Form("bytes", _DECIMALS, _DECIMALS, _decimals),
    _SOME_SEPARATED: _Form("bytes", _SEPARATED, _SEPARATED, _separated),
}


def dumps(text: str) -> Sequence[Edit]:
    """Return the blocks of a text in order, with their placeholders."""
    forms = _usable(text)
    lines = f"\n{text}" if forms else ""
    found = sorted(edit for form in forms for edit in _of_form(lines, form))
    return [edit for number, edit in enumerate(found) if not number or edit.start >= found[number - 1].end]


def may_have(text: str) -> bool:
    """Return whether a text, or a part of it, may have a block."""
    forms = _usable(text)
    lines = f"\n{text}" if forms else ""
    return any(form.least.search(lines) for form in forms)


def placeholder(kind: str, size: int, media: str = "") -> str:
    """Return the text that replaces bytes in a readable text."""
    shown = f"{size} bytes" if size < _KILO else f"{size / _KILO:.0f} kB" if size < _MEGA else f"{size / _MEGA:.1f} MB"
    return f"[{kind}, {shown}, {media}]" if media else f"[{kind}, {shown}]"


def _usable(text: str) -> Sequence[_Form]:
    """Return the forms that a text may have, according to fast searches."""
    if len(text) < MIN_CHARS:
        return ()
    may_have_dump = has_marked = may_have_run = False
    for start in range(0, len(text) + 1, _WINDOW):
        octets = _octets(text, start, start + _WINDOW + _MAX_INDENT + _MAX_ADDRESS)
        places = _encoded_lines(octets)
        may_have_dump = may_have_dump or _may_have_dump(octets, places)
        has_marked = has_marked or any(
            _MARKED_LINE.match(text, start + place - 1) for place in _marked(octets, places).tolist()
        )
        may_have_run = may_have_run or _may_have_run(octets[:_WINDOW])
    found = [_HEX_DUMP] if may_have_dump and _has_dumped_line(text) else []
    if has_marked:
        found += (_UUENCODE, _OF_GIT, _OF_CHIPS)
    if "~" in text:
        found.append(_OF_ADOBE)
    if may_have_run:
        found.append(_OF_CHANCE)
    return [*found, *_usable_arrays(text)]


def _octets(text: str, start: int, end: int) -> Bytes:
    """Return a byte for each character of a stretch of the text behind a line end."""
    stretch = text[start - 1 : end - 1] if start else f"\n{text[: end - 1]}"
    return np.frombuffer(in_latin(stretch), dtype=np.uint8)


def _has_dumped_line(text: str) -> bool:
    return _DUMPED_LINE in b"\n" + in_latin(text).translate(_SHAPES, b" \t")


def _encoded_lines(octets: Bytes) -> Offsets:
    """Return the starts of lines that begin like those of an encoding."""
    places = (octets[:_WINDOW] == ord("\n")).nonzero()[0] + 1
    encoded: Offsets = places[_BEGINS_LINE.take(octets.take(places, mode="clip"))]
    return encoded


def _marked(octets: Bytes, places: Offsets) -> Offsets:
    """Return the starts of marked lines. No small letter is the second character of most of these."""
    marks = octets.take(places, mode="clip")
    places, marks = places[_IS_MARK.take(marks)], marks[_IS_MARK.take(marks)]
    is_letter = (marks == ord("M")) | (marks == ord("S"))
    marked: Offsets = places[~is_letter | (octets.take(places + 1, mode="clip") <= ord("`"))]
    return marked


def _may_have_dump(octets: Bytes, places: Offsets) -> bool:
    """Return whether a line begins like one of a dump."""
    for column in _COLUMNS:
        places = places[_IS_DUMPED.take(octets.take(places + column, mode="clip"))]
    # an address covers one of these columns
    in_address = np.stack([octets.take(places + column, mode="clip") for column in (0, _MIN_ADDRESS, _MAX_INDENT)])
    places = places[_IS_SHAPE.take(in_address).any(axis=0)]
    for _ in range(_MAX_INDENT + 1):
        heads = octets.take(places, mode="clip")
        if _begins_with_address(octets, places[_IS_SHAPE.take(heads)]):
            return True
        places = places[_IS_BLANK.take(heads)] + 1
        if not places.size:
            break
    return False


def _begins_with_address(octets: Bytes, places: Offsets) -> bool:
    """Return whether an address and a blank follow one of the places."""
    for length in range(1, _MAX_ADDRESS):
        if not places.size:
            return False
        heads = octets.take(places + length, mode="clip")
        if length >= _MIN_ADDRESS and _IS_BLANK.take(heads).any():
            return True
        places = places[_IS_SHAPE.take(heads)]
    return False


def _may_have_run(octets: Bytes) -> bool:
    """Return whether some stretch of a text has no blanks and few line ends. Each long run contains such a stretch."""
    stretches = octets[: len(octets) // _BLANKLESS * _BLANKLESS].reshape(-1, _BLANKLESS)
    stretches = stretches[~(stretches == ord(" ")).any(axis=1)]
    ends = (stretches == ord("\n")) | (stretches == ord("\r"))
    are_signs = ends | ((stretches > ord(" ")) & (stretches <= ord("~")))
    return bool((are_signs.all(axis=1) & ((stretches == ord("\n")).sum(axis=1) <= _MAX_LINE_ENDS)).any())


def _usable_arrays(text: str) -> Iterator[_Form]:
    """Yield the arrays that a text may have: each contains at least one of the sampled places."""
    sampled = [text[place : place + _BETWEEN] for place in range(0, len(text) - _STEP, _STEP)]
    if ("\\" in text or "%" in text) and any(map(_SOME_ESCAPED.search, sampled)) and _may_have_escapes(text):
        yield _OF_ESCAPES
    in_numbers = list(filter(_IN_NUMBERS.fullmatch, sampled))
    yield from (form for some, form in _ARRAYS.items() if any(map(some.search, in_numbers)))


def _may_have_escapes(text: str) -> bool:
    """Return whether enough escapes of bytes are as close together as those of a block are on average."""
    found = [_escapes_of(_octets(text, start, start + _WINDOW + 1)) + start for start in range(0, len(text), _WINDOW)]
    places = np.concatenate(found)[::_COUNTED].tolist()
    return any(_shown(_octets(text, *stretch)) <= _MAX_OF_COUNTED for stretch in pairwise(places))


def _escapes_of(octets: Bytes) -> Offsets:
    """Return the places of a stretch, without its last one, where an escape may begin."""
    places: Offsets = ((octets == ord("\\")) | (octets == ord("%")))[:-1].nonzero()[0]
    begun: Offsets = places[_BEGINS_ESCAPE.take(octets[places + 1])]
    return begun


def _shown(octets: Bytes) -> int:
    """Return the number of certainly nonblank characters. A question mark may be a blank outside Latin-1."""
    return int(np.count_nonzero((octets - ord("!") <= ord("~") - ord("!")) & (octets != ord("?"))))


def _of_form(text: str, form: _Form) -> Iterator[Edit]:
    """Yield the blocks of one form, at their positions in the text without its first line break."""
    least = _MIN_CHARS_OF_ARRAY if form.kind == "bytes" else 0
    for match in form.pattern.finditer(text):
        if match.end() - match.start() >= least and (size := form.size(match[0])):
            yield Edit(match.start() - (match[0][0] != "\n"), match.end() - 1, placeholder(form.kind, size))
