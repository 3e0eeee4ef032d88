r"""Escapes of few languages: PowerShell, Haskell, Pascal, SQL, shells, R, directories and style sheets.

They are `` `u{f6} ``, `\246`, `'G'#246'del'`, `U&'G\00f6del'`, `'G'$'\303\266''del'`, `<U+00F6>`, `\C3\B6` and `\f6 `.
Some look like names of folders or numbers of issues. These count only within a word, and search finds either reading.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from unicodedata import combining

from worker.reading.edits import Edit, all_of

_HEX = "[0-9A-Fa-f]"
_OF_POWERSHELL = rf"`u\{{{_HEX}{{1,6}}\}}"
_POWERSHELL = re.compile(rf"{_OF_POWERSHELL}(?:{_OF_POWERSHELL}){{0,1023}}")
_OF_PASCAL = rf"#(?:\${_HEX}{{2,4}}|[0-9]{{2,5}})"
_PASCAL = re.compile(rf"{_OF_PASCAL}(?:{_OF_PASCAL}){{0,1023}}(?!{_HEX})")
#: The beginning of such an escape in a literal, and of PowerShell's.
PASCAL_SIGN, POWERSHELL_SIGN = re.compile("#(?<='#)[0-9$]"), re.compile(r"`u\{")
#: A literal of SQL, and the escapes within.
_LITERAL = re.compile(r"&[\"'](?<=[uU]&.)[^\"'\n]{1,2000}")
_IN_LITERAL = re.compile(rf"\\(?:\+{_HEX}{{6}}|{_HEX}{{4}})(?:\\(?:\+{_HEX}{{6}}|{_HEX}{{4}})){{0,399}}")
#: Bytes of a name, as shells quote them within its other quotes.
_OF_SHELL = r"\$'(?:\\[0-3][0-7]{2}){2,255}'"
_SHELL = re.compile(rf"{_OF_SHELL}(?:{_OF_SHELL}){{0,31}}")
_OCTAL = re.compile("[0-7]{3}")
#: Characters that R could not show in its encoding.
_OF_R = re.compile(rf"<U\+{_HEX}{{4,8}}>(?:<U\+{_HEX}{{4,8}}>){{0,255}}")
#: Han in a style sheet, alone between quotation marks: names of fonts, mostly.
_HAN = re.compile(rf"\\(?<=[\"']\\)[4-9]{_HEX}{{3}}(?:\\[4-9]{_HEX}{{3}}){{1,63}}(?=[\"'])")
_LETTER = "(?:8[89][0-9]|9[0-9]{2}|[1-9][0-9]{3,4})"
#: A letter by its decimal number, or several from Greek on, with more digits than an octal escape; two
#: hexadecimal digits and the blank that ends them.
_AMBIGUOUS = re.compile(
    # such as `\252\223`
    r"\\(?:(?P<pair>2(?:2[3-9]|[345][0-9])(?:\\2(?:2[3-9]|[345][0-9])){1,3}(?![0-9\\]))"
    r"|(?P<one>19[2-9]|2[0-9]{2}|3(?:[0-7][89]|[89][0-9]))(?![0-9])"
    rf"|(?P<run>{_LETTER}(?:\\{_LETTER}){{1,1023}})(?![0-9])"
    rf"|(?P<octets>[c-fC-F]{_HEX}(?:\\[89abAB]{_HEX}){{1,3}}(?:\\[c-fC-F]{_HEX}(?:\\[89abAB]{_HEX}){{1,3}}){{0,31}})"
    rf"|(?P<style>[c-fC-F]{_HEX}(?:\\[c-fC-F]{_HEX}){{0,31}}) (?=[^\W\d_]))"
)
#: Signs between a path or a value and what precedes it.
_SEPARATOR = re.compile(r"[\s\"'`=,+]")
#: What a path has, but no value of a directory: a drive, a server, a name, or a byte that is no text.
_IN_PATH = re.compile(rf":\\|\\\\|\\(?!{_HEX}{{2}})\w|\\[c-fC-F]{_HEX}(?!\\[89abAB])")
#: Characters in front of bytes that are searched for a path.
_MAX_PATH = 64
_HEXES = re.compile(f"{_HEX}+")
#: The end of a word, and the characters that may precede one.
_QUOTES = "\"'`"
_BEFORE_WORD = f"{_QUOTES} \t\n("
#: The signs before a value of a name in a directory: `CN=\C3\96sterreich`.
_BEFORE_VALUE = "=,+ "
#: The first letter beyond ASCII, the first one of Han, and the letters from Greek on without those whose numbers are
#: years.
_FIRST_LATIN, _FIRST_GREEK, _FIRST_HAN = 0xC0, 0x370, 0x4E00
_YEARS = range(0x700, 0x900)
#: Small letters that begin words; others look like fonts.
_UMLAUTS = "äöü"
#: Minimum letters next to a letter at the end of a literal. Fewer are a short word, as in `l'#246`.
_MIN_PART = 3
#: Maximum characters of a text that is also searchable as written, and of the word after it.
_MAX_WRITTEN = 24
_REST = re.compile(r"[\w.-]{0,40}")

#: In the syntax of ripgrep: the mark of each text with such an escape, and the written form of a character.
MARK = rf"`u\{{|<U\+|\\[4-9]{_HEX}{{3}}\\|'#[0-9$]|#[0-9$]{_HEX}{{1,4}}'|[uU]&[\"']|\\[0-9]{{3}}|\\[c-fC-F]{_HEX}[ \\]"
UNIT = (
    rf"<U\+{_HEX}{{4,8}}>|(?:\\[89a-fA-F]{_HEX}){{2,4}}|'?\$'(?:\\[0-3][0-7]{{2}})+''?|`u\{{{_HEX}{{1,6}}\}}"
    rf"|'?(?:#\$?{_HEX}{{2,5}})+'?|\\\+?{_HEX}{{4,6}}|\\[0-9]{{3,5}}|\\[c-fC-F]{_HEX} ?"
)


def may_have(text: str) -> bool:
    """Return whether a text may have such an escape without a backslash, or a literal of SQL."""
    return (
        ("`" in text and POWERSHELL_SIGN.search(text) is not None)
        or may_have_pascal(text)
        or ("&" in text and _LITERAL.search(text) is not None)
        or "<U+" in text
    )


def may_have_pascal(text: str) -> bool:
    """Return whether a text has a sign of Pascal. Then characters next to a literal anywhere in the text are read."""
    return "#" in text and PASCAL_SIGN.search(text) is not None


def in_literals(text: str) -> Iterator[Edit]:
    """Return the edits that decode escapes in literals of SQL, and in names that shells quote in pieces."""
    return all_of(_of_sql(text), _of_shell(text))


def _of_sql(text: str) -> Iterator[Edit]:
    for literal in _LITERAL.finditer(text) if "&" in text else ():
        for match in _IN_LITERAL.finditer(text, *literal.span()):
            if read := _characters(_HEXES.findall(match[0])):
                yield Edit(*match.span(), read)


def _of_shell(text: str) -> Iterator[Edit]:
    done = 0
    for match in _SHELL.finditer(text) if "$'\\" in text else ():
        start, end = match.span()
        # `'G'$'\303\266''del'`, or with a bare word on a side
        first, last = start - (start > done and text[start - 1] == "'"), end + (text[end : end + 1] == "'")
        read = _utf8(bytes(int(octal, 8) for octal in _OCTAL.findall(match[0])))
        if read and (text[first - 1 : first].isalnum() or text[last : last + 1].isalnum()):
            yield Edit(first, last, read)
            done = last


def edits(text: str) -> Iterator[Edit]:
    """Return the edits that decode the other escapes."""
    return all_of(_of_powershell(text), _of_pascal(text), _of_r(text), _han(text), _ambiguous(text))


def twins(text: str) -> Iterator[str]:
    """Yield possible names of folders as written, with the word after each."""
    for start, end, _ in _ambiguous(text):
        if end - start <= _MAX_WRITTEN:
            rest = _REST.match(text, end)
            yield text[start + 1 : end] + (rest[0] if rest and text[end - 1] != " " else "")


def _of_powershell(text: str) -> Iterator[Edit]:
    for match in _POWERSHELL.finditer(text) if "`" in text else ():
        if read := _characters(_HEXES.findall(match[0])):
            yield Edit(*match.span(), read)


def _of_r(text: str) -> Iterator[Edit]:
    for match in _OF_R.finditer(text) if "<U+" in text else ():
        start, end = match.span()
        codes = match[0][len("<U+") : -1].split("><U+")
        is_in_word = text[start - 1 : start].isalpha() or text[end : end + 1].isalpha()
        if (is_in_word or len(codes) > 1) and (read := _characters(codes)):
            yield Edit(start, end, read)


def _han(text: str) -> Iterator[Edit]:
    for match in _HAN.finditer(text) if "\\" in text else ():
        codes = [int(code, 16) for code in match[0].split("\\")[1:]]
        # folders may have numbers
        is_hex = any(map(str.isalpha, match[0]))
        if is_hex and min(codes) >= _FIRST_HAN and (read := _letters(codes)):
            yield Edit(*match.span(), read)


def _of_pascal(text: str) -> Iterator[Edit]:
    for match in _PASCAL.finditer(text) if may_have_pascal(text) else ():
        start, end = match.span()
        is_behind = text[start - 1 : start] == "'" and text[start - 2 : start - 1].isalpha()
        is_before = text[end : end + 1] == "'" and text[end + 1 : end + 2].isalpha()
        if is_behind and is_before:
            span = start - 1, end + 1
        elif is_behind and text[max(0, start - 1 - _MIN_PART) : start - 1].isalpha() and start > _MIN_PART:
            span = start - 1, end
        elif is_before and text[end + 1 : end + 1 + _MIN_PART].isalpha() and len(text) > end + _MIN_PART:
            span = start, end + 1
        else:
            continue
        codes = [int(code[1:], 16) if code[0] == "$" else int(code) for code in match[0].split("#")[1:]]
        if read := _letters(codes):
            yield Edit(*span, read)


def _ambiguous(text: str) -> Iterator[Edit]:
    """Yield escapes that look like names of folders."""
    for match in _AMBIGUOUS.finditer(text) if "\\" in text else ():
        codes = match[0].rstrip().split("\\")[1:]
        if match["octets"]:
            read = _utf8(bytes.fromhex("".join(codes)))
        else:
            read = _letters([int(code, 16 if match["style"] else 10) for code in codes])
        if read and _is_meant(text, match, read):
            yield Edit(*match.span(), read)


def _is_meant(text: str, match: re.Match[str], read: str) -> bool:
    """Return whether the context shows that letters are not a folder's name."""
    if match["run"]:
        return all(ord(letter) >= _FIRST_GREEK and ord(letter) not in _YEARS for letter in read)
    if match["one"]:
        return _is_in_word(text, *match.span(), read)
    before, after = text[match.start() - 1 : match.start()], text[match.end() : match.end() + 1]
    if match["pair"]:
        return before.isalpha() and after.islower() and read.islower()
    if match["octets"]:
        # no word begins in Latin and ends in another alphabet
        is_in_word = before.isalpha() and not (before.isascii() and ord(read[0]) >= _FIRST_GREEK)
        is_meant = is_in_word or (after.islower() and before in _BEFORE_VALUE)
        return is_meant and not _is_in_path(text, match.start())
    # rich text has fonts: `\f0 `
    return before.isalpha() or (before in _QUOTES and (read.istitle() or read in _UMLAUTS))


