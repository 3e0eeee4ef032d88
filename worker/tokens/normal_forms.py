"""Unicode's normal forms, in time that is linear in the text.

Python sorts the accents of a letter by insertion, in one call that holds the interpreter: 40,000 accents in a row take
three seconds.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache
from typing import Literal

#: Accents in a row. What has more is no text: the stream-safe text format of Unicode (UAX #15) allows as many.
MAX_ACCENTS = 30
#: The combining grapheme joiner. Accents are not sorted across it, and nobody sees it.
_JOINER = "\u034f"
#: Where all of them are.
_PLANES = (0x300, 0x20000)
#: Every so many characters one is looked at first. A run that takes long has four of them, which other texts lack.
_STEP = 64
#: Characters that are no accents, but decompose into some.
_OF_ACCENTS = "\u0f73\u0f75\u0f81\uff9e\uff9f"


def normalized(form: Literal["NFC", "NFD", "NFKC", "NFKD"], text: str) -> str:
    """The normal form of a text. A run of more than `MAX_ACCENTS` accents is divided by joiners, as Unicode advises."""
    if len(text) > 4 * _STEP and not text.isascii():
        accents = _accents()
        if re.search(f"{accents}{{4}}", text[::_STEP]):
            text = re.sub(f"{accents}{{{MAX_ACCENTS}}}(?={accents})", rf"\g<0>{_JOINER}", text)
    return unicodedata.normalize(form, text)  # noqa: TID251 - no run of accents is long here


@cache
def _accents() -> str:
    """A class of all characters that a normal form may sort."""
    letters = filter(unicodedata.combining, map(chr, range(*_PLANES)))
    return f"[{''.join(letters)}{_OF_ACCENTS}]"
