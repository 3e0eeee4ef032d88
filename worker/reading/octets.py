r"""Bytes written as a sign and two digits: `%C3%BC` in addresses, `=C3=BC` and `=?utf-8?Q?=C3=BC?=` in mails.

Only letters beyond ASCII are decoded. Other bytes are signs of the address or the mail.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Iterator
from email.errors import HeaderParseError
from email.header import decode_header, make_header
from unicodedata import combining

from worker.reading.edits import Edit, merged

_BYTE = "[89A-Fa-f][0-9A-Fa-f]"
#: A run of such bytes in an address, perhaps encoded several times, or of characters in old browsers' form.
_ADDRESS = re.compile(rf"%(?:(?:25){{0,3}}{_BYTE}(?:%(?:25){{0,3}}{_BYTE})*|u[0-9A-Fa-f]{{4}}(?:%u[0-9A-Fa-f]{{4}})*)")
#: A part of a host's name in letters of ASCII (RFC 3492).
_HOST = re.compile(r"xn--([a-z0-9-]{2,59})(?![\w-])", re.IGNORECASE)
_TWICE = re.compile("%(?:25)*")
#: A run in a mail or a card, perhaps across the end of a line.
_MAIL = re.compile(r"=[89A-F][0-9A-F](?:(?:=\r?\n[ \t]?)?=[89A-F][0-9A-F])*")
_HEXES = re.compile("=([0-9A-F]{2})")
#: Consecutive encoded words of a mail's header (RFC 2047).
_ENCODED = r"=\?[\w-]{2,20}(?:\*[\w-]{1,20})?\?[QqBb]\?[^?\s]{1,200}\?="
_HEAD = re.compile(rf"{_ENCODED}(?:\s{{1,20}}{_ENCODED}){{0,20}}")
#: The end of a line that continues within a word, and the minimum characters of such a line: settings have shorter
#: ones.
_SOFT_BREAK = re.compile(r"=\r?\n(?=\w)")
_MIN_LINE = 56
#: The common part of each of these, which is found fast: most texts have no such character behind the sign.
_IN_MAIL = re.compile(r"=(?=[89A-F?\r\n])(?:[89A-F][0-9A-F]|\?|(?<=[^\W_]=)\r?\n\w)")
#: The parts of these that may be on several lines. Titles are underlined with such signs.
_ACROSS_LINES = re.compile(r"=(?=[?\r\n])(?:\?|(?<=[^\W_]=)\r?\n)")
#: UTF-8 bytes that are not cells of a formula, as in `=C3=B6`, without an adjacent letter.
_MIN_BYTES = 3
#: A value of a directory or a card in base64, perhaps on several lines.
_BEFORE_VALUE = r":(?:(?<=\w:): |(?<==[Bb]:)|(?<==BASE64:)|(?<=[Bb];CHARSET=UTF-8:))"
_VALUE = re.compile(
    _BEFORE_VALUE + r"(?P<value>[A-Za-z0-9+/]{4,100}(?:\r?\n [A-Za-z0-9+/]{1,100}){0,9}={0,2})(?=\s|\Z)"
)
#: The beginning of each: a text may end within one.
_SOME_VALUE = re.compile(_BEFORE_VALUE + "[A-Za-z0-9+/]{4}")
_VALUE_ACROSS_LINES = re.compile(_BEFORE_VALUE + r"[A-Za-z0-9+/]{4,100}\r?\n ")
#: A sign of an address that separates words like a blank.
_BETWEEN = re.compile(r"%(?:20|2[BCFbcf]|3[ABDFabdf])(?=\w)")
#: The first small letter of Latin-1 beyond ASCII, and the first letter.
_SMALL, _FIRST = "\u00df", "\u00c0"


def may_have(text: str) -> bool:
    """Return whether a text may have such bytes."""
    in_mails = "=" in text and _IN_MAIL.search(text) is not None
    return in_mails or may_have_in_addresses(text) or (_may_have_values(text) and _SOME_VALUE.search(text) is not None)


def may_cross_lines(text: str) -> bool:
    """Return whether a text may have encoded words, values, or ends of lines within words."""
    has_values = _may_have_values(text) and _VALUE_ACROSS_LINES.search(text) is not None
    return has_values or ("=" in text and _ACROSS_LINES.search(text) is not None)


def may_have_in_addresses(text: str) -> bool:
    """Return whether a text may have bytes in the form of addresses."""
    return ("%" in text and _ADDRESS.search(text) is not None) or _may_have_hosts(text)


def _may_have_hosts(text: str) -> bool:
    # to search one character takes a hundredth of the time
    return "-" in text and "xn--" in text


def in_attributes(text: str) -> Iterator[Edit]:
    """Yield edits that decode base64 values of directories and cards: LDIF encodes names beyond ASCII like this."""
    for match in _VALUE.finditer(text) if _may_have_values(text) else ():
        try:
            read = b64decode("".join(match["value"].split()), validate=True).decode()
        except ValueError:
            continue
        if not read.isascii() and _has_letters(read):
            yield Edit(*match.span("value"), read)


def _may_have_values(text: str) -> bool:
    return (":" in text and ":: " in text) or ("=" in text and "ENCODING=" in text)


def in_addresses(text: str) -> Iterator[Edit]:
    """Return edits that decode letters in the bytes of addresses, and in names of hosts."""
    of_bytes = _bytes_of_addresses(text) if "%" in text else iter(())
    return merged(of_bytes, _hosts(text)) if _may_have_hosts(text) else of_bytes


def _hosts(text: str) -> Iterator[Edit]:
    for match in _HOST.finditer(text):
        try:
            read = match[1].lower().encode().decode("punycode")
        except (UnicodeError, OverflowError, ValueError):
            continue
        if _has_letters(read):
            yield Edit(match.start(), match.end(), read)


def _bytes_of_addresses(text: str) -> Iterator[Edit]:
    for match in _ADDRESS.finditer(text):
        written = match[0]
        if written[1] == "u":
            read = bytes.fromhex(written.replace("%u", "")).decode("utf-16-be", "replace")
        else:
            data = bytes.fromhex(_TWICE.sub("", written))
            read = _utf8(data) or (_latin(text, match, data) if written == written.upper() else "")
        if _has_letters(read):
            yield Edit(match.start(), match.end(), read)


def between_words(text: str) -> Iterator[Edit]:
    """Yield edits that replace signs between the words of an address by blanks."""
    for match in _BETWEEN.finditer(text) if "%" in text else ():
        if text[match.start() - 1 : match.start()].isalnum():
            yield Edit(match.start(), match.end(), " ")


def in_mails(text: str) -> Iterator[Edit]:
    """Return edits that decode bytes and encoded words in mails and cards, and join words across line ends."""
    if "=" not in text or not _IN_MAIL.search(text):
        return iter(())
    return merged(_in_heads(text), merged(_in_bodies(text), _line_ends(text)))


def _in_heads(text: str) -> Iterator[Edit]:
    for match in _HEAD.finditer(text):
        try:
            read = str(make_header(decode_header(match[0])))
        except (HeaderParseError, LookupError, ValueError):
            continue
        if read.isprintable():
            yield Edit(match.start(), match.end(), read)


def _in_bodies(text: str) -> Iterator[Edit]:
    for match in _MAIL.finditer(text):
        data = bytes.fromhex("".join(_HEXES.findall(match[0])))
        before, after = text[match.start() - 1 : match.start()], text[match.end() : match.end() + 1]
        read = _utf8(data)
        if not read and before.isalpha() and after.islower():
            read = _latin(text, match, data)
            read = read if read >= _SMALL else ""
        is_word = len(data) >= _MIN_BYTES or before.isalpha() or after.isalpha()
        if is_word and _has_letters(read):
            yield Edit(match.start(), match.end(), read)


def _line_ends(text: str) -> Iterator[Edit]:
    for match in _SOFT_BREAK.finditer(text):
        start = text.rfind("\n", 0, match.start()) + 1
        if match.start() - start >= _MIN_LINE and text[match.start() - 1].isalnum():
            yield Edit(match.start(), match.end(), "")


def _utf8(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return ""


def _latin(text: str, match: re.Match[str], data: bytes) -> str:
    """Return a letter of Latin-1 within a word."""
    read = data.decode("latin-1")
    is_within = text[match.start() - 1 : match.start()].isalpha() and text[match.end() : match.end() + 1].isalpha()
    return read if len(read) == 1 and read >= _FIRST and is_within else ""


def _has_letters(read: str) -> bool:
    """Return whether a text has letters, or accents of the preceding letter."""
    return read.isprintable() and any(character.isalpha() or combining(character) for character in read)
