r"""Escapes in JSON, and in strings of code, configuration and logs: `\u00f6`, `\xc3\xb6`, `\303\266`, `\n`.

Every text is read alike, whatever stands around an escape: a chunk may begin within a string.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Iterator

from worker.reading.edits import Edit
from worker.reading.entities import ENTITY, decoded_entity

_HEX = "[0-9A-Fa-f]"
#: Escapes of characters. JSON within JSON has several backslashes in front of one.
_UNICODE = (
    rf"\\{{1,8}}(?:u{_HEX}{{4}}|u\{{{_HEX}{{1,6}}\}}|U{_HEX}{{8}}|N\{{[A-Za-z0-9 -]{{2,80}}\}}|x\{{{_HEX}{{2,6}}\}})"
)
#: Escapes of bytes. Octal ones below 200 are seldom letters, but often groups of regular expressions.
_BYTE = rf"\\(?:x{_HEX}{{2}}|[23][0-7]{{2}})"
#: An escaped backslash, a run of escapes of one kind, or an entity.
_ANY = re.compile(rf"(?P<unicode>(?:{_UNICODE})+)|\\\\|(?P<bytes>(?:{_BYTE})+)|(?P<entity>{ENTITY})")
_IN_JSON = re.compile(rf"(?P<unicode>(?:{_UNICODE})+)|\\(?P<one>[\"\\/bfnrt])|(?P<entity>{ENTITY})")
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


def in_json(text: str) -> Iterator[Edit]:
    """The characters that escapes in JSON stand for, and entities within."""
    if "\\" in text or "&" in text:
        for match in _IN_JSON.finditer(text):
            start, end = match.span()
            if match["one"]:
                yield Edit(start, end, _SINGLE[match["one"]])
            elif match["entity"]:
                yield from _entity(match)
            elif read := _characters(match["unicode"]):
                yield Edit(start, end, read)
            elif match["unicode"].startswith("\\\\"):
                # no letter follows: these are backslashes, in pairs
                pairs = len(match["unicode"]) - len(match["unicode"].lstrip("\\"))
                yield Edit(start, start + pairs // 2 * 2, "\\" * (pairs // 2))


def anywhere(text: str) -> Iterator[Edit]:
    """The characters that escapes of characters and bytes, and entities, stand for."""
    if "&" in text or _ESCAPE.search(text):
        for match in _ANY.finditer(text):
            yield from _entity(match) if match["entity"] else _read(text, match)


def letters(text: str) -> Iterator[Edit]:
    """The letters that escapes in code stand for: other signs, and entities, stay, so that few texts change."""
    if _ESCAPE.search(text):
        for match in _ANY.finditer(text):
            yield from (edit for edit in _read(text, match) if any(map(str.isalpha, edit.text)))


def words_in_json(text: str) -> Iterator[str]:
    r"""Words as they would be without escapes: `C:\newdir` is no path in JSON, but meant as one."""
    if "\\" in text:
        yield from (match["control"] + match["word"] for match in _CONTROL.finditer(text) if match["control"])


def words_in_code(text: str) -> Iterator[str]:
    r"""Words behind the escape of a line break, as in `"first\nsecond"`, and names of folders such as `\xdebug`."""
    if "\\" in text:
        yield from (match["word"] or match["name"] for match in _CONTROL.finditer(text) if match[0] != "\\\\")


def _entity(match: re.Match[str]) -> Iterator[Edit]:
    read = decoded_entity(match["entity"])
    if read is not None:
        yield Edit(match.start(), match.end(), read)


def _read(text: str, match: re.Match[str]) -> Iterator[Edit]:
    if match["unicode"]:
        read = _characters(match["unicode"])
    elif match["bytes"]:
        read = _of_bytes(text, match)
    else:
        read = ""
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
    data = bytes(int(hexes, 16) if hexes else int(octal, 8) for hexes, octal in _ONE_BYTE.findall(match["bytes"]))
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
