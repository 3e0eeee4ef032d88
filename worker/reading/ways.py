"""The reading rules of formats, by the names in their rows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain

from worker.reading import Way, dialects, escapes, markup, octets, tex
from worker.reading.borders import Borders
from worker.reading.edits import Edit, all_of
from worker.reading.entities import AMPERSANDS, LETTERS


def _none(_text: str) -> Iterator[str]:
    return iter(())


def _text(text: str) -> Iterator[Edit]:
    mails, addresses = octets.in_mails(text), octets.in_addresses(text)
    written = octets.in_attributes(text), mails, addresses, markup.readings(text)
    return all_of(*written, escapes.line_ends(text), escapes.anywhere(text))


def _whole_text(text: str) -> Iterator[Edit]:
    return all_of(_text(text), octets.between_words(text))


def _json(text: str) -> Iterator[Edit]:
    return all_of(octets.in_addresses(text), markup.readings(text), escapes.in_json(text))


def _whole_json(text: str) -> Iterator[Edit]:
    return all_of(_json(text), octets.between_words(text))


def _code(text: str) -> Iterator[Edit]:
    return all_of(octets.in_addresses(text), escapes.letters(text))


def _whole_code(text: str) -> Iterator[Edit]:
    written = octets.in_addresses(text), markup.readings(text), escapes.anywhere(text)
    return all_of(*written, octets.between_words(text))


def _markdown(text: str) -> Iterator[Edit]:
    return all_of(octets.in_addresses(text), markup.edits(text))


def _whole_markdown(text: str) -> Iterator[Edit]:
    return all_of(_markdown(text), octets.between_words(text))


def _may_have_text(text: str) -> bool:
    return escapes.may_have_any(text) or "\\" in text or octets.may_have(text) or markup.may_have_readings(text)


def _may_have_json(text: str) -> bool:
    in_signs = escapes.may_have_json(text) or octets.may_have_in_addresses(text)
    return in_signs or markup.may_have_readings(text)


def _words_in_text(text: str) -> Iterator[str]:
    return chain(_words_in_code(text), escapes.words_across_lines(text))


def _words_in_code(text: str) -> Iterator[str]:
    return chain(escapes.words_in_code(text), markup.words(text))


def _words_in_json(text: str) -> Iterator[str]:
    return chain(escapes.words_in_json(text), markup.words(text))


def _may_have_code(text: str) -> bool:
    return escapes.may_have_escapes(text) or octets.may_have_in_addresses(text)


def _may_have_markdown(text: str) -> bool:
    return markup.may_have(text) or octets.may_have_in_addresses(text)


def _across_text(text: str) -> bool:
    in_lines = escapes.may_cross_lines(text) or octets.may_cross_lines(text)
    return in_lines or markup.may_have_readings(text) or dialects.may_have_pascal(text)


_HEX = "[0-9A-Fa-f]"
_ENTITY = rf"{AMPERSANDS}(?:[#A-Za-z0-9]{{2,33}};|#[0-9]{{3,5}}|#[xX]{_HEX}{{2}}|{LETTERS})"
#: An escape, or a pair of them, in the syntax of ripgrep.
_UNICODE = rf"(?:\\{{1,8}}(?:[uUx]u{{0,3}}\{{?{_HEX}{{2,8}}\}}?|N\{{[A-Za-z0-9 +-]{{2,80}}\}})){{1,2}}"
_ADDRESS = rf"(?:%(?:25){{0,3}}{_HEX}{{2}}){{1,4}}|%u{_HEX}{{4}}"
_ESCAPE = rf"{_UNICODE}|(?:\\{{1,2}}[0-3x][0-9A-Fa-f]{{2}}){{1,4}}|\\0{_HEX}{{3,5}} ?|{_ENTITY}|{_ADDRESS}"
_STRINGS = rf"{_ESCAPE}|{dialects.UNIT}"
_MAIL = "(?:=[0-9A-F]{2}){1,4}"
#: Names of hosts, several characters in one escape, the end of a continued line, encoded words and values.
_SEVERAL = rf"xn--|\\u\{{{_HEX}{{1,6}} |{markup.SEVERAL}"
_ANYTHING = rf"{_SEVERAL}|[\\=]\r?$|=\?[^\s?]+\?[QqBb]\?|:: [A-Za-z0-9+/]{{4}}|ENCODING=[Bb]"
#: A line that may continue another one.
_CONTINUED = r"^[ \t]\w"

_IN_ADDRESS = rf"%(?:[2389A-Fa-f]{_HEX}|u{_HEX}{{4}})|xn--"
_CODED = f"{_ENTITY}|{_IN_ADDRESS}"
_MARK = rf"\\[uUNx0-3]|{dialects.MARK}|{_CODED}"
#: The patterns of texts whose words need edits, by their first sign.
_IN_CODED = {
    "&": re.compile(_ENTITY),
    "%": re.compile(rf"%(?:[2389A-Fa-f]{_HEX}|u{_HEX}{{4}})"),
    "xn--": re.compile("xn--"),
}
_IN_STRINGS = {
    "\\": re.compile(
        rf"\\(?:[uUNx1-9]|0{_HEX}{{3}}|[abefnrtv][^\W_]|(?<=[^\W_]\\)\r?\n|[c-fC-F]{_HEX}[ \\]|(?:033|[eE])\[)"
    ),
    "`": re.compile(r"`(?:(?<=\w`)[nrt][^\W_]|u\{)"),
    "#": dialects.PASCAL_SIGN,
    "<U+": re.compile(r"<U\+"),
    **_IN_CODED,
    "&": re.compile(rf"{_ENTITY}|&(?<=[uU]&)[\"']"),
}
_IN_TEXT = {
    "=": re.compile(r"=(?:[89A-F][0-9A-F]|\?|\r?\n\w)"),
    "ENCODING=": re.compile("ENCODING=[Bb]"),
    ":: ": re.compile(":: [A-Za-z0-9+/]{4}"),
    "\n ": escapes.CONTINUED_LINE,
    "\n\t": escapes.CONTINUED_BY_TAB,
    **_IN_STRINGS,
    **markup.IN_READINGS,
}
_IN_MARKUP = {**_IN_STRINGS, **markup.IN_READINGS, "<": re.compile("</?[rR]"), "\\_": re.compile(r"\\(?<=\w\\)_")}

#: Escapes and entities in text that is not readable as written.
TEXT = Way(
    _text,
    _whole_text,
    _words_in_text,
    _may_have_text,
    _IN_TEXT,
    rf"{_MARK}|=[89A-F]|{markup.MARK}|{_ANYTHING}|{_CONTINUED}",
    rf"{_STRINGS}|{markup.UNIT}|{_MAIL}",
    Borders(_across_text, b"\\&%=`#:+"),
    f"{_ANYTHING}|{_CONTINUED}",
    escapes.continued_lines,
)
JSON = Way(
    _json,
    _whole_json,
    _words_in_json,
    _may_have_json,
    {"\\": re.compile(r"\\"), **_IN_CODED, **markup.IN_READINGS},
    rf"\\|{_CODED}|{markup.MARK}",
    rf'{_ESCAPE}|{markup.UNIT}|\\["\\/bfnrt]',
    Borders(markup.may_have_readings, b"\\&%", between=b'\n,[]":', at_start=b""),
    _SEVERAL,
)
CODE = Way(
    _code,
    _whole_code,
    _words_in_code,
    _may_have_code,
    {**_IN_STRINGS, **markup.IN_READINGS},
    rf"{_MARK}|{markup.MARK}",
    rf"{_STRINGS}|{markup.UNIT}",
    Borders(dialects.may_have_pascal, b"\\%`#+"),
    _SEVERAL,
)
MARKDOWN = Way(
    _markdown,
    _whole_markdown,
    _words_in_code,
    _may_have_markdown,
    _IN_MARKUP,
    rf"{_MARK}|\\_|{markup.MARK}",
    rf"{_STRINGS}|\\_|{markup.UNIT}",
    Borders(lambda text: dialects.may_have_pascal(text) or markup.may_have_elements(text), b"+\\&%`#|?"),
    _SEVERAL,
)
TEX = Way(
    tex.edits,
    tex.edits,
    _none,
    tex.may_have,
    {sign: re.compile(re.escape(sign)) for sign in ("\\", "{", '"', "^^")} | {"&": _IN_CODED["&"]},
    rf"\\|\{{|\^\^|[^\W\d_]\"|\"[AOUaou]|{_ENTITY}",
    r"\\(?:text|quot|guil)[a-z]{3,17}|[{\\][^\n]{1,13}|[{}]|\^{4}[0-9a-f]{4}"
    rf'|\^\^[c-f][0-9a-f](?:\^\^[89a-f][0-9a-f]){{0,3}}|"[A-Za-z=~|-]|{_ENTITY}',
    Borders(lambda text: r"\ruby" in text, b'\\{^"&', at_start=b""),
)
