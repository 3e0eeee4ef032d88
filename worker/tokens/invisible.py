"""Removes characters that hide a word from a search: invisible ones, and marks that writers may omit."""

from __future__ import annotations

import re

from worker.tokens.normal_forms import normalized

#: Unicode's Default_Ignorable_Code_Point: soft hyphen, zero-width space and joiners, word joiner, byte order mark,
#: direction marks, variation selectors, fillers, tags.
_IGNORED = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff"
    "\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
#: Hebrew points and accents, Arabic vowel signs with the stretching tatweel, Syriac points. A hamza does not belong
#: here.
_POINTS = (
    "\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u0640\u064b-\u0652\u0656-\u065f\u0670\u06d6-\u06dc\u06df-\u06e4"
    "\u06e7\u06e8\u06ea-\u06ed\u0711\u0730-\u074a\u08ca-\u08e1\u08e3-\u08ff"
)
#: Accents that no composed letter has, such as the stress in Russian, and keycaps.
_ACCENTS = "\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f"

#: The characters that may occur within a word without changing it.
INVISIBLE = re.compile(f"[{_IGNORED}{_POINTS}]+")
#: Ligatures, wide letters and digits, narrow kana, and digits above or below the line.
_VARIANTS = (
    "\ufb00-\ufb06\uff10-\uff19\uff21-\uff3a\uff41-\uff5a\uff66-\uff9f"
    "\u00b2\u00b3\u00b9\u2070\u2074-\u2079\u2080-\u2089"
)
#: The same, and characters that are usually written otherwise.
OTHER_FORMS = re.compile(
    f"(?P<invisible>[{_IGNORED}{_POINTS}]+)|(?P<accents>[\u0300-\u036f]{{1,8}})|(?P<variants>[{_VARIANTS}]{{1,64}})"
)
#: Each of these characters, and those that stand for several, in the syntax of ripgrep.
ANY_OTHER, SEVERAL = f"[{_IGNORED}{_POINTS}\u0300-\u036f{_VARIANTS}]", "[\ufb00-\ufb06]"
_HIDING = re.compile(f"[{_IGNORED}{_POINTS}{_ACCENTS}]+")
#: The beginnings of these characters in UTF-8, by the first byte, if other characters share it.
_BEGINNINGS = {
    0xC2: re.compile(rb"\xc2[\x80-\x9f\xad]"),
    0xE0: re.compile(rb"\xe0\xa3"),
    0xE1: re.compile(rb"\xe1[\x85\x9e\xa0\xaa\xab\xb7]"),
    0xE2: re.compile(rb"\xe2(?:\x80[\x8b-\x8f\xaa-\xae]|[\x81\x83])"),
    0xE3: re.compile(rb"\xe3\x85"),
    0xEF: re.compile(rb"\xef[\xb8\xbb\xbe\xbf]"),
    0xF0: re.compile(rb"\xf0[\x9b\x9d]"),
}
#: First bytes that only other characters have: most letters.
_SHOWN = bytes({*range(256)}.difference(b"\xcc\xcd\xd6\xd7\xd8\xd9\xdb\xdc\xdd\xf3", _BEGINNINGS))
#: A soft hyphen at the end of a line, which is where the word is divided.
_DIVIDED = re.compile("(?<=[^\\W\\d_])\u00ad\r?\n[ \t]{0,40}(?=[^\\W\\d_])")
#: The letters and signs of Windows that a wrong encoding shows as control characters.
WINDOWS = {code: sign for code in range(0x80, 0xA0) if (sign := bytes([code]).decode("cp1252", "ignore"))}
_NORMAL_OF_WINDOWS = {code: sign for code, sign in WINDOWS.items() if normalized("NFKC", sign) == sign}
#: The dot between two letters in Catalan: `paral·lel`.
_DOT = re.compile("(?<=[lL])\u00b7(?=[lL])")
#: Terminal sequences that change colours or move the cursor.
TERMINAL = re.compile(r"\x1b\[[0-?]{0,64}[ -/]{0,8}[@-~]")
#: Unicode's hyphen, and the dash that some writers use as one.
_HYPHEN, _DASH = "\u2010", "\u2013"


def plain(text: str) -> str:
    """Return the form in which texts and queries are split into words: NFKC without invisible characters.

    Hyphens become the keyboard's hyphen.
    """
    if "\x1b" in text:
        text = TERMINAL.sub("", text)
    if text.isascii():
        return text
    normal = normalized("NFKC", text)
    if _may_hide(normal):
        normal = _DIVIDED.sub("", normal.translate(_NORMAL_OF_WINDOWS))
        shown, hidden = _HIDING.subn("", normal)
        # separated characters may form one letter now
        normal = normalized("NFKC", shown) if hidden else normal
    if "\u00b7" in normal:
        normal = _DOT.sub("", normal)
    return normal.replace(_HYPHEN, "-").replace(_DASH, "-")


def _may_hide(text: str) -> bool:
    """Return whether a text may have characters that hide words. Most have none; a search takes 10 times longer."""
    data = text.encode(errors="surrogatepass")
    return any(
        first not in _BEGINNINGS or _BEGINNINGS[first].search(data) for first in set(data.translate(None, _SHOWN))
    )
