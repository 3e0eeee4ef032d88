"""An unchanged LanceDB table is cached in memory. It must answer like the table, and see every write."""

from __future__ import annotations

import gc
import os
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from operator import le
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import Mock
from uuid import UUID

import numpy as np
import pytest

from schemas.errors import StoreUnavailable
from tests.contract.stores import ALWAYS
from tests.coroutines import run
from tests.service import eventually
from worker.tokens.keywords import Keywords
from worker.vectors import Condition, Leg, Patch, Ranked, Vector, VectorRow
from worker.vectors.lance import growing_rows, open_tables, searcher, vector_cache, word_search
from worker.vectors.lance.open_tables import GONE_SEGMENTS, OpenTables
from worker.vectors.lance.searcher import FIRST_READ
from worker.vectors.lance.store import LanceStore

SPACE, DIMENSIONS = "rests", 8
WORDS = ("alpha", "beta", "gamma", "delta", "epsilon")
SEARCHES = 5  # the table is read from disk, then into memory, then searched there, and then the result is cached


@pytest.fixture
def store(tmp_path: Path) -> LanceStore:
    return LanceStore(tmp_path, has_keywords=True)


def _row(number: int) -> VectorRow:
    vector = np.random.default_rng(number // 2).standard_normal(DIMENSIONS).astype(np.float32)  # each twice
    words = f"{WORDS[number % 5]} {WORDS[number % 3]} row{number}"
    attributes = {"chunk_id": str(number), "file_name": "even" if number % 2 == 0 else "odd"}
    return VectorRow(UUID(int=number), vector if number % 7 else None, dict(attributes), Keywords(words, words))


def _rest(place: Path, seconds: float = 60) -> None:
    """Pretend that the last commit was this long ago."""
    then = time.time() - seconds
    os.utime(place / f"{SPACE}.lance" / "_versions", (then, then))


def _vector(row: VectorRow) -> Vector:
    assert row.vector is not None
    return row.vector


def _legs(limit: int = 10) -> list[Leg]:
    asked = [Leg(limit, vector=_vector(_row(number))) for number in (1, 5)]
    asked += [Leg(limit, keywords=words, field=field) for words in WORDS for field in ("text", "code")]
    asked += [Leg(limit, keywords="alpha delta", field="code", phrase=phrase) for phrase in (False, True)]
    odd = Condition("file_name", "in", ["odd"])
    few = Condition("chunk_id", "in", ["1", "2", "3", "14"])
    by_id = Condition("chunk_id", "in", ["1"], ids=[UUID(int=5), UUID(int=8)])
    none = Condition("file_name", "in", ["even and odd"])
    unfiltered = [asked[0], asked[1], asked[3], asked[-1]]
    filters = ([odd], [few], [odd, few], [by_id], [none])
    asked += [replace(leg, conditions=conditions) for leg in unfiltered for conditions in filters]
    return [*asked, Leg(3, vector=_vector(_row(3))), Leg(3, vector=_vector(_row(3)), conditions=[odd])]


def _ids(found: Ranked) -> list[int]:
    return [UUID(each.id).int for each in found]


def test_what_is_kept_is_what_the_table_says(store: LanceStore, tmp_path: Path) -> None:
    store.write(SPACE, DIMENSIONS, [_row(number) for number in range(120)])
    # Lance scores words of rows that are not indexed yet apart
    LanceStore(tmp_path, has_keywords=True, thresholds=ALWAYS).optimize(SPACE)
    _rest(tmp_path)
    for number in range(SEARCHES):
        # others than before, so that no result is cached
        legs = _legs(10 + number)
        fresh = LanceStore(tmp_path, has_keywords=True).search(SPACE, legs)
        for one, other in zip(store.search(SPACE, legs), fresh, strict=True):
            assert _ids(one) == _ids(other)
            assert [each.value for each in one] == pytest.approx([each.value for each in other], abs=1e-6)
        assert _is_in_memory(store) is (number >= FIRST_READ - 1)


def test_every_write_is_seen_by_the_next_search(store: LanceStore, tmp_path: Path) -> None:
    rows = [_row(number) for number in range(1, 7)]
    for number, row in enumerate(rows, start=1):
        store.write(SPACE, DIMENSIONS, [row])
        for attempt in range(SEARCHES):
            legs = [Leg(10, vector=_vector(rows[0])), Leg(10, keywords=f"row{number}", field="code")]
            near, named = store.search(SPACE, legs)
            assert sorted(_ids(near)) == list(range(1, number + 1))
            assert _ids(named)[0] == number
            if attempt == 0:
                _rest(tmp_path, 60 - number)  # a different state, as commits at different times have


def test_patches_and_deletes_are_seen(store: LanceStore, tmp_path: Path) -> None:
    store.write(SPACE, DIMENSIONS, [_row(1), _row(2)])
    leg = Leg(10, keywords="omega")
    for seconds in (60, 50):
        _rest(tmp_path, seconds)
        for _ in range(SEARCHES):
            assert store.search(SPACE, [leg]) == [[]]
    store.write(SPACE, DIMENSIONS, patches=[Patch(UUID(int=1), {}, Keywords("omega", "omega"))])
    assert [_ids(found) for found in store.search(SPACE, [leg])] == [[1]]
    _rest(tmp_path, 40)
    for _ in range(SEARCHES):
        assert [_ids(found) for found in store.search(SPACE, [leg])] == [[1]]
    store.write(SPACE, DIMENSIONS, deletes=[UUID(int=1)])
    assert store.search(SPACE, [leg]) == [[]]


def test_a_table_made_again_is_not_taken_for_the_old_one(store: LanceStore, tmp_path: Path) -> None:
    for number in (1, 2):
        store.write(SPACE, DIMENSIONS, [_row(number)])
        _rest(tmp_path, 60 + number)
        for _ in range(SEARCHES):
            assert [_ids(found) for found in store.search(SPACE, [Leg(10, vector=_vector(_row(1)))])] == [[number]]
        store.drop(SPACE)
        assert store.search(SPACE, [Leg(10, vector=_vector(_row(1)))]) == [[]]


def test_a_table_that_was_emptied_answers_with_nothing(store: LanceStore, tmp_path: Path) -> None:
    numbers = range(20)
    store.write(SPACE, DIMENSIONS, [_row(number) for number in numbers])
    store.write(SPACE, DIMENSIONS, deletes=[UUID(int=number) for number in numbers])
    _rest(tmp_path)
    for _ in range(SEARCHES):
        assert store.search(SPACE, _legs()) == [[] for _ in _legs()]
    assert store.vectors(SPACE, [UUID(int=1)]) == {}


def test_writes_at_one_moment_of_a_coarse_clock_are_all_seen(store: LanceStore, tmp_path: Path) -> None:
    moment = time.time() + 60
    for number in (1, 2, 3):
        store.write(SPACE, DIMENSIONS, [_row(number)])
        os.utime(tmp_path / f"{SPACE}.lance" / "_versions", (moment, moment))
        for _ in range(SEARCHES):
            found = store.search(SPACE, [Leg(10, vector=_vector(_row(1)))])[0]
            assert sorted(_ids(found)) == list(range(1, number + 1))


def _is_in_memory(store: LanceStore) -> bool:
    store._searcher()._background.wait()
    return SPACE in store._searcher()._rows_in_memory._cached


def test_rows_of_a_folder_follow_each_other_in_memory(store: LanceStore) -> None:
    def at(number: int) -> str:
        return f"/{'ab'[number % 2]}/{number:02}"

    written = [
        replace(row, attributes={**row.attributes, "file_id_path": at(row.id.int)}) for row in map(_row, range(14))
    ]
    store.write(SPACE, DIMENSIONS, written)
    for limit in (20, 21, 22):
        (found,) = store.search(SPACE, [Leg(limit, vector=_vector(_row(2)))])
        assert _ids(found)[:2] == [2, 3], "those with this vector"
    assert _is_in_memory(store)
    _, growing = store._searcher()._rows_in_memory._cached[SPACE]
    held = growing.latest[1]
    assert [UUID(id_).int for id_ in held.ids] == sorted(range(14), key=at)
    assert np.allclose(held.unit[1], _vector(_row(2)) / np.linalg.norm(_vector(_row(2))))


@pytest.mark.parametrize("with_vectors", [False, True])
def test_a_second_query_or_a_third_one_for_words_alone_reads_all_rows(
    store: LanceStore, tmp_path: Path, *, with_vectors: bool
) -> None:
    store.write(SPACE, DIMENSIONS, [_row(number) for number in range(20)])
    _rest(tmp_path)
    calls = 0
    for number in (1, 2, 3):
        store.search(SPACE, [Leg(10, keywords=f"row{number}")])
        calls += 1
        assert _is_in_memory(store) is (calls >= 3)
        if with_vectors:
            store.search(SPACE, [Leg(10, vector=_vector(_row(number)))])
            calls += 1


@pytest.mark.parametrize(("beyond", "expected"), [(0, True), (1, False)])
def test_vectors_of_too_many_bytes_are_not_read_into_memory(tmp_path: Path, beyond: int, expected: bool) -> None:
    store = LanceStore(tmp_path, has_keywords=True, vector_bytes=20 * 4 * DIMENSIONS)
    # a table that fills the memory would be read anew after each edit
    store.write(SPACE, DIMENSIONS, [_row(number) for number in range(18 + beyond)])
    for limit in range(1, SEARCHES):
        store.search(SPACE, [Leg(limit, vector=_vector(_row(1)))])
    assert _is_in_memory(store) is expected


def test_a_table_that_outgrows_its_memory_answers_as_one_that_is_read_anew(
    store: LanceStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(growing_rows, "SPARE_ROWS", 2)
    monkeypatch.setattr(vector_cache, "SEARCHES_PER_READ", SEARCHES - 1)
    chance, present, memories = Random(1), set[int](), list[object]()
    odd = [Condition("file_name", "in", ["odd"])]
    for _ in range(12):
        gone = set(chance.sample(sorted(present), len(present) // 2))
        new = {chance.randrange(60) for _ in range(chance.choice([1, 8]))} - gone
        store.write(SPACE, DIMENSIONS, [_row(number) for number in new], deletes=[UUID(int=n) for n in gone])
        present = present - gone | new
        leg = Leg(60, vector=_vector(_row(chance.choice([1, 2, 3]))))
        expected = _ids(LanceStore(tmp_path, has_keywords=True).search(SPACE, [leg])[0])
        for limit in range(5, 5 + SEARCHES):
            assert _ids(store.search(SPACE, [replace(leg, limit=limit)])[0]) == expected[:limit]
            store._searcher()._background.wait()
            (of_odd,) = store.search(SPACE, [replace(leg, limit=limit, conditions=odd)])
            assert _ids(of_odd) == [number for number in expected if number % 2][:limit]
        assert _is_in_memory(store)
        _, memory = store._searcher()._rows_in_memory._cached[SPACE]
        memories += [memory] if memory not in memories else []
    assert len(memories) > 1


@pytest.mark.parametrize(("hits", "cached"), [(9, 1), (10, 0)])
def test_a_result_that_would_fill_the_cache_is_not_cached(
    store: LanceStore, monkeypatch: pytest.MonkeyPatch, hits: int, cached: int
) -> None:
    monkeypatch.setattr(vector_cache, "MAX_CACHED_HITS", 10)
    store.write(SPACE, DIMENSIONS, [_row(number) for number in range(1, 14)])
    for _ in range(2):
        assert len(store.search(SPACE, [Leg(hits, vector=_vector(_row(1)))])[0]) == hits
    assert len(store._searcher()._rankings._cached) == cached


@pytest.mark.parametrize(("room", "applications"), [(8 * 7, 2), (8 * 7 - 1, 4), (14 - 1, 5)])
def test_a_filter_is_applied_again_without_the_table_if_the_cache_has_room(
    store: LanceStore, monkeypatch: pytest.MonkeyPatch, room: int, applications: int
) -> None:
    monkeypatch.setattr(vector_cache, "MAX_FILTER_BYTES", room + vector_cache._ENTRY_BYTES)
    store.write(SPACE, DIMENSIONS, [_row(number) for number in range(14)])
    odd = [Condition("file_name", "in", ["odd"])]
    applied = Mock(wraps=word_search.row_ids)
    monkeypatch.setattr(word_search, "row_ids", applied)
    for number in range(5):
        (found,) = store.search(SPACE, [Leg(20, vector=_vector(_row(1)) * (number + 1), conditions=odd)])
        assert sorted(_ids(found)) == [1, 3, 5, 9, 11, 13]
        store._searcher()._background.wait()
    # the first three have no rows in memory yet, and read the seven that pass; what is kept later has a byte for each
    assert applied.call_count == applications
    store.write(SPACE, DIMENSIONS, [_row(15)], deletes=[UUID(int=1)])
    (found,) = store.search(SPACE, [Leg(20, vector=_vector(_row(1)), conditions=odd)])
    assert sorted(_ids(found)) == [3, 5, 9, 11, 13, 15]


def test_a_filter_is_applied_to_rows_that_are_read_anew(store: LanceStore, monkeypatch: pytest.MonkeyPatch) -> None:
    odd = [Condition("file_name", "in", ["odd"])]
    store.write(SPACE, DIMENSIONS, [_row(number) for number in range(6)])
    leg = Leg(20, vector=_vector(_row(1)), conditions=odd)
    for limit in (20, 21, 22):
        store.search(SPACE, [replace(leg, limit=limit)])
    assert _is_in_memory(store)
    # positions of deleted rows stay taken as long as the others are in memory
    store.write(SPACE, DIMENSIONS, deletes=[UUID(int=0), UUID(int=1)])
    for limit in (20, 21):
        assert sorted(_ids(store.search(SPACE, [replace(leg, limit=limit)])[0])) == [3, 5]
    store._searcher()._rows_in_memory.drop(SPACE)
    monkeypatch.setattr(vector_cache, "SEARCHES_PER_READ", 1)
    monkeypatch.setattr(store._searcher()._searches, "_first", 0)
    for limit in (22, 23):
        assert sorted(_ids(store.search(SPACE, [replace(leg, limit=limit)])[0])) == [3, 5]
        assert _is_in_memory(store)


def test_searches_do_not_wait_for_the_rows_of_a_table(store: LanceStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store.write(SPACE, DIMENSIONS, [_row(number) for number in range(1, 7)])
    with _held_back(store):
        for limit in range(10, 10 + SEARCHES):
            found = store.search(SPACE, [Leg(limit, vector=_vector(_row(1))), Leg(limit, keywords="row3")])
            assert [sorted(_ids(each)) for each in found] == [[1, 2, 3, 4, 5, 6], [3]]
        assert SPACE not in store._searcher()._rows_in_memory._cached
    assert _is_in_memory(store)
    monkeypatch.setattr(word_search, "found", Mock(side_effect=AssertionError("Lance searched")))
    assert _ids(store.search(SPACE, [Leg(9, keywords="row3")])[0]) == [3]


@pytest.mark.parametrize(("new", "is_read_at_once"), [(3, True), (4, False)])
def test_a_search_reads_few_new_rows_itself(
    store: LanceStore, monkeypatch: pytest.MonkeyPatch, new: int, *, is_read_at_once: bool
) -> None:
    monkeypatch.setattr(searcher, "FEW_ROWS", 3)
    store.write(SPACE, DIMENSIONS, [_row(number) for number in (1, 2)])
    for limit in range(10, 10 + FIRST_READ):
        store.search(SPACE, [Leg(limit, vector=_vector(_row(1)))])
    assert _is_in_memory(store)
    numbers = [8, 9, 10, 11][:new]
    store.write(SPACE, DIMENSIONS, [_row(number) for number in numbers])
    legs = [Leg(10, vector=_vector(_row(1))), Leg(10, keywords=f"row{numbers[-1]}")]
    _, growing = store._searcher()._rows_in_memory._cached[SPACE]
    before = growing.latest[0]
    with _held_back(store):
        found = store.search(SPACE, legs)
        assert [sorted(_ids(each)) for each in found] == [[1, 2, *numbers], numbers[-1:]]
        assert (growing.latest[0] > before) is is_read_at_once
    store._searcher()._background.wait()
    assert len(growing.latest[1].row_ids) == 2 + new


@contextmanager
def _held_back(store: LanceStore) -> Iterator[None]:
    """Let reads of tables wait until the block ends."""
    ended = threading.Event()
    store._searcher()._background.begin("held back", lambda: ended.wait(60))
    try:
        yield
    finally:
        ended.set()


def test_a_table_whose_replaced_rows_would_take_too_many_bytes_is_read_anew(tmp_path: Path) -> None:
    store = LanceStore(tmp_path, has_keywords=True, vector_bytes=30 * 4 * DIMENSIONS)
    numbers = [number for number in range(1, 24) if number % 7]
    assert len(numbers) == 20
    store.write(SPACE, DIMENSIONS, [_row(number) for number in numbers])
    for limit in range(20, 20 + FIRST_READ):
        store.search(SPACE, [Leg(limit, vector=_vector(_row(1)))])
    assert _is_in_memory(store)
    memories = [store._searcher()._rows_in_memory._cached[SPACE][1]]
    # the second time, 30 rows are as many as may be in memory; the third time, there would be 35
    # with other words: rows that have the same stay in place
    words = Keywords("again", "again")
    for start in (0, 5, 10):
        rewritten = [replace(_row(number), keywords=words) for number in numbers[start : start + 5]]
        store.write(SPACE, DIMENSIONS, rewritten)
        for limit in (23, 24):
            assert sorted(_ids(store.search(SPACE, [Leg(limit + start, vector=_vector(_row(1)))])[0])) == numbers
            assert _is_in_memory(store)
        memories.append(store._searcher()._rows_in_memory._cached[SPACE][1])
    assert memories[0] is memories[1] is memories[2] is not memories[3]
    # it outgrows the memory itself
    more = [number for number in range(24, 38) if number % 7]
    store.write(SPACE, DIMENSIONS, [_row(number) for number in more])
    leg = Leg(50, vector=_vector(_row(1)))
    assert sorted(_ids(store.search(SPACE, [leg])[0])) == [*numbers, *more]
    assert not _is_in_memory(store)


def test_a_table_that_cannot_be_read_into_memory_is_searched_and_tried_again(
    store: LanceStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vector_cache, "SEARCHES_PER_READ", 4)
    store.write(SPACE, DIMENSIONS, [_row(number) for number in (1, 2)])
    with monkeypatch.context() as patch:
        patch.setattr(searcher, "_read", Mock(side_effect=OSError("Object not found: data/1.lance")))
        for limit in range(10, 10 + FIRST_READ):
            assert _ids(store.search(SPACE, [Leg(limit, keywords="row2")])[0]) == [2]
        assert not _is_in_memory(store)
    for limit in range(20, 24):
        store.search(SPACE, [Leg(limit, keywords="row2")])
    assert _is_in_memory(store)


def test_a_read_that_failed_for_rows_in_memory_is_soon_tried_again(
    store: LanceStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(growing_rows, "SPARE_ROWS", 0)
    store.write(SPACE, DIMENSIONS, [_row(number) for number in (1, 2)])
    limits = iter(range(10, 100))

    def search(times: int) -> None:
        for _ in range(times):
            assert 2 in _ids(store.search(SPACE, [Leg(next(limits), keywords="row2")])[0])

    search(FIRST_READ)
    assert _is_in_memory(store)
    for written in range(3):
        words = Keywords(f"row2 again{written}", "")
        store.write(SPACE, DIMENSIONS, [replace(_row(number), keywords=words) for number in (1, 2)])
        with monkeypatch.context() as patch:
            # a panic of Lance is no Exception
            patch.setattr(searcher, "_read", Mock(side_effect=BaseException("panic")))
            search(1)
            if not _is_in_memory(store):
                break
    assert not _is_in_memory(store)
    search(FIRST_READ)
    assert _is_in_memory(store)


def test_rows_of_a_table_that_is_deleted_as_they_are_read_leave_the_memory(
    store: LanceStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = searcher._read

    async def read_and_delete(*args: Any) -> Any:
        rows = await read(*args)
        shutil.rmtree(tmp_path / f"{SPACE}.lance")
        return rows

    monkeypatch.setattr(searcher, "_read", read_and_delete)
    store.write(SPACE, DIMENSIONS, [_row(1)])
    # the thread that reads may delete the table below the last search
    with suppress(StoreUnavailable):
        for limit in range(10, 10 + FIRST_READ):
            store.search(SPACE, [Leg(limit, vector=_vector(_row(1)))])
    assert not _is_in_memory(store)
    assert not (tmp_path / f"{SPACE}.lance").exists()


def test_of_too_many_tables_those_not_searched_for_longest_are_closed(
    store: LanceStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_tables, "OPEN_TABLES", 2)
    for name in ("one", "two", "three"):
        store.write(name, DIMENSIONS, [_row(1)])
    for name in ("one", "two", "one", "three"):
        store.search(name, [Leg(10, keywords="row_1")])
    assert [*store._searcher()._spaces._open] == ["one", "three"]


@pytest.mark.parametrize(("gone", "stays_open"), [(GONE_SEGMENTS, True), (GONE_SEGMENTS + 1, False)])
def test_a_table_is_opened_anew_once_so_many_of_its_indexes_are_gone(
    tmp_path: Path, gone: int, stays_open: bool
) -> None:
    indexes = [tmp_path / f"{SPACE}.lance" / "_indices" / str(number) for number in range(gone + 1)]
    for index in indexes:
        index.mkdir(parents=True)
    spaces = OpenTables(tmp_path)
    spaces.put(SPACE, run(spaces.connect(SPACE)))
    for index in indexes[:gone]:
        index.rmdir()
    assert (spaces.get(SPACE) is not None) is stays_open


def test_a_search_whose_files_a_compaction_deletes_is_repeated_once(
    store: LanceStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.write(SPACE, DIMENSIONS, [_row(1)])
    searcher, legs = store._searcher(), [Leg(10, vector=_vector(_row(1)))]
    search, lacking = searcher.search, [1]

    def overtaken(*given: Any) -> list[Ranked]:
        if lacking:
            lacking.pop()
            raise RuntimeError("LanceError(IO): Object not found: data/1.lance")
        return search(*given)

    monkeypatch.setattr(searcher, "search", overtaken)
    assert _ids(store.search(SPACE, legs)[0]) == [1]
    lacking += [1, 2]
    with pytest.raises(StoreUnavailable, match="Files of this namespace"):
        store.search(SPACE, legs)


def test_a_namespace_that_is_dropped_during_a_search_is_away_and_the_query_not_at_fault(
    store: LanceStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.write(SPACE, DIMENSIONS, [_row(1)])

    def dropped(*_: Any) -> list[Ranked]:
        store.drop(SPACE)
        raise ValueError(f"Table '{SPACE}' was not found")

    monkeypatch.setattr(store._searcher(), "search", dropped)
    with pytest.raises(StoreUnavailable, match="dropped"):
        store.search(SPACE, [Leg(10, keywords="row_1")])


def test_a_store_that_is_dropped_keeps_no_thread_and_no_descriptor(store: LanceStore, tmp_path: Path) -> None:
    store.write(SPACE, DIMENSIONS, [_row(1)])
    store.search(SPACE, _legs())

    def used() -> tuple[int, int]:
        gc.collect()
        return threading.active_count(), len(list(Path("/proc/self/fd").iterdir()))

    before = used()
    for _ in range(5):
        LanceStore(tmp_path, has_keywords=True).search(SPACE, _legs())
    eventually(lambda: all(map(le, used(), before)), 20, lambda: f"{used()}, {before} before")
