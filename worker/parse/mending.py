"""Where code is broken, so that one stray quote or brace costs the definition it is in, and not all that follows.

A parser that meets an error can take the rest of a file for a string or for the body of one function. Blank lines and
indentation tell apart what belongs together all the same: each such part is parsed by itself, and those with errors
are the broken ones. The rest is parsed again with blanks in their place.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain, islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Parser, Tree

#: What begins a part, behind a blank line and the indentation of its level: anything but the end of something. In
#: Python, whose texts in quotes have paragraphs, a definition.
_BEGINS = {"python": rb"(?:async[ ]|class[ ]|def[ ]|@)"}
_ANYTHING = rb"[^\s)\]}]"

#: Lines of C and C++ that are no part of anything: what they open is closed far away.
_APART = re.compile(
    rb"^(?:(?:inline[ ]+)?namespace\b|extern[ ]+\"C\")[^\n;{]*\n?\{[ \t]*\r?\n(?=\S|\r?\n)|^\}+;?[ \t]*(?://|/\*)[^\n]*$",
    re.MULTILINE,
)
#: Such lines by language; in PHP what begins its code, without which the rest is none.
_LEFT_OUT = {"c": _APART, "cpp": _APART, "php": re.compile(rb"\A(?:#![^\n]*\n)?<\?php\s")}

#: Bytes of a broken part from which on the parts within it are looked at.
_LARGE = 1_000

#: Share of a text that may be broken, and number of parts; where there is more, something else is the matter.
_MOST_OF_TEXT = 0.5
_MOST_PARTS = 3

#: Parts that may belong together.
_MOST_TOGETHER = 3

#: Bytes of a text that is looked at: each of its broken parts takes time for all that is above it.
_LONGEST = 1_000_000

#: What members are parsed within, by language.
_AROUND = {
    "cpp": (b"class A {", b"};"),
    "csharp": (b"class A {", b"}"),
    "java": (b"class A {", b"}"),
    "javascript": (b"class A {", b"}"),
    "php": (b"<?php class A {", b"}"),
    "python": (b"", b""),
    "ruby": (b"class A;", b"\nend"),
    "rust": (b"impl A {", b"}"),
    "tsx": (b"class A {", b"}"),
    "typescript": (b"class A {", b"}"),
}
_BEFORE = {"php": b"<?php "}

Span = tuple[int, int]
Around = tuple[bytes, bytes]


def broken(data: bytes, language: str, parser: Parser) -> list[tuple[int, int, Tree]]:
    """Spans of the parts with errors and their own trees, whose bytes count from the text's start; none if too many."""
    if len(data) > _LONGEST:
        return []
    found = list(islice(_broken(data, language, parser), _MOST_PARTS + 1))
    size = sum(end - start for start, end, _ in found)
    if len(found) > _MOST_PARTS or size > _MOST_OF_TEXT * len(data):
        return []
    return [(start, end, _tree(data, start, end, parser, around)) for start, end, around in found]


def without(data: bytes, spans: list[Span]) -> bytes:
    """The text with blanks in place of spans, but with its line breaks."""
    mended = bytearray(data)
    for start, end in spans:
        mended[start:end] = re.sub(rb"[^\n]", b" ", data[start:end])
    return bytes(mended)


def _broken(data: bytes, language: str, parser: Parser) -> Iterator[tuple[int, int, Around]]:
    around = (_BEFORE.get(language, b""), b"")
    parts = list(_parts(data, _border(language, b""), 0, len(data), _LEFT_OUT.get(language)))
    for start, end in _unsound(data, parts, parser, around):
        inner = list(_inner(data, language, parser, start, end)) if end - start > _LARGE else []
        if inner:
            yield from inner
        else:
            yield start, end, around


def _inner(data: bytes, language: str, parser: Parser, start: int, end: int) -> Iterator[tuple[int, int, Around]]:
    """The broken ones of the parts one step within a part, such as methods of a class."""
    indents = [found[1] for found in re.finditer(rb"\n([ \t]+)[^\s]", data[start:end])]
    if not indents or language not in _AROUND:
        return
    closing = re.compile(rb"\n[)\]}\w][^\n]*+\s*+\Z").search(data, start, end)
    border = _border(language, min(indents, key=len))
    # the first is the head of what is around them
    _, *parts = _parts(data, border, start, closing.start() if closing else end)
    for first, last in _unsound(data, parts, parser, _AROUND[language]):
        yield first, last, _AROUND[language]


def _border(language: str, indent: bytes) -> re.Pattern[bytes]:
    begins = _BEGINS.get(language, _ANYTHING)
    return re.compile(rb"(?:\A|(?<=\n)[ \t]*\r?\n)(?=%s%s)" % (re.escape(indent), begins))


def _parts(
    data: bytes, border: re.Pattern[bytes], start: int, end: int, apart: re.Pattern[bytes] | None = None
) -> Iterator[Span]:
    left_out = {found.span() for found in apart.finditer(data, start, end)} if apart else set()
    borders = {end, *(found.end() for found in border.finditer(data, start, end)), *chain(*left_out)}
    at = start
    for place in sorted(borders):
        if place > at and (at, place) not in left_out:
            yield at, place
        at = place


def _unsound(data: bytes, parts: list[Span], parser: Parser, around: Around) -> Iterator[Span]:
    """The parts with errors, but for those that are sound together: a comment with blank lines goes over them."""
    index = 0
    while index < len(parts):
        start, end = parts[index]
        most = _MOST_TOGETHER if _is_open(data[start:end]) else 1
        ends = (last for _, last in parts[index : index + most])
        together = next((n for n, last in enumerate(ends, 1) if not _has_error(data[start:last], parser, around)), 0)
        if not together:
            yield start, end
        index += together or 1


def _is_open(part: bytes) -> bool:
    """Whether a part ends within a comment, or before the end of a condition for a preprocessor."""
    return part.rfind(b"/*") > part.rfind(b"*/") or part.count(b"\n#if") + part.startswith(b"#if") > part.count(
        b"\n#endif"
    )


def _has_error(part: bytes, parser: Parser, around: Around) -> bool:
    before, after = _around(part, around)
    return parser.parse(before + part + after).root_node.has_error


def _tree(data: bytes, start: int, end: int, parser: Parser, around: Around) -> Tree:
    """The tree of a part at its place, with what is put around it in place of the text above."""
    part = data[start:end]
    before, after = _around(part, around)
    if start < len(before):
        # there is no room for it
        before, after = b"", b""
    return parser.parse(before.rjust(start) + part + after)


def _around(part: bytes, around: Around) -> Around:
    """What a part is parsed within: nothing where it says itself that it is PHP."""
    return (b"", b"") if part.startswith(b"<?") else around
