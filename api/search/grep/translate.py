"""Translates patterns in three ways: exact for RE2, wider for whole texts, and wider still for ripgrep.

As in ripgrep, the classes w, d and s cover all of Unicode; for RE2 they must be spelled out. Word characters are those
of UTS 18, annex C. ripgrep only finds candidates, so any non-ASCII character, in any encoding, counts as all of these
classes there. That makes the translation independent of the Unicode version.

Over 20,000 non-ASCII lines, 500 queries for non-ASCII words find the same lines as ripgrep. Plain RE2 finds others for
208 of them. The `regex` package agrees there, but `(a|aa)+$` takes it over 5 s on 61 characters, and RE2 0.4 ms.
"""

from __future__ import annotations

import re
from functools import cache
from itertools import pairwise

import re2

from schemas.errors import Invalid

_TOKEN = re.compile(
    r"(?P<quoted>\\Q.*?(?:\\E|\Z))|(?P<escape>\\.)|(?P<flags>\(\?[imsU]*-[imsU]*[:)])"
    r"|(?P<set>\[\^?\]?(?:\\.|\[:\^?\w+:\]|[^\]\\])*(?:\]|\\?\Z))|(?P<single>.)",
    re.DOTALL,
)
_SET_PART = re.compile(r"\\.|\[:\^?\w+:\]|.", re.DOTALL)
#: Maximum characters of a set that an error shows.
MAX_SHOWN_CHARACTERS = 200
#: Two of the same in a row are an operator in a ripgrep set.
_OPERATORS = "&-~"
#: A repetition. Other braces are literal in RE2, but errors in ripgrep.
_BRACES = re.compile(r"\{[0-9]+(?:,[0-9]*)?\}")
_BRACED = {r"\p", r"\P", r"\x"}
#: Escapes for characters with the same bytes in nearly every encoding, for classes that ripgrep gets for all
#: encodings, or for no character.
_ASCII_ESCAPE = re.compile(r"\\(?:[abdDfnrsStvwWzAB]|[^0-9A-Za-z])")

#: Begins and ends with a class, so that a hyphen beside it does not form a range.
_WORD = (
    r"\p{L}\p{M}\p{Nd}\p{Nl}\x{24B6}-\x{24E9}\x{1F130}-\x{1F149}\x{1F150}-\x{1F169}\x{1F170}-\x{1F189}"
    r"\x{200C}\x{200D}\p{Pc}"
)
_SPACE = r"[:space:]\x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000}[:space:]"
_UNICODE = {
    r"\w": f"[{_WORD}]",
    r"\W": f"[^{_WORD}]",
    r"\s": f"[{_SPACE}]",
    r"\S": f"[^{_SPACE}]",
    r"\d": r"\p{Nd}",
    r"\D": r"\P{Nd}",
}
NO_WORD = _UNICODE[r"\W"]

#: The end of a line. A carriage return before the line break is not part of the line.
_LINE_END = r"(?:\r?$)"
_ACROSS = {"$": _LINE_END}
_WIDE = _ACROSS | {r"\A": "^", r"\z": _LINE_END}
#: A non-ASCII character in nearly any encoding.
_OTHER = r"(?-u:[\x80-\xFF][^\n]{0,3})"
_ASCII = {
    r"\d": "[0-9]",
    r"\D": r"[\x00-\x7F--[0-9]]",
    r"\w": "[0-9A-Za-z_]",
    r"\W": r"[\x00-\x7F--[0-9A-Za-z_]]",
    r"\s": r"[\t-\r ]",
    r"\S": r"[\x00-\x7F--[\t-\r ]]",
}
#: Classes and borders are ASCII only in RE2, but Unicode in ripgrep, where `\<` and `\>` are the ends of a word.
_RIPGREP = {escape: f"(?:{set_}|{_OTHER})" for escape, set_ in _ASCII.items()} | {
    r"\b": r"(?-u:\b)",
    r"\B": r"(?-u:\B)",
    r"\<": "<",
    r"\>": ">",
    "\n": r"\n",
    "\\\n": r"\n",
}
_NO_ASCII_WORD = r"(?-u:[^0-9A-Za-z_])"


def refuse_operations(pattern: str) -> None:
    """Raise `Invalid` for sets that other engines read as set operations, but RE2 as literal characters."""
    for token in _TOKEN.finditer(unquoted(pattern)):
        parts = set_parts(token[0]) if token["set"] else []
        doubled = next((part * 2 for part, other in pairwise(parts) if part == other and part in _OPERATORS), None)
        operation = doubled or ("[" if "[" in parts else None)
        if operation:
            raise Invalid(
                f"`pattern` has `{operation}` in the set `{token[0][:MAX_SHOWN_CHARACTERS]}`, but RE2 has no set "
                f"operations and no nested sets. Write `\\{operation[0]}` for the character itself, or write the set "
                "without operations."
            )


