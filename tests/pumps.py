"""Builds texts on which a regular expression may take time with a power of their length, from the expression itself."""

from __future__ import annotations

import gc
import random
import re
import re._constants as sre  # type: ignore[import-not-found]
import re._parser as parser  # type: ignore[import-not-found]
import signal
import time
from collections.abc import Callable, Iterator
from math import isinf
from typing import Any

#: What may follow a repeated text, so that a match fails late.
ENDS = ["", "\0", "!", " ", "\n", "x", '"']
#: What follows each run: a character that few classes have, and one that many have.
RUN_ENDS = ["\0", "!"]
#: Members of a class that are tried, besides those of the pattern itself.
CATEGORIES = {
    sre.CATEGORY_DIGIT: "07",
    sre.CATEGORY_SPACE: " \t\n",
    sre.CATEGORY_WORD: "aZ0_",
    sre.CATEGORY_NOT_DIGIT: "a-",
    sre.CATEGORY_NOT_SPACE: "a.",
    sre.CATEGORY_NOT_WORD: "- .",
}
#: Characters that a negated class probably has.
USUAL = "aA0 \n.-_/:\"'(<{x\xe9"


class Pumps:
    """Random texts for one expression, each to be repeated."""

    def __init__(self, pattern: re.Pattern[Any], chance: random.Random) -> None:
        self._chance = chance
        self._tree = parser.parse(pattern.pattern, pattern.flags)
        self._groups: dict[int, str] = {}
        self._repeated: list[Any] = []
        self._literals = set(USUAL)
        self._collect(self._tree)
        self._alphabet = sorted(self._literals)

    def texts(self, count: int) -> Iterator[tuple[str, str, str]]:
        """Beginnings, what is repeated after them, and ends."""
        for number in range(count):
            begin = "" if self._chance.random() < 0.4 else self._sample(self._tree)
            begin = begin[: self._chance.randint(0, len(begin))]
            yield begin, self._fragment(number) or "a", self._chance.choice(ENDS)

    def runs(self) -> Iterator[tuple[str, str, str]]:
        """The same for each repetition without a bound: what stands before it, what it repeats, and an end."""
        for begin, body in self._unbounded(self._tree):
            for end in RUN_ENDS:
                yield begin, self._sample(body) or "a", end

    def _unbounded(self, tree: Any) -> Iterator[tuple[str, Any]]:
        before = ""
        for operation, value in tree:
            if operation in {sre.MAX_REPEAT, sre.MIN_REPEAT} and value[1] is sre.MAXREPEAT:
                yield before, value[2]
            for part in _parts(operation, value):
                yield from ((before + inner, body) for inner, body in self._unbounded(part))
            before += self._piece(operation, value)

    def _fragment(self, number: int) -> str:
        kind = number % 4
        if kind == 0 and self._repeated:
            return self._sample(self._chance.choice(self._repeated))
        if kind == 1:
            whole = self._sample(self._tree)
            return whole[: self._chance.randint(1, max(1, len(whole)))]
        if kind == 2 and self._repeated:
            return "".join(self._sample(self._chance.choice(self._repeated)) for _ in range(2))
        return "".join(self._chance.choices(self._alphabet, k=self._chance.choice([1, 1, 2, 3])))

    def _collect(self, tree: Any) -> None:
        for operation, value in tree:
            if operation in {sre.LITERAL, sre.NOT_LITERAL}:
                self._literals.add(chr(value))
            if operation in {sre.MAX_REPEAT, sre.MIN_REPEAT}:
                self._repeated.append(value[2])
            for part in _parts(operation, value):
                self._collect(part)

    def _sample(self, tree: Any) -> str:
        return "".join(self._piece(operation, value) for operation, value in tree)

    def _piece(self, operation: Any, value: Any) -> str:  # noqa: PLR0911 - one for each kind of node
        match operation:
            case sre.LITERAL:
                return chr(value)
            case sre.NOT_LITERAL:
                return self._chance.choice([each for each in self._alphabet if ord(each) != value])
            case sre.ANY:
                return self._chance.choice(self._alphabet)
            case sre.IN:
                return self._member(value)
            case sre.BRANCH:
                return self._sample(self._chance.choice(value[1]))
            case sre.SUBPATTERN:
                self._groups[value[0]] = text = self._sample(value[3])
                return text
            case sre.GROUPREF:
                return self._groups.get(value, "")
            case sre.MAX_REPEAT | sre.MIN_REPEAT:
                least, most, body = value
                return "".join(self._sample(body) for _ in range(min(most, least + self._chance.choice([0, 1, 1, 2]))))
            case sre.ASSERT:
                return self._sample(value[1]) if self._chance.random() < 0.3 else ""
        return ""

    def _member(self, items: Any) -> str:
        negated = items[0][0] is sre.NEGATE
        members: list[str] = []
        for operation, value in items:
            if operation is sre.LITERAL:
                members.append(chr(value))
            elif operation is sre.RANGE:
                members += [chr(value[0]), chr(value[1]), chr(self._chance.randint(*value))]
            elif operation is sre.CATEGORY:
                members += CATEGORIES[value]
        if negated:
            members = [each for each in self._alphabet if each not in members] or ["\x01"]
        return self._chance.choice(members)


def _parts(operation: Any, value: Any) -> list[Any]:
    if operation in {sre.MAX_REPEAT, sre.MIN_REPEAT}:
        return [value[2]]
    if operation is sre.SUBPATTERN:
        return [value[3]]
    if operation is sre.BRANCH:
        return list(value[1])
    if operation in {sre.ASSERT, sre.ASSERT_NOT}:
        return [value[1]]
    return []


class TooLongError(Exception):
    """A text took more than the limit."""


#: Seconds of processor time after which even a short text counts as too slow. `re` can be interrupted.
LIMIT_SECONDS = 0.5
#: Seconds of processor time below which nothing is suspicious.
LEAST_SECONDS = 0.03
#: How much longer the larger text is, and how much more time it may take. The square would be 64 times.
FACTOR, MOST_GROWTH = 8, 24


def seconds(look: Callable[[str], object], text: str, limit: float = LIMIT_SECONDS) -> float:
    """Processor time for a text; infinite if it takes more than `limit`. For the main thread only."""

    def interrupt(*_: object) -> None:
        raise TooLongError

    previous = signal.signal(signal.SIGVTALRM, interrupt)
    # a collection would count for the text, and an exception in a finalizer would be lost
    gc.disable()
    started = time.process_time()
    try:
        signal.setitimer(signal.ITIMER_VIRTUAL, limit)
        look(text)
        return time.process_time() - started
    except TooLongError:
        return float("inf")
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, previous)
        gc.enable()


def grows_too_fast(look: Callable[[str], object], text: Callable[[int], str], size: int) -> bool:
    """Whether a text of `size` takes clearly more time than its length accounts for."""
    if seconds(look, text(size)) < LEAST_SECONDS:
        return False
    # again, as the machine may have been busy
    small = min(seconds(look, text(size // FACTOR)) for _ in range(2))
    most = MOST_GROWTH * max(small, LEAST_SECONDS / FACTOR)
    return isinf(small) or all(seconds(look, text(size), most) > most for _ in range(2))
