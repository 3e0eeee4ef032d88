"""Expands braces: `{a,b}` stands for either, as in ripgrep.

Braces without a comma, without a partner, or after a backslash are literal.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_SIGN = re.compile(r"(\\.|[{},])", re.DOTALL)


class TooManyError(ValueError):
    """A pattern stands for too many others."""


class _Branch:
    """The texts that one branch of a group stands for, and the literal text that follows each of them."""

    def __init__(self) -> None:
        self._texts = [""]
        self._tail = ""

    def add(self, texts: Sequence[str], most: int) -> None:
        """Let any of the texts follow. Raises `TooManyError`."""
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
    """What a pattern stands for. Raises `TooManyError` if that is more than `most` patterns."""
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
    """Let the innermost group follow in the branch that it is part of. Without its `end` it is literal."""
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
