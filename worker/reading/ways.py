"""The ways in which formats are read, by the names that their rows state."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import reduce
from itertools import chain

from worker.reading import Way, escapes, markup, octets, tex
from worker.reading.edits import Edit, merged


def _none(_text: str) -> Iterator[str]:
    return iter(())


def _all(*kinds: Iterable[Edit]) -> Iterator[Edit]:
    """The edits of all kinds in order, one by one. Of two that overlap, that of the earlier kind counts."""
    present = []
    for kind in kinds:
        edits = iter(kind)
        if first := next(edits, None):
            present.append(chain((first,), edits))
    return reduce(merged, present) if present else iter(())


def _text(text: str) -> Iterator[Edit]:
    mails, addresses = octets.in_mails(text), octets.in_addresses(text)
    return _all(mails, addresses, escapes.line_ends(text), escapes.anywhere(text))


def _whole_text(text: str) -> Iterator[Edit]:
    return _all(_text(text), octets.between_words(text))


def _json(text: str) -> Iterator[Edit]:
    return _all(octets.in_addresses(text), escapes.in_json(text))


def _whole_json(text: str) -> Iterator[Edit]:
    return _all(_json(text), octets.between_words(text))


def _code(text: str) -> Iterator[Edit]:
    return _all(octets.in_addresses(text), escapes.letters(text))


def _whole_code(text: str) -> Iterator[Edit]:
    return _all(octets.in_addresses(text), escapes.anywhere(text), octets.between_words(text))


def _markdown(text: str) -> Iterator[Edit]:
    return _all(octets.in_addresses(text), markup.edits(text))


def _whole_markdown(text: str) -> Iterator[Edit]:
    return _all(_markdown(text), octets.between_words(text))


def _may_have_text(text: str) -> bool:
    return escapes.may_have_any(text) or "\\" in text or octets.may_have(text)


def _may_have_json(text: str) -> bool:
    return escapes.may_have_json(text) or octets.may_have_in_addresses(text)


def _may_have_code(text: str) -> bool:
    return escapes.may_have_escapes(text) or octets.may_have_in_addresses(text)


def _may_have_markdown(text: str) -> bool:
    return markup.may_have(text) or octets.may_have_in_addresses(text)


_HEX = "[0-9A-Fa-f]"
_ENTITY = "&(?:amp;){0,3}[#A-Za-z0-9]{2,33};"
#: An escape, or a pair of them, in the syntax of ripgrep.
_UNICODE = rf"(?:\\{{1,8}}(?:[uUx]\{{?{_HEX}{{2,8}}\}}?|N\{{[A-Za-z0-9 +-]{{2,80}}\}})){{1,2}}"
_ADDRESS = rf"(?:%(?:25){{0,3}}{_HEX}{{2}}){{1,4}}|%u{_HEX}{{4}}"
_ESCAPE = rf"{_UNICODE}|(?:\\[0-3x][0-9A-Fa-f]{{2}}){{1,4}}|\\0{_HEX}{{3,5}} ?|{_ENTITY}|{_ADDRESS}"
_MAIL = "(?:=[0-9A-F]{2}){1,4}"
#: Names of hosts, the end of a line that goes on, and encoded words of mails.
_HOSTS = "xn--"
_ANYTHING = rf"{_HOSTS}|[\\=]\r?$|=\?[^\s?]+\?[QqBb]\?"

_IN_ADDRESS = rf"%(?:[2389A-Fa-f]{_HEX}|u{_HEX}{{4}})|xn--"
_CODED = f"{_ENTITY}|{_IN_ADDRESS}"
_MARK = rf"\\[uUNx0-3]|{_CODED}"
#: What texts have whose words are read otherwise, by the sign it begins with.
_IN_CODED = {
    "&": re.compile(_ENTITY),
    "%": re.compile(rf"%(?:[2389A-Fa-f]{_HEX}|u{_HEX}{{4}})"),
    "xn--": re.compile("xn--"),
}
_IN_STRINGS = {"\\": re.compile(rf"\\(?:[uUNx1-3]|0{_HEX}{{3}}|[abefnrtv][^\W_]|(?<=[^\W_]\\)\r?\n)"), **_IN_CODED}
_IN_MAILS = {"=": re.compile(r"=(?:[89A-F][0-9A-F]|\?|\r?\n\w)"), **_IN_STRINGS}
_IN_MARKUP = {"<": re.compile("</?[rR]"), **_IN_STRINGS, "\\_": re.compile(r"\\(?<=\w\\)_")}

#: Escapes and entities in text that is written as it is read otherwise.
TEXT = Way(
    _text,
    _whole_text,
    escapes.words_in_code,
    _may_have_text,
    _IN_MAILS,
    rf"{_MARK}|=[89A-F]|{_ANYTHING}",
    rf"{_ESCAPE}|{_MAIL}",
    _ANYTHING,
)
JSON = Way(
    _json,
    _whole_json,
    escapes.words_in_json,
    _may_have_json,
    {"\\": re.compile(r"\\"), **_IN_CODED},
    rf"\\|{_CODED}",
    rf'{_ESCAPE}|\\["\\/bfnrt]',
    _HOSTS,
)
CODE = Way(_code, _whole_code, escapes.words_in_code, _may_have_code, _IN_STRINGS, _MARK, _ESCAPE, _HOSTS)
MARKDOWN = Way(
    _markdown,
    _whole_markdown,
    escapes.words_in_code,
    _may_have_markdown,
    _IN_MARKUP,
    rf"\\[uUNx0-3_]|{_CODED}|</?[rR]",
    rf"{_ESCAPE}|\\_|</?[rR][^<>]{{0,200}}>|<[rR][tTpP][^<>]{{0,200}}>[^<>]{{0,200}}",
    _HOSTS,
)
TEX = Way(
    tex.edits,
    tex.edits,
    _none,
    tex.may_have,
    {sign: re.compile(re.escape(sign)) for sign in ("\\", "{", '"', "^^")},
    r"\\|\{|\^\^|[^\W\d_]\"",
    r'\\(?:text|quot|guil)[a-z]{3,17}|[{\\][^\n]{1,8}|[{}]|\^\^[c-f][0-9a-f]|"[A-Za-z=~|-]',
)
