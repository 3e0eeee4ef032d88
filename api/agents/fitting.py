"""Answers that keep within a number of tokens, and say what was cut."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from pydantic import BaseModel

from worker.tokens.tokenizers import cl100k

#: Tokens that are left for the line that says that the answer was cut.
CUT_LINE_TOKENS = 120
#: A text of which fewer tokens would fit is left out.
MIN_TOKENS = 40
#: Places that the line about a cut names.
NAMED_PLACES = 8


#: What an answer has as data of each result.
Item = TypeVar("Item", bound=BaseModel)
_Item_co = TypeVar("_Item_co", bound=BaseModel, covariant=True)


@dataclass(frozen=True)
class ResultEntry(Generic[_Item_co]):
    """One result: a line that says where it is, and the same as data. If the data has a `text`, that is shown too."""

    place: str
    head: str
    item: _Item_co

    @property
    def text(self) -> str | None:
        """The text below the line."""
        return getattr(self.item, "text", None)


@dataclass(frozen=True)
class FittedEntries(Generic[Item]):
    """What fits, as text and as data, and the entries that do not."""

    text: str
    items: list[Item]
    left_out: Sequence[ResultEntry[Item]]
    is_shortened: bool

    @property
    def is_cut(self) -> bool:
        """Whether anything is missing."""
        return self.is_shortened or bool(self.left_out)


def counted(text: str) -> int:
    """The tokens of a text, as cl100k counts them."""
    return len(cl100k().starts(text)) if text else 0


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


def places(entries: Sequence[ResultEntry[Item]]) -> str:
    """The places of entries that were left out."""
    named = ", ".join(entry.place for entry in entries[:NAMED_PLACES])
    return named + (f" and {len(entries) - NAMED_PLACES} more" if len(entries) > NAMED_PLACES else "")
