r"""Escapes in JSON, and in strings of code, configuration and logs: `\u00f6`, `\xc3\xb6`, `\303\266`, `\n`.

Every text is read alike, regardless of the context of an escape: a chunk may begin within a string.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from heapq import merge
from itertools import chain
from operator import methodcaller

from worker.reading import dialects
from worker.reading.edits import Edit, all_of, made_edit
from worker.reading.entities import ENTITY, decoded_entity
from worker.tokens.invisible import WINDOWS

_HEX = "[0-9A-Fa-f]"
#: Escapes of characters, without the backslash. JSON within JSON has several in front of one, and Java several letters.
_NAME = rf"N\{{(?:U\+{_HEX}{{2,6}}|[A-Za-z0-9 -]{{2,80}})\}}"
_BRACED = rf"u\{{{_HEX}{{1,6}}(?: {_HEX}{{1,6}}){{0,15}}\}}"
#: A letter of Latin-1 as C# writes it. Elsewhere this is a zero in front of two digits, so it counts in a word alone.
_WIDE = rf"x00[c-fC-F]{_HEX}"
_UNICODE = (
    rf"(?:u{{1,4}}{_HEX}{{4}}|{_BRACED}|U00(?:0{_HEX}|10){_HEX}{{4}}|U{_HEX}{{4}}|{_NAME}|x\{{{_HEX}{{2,6}}\}}|{_WIDE})"
)
#: Escapes of bytes. Octal ones below 200 may be groups of regular expressions, unless there are several.
_BYTE = rf"(?:x{_HEX}{{2}}|[23][0-7]{{2}})"
_BYTES = rf"(?:{_BYTE}|1[0-7]{{2}})"
_FIRST_BYTE = rf"(?:{_BYTE}|1[0-7]{{2}}(?=(?:\\{_BYTES}){{2}}))"
#: The bytes of one character by their decimal numbers, as in Lua. No octal number of a letter begins like this.
_DECIMAL = r"(?:19[4-9]|2[0-3]\d|24[0-4])(?:\\1(?:2[89]|[3-8]\d|9[01])){1,3}"
#: A letter in a style sheet, with more digits than an octal escape has, and a blank that ends it.
_STYLE = (
    rf"(?:0000{_HEX}{{2}}|000(?=[0-9]{{0,2}}[A-Fa-f]){_HEX}{{3}}"
    rf"|(?:00{_HEX}{{2}}|0(?=[0-9]{{0,2}}[A-Fa-f]){_HEX}{{3}})(?!{_HEX}))"
)
#: A run is divided, as each of its escapes takes some hundred bytes while it is matched. The halves of a pair, and the
#: bytes of a character, stay together.
_WHOLE = rf"(?:u[dD][89abAB]{_HEX}{{2}}\\{{1,8}}u[dD][c-fC-F]{_HEX}{{2}}|{_UNICODE})"
_RUN = rf"\\{{0,7}}{_WHOLE}(?:\\{{1,8}}{_WHOLE}){{0,1023}}"
_CONTINUED = rf"(?:\\(?:x[89abAB]{_HEX}|2[0-7]{{2}})){{0,3}}"
_BYTE_RUN = rf"{_FIRST_BYTE}{_CONTINUED}(?:\\{_BYTES}{_CONTINUED}){{0,1023}}"
#: A run of escapes of one kind, or an escaped backslash. Patterns that begin with a constant are fast.
_ANY = re.compile(rf"\\(?:(?P<unicode>{_RUN})|\\|(?P<decimal>{_DECIMAL})|(?P<bytes>{_BYTE_RUN})|(?P<style>{_STYLE}) ?)")
#: In JSON a backslash before a byte is itself escaped.
_JSON_BYTES = _BYTE_RUN.replace(r"\\", r"\\\\")
_IN_JSON = re.compile(rf"\\(?:(?P<unicode>{_RUN})|(?P<bytes>\\{_JSON_BYTES})|(?P<one>[\"\\/bfnrt]))")
#: The common part of these escapes, which is found fast.
_ESCAPE = re.compile(r"\\(?:[uUNx1-9]|0[0-9A-Fa-f]{3}|[c-fC-F][0-9A-Fa-f][ \\])")
#: The same with as many digits as the shortest of each has. Groups of regular expressions have fewer.
_WHOLE_ESCAPE = re.compile(
    rf"\\(?:[uU]u{{0,3}}(?:{_HEX}{{4}}|\{{)|N\{{|x(?:{_HEX}{{2}}|\{{)|[1-9][0-9]{{2}}|[4-9]{_HEX}{{3}}\\"
    rf"|0{_HEX}{{3}}|[c-fC-F]{_HEX}[ \\])"
)
_ONE_UNICODE = re.compile(
    r"\\{1,8}(?:[uUx]u{0,3}\{?([0-9A-Fa-f]{1,8})\}?|N\{(?:U\+([0-9A-Fa-f]{2,6})|([A-Za-z0-9 -]{2,80}))\})"
    # several in one pair of braces
    r"| ([0-9A-Fa-f]{1,6})(?=[ }])\}?"
)
_ONE_BYTE = re.compile(r"\\(?:x(..)|(\d{3}))")
_SINGLE = {'"': '"', "\\": "\\", "/": "/", "b": " ", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
#: Backslashes and an escape of a control character or a byte before a word. Folder names look the same.
_CONTROL = re.compile(
    rf"\\(?<!\\\\)(?P<more>\\{{0,7}})(?:(?P<control>[abefnrtv])|(?P<code>x{_HEX}{{2}}|u00[01]{_HEX}))"
    r"(?P<word>[^\W_][\w.-]{0,63})"
)
#: A Windows path after its drive letter.
_PATH = re.compile(r":(?<=[A-Za-z]:)\\{1,4}[^\s\"'<>|*?:;,]{1,400}")
#: Bytes that are letters of ASCII, or may be letters of Latin-1.
_LETTERS = re.compile("x[2-7c-fC-F]")
#: A word after a terminal colour, and one after a PowerShell escape within a word.
_COLOUR = re.compile(r"\\(?:0?33|[eE]|x1[bB]|u001[bB])\[[0-9;]{0,20}m(?P<word>[^\W_][\w.-]{0,63})")
_BACKTICK = re.compile(r"`(?<=\w`)[nrt](?P<word>[^\W_][\w.-]{0,63})")
_FOLD = re.compile(r"\\\r?\n[ \t]{0,80}(?=\w)")
_SOME_FOLD = re.compile(r"\\\r?\n")
#: The end of a line of at least sixty characters that continues after one blank, or after one tab, as Outlook writes.
CONTINUED_LINE, CONTINUED_BY_TAB = (re.compile(rf"\n{blank}(?=\w)(?<=[^\n]{{60}}\n{blank})") for blank in (" ", "\t"))
#: Maximum characters of a line that continues after a tab. Tabs indent lines elsewhere.
_MAX_FOLDED = 76
_START = methodcaller("start")
#: Maximum characters of half a word.
_MAX_HALF = 32
_WORD_END, _WORD = re.compile(rf"\w{{1,{_MAX_HALF}}}\Z"), re.compile(rf"\w{{1,{_MAX_HALF}}}")
#: Blanks, invisible characters, and private characters of a font, such as Word's bullets.
_UNPRINTABLE = {"Zs", "Cf", "Co"}
#: Control characters between words of JSON.
_BLANKS = "\t\n\r"
_NO_CHARACTER = 0xFFFD
#: The first letter beyond ASCII that is one byte of Latin-1, and the last one.
_FIRST_LATIN, _LAST_LATIN = 0xC0, 0xFF
#: Maximum characters of a run of escapes whose decoded text is remembered.
_MAX_FEW = 24
#: Such letters in a row.
_MAX_LATIN = 3


def may_have_escapes(text: str) -> bool:
    """Return whether a text may have escapes of characters or bytes."""
    return ("\\" in text and _WHOLE_ESCAPE.search(text) is not None) or dialects.may_have(text)


def may_have_any(text: str) -> bool:
    """Return whether a text may have such escapes, or entities."""
    return "&" in text or may_have_escapes(text)


def may_have_json(text: str) -> bool:
    """Return whether a text may have escapes of JSON, or entities."""
    return "&" in text or "\\" in text


def in_json(text: str) -> Iterator[Edit]:
    """Return the edits that decode JSON escapes, and entities within."""
    return _with_entities(text, _in_json(text)) if "&" in text else _in_json(text)


def anywhere(text: str) -> Iterator[Edit]:
    """Return the edits that decode escapes of characters and bytes, and entities."""
    return _with_entities(text, _escapes(text)) if "&" in text else _escapes(text)


def letters(text: str) -> Iterator[Edit]:
    """Return the edits that decode escaped letters in code. Other signs and entities stay, so that few texts change."""
    return (edit for edit in _escapes(text) if any(map(str.isalpha, edit.text)))


def may_cross_lines(text: str) -> bool:
    """Return whether a text may have line ends within words, which settings and YAML fold."""
    return "\\" in text and _SOME_FOLD.search(text) is not None


def line_ends(text: str) -> Iterator[Edit]:
    """Return line ends within words, as settings and YAML fold them, with the blanks that follow."""
    for match in _FOLD.finditer(text) if "\\" in text else ():
        if text[match.start() - 1 : match.start()].isalnum():
            yield Edit(match.start(), match.end(), "")


def words_in_json(text: str) -> Iterator[str]:
    r"""Yield words without their escapes, and words after escapes in a text within the text.

    `C:\newdir` is not a path in JSON, but is meant as one.
    """
    for match in _CONTROL.finditer(text) if "\\" in text else ():
        is_read = match["control"] and not match["more"]
        yield match["control"] + match["word"] if is_read else match["word"]
    yield from _coloured(text)
    yield from _paths(text)


def words_in_code(text: str) -> Iterator[str]:
    r"""Yield words after the escape of a line break, as in `"first\nsecond"`, and folder names such as `\xdebug`."""
    for match in _CONTROL.finditer(text) if "\\" in text else ():
        code = match["code"] or ""
        if code.startswith("x"):
            yield code + match["word"]
        if not _LETTERS.match(code):
            yield match["word"]
    for match in _BACKTICK.finditer(text) if "`" in text else ():
        yield match["word"]
    yield from _coloured(text)
    yield from _paths(text)
    yield from _folded(text)
    yield from dialects.twins(text)


def _coloured(text: str) -> Iterator[str]:
    r"""Yield words after the escape of a colour, as in `"\033[31mfailed"`."""
    for match in _COLOUR.finditer(text) if "[" in text and "\\" in text else ():
        yield match["word"]


def words_across_lines(text: str) -> Iterator[str]:
    """Yield words across the ends of long lines of calendars, cards and directories."""
    return _across(text, continued_lines(text))


def continued_lines(text: str) -> Iterator[Edit]:
    """Yield the ends of long lines of calendars, cards and directories within a word. They continue after one blank."""
    by_blank = CONTINUED_LINE.finditer(text) if "\n " in text else iter(())
    by_tab = CONTINUED_BY_TAB.finditer(text) if "\n\t" in text else ()
    short = (match for match in by_tab if match.start() - text.rfind("\n", 0, match.start()) <= _MAX_FOLDED + 1)
    for match in merge(by_blank, short, key=_START):
        end = match.start() - (text[match.start() - 1] == "\r")
        if text[end - 1].isalnum():
            yield Edit(end, match.end(), "")


def _folded(text: str) -> Iterator[str]:
    """Yield words across the ends of lines of settings that are read as code."""
    return _across(text, line_ends(text))


def _across(text: str, folds: Iterator[Edit]) -> Iterator[str]:
    for fold in folds:
        before, after = _WORD_END.search(text, max(0, fold.start - _MAX_HALF), fold.start), _WORD.match(text, fold.end)
        if before and after:
            yield before[0] + after[0]


def _paths(text: str) -> Iterator[str]:
    """Yield Windows paths with names that look like escapes, such as a user's `u123456`."""
    for match in _PATH.finditer(text) if ":\\" in text else ():
        if _ESCAPE.search(match[0]):
            yield match[0]


