"""Words of LanceDB tables under filters that many rows pass: found without the filter, and the same as with it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random
from unittest.mock import Mock
from uuid import UUID

import pytest

from tests.contract.stores import ALWAYS, D, axis, warmed
from worker.tokens.keywords import Keywords
from worker.vectors import Condition, Leg, VectorRow
from worker.vectors.lance import word_search
from worker.vectors.lance.store import LanceStore

SPACE, ROWS, FILES = "words", 600, 60
#: Frequent ones first. The last one is in all files, and the best rows with it are in the second half of them.
WORDS, TOP = [f"w{number}" for number in range(30)], "top"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    chance = Random(59)
    rows = []
    for number in range(ROWS):
        words = [WORDS[min(int(chance.expovariate(0.2)), 29)] for _ in range(chance.randrange(1, 30))]
        # many have equal scores
        text = " ".join(words) if number % 3 else "w1 w2"
        text = f"{text} {TOP}" if number % FILES < FILES // 2 else f"{TOP} {TOP}"
        rows.append(
            VectorRow(UUID(int=number), axis(number % D), {"file_name": f"f{number % FILES}"}, Keywords(text, text))
        )
    store = LanceStore(tmp_path, has_keywords=True, thresholds=ALWAYS)
    store.write(SPACE, D, rows)
    store.optimize(SPACE)
    return tmp_path


@pytest.fixture
def searched(monkeypatch: pytest.MonkeyPatch) -> Mock:
    """The searches that apply a filter to all words of a leg."""
    found = Mock(wraps=word_search.found)
    monkeypatch.setattr(word_search, "found", found)
    return found


def legs(files: range, limit: int) -> list[Leg]:
    names = [Condition("file_name", "in", [f"f{number}" for number in files])]
    asked = [(query, False) for query in (*WORDS[::4], "w1 w2", "w3 w9 w20", "missing", TOP)] + [("w1 w2", True)]
    return [Leg(limit, keywords=text, field="code", phrase=phrase, conditions=names) for text, phrase in asked]


@pytest.mark.parametrize(
    "files", [range(30), range(0, 60, 2), range(7), range(3), range(0), range(20, 60), range(55)], ids=str
)
def test_a_filter_selects_the_same_whether_lance_knows_it_or_not(place: Path, files: range) -> None:
    in_memory = LanceStore(place, has_keywords=True, word_bytes=0)
    warmed(in_memory, SPACE)
    for limit in (1, 5, 40, ROWS):
        expected = LanceStore(place, has_keywords=True, word_bytes=0).search(SPACE, legs(files, limit))
        for leg, mine, others in zip(
            legs(files, limit), in_memory.search(SPACE, legs(files, limit)), expected, strict=True
        ):
            assert mine.values == pytest.approx(others.values, abs=1e-5), leg
            assert sorted(mine.ids) == sorted(others.ids) or mine.values[-1] == pytest.approx(others.values[-1]), leg


def test_lance_reads_no_long_filter_that_many_rows_pass(place: Path, searched: Mock) -> None:
    store = LanceStore(place, has_keywords=True, word_bytes=0)
    warmed(store, SPACE)
    searched.reset_mock()
    asked = [leg for leg in legs(range(10, FILES), 5) if leg.keywords in WORDS]
    assert all(found.ids for found in store.search(SPACE, asked))
    assert searched.call_count == 0
    # none of the best rows is in these files: a slower search would say that others have the word
    store.search(SPACE, [leg for leg in legs(range(FILES // 2), 1) if leg.keywords == TOP])
    assert searched.call_count == 0


@pytest.mark.parametrize("large_rows", [ALWAYS.large_rows, 1])
def test_after_an_edit_a_filter_is_applied_to_new_rows_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, large_rows: int
) -> None:
    """Also if its column has an index."""

    def row(number: int) -> VectorRow:
        return VectorRow(
            UUID(int=number), axis(number % D, number), {"file_node_id": f"f{number % 4}"}, Keywords("w", "w")
        )

    store = LanceStore(tmp_path, has_keywords=True, thresholds=replace(ALWAYS, large_rows=large_rows))
    store.write(SPACE, D, [row(number) for number in range(ROWS)])
    store.optimize(SPACE)
    warmed(store, SPACE)
    found = Mock(wraps=word_search.row_ids)
    monkeypatch.setattr(word_search, "row_ids", found)
    filtered = Leg(ROWS, vector=axis(0), conditions=[Condition("file_node_id", "in", ["f1", "f2"])])

    def ids() -> set[int]:
        return {UUID(id_).int for id_ in store.search(SPACE, [filtered])[0].ids}

    expected = {number for number in range(ROWS) if number % 4 in (1, 2)}
    assert ids() == expected
    store.write(SPACE, D, [row(ROWS), row(ROWS + 1), row(ROWS + 2)], deletes=[UUID(int=5), UUID(int=4)])
    assert ids() == expected - {5} | {ROWS + 1, ROWS + 2}
    store.write(SPACE, D, [replace(row(1), attributes={"file_node_id": "f3"}, generation=1)])
    assert ids() == expected - {5, 1} | {ROWS + 1, ROWS + 2}
    store.write(SPACE, D, deletes=[UUID(int=6)])
    assert ids() == expected - {5, 1, 6} | {ROWS + 1, ROWS + 2}
    assert ["_rowid IN" in call.args[1] for call in found.call_args_list] == [False, True, True]
