"""Answers that are remembered, also of questions that lead to each other as modules do that pass on names."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import wraps
from typing import Any, Concatenate, NamedTuple, ParamSpec, Protocol, TypeVar, cast

from api.search.code.code_of_file import Meaning
from worker.state.search.code_texts import Defined

#: Imports and exports that are followed one after another, and in one request.
MAX_STEPS = 8
MAX_FOLLOWED = 100_000


class _Remembers(Protocol):
    remembered: dict[Hashable, Any]


_Self = TypeVar("_Self", bound=_Remembers)
_Given = ParamSpec("_Given")
_Answer = TypeVar("_Answer")


def remembered(method: Callable[Concatenate[_Self, _Given], _Answer]) -> Callable[Concatenate[_Self, _Given], _Answer]:
    """Ask a method once for the same arguments."""

    @wraps(method)
    def ask(self: _Self, *given: _Given.args, **named: _Given.kwargs) -> _Answer:
        key = (method.__name__, given, *named.items())
        if key not in self.remembered:
            self.remembered[key] = method(self, *given, **named)
        answer: _Answer = self.remembered[key]
        return answer

    return cast("Callable[Concatenate[_Self, _Given], _Answer]", ask)


class _Passing(NamedTuple):
    """An answer that holds while the question `within` is open, for those that are as many steps away or more."""

    meaning: Meaning
    steps: int
    within: int


class Answers:
    """Remembers answers, but not those that miss something as they were asked for on the way to another one."""

    def __init__(self) -> None:
        #: Each with the steps that were followed for it.
        self._kept: dict[Hashable, tuple[Meaning, int]] = {}
        self._passing: dict[Hashable, _Passing] = {}
        self._open: dict[Hashable, int] = {}
        self._asked = 0
        #: The first open question that an answer depends on.
        self._within = 0
        #: The most steps that an answer took, from the outermost question.
        self._deepest = 0
        #: Whether a limit left something out that no answer names.
        self.is_cut = False

    def of(self, key: Hashable, find: Callable[[], Meaning], others: Callable[[], tuple[Defined, ...]]) -> Meaning:
        """Return the answer of `find`: nothing if it asks for its own key, and any of the `others` beyond a limit."""
        steps = len(self._open)
        kept, below = self._kept.get(key, (None, 0))
        # one that a limit would cut from here is asked again: what was asked before must change nothing
        if kept and (not steps or steps + below <= MAX_STEPS):
            self._deepest = max(self._deepest, steps + below)
            return kept
        if key in self._open:
            self._within = min(self._within, self._open[key])
            return Meaning((), "resolved")
        known = self._passing.get(key)
        if known and known.steps <= steps and known.within in self._open.values():
            self._within = min(self._within, known.within)
            return known.meaning
        if steps > MAX_STEPS or self._asked >= MAX_FOLLOWED:
            self._within = min([self._within, *self._open.values()])
            self._deepest = max(self._deepest, steps)
            left = Meaning(others(), "by_name")
            self.is_cut |= not left.targets
            return left
        return self._found(key, find, steps)

    def _found(self, key: Hashable, find: Callable[[], Meaning], steps: int) -> Meaning:
        self._asked += 1
        number, before, deepest = self._asked, self._within, self._deepest
        self._open[key] = self._within = number
        self._deepest = steps
        try:
            meaning = find()
        finally:
            del self._open[key]
        if self._within == number:
            self._kept[key] = meaning, self._deepest - steps
            self._within = before
        else:
            self._passing[key] = _Passing(meaning, steps, self._within)
            self._within = min(before, self._within)
        self._deepest = max(deepest, self._deepest)
        if not self._open:
            self._passing.clear()
        return meaning