def _with_entities(text: str, escaped: Iterator[Edit]) -> Iterator[Edit]:
    entities = _entities(text)
    if (entity := next(entities, None)) is None:
        return escaped
    entities = chain((entity,), entities)
    if (escape := next(escaped, None)) is None:
        return entities
    # no escape begins or ends within an entity, or vice versa
    return merge(chain((escape,), escaped), entities)


def _entities(text: str) -> Iterator[Edit]:
    for match in ENTITY.finditer(text):
        read = decoded_entity(match[0])
        if read is not None:
            yield made_edit((*match.span(), read))


def _in_json(text: str) -> Iterator[Edit]:
    for match in _IN_JSON.finditer(text):
        start, end = match.span()
        kind = match.lastgroup
        if kind == "one":
            yield made_edit((start, end, _SINGLE[text[start + 1]]))
        elif kind == "bytes":
            escaped = match[0].replace("\\\\", "\\")
            yield Edit(start, end, _of_utf8(escaped) or escaped)
        elif read := _characters(match[0], _BLANKS):
            yield made_edit((start, end, read))
        elif pairs := (end - start - len(match[0].lstrip("\\"))) // 2:
            # no letter follows: these are backslashes
            yield Edit(start, start + 2 * pairs, "\\" * pairs)


def _escapes(text: str) -> Iterator[Edit]:
    if not may_have_escapes(text):
        return iter(())
    return all_of(dialects.in_literals(text), _of_many(text), dialects.edits(text))


