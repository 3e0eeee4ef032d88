"""Answers that keep within a number of tokens, and say what was cut."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from pydantic import BaseModel

from schemas.wording import list_first
from worker.tokens.tokenizers import cl100k

#: Tokens that are left for the line that says that the answer was cut, at most.
CUT_LINE_TOKENS = 120
#: Tokens of that line without the places that it names, and of each of them, about.
_CUT_WORDS_TOKENS, _PLACE_TOKENS = 40, 12
#: A text of which fewer tokens would fit is left out.
MIN_TOKENS = 40
#: Places that the line about a cut names.
NAMED_PLACES = 8


_WORD = re.compile(r"\w+")

#: What an answer has as data of each result.
Item = TypeVar("Item", bound=BaseModel)
_Item_co = TypeVar("_Item_co", bound=BaseModel, covariant=True)


@dataclass(frozen=True)
class ResultEntry(Generic[_Item_co]):
    """One result: a line that says where it is, and the same as data. If the data has a `text`, that is shown too."""

    place: str
    head: str
    item: _Item_co
    #: Words that were asked for: of a long text, the lines around them are shown. None: its first lines.
    words: frozenset[str] | None = None

    @property
    def text(self) -> str | None:
        """The text below the line."""
        return getattr(self.item, "text", None) or None


@dataclass(frozen=True)
class FittedEntries(Generic[Item]):
    """The entries that fit, as text and as data, and the entries that do not."""

    text: str
    items: list[Item]
    left_out: Sequence[ResultEntry[Item]]
    is_shortened: bool
    #: The service may know more than these and those left out.
    there_are_more: bool = False
    #: How many were shown before.
    before: int = 0

    @property
    def is_cut(self) -> bool:
        """Whether anything of what was found is missing."""
        return self.is_shortened or bool(self.left_out)

    @property
    def is_partial(self) -> bool:
        """Whether there is more than is shown."""
        return self.is_cut or self.there_are_more

    @property
    def more(self) -> int | None:
        """The number with which the same call goes on; None if it cannot. One cut short is shown again, if it can."""
        whole = len(self.items) - (self.is_shortened and len(self.items) > 1)
        is_left = bool(self.left_out) or (self.is_shortened and len(self.items) > 1)
        return self.before + whole if is_left else None


def counted(text: str) -> int:
    """The tokens of a text, as cl100k counts them."""
    return len(cl100k().starts(text)) if text else 0


def cut_line_tokens(max_tokens: int) -> int:
    """Tokens that an answer leaves for the line that says that it was cut."""
    return min(CUT_LINE_TOKENS, max(_CUT_WORDS_TOKENS, max_tokens // 4))


def named_places(max_tokens: int) -> int:
    """Places that this line may name."""
    return min(NAMED_PLACES, (cut_line_tokens(max_tokens) - _CUT_WORDS_TOKENS) // _PLACE_TOKENS)


def shared(entries: Sequence[ResultEntry[Item]], max_tokens: int) -> list[ResultEntry[Item]]:
    """The entries, each with an excerpt of its text, so that several fit. The first ones get more."""
    left, given = max_tokens, list[ResultEntry[Item]]()
    for number, entry in enumerate(entries):
        room = max(MIN_TOKENS, 2 * left // (len(entries) - number + 1) - counted(entry.head))
        given.append(entry if entry.text is None else _within(entry, entry.text, room))
        left = max(0, left - counted(f"{entry.head}\n{given[-1].text}\n") - 1)
    return given


def _within(entry: ResultEntry[Item], text: str, max_tokens: int) -> ResultEntry[Item]:
    if counted(text) <= max_tokens:
        return entry
    part = excerpt(text, entry.words or frozenset(), max_tokens - 2)
    return replace(entry, item=entry.item.model_copy(update={"text": part}))


def excerpt(text: str, words: frozenset[str], max_tokens: int) -> str:
    """The lines of a text that hold most of the words, and what follows them. What is left out is marked."""
    lines = text.split("\n")
    found = [len(words & set(_WORD.findall(line.casefold()))) for line in lines]
    best = found.index(max(found))
    first = max(0, best - 1) if max(found) else 0
    part = shortened("\n".join(lines[first:]), max_tokens)
    if first and counted("\n".join(lines[:best])) + MIN_TOKENS // 2 <= max_tokens:
        # the beginning names what the text is about, and the words are near it
        first, part = 0, shortened(text, max_tokens)
    return f"{'… ' if first else ''}{part} …"


def fitted(entries: Sequence[ResultEntry[Item]], max_tokens: int) -> FittedEntries[Item]:
    """As many entries as fit into `max_tokens`. The last one's text may be shortened at the end of a line."""
    left, blocks, items = max_tokens, [], list[Item]()
    for number, entry in enumerate(entries):
        block = entry.head if entry.text is None else f"{entry.head}\n{entry.text}\n"
        cost = counted(block) + 1
        if cost <= left:
            left -= cost
            blocks.append(block)
            items.append(entry.item)
            continue
        room = left - counted(entry.head) - 4
        if entry.text is None or (room < MIN_TOKENS and items):
            return FittedEntries("\n".join(blocks), items, entries[number:], is_shortened=False)
        text = shortened(entry.text, max(room, 1))
        blocks.append(f"{entry.head}\n{text} …\n")
        items.append(entry.item.model_copy(update={"text": text}))
        return FittedEntries("\n".join(blocks), items, entries[number + 1 :], is_shortened=True)
    return FittedEntries("\n".join(blocks), items, (), is_shortened=False)


def shortened(text: str, max_tokens: int) -> str:
    """The first `max_tokens` of a text: whole lines, or a part of the first line if that is too long."""
    starts = cl100k().starts(text)
    if len(starts) <= max_tokens:
        return text
    cut = text[: int(starts[max_tokens])]
    lines, newline, _ = cut.rpartition("\n")
    return lines if newline and lines.strip() else cut


def places(entries: Sequence[ResultEntry[Item]], named: int = NAMED_PLACES) -> str:
    """The places of entries that were left out."""
    return list_first([entry.place for entry in entries], named)
