"""Expands braces: `{a,b}` matches either, as in ripgrep.

Braces without a comma, without a partner, or after a backslash are literal.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_SIGN = re.compile(r"(\\.|[{},])", re.DOTALL)


class TooManyError(ValueError):
    """Raised for a pattern that expands to too many others."""


class _Branch:
    """The expansions of one branch of a group, and the literal text that follows each."""

    def __init__(self) -> None:
        self._texts = [""]
        self._tail = ""

    def add(self, texts: Sequence[str], most: int) -> None:
        """Append each of the texts as an alternative. Raises `TooManyError`."""
        if len(texts) == 1:
            self._tail += texts[0]
            return
        if len(self._texts) * len(texts) > most:
            raise TooManyError
        self._texts = [f"{text}{self._tail}{following}" for text in self._texts for following in texts]
        self._tail = ""

    def texts(self) -> list[str]:
        return [text + self._tail for text in self._texts]


def alternatives(glob: str, most: int) -> list[str]:
    """Return the expansions of a pattern. Raises `TooManyError` if there are more than `most`."""
    # the branches of each open group, outermost first; the pattern itself is the only branch of the first
    groups = [[_Branch()]]
    for sign in _SIGN.split(glob):
        if sign == "{":
            groups.append([_Branch()])
        elif sign == "," and len(groups) > 1:
            groups[-1].append(_Branch())
        elif sign == "}" and len(groups) > 1:
            _close(groups, sign, most)
        else:
            groups[-1][-1].add([sign], most)
    while len(groups) > 1:
        _close(groups, "", most)
    return groups[0][0].texts()


def _close(groups: list[list[_Branch]], end: str, most: int) -> None:
    """Append the innermost group to its enclosing branch. Without its `end` it is literal."""
    branches = groups.pop()
    around = groups[-1][-1]
    if end and len(branches) > 1:
        texts = list(dict.fromkeys(text for branch in branches for text in branch.texts()))
        around.add(texts, most)
        return
    for number, branch in enumerate(branches):
        around.add(["," if number else "{"], most)
        around.add(branch.texts(), most)
    around.add([end], most)
