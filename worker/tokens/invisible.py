"""Removes what hides a word from a search: characters that nobody sees, and marks that a writer may leave out."""

from __future__ import annotations

import re

from worker.tokens.normal_forms import normalized

#: Unicode's Default_Ignorable_Code_Point: soft hyphen, zero-width space and joiners, word joiner, byte order mark,
#: direction marks, variation selectors, fillers, tags.
_IGNORED = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff"
    "\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
#: Hebrew points and accents, Arabic vowel signs with the stretching tatweel, Syriac points. A hamza is not one of them.
_POINTS = (
    "\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u0640\u064b-\u0652\u0656-\u065f\u0670\u06d6-\u06dc\u06df-\u06e4"
    "\u06e7\u06e8\u06ea-\u06ed\u0711\u0730-\u074a\u08ca-\u08e1\u08e3-\u08ff"
)
#: Accents that no composed letter has, such as the stress in Russian, and keycaps.
_ACCENTS = "\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f"

#: The characters that stand within a word and change nothing about it.
INVISIBLE = re.compile(f"[{_IGNORED}{_POINTS}]+")
_HIDING = re.compile(f"[{_IGNORED}{_POINTS}{_ACCENTS}]+")
#: The hyphen of Unicode, and the dash that some write for one.
_HYPHEN, _DASH = "\u2010", "\u2013"


def plain(text: str) -> str:
    """The form in which texts and queries are divided into words: NFKC, without invisible characters.

    Hyphens become the one that a keyboard has.
    """
    if text.isascii():
        return text
    normal = normalized("NFKC", text)
    shown, hidden = _HIDING.subn("", normal)
    # what stood apart may make one letter now
    return (normalized("NFKC", shown) if hidden else normal).replace(_HYPHEN, "-").replace(_DASH, "-")
