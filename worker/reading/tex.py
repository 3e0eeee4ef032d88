r"""Accents, letters and signs of LaTeX and BibTeX: `G{\"o}del`, `\c{c}`, `{\ss}`, `^^fc`, `\-`, `{K}alman`, ruby.

Numbers of letters, as `\char"F6`, and entities of web pages that a bibliography took over are read, too.
"""

from __future__ import annotations

import re
import sys
from collections import deque
from collections.abc import Callable, Iterator

from worker.reading import tex_signs
from worker.reading.edits import Edit, made_edit, merged
from worker.reading.entities import ENTITY, decoded_entity
from worker.tokens.normal_forms import normalized

#: Combining characters by the sign or letter of the command.
_ACCENTS = {
    '"': "\u0308",
    "'": "\u0301",
    "`": "\u0300",
    "^": "\u0302",
    "~": "\u0303",
    "=": "\u0304",
    ".": "\u0307",
    "u": "\u0306",
    "v": "\u030c",
    "H": "\u030b",
    "c": "\u0327",
    "k": "\u0328",
    "r": "\u030a",
    "b": "\u0331",
    "d": "\u0323",
    "h": "\u0309",
    "textcommabelow": "\u0326",
}
#: Letters and signs by the command. The dotless ones carry an accent.
_LETTERS = {
    "ss": "ß",
    "SS": "SS",
    "ij": "ij",
    "IJ": "IJ",
    "ae": "æ",
    "AE": "Æ",
    "oe": "œ",
    "OE": "Œ",
    "o": "ø",
    "O": "Ø",
    "l": "ł",
    "L": "Ł",
    "aa": "å",
    "AA": "Å",
    "i": "\u0131",
    "j": "\u0237",
    "dh": "ð",
    "DH": "Ð",
    "th": "þ",
    "TH": "Þ",
    "dj": "đ",
    "DJ": "Đ",
    "ng": "ŋ",
    "NG": "Ŋ",
    "textendash": "\u2013",
    "textemdash": "\u2014",
    "textquoteleft": "\u2018",
    "textquoteright": "\u2019",
    "textquotedblleft": "\u201c",
    "textquotedblright": "\u201d",
    "quotedblbase": "\u201e",
    "guillemotleft": "«",
    "guillemotright": "»",
    "textbackslash": "\\",
    "textasciitilde": "~",
    "textunderscore": "_",
    "textbar": "|",
    "textless": "<",
    "textgreater": ">",
    "textdegree": "°",
    "texteuro": "€",
    "textregistered": "®",
    "texttrademark": "\u2122",
}
#: Signs that only mark where a word may break, and where letters form no ligature.
_JOINTS = "-/"
#: Letters by the sign after a quotation mark within a word, as in babel's German.
_GERMAN = {
    "a": "ä",
    "o": "ö",
    "u": "ü",
    "A": "Ä",
    "O": "Ö",
    "U": "Ü",
    "s": "ß",
    "z": "ß",
    "-": "",
    "=": "-",
    "~": "-",
    "|": "",
}
#: Beginnings of German words with an umlaut, which babel writes after a quotation mark. Few words of English have them.
_BEGINNING = (
    r"[Uu](?=b(?!iq|unt|iso)|ppig)|[Oo](?=ffn|ffent|st(?:err|lich)|ko[ln]|rtl|l(?![a-z])"
    r"|l(?!fac|mec|son|bers)[bfhkmprstwz])|[Aa](?=hn|nder[nu]|ndert|rzt|rger|pfel|u\"s|qui[vl]|gypt"
    r"|lter(?:e[mnrs]?|n)(?![a-z])|ltest|ngst[el]|sthet|tz[et]|mter)"
)
_FIRST_TWO = [
    one + two for ones, twos in (("Uu", "bp"), ("Oo", "fskrl"), ("Aa", "hnrpuqgltsm")) for one in ones for two in twos
]
_DOTLESS = {"\\i": "i", "\\j": "j"}
#: A letter under an accent, which may have an accent of its own; signs need no blank or brace before it.
_BASE = r"(?:\\[ij](?![A-Za-z])[ \t]?|\\[\"'`^~=.](?:[^\W\d_]|\{[^\W\d_]\})|[^\W\d_])"
_ACCENT = (
    r"(?P<accent>[\"'`^~=.](?=[ \t]?(?:\{|\\[ij](?![A-Za-z])|\\[\"'`^~=.]|[^\W\d_]))|[uvHckrbdh](?=[ \t]|\{)"
    r"|textcommabelow(?=\{))[ \t]?"
)
#: A letter by its number: hexadecimal, octal or decimal.
_NUMBER = r"(?:\"(?:[0-9A-F]{2}|[0-9A-F]{4,5})|'[0-7]{3}|[0-9]{3,6})"
_BY_NUMBER = rf"(?:char(?P<number>{_NUMBER})(?![0-9])|symbol\{{(?P<symbol>{_NUMBER})\}})(?:\{{\}}|[ \t])?"
#: Names by their first letter, as each alternative takes time at each backslash.
_LETTER_NAMES = "|".join(
    f"{first}(?:{'|'.join(name[1:] for name in _LETTERS if name[0] == first)})"
    for first in dict.fromkeys(name[0] for name in _LETTERS)
)
_NAMED = rf"(?P<letter>{_LETTER_NAMES})(?![A-Za-z])(?:\{{\}}|[ \t])?"
_COMMAND = rf"{_NAMED}|{_BY_NUMBER}"
#: Each edit begins with one of four signs. A pattern that begins with a set of signs skips other text fast.
_EDIT = re.compile(
    r"[\\{^\"](?:(?:(?<=\\)|(?<=(?P<open>\{))\\)"
    rf"(?:{_ACCENT}(?:(?P<base>{_BASE})|\{{[ \t]?(?P<braced>{_BASE})[ \t]?\}})|{_COMMAND})(?P<close>\}})?"
    r"|(?<=\\)(?:(?P<sign>[_&%#$/-])|ruby(?:\[[^\[\]{}]{0,20}\])?\{(?P<below>[^{}\\]{1,40})\}\{[^{}\\]{0,80}\})"
    # a character of Unicode, one of UTF-8, or a byte of Latin-1
    r"|(?<=\^)\^(?:\^\^(?P<wide>[0-9a-f]{4})|(?P<octets>[c-f][0-9a-f](?:\^\^[89ab][0-9a-f]){1,3})"
    r"|(?P<byte>(?![df]7)[c-f][0-9a-f]))"
    r"|(?<=[^\W\d_]\")(?P<german>[aouAOUsz=~|-])(?=[^\W\d_]|\"[aousz])"
    rf"|(?<=\")(?:(?<=[^\W\d_][aeiouyäöü]\")(?P<last>s)(?!\w)|(?<![\w\\]\")(?P<first>{_BEGINNING}))"
    # capitals that BibTeX must keep
    r"|(?<=\{)(?:(?<![\\\w}\]]\{)(?P<start>[^\W\d_]{1,8})\}(?=[^\W\d_]|\\[\"'`^~=.])"
    r"|(?<=[^\W\d_]\{)(?P<empty>)\}(?=[^\W\d_])|(?<=[^\W\d_]\{)(?P<inner>[^\W\d_]{1,8})\}))"
)
_SIGNS = tex_signs.TexSigns((*_ACCENTS, *_LETTERS, *_JOINTS, *"_&%#$", "ruby", "char", "symbol"), _GERMAN, _FIRST_TWO)
#: The text for what each of these groups matches.
_DECODED: dict[str, Callable[[str], str]] = {
    "sign": lambda sign: "" if sign in _JOINTS else sign,
    "start": str,
    "byte": lambda digits: chr(int(digits, 16)),
    "below": lambda base: base.replace("|", ""),
    "german": _GERMAN.__getitem__,
    "first": _GERMAN.__getitem__,
    "last": _GERMAN.__getitem__,
}
#: Characters before a brace that are searched for a command whose argument it opens.
_MAX_COMMAND = 32
#: Quotation marks that are not babel's. One that is open before a word's last letter ends behind the word.
_QUOTE = re.compile(rf'"(?:(?<![^\W\d_]"|\\")(?!{_BEGINNING})|(?![^\W\d_]))')
#: One word, or a few until the next quotation mark, if that is none of babel's.
_QUOTED_WORDS = re.compile(r"\"(?:[^\W\d_]{1,40}\"(?![^\W\d_])|(?:[^\"\n\\]|\\.){1,60}(?<!\s)\"(?![\w\"'`=~|-]))")
_MAX_QUOTED = 200
#: Blanks after the sign before a value of BibTeX.
_MAX_BEFORE_VALUE = 4
#: The first letter beyond ASCII.
_FIRST_LATIN = 0xC0


