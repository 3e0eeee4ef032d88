r"""Escapes in JSON, and in strings of code, configuration and logs: `\u00f6`, `\xc3\xb6`, `\303\266`, `\n`.

Every text is read alike, whatever stands around an escape: a chunk may begin within a string.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Iterator
from heapq import merge

from worker.reading.edits import Edit
from worker.reading.entities import ENTITY, decoded_entity

_HEX = "[0-9A-Fa-f]"
#: Escapes of characters, without the backslash. JSON within JSON has several in front of one.
_UNICODE = rf"(?:u{_HEX}{{4}}|u\{{{_HEX}{{1,6}}\}}|U{_HEX}{{8}}|N\{{[A-Za-z0-9 -]{{2,80}}\}}|x\{{{_HEX}{{2,6}}\}})"
#: Escapes of bytes. Octal ones below 200 are seldom letters, but often groups of regular expressions.
_BYTE = rf"(?:x{_HEX}{{2}}|[23][0-7]{{2}})"
_RUN = rf"\\{{0,7}}{_UNICODE}(?:\\{{1,8}}{_UNICODE})*"
#: A run of escapes of one kind, or an escaped backslash. What begins with a constant is found fast.
_ANY = re.compile(rf"\\(?:(?P<unicode>{_RUN})|\\|(?P<bytes>{_BYTE}(?:\\{_BYTE})*))")
_IN_JSON = re.compile(rf"\\(?:(?P<unicode>{_RUN})|(?P<one>[\"\\/bfnrt]))")
#: What each such escape has; the search for it is fast.
_ESCAPE = re.compile(r"\\[uUNx23]")
_ONE_UNICODE = re.compile(r"\\{1,8}(?:[uUx]\{?([0-9A-Fa-f]{1,8})\}?|N\{([A-Za-z0-9 -]{2,80})\})")
_ONE_BYTE = re.compile(r"\\(?:x(..)|(\d{3}))")
_SINGLE = {'"': '"', "\\": "\\", "/": "/", "b": " ", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
#: An escaped backslash, or the escape of a control character or a byte in front of a word. Names of folders look alike.
_CONTROL = re.compile(
    rf"\\\\|\\(?P<control>[abefnrtv])(?P<word>[^\W_][\w.-]{{0,63}})|\\(?P<name>x{_HEX}{{2}}[^\W_][\w.-]{{0,59}})"
)
_NO_CHARACTER = 0xFFFD
#: The first letter beyond ASCII that one byte of Latin-1 stands for.
_FIRST_LATIN = 0xC0


def may_have_escapes(text: str) -> bool:
    """Whether a text may have escapes of characters or bytes."""
    return "\\" in text and _ESCAPE.search(text) is not None


def may_have_any(text: str) -> bool:
    """Whether a text may have such escapes, or entities."""
    return "&" in text or may_have_escapes(text)


def may_have_json(text: str) -> bool:
    """Whether a text may have escapes of JSON, or entities."""
    return "&" in text or "\\" in text


def in_json(text: str) -> Iterator[Edit]:
    """The characters that escapes in JSON stand for, and entities within."""
    return _with_entities(text, _in_json(text)) if "&" in text else _in_json(text)


def anywhere(text: str) -> Iterator[Edit]:
    """The characters that escapes of characters and bytes, and entities, stand for."""
    return _with_entities(text, _escapes(text)) if "&" in text else _escapes(text)


def letters(text: str) -> Iterator[Edit]:
    """The letters that escapes in code stand for: other signs, and entities, stay, so that few texts change."""
    return (edit for edit in _escapes(text) if any(map(str.isalpha, edit.text)))


def words_in_json(text: str) -> Iterator[str]:
    r"""Words as they would be without escapes: `C:\newdir` is no path in JSON, but meant as one."""
    if "\\" in text:
        yield from (match["control"] + match["word"] for match in _CONTROL.finditer(text) if match["control"])


def words_in_code(text: str) -> Iterator[str]:
    r"""Words behind the escape of a line break, as in `"first\nsecond"`, and names of folders such as `\xdebug`."""
    if "\\" in text:
        yield from (match["word"] or match["name"] for match in _CONTROL.finditer(text) if match[0] != "\\\\")


def _with_entities(text: str, escaped: Iterator[Edit]) -> Iterator[Edit]:
    found = ((match.span(), decoded_entity(match[0])) for match in ENTITY.finditer(text))
    # no escape begins or ends within an entity, or the other way round
    return merge(escaped, (Edit(*span, read) for span, read in found if read is not None))


def _in_json(text: str) -> Iterator[Edit]:
    for match in _IN_JSON.finditer(text):
        start, end = match.span()
        if match["one"]:
            yield Edit(start, end, _SINGLE[match["one"]])
        elif read := _characters(match[0]):
            yield Edit(start, end, read)
        elif pairs := (end - start - len(match[0].lstrip("\\"))) // 2:
            # no letter follows: these are backslashes
            yield Edit(start, start + 2 * pairs, "\\" * pairs)


def _escapes(text: str) -> Iterator[Edit]:
    if may_have_escapes(text):
        for match in _ANY.finditer(text):
            read = _characters(match[0]) if match["unicode"] else _of_bytes(text, match) if match["bytes"] else ""
            if read:
                yield Edit(match.start(), match.end(), read)


def _characters(escapes: str) -> str:
    """What a run of escapes stands for; empty if some character has no place in a text."""
    codes = [_code(number, name) for number, name in _ONE_UNICODE.findall(escapes)]
    # two halves of a pair become one character
    joined = "".join(map(chr, codes)).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return joined if chr(_NO_CHARACTER) not in joined and all(map(_is_text, joined)) else ""


def _code(number: str, name: str) -> int:
    """The number of a character; that of the replacement character if there is none."""
    if number:
        return code if (code := int(number, 16)) <= sys.maxunicode else _NO_CHARACTER
    try:
        return ord(unicodedata.lookup(name))
    except (KeyError, TypeError):
        # no character, or a sequence of several
        return _NO_CHARACTER


def _of_bytes(text: str, match: re.Match[str]) -> str:
    """The text of a run of escaped bytes: UTF-8, or a letter of Latin-1 within a word."""
    data = bytes(int(hexes, 16) if hexes else int(octal, 8) for hexes, octal in _ONE_BYTE.findall(match[0]))
    try:
        read = data.decode()
    except UnicodeDecodeError:
        return _latin(text, match, data)
    return read if all(map(_is_text, read)) else ""


def _latin(text: str, match: re.Match[str], data: bytes) -> str:
    read = data.decode("latin-1")
    before, after = text[match.start() - 1 : match.start()], text[match.end() : match.end() + 1]
    is_letters = all(ord(c) >= _FIRST_LATIN and c.isalpha() for c in read)
    # a capital within a word is the start of a folder's name, behind a backslash
    is_word = len(read) == 1 and (before.isalpha() or after.isalpha()) and not (before.islower() and read.isupper())
    return read if is_letters and is_word else ""


def _is_text(character: str) -> bool:
    return character.isprintable() or character in "\u00a0\u00ad\u200b\u200c\u200d\u200e\u200f\u2009\u202f\u3000"
