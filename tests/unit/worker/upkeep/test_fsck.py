"""Verdicts about attributes, while a task may patch the store and then change the rows between any two reads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations_with_replacement
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from worker.state.index import drift
from worker.state.index.tools import Index
from worker.state.pool import Pool
from worker.upkeep import fsck
from worker.vectors import VectorStore

INDEX = cast("Index", SimpleNamespace(id=UUID(int=9), namespace="n"))
READS = 4
Attributes = dict[UUID, dict[str, Any]]


def verdict(monkeypatch: pytest.MonkeyPatch, stored: Sequence[Attributes], rows: Sequence[Attributes]) -> list[UUID]:
    """What `_wrong` returns if its reads, counted from 0, meet these states of the store and the rows."""
    reads = iter(range(READS))
    store = SimpleNamespace(attributes=lambda *_: stored[next(reads)], stored=lambda _, row: row)
    monkeypatch.setattr(drift, "read_expected", lambda *_: rows[next(reads)])
    return fsck._wrong(cast("Pool", None), cast("VectorStore", store), INDEX, None, 10)


def test_a_file_that_is_moved_twice_meanwhile_is_in_no_wrong_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each move makes the file busy, patches the store and finishes the file, at any of the reads."""
    names = [{UUID(int=1): {"file_name": name}} for name in "abc"]
    for steps in combinations_with_replacement(range(READS + 1), 6):
        made = [sum(step <= read for step in steps) for read in range(READS)]
        stored = [names[(done + 1) // 3] for done in made]
        rows = [names[done // 3] if done % 3 == 0 else {} for done in made]
        assert verdict(monkeypatch, stored, rows) == [], steps


def test_attributes_that_match_no_row_are_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    well, wrong = UUID(int=1), UUID(int=2)
    stored = {well: {"file_name": "a"}, wrong: {"file_name": "other"}}
    rows = {well: {"file_name": "a"}, wrong: {"file_name": "a"}, UUID(int=3): {"file_name": "gone from the store"}}
    assert verdict(monkeypatch, [stored] * READS, [rows] * READS) == [wrong]


@pytest.mark.parametrize(
    ("live", "stored", "is_lost", "reads"),
    [
        # before its first run an index has no namespace to ask
        ([], [], False, ["live_ids"]),
        ([1, 2], [1, 2, 3], False, ["live_ids", "ids"]),
        ([1, 2], [1], True, ["live_ids", "ids", "still_live"]),
        # what lies beyond the end of a page is compared with the next one
        (range(fsck.SAMPLE), range(5, fsck.SAMPLE + 5), True, ["live_ids", "ids", "still_live"]),
        (range(5, fsck.SAMPLE + 5), range(fsck.SAMPLE), False, ["live_ids", "ids"]),
    ],
)
def test_lost_vectors_are_looked_for_with_one_read_each(
    monkeypatch: pytest.MonkeyPatch, live: Sequence[int], stored: Sequence[int], is_lost: bool, reads: list[str]
) -> None:
    done: list[str] = []

    def read(name: str, numbers: Sequence[int]) -> Callable[..., list[UUID]]:
        def ids(*_: Any, **__: Any) -> list[UUID]:
            done.append(name)
            return [UUID(int=number) for number in numbers]

        return ids

    monkeypatch.setattr(drift, "live_ids", read("live_ids", live))
    monkeypatch.setattr(drift, "still_live", read("still_live", live))
    store = cast("VectorStore", SimpleNamespace(ids=read("ids", stored)))
    assert fsck._has_lost_some(cast("Pool", None), store, INDEX) == is_lost
    assert done == reads