def _is_in_path(text: str, place: int) -> bool:
    """Return whether the word up to a place is a path with backslashes."""
    word = _SEPARATOR.split(text[max(0, place - _MAX_PATH) : place])[-1]
    return _IN_PATH.search(word) is not None


def _is_in_word(text: str, start: int, end: int, read: str) -> bool:
    """Return whether a letter belongs to an adjacent word. A capital within a word begins a folder's name."""
    before, after = text[start - 1 : start], text[end : end + 1]
    if before.isalpha():
        return not (before.islower() and read.isupper()) and not after.isdigit() and after not in ("\\", "_", "/")
    return after.isalpha() and before in _BEFORE_WORD


def _utf8(data: bytes) -> str:
    """Return the letters of some UTF-8; empty if it is something else."""
    try:
        read = data.decode()
    except UnicodeDecodeError:
        return ""
    return read if not read.isascii() and all(c.isalpha() or combining(c) for c in read) else ""


def _letters(codes: list[int]) -> str:
    """Return the non-ASCII letters of these numbers; empty if one is not such a letter."""
    is_valid = all(_FIRST_LATIN <= code <= sys.maxunicode for code in codes)
    read = "".join(map(chr, codes)) if is_valid else ""
    return read if read.isalpha() else ""


def _characters(codes: list[str]) -> str:
    """Return the characters of these hexadecimal numbers; empty if one cannot be shown."""
    numbers = [int(code, 16) for code in codes]
    read = "".join(map(chr, numbers)) if max(numbers) <= sys.maxunicode else ""
    return read if read.isprintable() else ""
