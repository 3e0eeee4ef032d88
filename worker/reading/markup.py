r"""Markdown: entities, escapes of characters, `snake\_case`. Also ruby text, as elements or `京《きょう》都`."""

from __future__ import annotations

import re
from collections.abc import Iterator

from worker.reading import escapes
from worker.reading.edits import Edit, all_of, merged

#: The reading of Chinese characters and the elements around it. JSON escapes slashes.
_RUBY = (
    r"<(?:rt|rp)(?:\s[^<>]{0,200})?>[^<>]{0,200}(?:<\\?/(?:rt|rp)\s{0,9}>)?|<\\?/(?:ruby|rb|rt|rp)\s{0,9}>"
    r"|<(?:ruby|rb)(?:\s[^<>]{0,200})?>"
)
_ELEMENT = re.compile(_RUBY, re.IGNORECASE)
_SOME_ELEMENT = re.compile(r"<\\?/?[rR]")
#: Such an element, or an escaped underscore within a word.
_MARK = re.compile(rf"(?<=\w)\\_(?=\w)|{_RUBY}", re.IGNORECASE)
_EASTERN = "\u2e80-\u2fff\u3005-\u30ff\u3400-\ud7ff\uf900-\ufaff"
#: A reading after its base: elsewhere, elements of these names have another meaning.
_BEHIND_BASE = re.compile(
    rf"<(?:r[tp]|R[TP])(?:(?<=[{_EASTERN}]...)|(?<=<\\/[rR][bB]>...)|(?<=</[rR][bB]>...)|(?<=</[rR][pP]>...))[\s>]"
)
#: A reading, and the mark before its base, in plain texts. Titles in such brackets follow other signs.
_IN_BRACKETS = re.compile(
    r"《(?<=[\u3005-\u3007\u3400-\u9fff\uf900-\ufaff]《)(?P<reading>[\u3041-\u309f\u30fc]{1,30})》"
    r"|[\uff5c|](?=[^\uff5c|《》\s]{1,20}《[\u3041-\u30ff]{1,30}》)"
)

#: A base with its reading in braces, as some kinds of Markdown write them.
_HAN = "\u3005-\u3007\u3400-\u9fff\uf900-\ufaff"
_IN_BRACES = re.compile(rf"\{{(?P<base>[{_HAN}]{{1,20}})(?:\|[\u3041-\u30ff]{{1,30}}){{1,20}}\}}")
_BAR = re.compile(rf"\|(?<=[{_HAN}]\|)(?=[\u3041-\u30ff])")

#: The patterns of texts with ruby text, by their first sign.
IN_READINGS = {"<": _BEHIND_BASE, "《": re.compile("《"), "|": _BAR}
#: In the syntax of ripgrep: the mark of each text with ruby text, and text that may occur within a word.
MARK = rf"<\\?/?[rR]|《|[{_HAN}]\|"
UNIT = r"<\\?/?[rR][^<>]{0,200}>|<[rR][tTpP][^<>]{0,200}>[^<>]{0,200}|《[^《》]{1,30}》|[\uff5c|]"
#: A base in braces, which may have several characters.
SEVERAL = rf"[{_HAN}]\|[\u3041-\u30ff]"


def may_have(text: str) -> bool:
    """Return whether a text may need any edit."""
    return escapes.may_have_any(text) or _may_have_marks(text) or "《" in text or _has_braces(text)


def edits(text: str) -> Iterator[Edit]:
    """Return edits that decode escapes and entities, restore underscores in words, and remove readings."""
    marks = (Edit(match.start(), match.end(), "_" if match[0][0] == "\\" else "") for match in _marks(text))
    return merged(marks, all_of(_in_brackets(text), escapes.anywhere(text)))


def may_have_elements(text: str) -> bool:
    """Return whether a text may have elements of ruby text."""
    return "<" in text and _SOME_ELEMENT.search(text) is not None


def may_have_readings(text: str) -> bool:
    """Return whether a text that is not Markdown may have ruby text."""
    return not text.isascii() and ("《" in text or _has_elements(text) or _has_braces(text))


def readings(text: str) -> Iterator[Edit]:
    """Return edits that remove readings and their elements within words of a text that is not Markdown."""
    if not may_have_readings(text):
        return iter(())
    elements = _ELEMENT.finditer(text) if _has_elements(text) else ()
    return merged((Edit(*match.span(), "") for match in elements), _in_brackets(text))


def _has_elements(text: str) -> bool:
    return "<" in text and _BEHIND_BASE.search(text) is not None


def _has_braces(text: str) -> bool:
    return "|" in text and "{" in text and _BAR.search(text) is not None


def words(text: str) -> Iterator[str]:
    """Yield readings in brackets, which may be titles."""
    return (match["reading"] for match in _bracketed(text) if match["reading"])


def _in_brackets(text: str) -> Iterator[Edit]:
    in_brackets = (Edit(*match.span(), "") for match in _bracketed(text))
    return merged(_in_braces(text), in_brackets) if "|" in text and "{" in text else in_brackets


def _in_braces(text: str) -> Iterator[Edit]:
    return (Edit(*match.span(), match["base"]) for match in _IN_BRACES.finditer(text))


def _bracketed(text: str) -> Iterator[re.Match[str]]:
    return _IN_BRACKETS.finditer(text) if "《" in text else iter(())


def _marks(text: str) -> Iterator[re.Match[str]]:
    return _MARK.finditer(text) if _may_have_marks(text) else iter(())


def _may_have_marks(text: str) -> bool:
    return ("\\" in text and "\\_" in text) or may_have_elements(text)