def may_have(text: str) -> bool:
    """Return whether a text may have a command, braces, a byte, a letter after a quotation mark, or an entity."""
    return "\\" in text or "{" in text or '"' in text or "^^" in text or "&" in text


def edits(text: str) -> Iterator[Edit]:
    """Return edits that decode commands for letters and signs, and entities, and remove braces within words."""
    return merged(_commands(text), _entities(text)) if _has_entities(text) else _commands(text)


def _has_entities(text: str) -> bool:
    return "&" in text and ENTITY.search(text) is not None


def _entities(text: str) -> Iterator[Edit]:
    for match in ENTITY.finditer(text):
        if read := decoded_entity(match[0]):
            yield made_edit((*match.span(), read))


def _commands(text: str) -> Iterator[Edit]:
    if may_have(text):
        quotes = _Quotes(text)
        for match in _EDIT.finditer(text) if len(text) < tex_signs.MIN_CHARS else _matches(text):
            if edit := _edit(text, match, quotes):
                yield edit


def _matches(text: str) -> Iterator[re.Match[str]]:
    """Yield all matches in a long text, without those that are no edit. Most commands and braces begin none."""
    done = 0
    for place in _SIGNS.places(text):
        if place >= done and (match := _EDIT.match(text, place)):
            done = match.end()
            yield match


