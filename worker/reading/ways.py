"""The ways in which formats are read, by the names that their rows state."""

from __future__ import annotations

from collections.abc import Iterator

from worker.reading import Way, escapes, markup, tex


def _none(_text: str) -> Iterator[str]:
    return iter(())


_HEX = "[0-9A-Fa-f]"
_ENTITY = "&[#A-Za-z0-9]{2,33};"
#: An escape, or a pair of them, in the syntax of ripgrep.
_UNICODE = rf"(?:\\{{1,8}}(?:[uUx]\{{?{_HEX}{{2,8}}\}}?|N\{{[A-Za-z0-9 -]{{2,80}}\}})){{1,2}}"
_ESCAPE = rf"{_UNICODE}|(?:\\[0-3x][0-9A-Fa-f]{{2}}){{1,4}}|{_ENTITY}"

_MARK = rf"\\[uUNx1-3]|{_ENTITY}"

#: Escapes and entities in text that is written as it is read otherwise.
TEXT = Way(escapes.anywhere, escapes.anywhere, escapes.words_in_code, escapes.may_have_any, "\\&", _MARK, _ESCAPE)
JSON = Way(
    escapes.in_json,
    escapes.in_json,
    escapes.words_in_json,
    escapes.may_have_json,
    "\\&",
    rf"\\|{_ENTITY}",
    rf'{_ESCAPE}|\\["\\/bfnrt]',
)
CODE = Way(escapes.letters, escapes.anywhere, escapes.words_in_code, escapes.may_have_escapes, "\\&", _MARK, _ESCAPE)
MARKDOWN = Way(
    markup.edits,
    markup.edits,
    escapes.words_in_code,
    markup.may_have,
    "\\&<",
    rf"\\[uUNx1-3_]|{_ENTITY}|<[rR]",
    rf"{_ESCAPE}|\\_|</?[rR][^<>]{{0,200}}>|<[rR][tTpP][^<>]{{0,200}}>[^<>]{{0,200}}",
)
TEX = Way(tex.edits, tex.edits, _none, tex.may_have, "\\{", r"\\|\{", r"[{\\][^\n]{1,8}|[{}]")