def _of_many(text: str) -> Iterator[Edit]:
    """Return the escapes that many languages share."""
    for match in _ANY.finditer(text) if "\\" in text and _WHOLE_ESCAPE.search(text) else ():
        if read := _read(text, match):
            yield Edit(match.start(), match.end(), read)


def _read(text: str, match: re.Match[str]) -> str:
    if match["unicode"]:
        is_wide = match[0].startswith("\\x00")
        return "" if is_wide and not _is_in_word(text, *match.span()) else _characters(match[0])
    if match["style"]:
        letter = chr(int(match["style"], 16))
        return letter if letter.isalpha() and ord(letter) >= _FIRST_LATIN else ""
    if match["decimal"]:
        read = bytes(map(int, match["decimal"].split("\\"))).decode(errors="ignore")
        return read if len(read) == 1 and _is_text(read) else ""
    return _of_bytes(text, match) if match["bytes"] else ""


def _characters(escapes: str, blanks: str = "") -> str:
    """Return the decoded text of a run of escapes; empty if some character is not allowed in a text.

    With `blanks` allowed, a blank replaces such a character, unless there are no others.
    """
    return (_characters_of_few if len(escapes) <= _MAX_FEW else _characters_of_many)(escapes, blanks)


def _characters_of_many(escapes: str, blanks: str) -> str:
    codes = [_code(number or code or another, name) for number, code, name, another in _ONE_UNICODE.findall(escapes)]
    # two halves of a pair become one character
    joined = (
        "".join(WINDOWS.get(code, chr(code)) if blanks else chr(code) for code in codes)
        .encode("utf-16", "surrogatepass")
        .decode("utf-16", "replace")
    )
    shown = [c if c in blanks or (_is_text(c) and c != chr(_NO_CHARACTER)) else "" for c in joined]
    return "".join(c or " " for c in shown) if (any if blanks else all)(shown) else ""


