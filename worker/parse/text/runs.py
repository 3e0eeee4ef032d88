"""Finds runs of similar pieces of text, of any length."""

from __future__ import annotations

import re
import sys


def end_of_run(pattern: re.Pattern[str], text: str, start: int, end: int = sys.maxsize) -> int:
    """Return the end of the longest run of pieces that starts at `start`; `start` if there is none.

    `pattern` must match a bounded number of them, such as `(?:…){1,1000}`: `re` keeps over 100 bytes for each piece it
    may have to give back. Possessive quantifiers would keep none, but CPython before 3.11.5 gets them wrong.
    """
    while match := pattern.match(text, start, end):
        start = match.end()
    return start
