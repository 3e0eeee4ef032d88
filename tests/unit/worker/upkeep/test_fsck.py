"""Verdicts about attributes, while a task may patch the store and then change the rows between any two reads."""

from __future__ import annotations

from collections.abc import Sequence
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
    store = SimpleNamespace(attributes=lambda *_: stored[next(reads)])
    monkeypatch.setattr(drift, "expected", lambda *_: rows[next(reads)])
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