class _Quotes:
    """Counts the quotation marks that are not babel's, at places in order. Each is examined once."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._places: deque[int] = deque()
        self._done = 0

    def before(self, place: int) -> int:
        """Return the number of those shortly before a place of the text, on the same line."""
        first = max(0, place - _MAX_QUOTED)
        first = max(first, self._text.rfind("\n", first, place) + 1)
        self._places += (quote.start() for quote in _QUOTE.finditer(self._text, max(first, self._done), place))
        self._done = place
        while self._places and self._places[0] < first:
            self._places.popleft()
        return len(self._places)


def _edit(text: str, match: re.Match[str], quotes: _Quotes) -> Edit | None:
    start, end = match.span()
    kind = match.lastgroup or ""
    if kind in {"inner", "empty"}:
        return made_edit((start, end, match[kind])) if _word_before(text, start) else None
    if (kind == "first" and _is_quoted(text, start)) or (kind == "last" and quotes.before(start) % 2):
        return None
    if kind in _DECODED:
        return made_edit((start, end, _DECODED[kind](match[kind])))
    if kind in {"wide", "octets"}:
        read = _of_carets(match[kind])
        return made_edit((start, end, read)) if read else None
    # the braces belong to the accent, unless they are the argument of a command before it
    is_enclosed = bool(match["open"] and match["close"]) and not _follows_command(text, start)
    is_open, is_closed = bool(match["open"]) and not is_enclosed, bool(match["close"]) and not is_enclosed
    letter = _letter(match)
    return Edit(start + is_open, end - is_closed, letter) if letter else None


def _of_carets(digits: str) -> str:
    """Return the character of four digits, or of bytes of UTF-8; empty if none is shown."""
    octets = digits.split("^^")
    read = chr(int(digits, 16)) if len(octets) == 1 else bytes.fromhex("".join(octets)).decode(errors="ignore")
    return read if len(read) == 1 and read.isprintable() else ""


def _is_quoted(text: str, start: int) -> bool:
    """Return whether a quotation mark before a word quotes it, or a value, and is not babel's."""
    before = text[max(0, start - _MAX_BEFORE_VALUE) : start].rstrip(" \t")
    return before.endswith(("=", "#")) or _QUOTED_WORDS.match(text, start) is not None


def _letter(match: re.Match[str]) -> str:
    """Return the letter of a command; empty if its number is not a letter's."""
    if match["letter"]:
        return _LETTERS[match["letter"]]
    if number := match["number"] or match["symbol"]:
        code = int(number.lstrip("\"'"), {'"': 16, "'": 8}.get(number[0], 10))
        return read if _FIRST_LATIN <= code <= sys.maxunicode and (read := chr(code)).isalpha() else ""
    base = (match["base"] or match["braced"]).rstrip()
    if base[0] == "\\" and base not in _DOTLESS:
        base = base.rstrip("}")[-1] + _ACCENTS[base[1]]
    return normalized("NFC", _DOTLESS.get(base, base) + _ACCENTS[match["accent"]])


def _word_before(text: str, place: int) -> bool:
    """Return whether a word, and not a command, ends at a position."""
    return text[place - 1 : place].isalpha() and not _follows_command(text, place)


def _follows_command(text: str, place: int) -> bool:
    """Return whether a command, with or without a star, ends at a position."""
    name = text.rfind("\\", max(0, place - _MAX_COMMAND), place) + 1
    command = text[name:place].rstrip("*") if name else ""
    return command.isascii() and command.isalpha()