#: Most texts have a few runs many times.
_characters_of_few = lru_cache(maxsize=1024)(_characters_of_many)


def _code(number: str, name: str) -> int:
    """Return the number of a character; the replacement character's if there is none."""
    if number:
        return code if (code := int(number, 16)) <= sys.maxunicode else _NO_CHARACTER
    try:
        return ord(unicodedata.lookup(name))
    except (KeyError, TypeError):
        # no character, or a sequence of several
        return _NO_CHARACTER


def _of_utf8(escapes: str) -> str:
    """Return the text of a run of escaped bytes in UTF-8 that is not ASCII alone; otherwise empty."""
    try:
        read = _bytes(escapes).decode()
    except UnicodeDecodeError:
        return ""
    return read if not read.isascii() and all(map(_is_text, read)) else ""


def _bytes(escapes: str) -> bytes:
    return bytes(int(hexes, 16) if hexes else int(octal, 8) for hexes, octal in _ONE_BYTE.findall(escapes))


def _of_bytes(text: str, match: re.Match[str]) -> str:
    """Return the text of a run of escaped bytes: UTF-8, or a letter of Latin-1 within a word."""
    data = _bytes(match[0])
    try:
        read = data.decode()
    except UnicodeDecodeError:
        return _latin(text, match, data)
    return read if all(map(_is_text, read)) else ""


def _is_in_word(text: str, start: int, end: int) -> bool:
    return text[start - 1 : start].isalpha() or text[end : end + 1].islower()


def _latin(text: str, match: re.Match[str], data: bytes) -> str:
    """One or few letters of Latin-1; those that Windows adds stand for other bytes elsewhere, so they are in a word."""
    read = data.decode("latin-1").translate(WINDOWS)
    before, after = text[match.start() - 1 : match.start()], text[match.end() : match.end() + 1]
    if ord(read[0]) > _LAST_LATIN and not (before.isalpha() and after.isalpha()):
        return ""
    is_letters = all(ord(c) >= _FIRST_LATIN and c.isalpha() for c in read)
    if len(read) > 1:
        # `cr\xe9\xe9e`; the others are the mark of UTF-16
        is_word = before.isalpha() and len(read) <= _MAX_LATIN and read.islower() and not set(read) & set("ÿþ")
        return read if is_letters and is_word else ""
    # a capital within a word, after a backslash, begins a folder's name
    is_word = (before.isalpha() or after.isalpha()) and not (before.islower() and read.isupper())
    return read if is_letters and is_word else ""


def _is_text(character: str) -> bool:
    return character.isprintable() or unicodedata.category(character) in _UNPRINTABLE
