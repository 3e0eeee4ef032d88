"""Bytes that are written in lines of a fixed form, or one by one: hex dumps, uuencode, base85, arrays in code.

Each has a form that no other text has: addresses that count the bytes of the line, a mark at each line, a prefix at
each byte.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from worker.reading.edits import Edit

#: Characters of the shortest block. Most chunks are shorter, and what is looked for in each takes time.
MIN_CHARS = 1_000
_MIN_LINES = 6
#: Bytes of the shortest array. A table of a program has as many as a byte has values, or a few such rows.
_MIN_ARRAY = 2_048
#: Share of the lines of a dump whose address is that of the line before and its bytes.
_MIN_COUNTED = 0.7
#: Bases of addresses.
_BASES = (16, 8, 10)
#: Share of letters in uuencode; among capitals, words have more.
_MAX_LETTERS = 0.6

_KILO, _MEGA = 1_000, 1_000_000
_HEX = "[0-9A-Fa-f]"
_DIGITS = rf"(?:0x)?{_HEX}{{2,8}}"
#: The beginning of a line, which is compared with each line of each text.
_START = rf"[ \t]{{0,8}}(?:0x)?{_HEX}{{4,16}}[:h]?[ \t]{{1,4}}"
#: A line: its address, at least four groups of digits, and the characters that they stand for.
_LINE = rf"\n{_START}{_DIGITS}(?:[ \t]{{1,3}}{_DIGITS}){{3,31}}[^\n]{{0,90}}"
_DUMP = re.compile(rf"{_LINE}(?:\n\*\r?(?=\n)|{_LINE})+")
_ADDRESS = re.compile(rf"\n[ \t]*(?:0x)?({_HEX}+)[:h]?((?:[ \t]{{1,4}}(?:0x)?{_HEX}{{2,8}})+)")
_GROUP = re.compile(rf"{_HEX}{{2,8}}(?!x)")
_UUENCODED = re.compile(r"\nM[ -`]{60}\r?(?:\nM[ -`]{60}\r?){2,}(?:\n[ -L][ -`]{1,60}\r?(?=\n|\Z))?")
#: A binary file in a patch of git, and Adobe's base85.
_OF_PATCH = "[0-9A-Za-z!#$%&()*+;<=>?@^_`{|}~-]"
_PATCH = re.compile(rf"\nz{_OF_PATCH}{{65}}(?:\nz{_OF_PATCH}{{65}}){{2,}}(?:\n[A-Za-z]{_OF_PATCH}{{5,65}}(?=\n|\Z))?")
_ASCII85 = re.compile(r"<~[!-uz\s]{200,}~>")
#: A line of which dumps, uuencode and patches consist. One search for it tells most texts apart.
_BLOCK_LINE = re.compile(rf"\n(?:M[ -`]{{60}}|z{_OF_PATCH}{{65}}|{_START})")
_ARRAY = re.compile(rf"0x{_HEX}{{2}}\b(?:[,\s]{{1,60}}0x{_HEX}{{2}}\b)+")
_ESCAPED = re.compile(rf"\\x{_HEX}{{2}}(?:[\"'\s+]{{0,60}}\\x{_HEX}{{2}})+")


class _Form(NamedTuple):
    """A form of a block, which has the `sign` and at least so many characters. Its `size` is 0 if it is none."""

    kind: str
    sign: str
    characters: int
    pattern: re.Pattern[str]
    size: Callable[[str], int]


def _dumped(block: str) -> int:
    """The bytes of a dump whose addresses count them, in one of the usual bases."""
    lines = _ADDRESS.findall(block)
    sizes = [sum(map(len, _GROUP.findall(groups))) // 2 for _, groups in lines]
    addresses = [address for address, _ in lines]
    counted = max(_counted(addresses, sizes, base) for base in _BASES)
    return sum(sizes) if len(lines) >= _MIN_LINES and counted >= _MIN_COUNTED * (len(lines) - 1) else 0


def _counted(addresses: Sequence[str], sizes: Sequence[int], base: int) -> int:
    """The lines whose bytes lead from their address to the next one."""
    try:
        places = [int(address, base) for address in addresses]
    except ValueError:
        return 0
    return sum(after - before == size for (before, after), size in zip(pairwise(places), sizes, strict=False))


def _uuencoded(block: str) -> int:
    """The bytes of lines in which letters are no more frequent than chance has them."""
    return len(block) * 45 // 62 if sum(map(str.isalpha, block)) <= _MAX_LETTERS * len(block) else 0


def _array(block: str, prefix: str) -> int:
    return size if (size := block.count(prefix)) >= _MIN_ARRAY else 0


_FORMS = (
    _Form("hex dump", "\n", MIN_CHARS, _DUMP, _dumped),
    _Form("uuencode", "\n", MIN_CHARS, _UUENCODED, _uuencoded),
    _Form("base85", "\n", MIN_CHARS, _PATCH, lambda block: len(block) * 52 // 67),
    _Form("base85", "~", MIN_CHARS, _ASCII85, lambda block: len(block) * 4 // 5),
    _Form("bytes", "0x", 5 * _MIN_ARRAY, _ARRAY, lambda block: _array(block, "0x")),
    _Form("bytes", "\\x", 4 * _MIN_ARRAY, _ESCAPED, lambda block: _array(block, "\\x")),
)


def dumps(text: str) -> Sequence[Edit]:
    """The blocks of a text in order, with their placeholders."""
    if len(text) < MIN_CHARS:
        return ()
    lines = f"\n{text}"
    found = sorted(edit for form in _usable(lines) for edit in _of_form(lines, form))
    return [edit for number, edit in enumerate(found) if not number or edit.start >= found[number - 1].end]


def may_have(text: str) -> bool:
    """Whether a text may have a block."""
    if len(text) < MIN_CHARS:
        return False
    lines = f"\n{text}"
    return any(form.pattern.search(lines) for form in _usable(lines))


def placeholder(kind: str, size: int, media: str = "") -> str:
    """What stands for bytes when a text is read."""
    shown = f"{size} bytes" if size < _KILO else f"{size / _KILO:.0f} kB" if size < _MEGA else f"{size / _MEGA:.1f} MB"
    return f"[{kind}, {shown}, {media}]" if media else f"[{kind}, {shown}]"


def _usable(text: str) -> list[_Form]:
    has_lines = _BLOCK_LINE.search(text) is not None
    return [
        form
        for form in _FORMS
        if len(text) >= form.characters and (has_lines if form.sign == "\n" else form.sign in text)
    ]


def _of_form(text: str, form: _Form) -> Iterator[Edit]:
    """The blocks of one form, at their places in the text without its first line break."""
    for match in form.pattern.finditer(text):
        if size := form.size(match[0]):
            yield Edit(match.start() - (match[0][0] != "\n"), match.end() - 1, placeholder(form.kind, size))
