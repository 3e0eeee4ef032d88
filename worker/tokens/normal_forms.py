"""Unicode's normal forms, in time that is linear in the text.

Python sorts the accents of a letter by insertion, in one call that holds the interpreter: 40,000 accents in a row take
three seconds.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache
from typing import Literal

#: Maximum accents in a row. Text has no more: the stream-safe text format of Unicode (UAX #15) allows as many.
MAX_ACCENTS = 30
#: The combining grapheme joiner. Accents are not sorted across it, and it is invisible.
_JOINER = "\u034f"
#: The range of all accents.
_PLANES = (0x300, 0x20000)
#: Sampling distance in characters. A run that takes long has four sampled accents, which other texts lack.
_STEP = 64
#: Characters that decompose into accents without being one.
_OF_ACCENTS = "\u0f73\u0f75\u0f81\uff9e\uff9f"


def normalized(form: Literal["NFC", "NFD", "NFKC", "NFKD"], text: str) -> str:
    """Return the normal form of a text. Joiners split a run of more than `MAX_ACCENTS` accents, as Unicode advises."""
    if len(text) > 4 * _STEP and not text.isascii():
        sample = text[::_STEP]
        if not _accents().isdisjoint(sample):
            sampled, too_many = _runs()
            text = too_many.sub(rf"\g<0>{_JOINER}", text) if sampled.search(sample) else text
    return unicodedata.normalize(form, text)  # noqa: TID251 - no run of accents is long here


@cache
def _accents() -> frozenset[str]:
    """Return all characters that a normal form may sort."""
    return frozenset([*filter(unicodedata.combining, map(chr, range(*_PLANES))), *_OF_ACCENTS])


@cache
def _runs() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return two patterns for runs of accents: in a sample, and runs that are too long."""
    accents = f"[{''.join(sorted(_accents()))}]"
    return re.compile(f"{accents}{{4}}"), re.compile(f"{accents}{{{MAX_ACCENTS}}}(?={accents})")