def for_re2(pattern: str) -> str:
    """The pattern with Unicode classes spelled out."""
    return "".join(
        _set_for_re2(token[0]) if token["set"] else _UNICODE.get(token[0], token[0])
        for token in tokens(unquoted(pattern))
    )


def by_lines(pattern: str) -> str:
    """The pattern for whole texts: anchors of the text match at each line."""
    return _translated(pattern, _WIDE)


def across_lines(pattern: str) -> str:
    """The pattern for whole texts, in which lines may end with a carriage return."""
    return f"(?m:{''.join(_ACROSS.get(token[0], token[0]) for token in tokens(unquoted(pattern)))})"


def for_ripgrep(pattern: str, *, word: bool, multiline: bool) -> str | None:
    """The pattern in ripgrep's syntax, matching at least the same lines; None if it cannot be expressed."""
    pattern_tokens = tokens(unquoted(pattern))
    if any(token[0] == r"\C" for token in pattern_tokens):
        return None
    parts, previous = [], ""
    for token in pattern_tokens:
        is_literal = token[0] == "{" and previous not in _BRACED and not _BRACES.match(token.string, token.start())
        plain = r"\{" if is_literal else _RIPGREP.get(token[0], token[0])
        parts.append(_set_for_ripgrep(token[0]) if token["set"] else plain)
        previous = token[0]
    translated = "".join(parts)
    wide = across_lines(translated) if multiline else by_lines(translated)
    # around a match in a non-UTF-8 encoding, only ASCII is known
    return rf"(?:\A|{_NO_ASCII_WORD}|(?m:^)){wide}(?:\z|{_NO_ASCII_WORD}|(?m:$))" if word else wide


def matches_more(pattern: str) -> bool:
    """Whether an ASCII pattern may match non-ASCII characters that ripgrep would not find in all encodings."""
    return any(
        token[0] == "." or token[0].startswith("[^") or any(map(_stands_for_more, _SET_PART.findall(token[0])))
        for token in tokens(unquoted(pattern))
    )


def tokens(pattern: str) -> list[re.Match[str]]:
    """The tokens of a pattern: escapes, sets, and otherwise single characters."""
    return list(_TOKEN.finditer(pattern))


def unquoted(pattern: str) -> str:
    """The pattern with quotations replaced by escapes. An unclosed quotation would swallow what is appended."""
    return "".join(
        re.escape(token[0][2:].removesuffix(r"\E")) if token["quoted"] else token[0]
        for token in _TOKEN.finditer(pattern)
    )


def _translated(pattern: str, replacements: dict[str, str]) -> str:
    parts = []
    for token in _TOKEN.finditer(unquoted(pattern)):
        if token["flags"]:
            parts.append(_without_single_line(token[0]))
        else:
            parts.append(token[0] if token["set"] else replacements.get(token[0], token[0]))
    return f"(?m:{''.join(parts)})"


def _without_single_line(flags: str) -> str:
    on, off = flags[2:-1].split("-")
    off = off.replace("m", "")
    remaining = f"{on}-{off}" if off else on
    return f"(?{remaining}{flags[-1]}" if remaining or flags[-1] == ":" else ""


def _stands_for_more(part: str) -> bool:
    return part.startswith("[:^") or (part[0] == "\\" and not _ASCII_ESCAPE.fullmatch(part))


def _opening(token: str) -> str:
    return "[^" if token.startswith("[^") else "["


def set_parts(token: str) -> list[str]:
    """The tokens between a set's brackets: escapes, named classes, and otherwise single characters."""
    return _SET_PART.findall(token[len(_opening(token)) : -1])


def _set_for_re2(token: str) -> str:
    return f"{_opening(token)}{''.join(map(_part_for_re2, set_parts(token)))}]"


def _part_for_re2(part: str) -> str:
    if part in {r"\W", r"\S"}:
        return _others(part)
    return _UNICODE[part][1:-1] if part in {r"\w", r"\s"} else _UNICODE.get(part, part)


@cache
def _others(escape: str) -> str:
    """The ranges of a complement class, spelled out because RE2 does not allow it inside a set."""
    everything = "".join(map(chr, (*range(0xD800), *range(0xE000, 0x110000)))).encode()
    runs = (run.decode() for run in re2.findall(f"{_UNICODE[escape]}+".encode(), everything))
    ranges = "".join(rf"\x{{{ord(run[0]):X}}}-\x{{{ord(run[-1]):X}}}" for run in runs)
    ends = "[:space:]" if escape == r"\W" else "[:alpha:]"
    return f"{ends}{ranges}{ends}"


def _set_for_ripgrep(token: str) -> str:
    opening, parts = _opening(token), set_parts(token)
    body = "".join(f"\\{part}" if part in "[]&~" else _ASCII.get(part, part) for part in parts)
    set_ = f"{opening}{body}]"
    return f"(?:{set_}|{_OTHER})" if opening == "[" and not _ASCII.keys().isdisjoint(parts) else set_
