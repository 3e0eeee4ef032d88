"""Rows and rankings of LanceDB tables in memory: they answer as what is read anew."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from functools import partial
from random import Random
from typing import Any
from uuid import UUID, uuid4

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.vectors import Condition, Leg, Ranked, ties
from worker.vectors.lance import filter_sql, growing_rows, vector_cache
from worker.vectors.lance.growing_rows import Changes, GrowingNamespaceRows, ListedRows
from worker.vectors.lance.vector_cache import (
    LatestPerNamespace,
    NamespaceRows,
    Positions,
    RankingCache,
    RowIds,
    ranking_key,
    rows,
)
from worker.vectors.rows import ranked
from worker.vectors.ties import EQUAL, GROWTH, MAX_TIES, TIES, first_limit, next_limit

DIMENSIONS = 4
#: No rows that moved, and no row ids of them.
NOTHING = np.empty(0, np.intp), np.empty(0, np.uint64)
ASKED = [np.random.default_rng(seed).standard_normal(DIMENSIONS).astype(np.float32) for seed in (1, 3, 1000)]


class Table:
    """Rows that come and go, some with equal vectors and some without any. Some are written again, as other rows."""

    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)
        self.vectors: dict[int, np.ndarray | None] = {}
        #: The ids and the words of rows, where these are not their row ids and none.
        self.ids: dict[int, int] = {}
        self.words: dict[int, int] = {}
        self.next = 0

    def change(self) -> None:
        gone = self.chance.sample([*self.vectors], min(len(self.vectors), self.chance.choice([0, 0, 1, 3, 30])))
        for number in gone:
            del self.vectors[number]
        for _ in range(self.chance.choice([0, 1, 2, 9, 40])):
            self.add(self._vector() if self.chance.random() < 0.8 else None)
        for number in self.chance.sample([*self.vectors], min(len(self.vectors), self.chance.choice([0, 1, 5, 20]))):
            is_same = self.chance.random() < 0.3
            vector = self.vectors.pop(number) if is_same else self._vector() if self.chance.random() < 0.8 else None
            self.vectors.pop(number, None)
            words = self.words.get(number, 0) + (self.chance.random() < 0.2)
            self.add(vector, self.ids.get(number, number), words)

    def add(self, vector: np.ndarray | None, id_: int | None = None, words: int = 0) -> None:
        self.vectors[self.next], self.words[self.next] = vector, words
        self.ids[self.next] = self.next if id_ is None else id_
        self.next += 1

    def _vector(self) -> np.ndarray:
        return np.random.default_rng(self.chance.randrange(8)).standard_normal(DIMENSIONS).astype(np.float32)

    def changes(self, before: NamespaceRows, row_ids: RowIds) -> Changes:
        """How the table, which has these rows, differs from rows in memory."""
        return Changes(*NOTHING, self.read(np.setdiff1d(row_ids, before.row_ids)), len(row_ids), lambda: row_ids)

    def have_same_words(self, before: NamespaceRows, row_ids: RowIds, positions: Positions) -> np.ndarray:
        were = before.row_ids_at(positions)
        pairs = zip(row_ids.tolist(), were.tolist(), strict=True)
        return np.array([self.words[row_id] == self.words[old] for row_id, old in pairs], bool)

    def row_ids(self) -> RowIds:
        """The ids of all rows, in any order."""
        return np.array(self.chance.sample([*self.vectors], len(self.vectors)), dtype=np.uint64)

    def read(self, row_ids: RowIds) -> NamespaceRows:
        vectors = [self.vectors[int(row_id)] for row_id in row_ids]
        filled = [np.eye(DIMENSIONS, dtype=np.float32)[0] if vector is None else vector for vector in vectors]
        stacked = np.array(filled, dtype=np.float32).reshape(len(vectors), DIMENSIONS)
        embedded = np.array([vector is not None for vector in vectors], dtype=bool)
        return rows(self.ids_of(row_ids), row_ids, stacked, embedded=embedded)

    def ids_of(self, row_ids: RowIds) -> list[str]:
        return [str(UUID(int=self.ids.get(int(row_id), int(row_id)))) for row_id in row_ids]


@pytest.mark.parametrize("seed", range(12))
def test_rows_that_grow_answer_as_rows_that_are_read_anew(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    table = Table(seed)
    monkeypatch.setattr(growing_rows, "SPARE_ROWS", table.chance.choice([0, 5, 50]))
    max_bytes = table.chance.choice([60, 10_000]) * 4 * DIMENSIONS
    table.change()
    growing, advanced = GrowingNamespaceRows(0, table.read(table.row_ids()), max_bytes), 0
    for version in range(1, 40):
        _, before = growing.latest
        earlier = [before.nearest(asked, 1000) for asked in ASKED]
        table.change()
        row_ids = table.row_ids()
        changes, have_same_words = table.changes(before, row_ids), partial(table.have_same_words, before)
        if growing.advance(before, version, changes, have_same_words):
            advanced += 1
            latest = growing.latest
            # whoever comes later with the same rows changes nothing
            assert growing.advance(before, version, changes, have_same_words)
            assert growing.latest is latest
            assert len(latest[1].unit) <= 2 * len(row_ids) + growing_rows.SPARE_ROWS
            assert growing.nbytes <= max_bytes
        else:
            growing = GrowingNamespaceRows(version, table.read(row_ids), max_bytes)
        # searches that began before go on in the earlier rows
        assert [before.nearest(asked, 1000) for asked in ASKED] == earlier
        now, held = growing.latest
        assert now == version
        assert held.ids_at(row_ids) == table.ids_of(row_ids)
        assert (np.diff(held.row_ids.astype(np.int64)) > 0).all()
        for limit, asked in zip((1, 3, 1000), ASKED, strict=True):
            found, expected = held.nearest(asked, limit), table.read(row_ids).nearest(asked, limit)
            assert found.ids == expected.ids
            assert found.values == pytest.approx(expected.values, abs=1e-6)
    assert advanced


@pytest.mark.parametrize(
    ("had", "has", "words", "stays"),
    [(0, 1, 0, True), (0, 0, 0, True), (1, 1, 0, True), (1, 2, 0, False), (1, 0, 0, False), (0, 1, 1, False)],
)
def test_a_row_stays_in_place_if_only_a_vector_came(had: int, has: int, words: int, *, stays: bool) -> None:
    table = Table(0)
    vectors = [None, *np.eye(DIMENSIONS, dtype=np.float32)]
    for vector in (vectors[1], vectors[had], vectors[2]):
        table.add(vector)
    growing = GrowingNamespaceRows(0, table.read(table.row_ids()), 1_000_000)
    before = growing.latest[1]
    del table.vectors[1]
    table.add(vectors[has], 1, words)
    row_ids = table.row_ids()
    assert growing.advance(before, 1, table.changes(before, row_ids), partial(table.have_same_words, before))
    held = growing.latest[1]
    assert len(held.unit) == 3 + (not stays)
    assert held.ids_at(row_ids) == table.ids_of(row_ids)
    assert held.nearest(vectors[has or 1], 9).ids == table.read(row_ids).nearest(vectors[has or 1], 9).ids


def test_without_words_in_memory_no_row_stays_in_place() -> None:
    table = Table(0)
    table.add(None)
    growing = GrowingNamespaceRows(0, table.read(table.row_ids()), 1_000_000)
    table.vectors.clear()
    table.add(np.ones(DIMENSIONS, np.float32), 0)
    before, row_ids = growing.latest[1], table.row_ids()
    assert growing.advance(before, 1, table.changes(before, row_ids))
    assert growing.latest[1].positions.tolist() == [1]


def test_all_rows_are_listed_only_if_some_are_gone() -> None:
    table, listed = Table(0), 0

    def advance(version: int) -> None:
        row_ids = table.row_ids()

        def every() -> RowIds:
            nonlocal listed
            listed += 1
            return row_ids

        before = growing.latest[1]
        changes = table.changes(before, row_ids)._replace(listed=every)
        assert growing.advance(before, version, changes, partial(table.have_same_words, before))
        assert growing.latest[1].ids_at(row_ids) == table.ids_of(row_ids)

    for _ in range(3):
        table.add(None)
    growing = GrowingNamespaceRows(0, table.read(table.row_ids()), 1_000_000)
    table.add(None)
    del table.vectors[1]
    table.add(np.ones(DIMENSIONS, np.float32), 1)
    del table.vectors[2]
    table.add(None, 2, words=1)
    advance(1)
    assert listed == 0
    del table.vectors[0]
    table.add(None)
    advance(2)
    assert listed == 1


@pytest.mark.parametrize("seed", range(8))
def test_rows_that_a_compaction_moved_stay_where_they_are(seed: int) -> None:
    chance = np.random.default_rng(seed)

    def read(numbers: np.ndarray, row_ids: RowIds, generations: np.ndarray, embedded: np.ndarray) -> NamespaceRows:
        vectors = np.random.default_rng(7).standard_normal((100, DIMENSIONS)).astype(np.float32)[numbers]
        return rows(
            [f"{number:03}" for number in numbers], row_ids, vectors, embedded=embedded, generations=generations
        )

    numbers, generations, embedded = np.arange(40), chance.integers(1, 4, 40), chance.random(40) < 0.6
    before = read(numbers, np.arange(40, dtype=np.uint64), generations, embedded)
    growing = GrowingNamespaceRows(0, before, 1_000_000)
    left = np.arange(10, 40, dtype=np.uint64)
    growing.advance(growing.latest[1], 1, Changes(*NOTHING, before.none(), 30, lambda: left))
    before = growing.latest[1]
    # some keep their row ids; of the others some are written again, some get a vector, one comes back, ten are new
    numbers = chance.permutation(np.concatenate([[3], np.arange(10, 50)]))
    stay = (chance.random(41) < 0.2) & (numbers >= 10) & (numbers < 40)
    generations = np.concatenate([generations, np.ones(10, np.int64)])[numbers] + (~stay & (chance.random(41) < 0.2))
    embedded = np.concatenate([embedded, np.ones(10, np.bool_)])[numbers] | (~stay & (chance.random(41) < 0.2))
    row_ids = np.where(stay, numbers, 100 + np.arange(41)).astype(np.uint64)
    names = [f"{number:03}" for number in numbers.tolist()]
    listed = [(name, *row) for name, *row in zip(names, row_ids, generations, embedded, ~stay, strict=True) if row[-1]]
    ids, *columns, _ = zip(*listed, strict=True)
    rewritten = ListedRows(ids, *map(np.array, columns))
    places = growing.unchanged(before, rewritten)
    moved, new = places[places >= 0], rewritten.row_ids[places < 0]
    here = {before.ids[at]: at for at in before.positions.tolist()}
    is_absent = {*before.absent.tolist()}
    for name, row_id, generation, has_vector, _ in listed:
        at = here.get(name)
        is_same = at is not None and before.generations[at] == generation and (at not in is_absent) == has_vector
        assert (row_id not in new) == is_same
        assert not is_same or places[rewritten.row_ids == row_id].tolist() == [at]
    is_new = np.isin(row_ids, new)
    added = read(numbers[is_new], row_ids[is_new], generations[is_new], embedded[is_new])
    changes = Changes(moved, rewritten.row_ids[places >= 0], added, len(row_ids), lambda: row_ids)
    assert growing.advance(before, 2, changes)
    version, held = growing.latest
    assert (version, len(held.unit)) == (2, 40 + len(new))
    assert held.ids_at(row_ids) == names
    assert held.generations[held.positions_of(row_ids)].tolist() == generations.tolist()
    asked = chance.standard_normal(DIMENSIONS).astype(np.float32)
    for limit in (1, 5, 100):
        found, expected = (
            held.nearest(asked, limit),
            read(numbers, row_ids, generations, embedded).nearest(asked, limit),
        )
        assert found.ids == expected.ids


@pytest.mark.parametrize(("old", "new", "is_copied"), [(10, 13, False), (10, 14, True), (0, 3, False), (0, 4, True)])
def test_rows_are_copied_only_once_there_is_no_space_left(
    monkeypatch: pytest.MonkeyPatch, old: int, new: int, *, is_copied: bool
) -> None:
    monkeypatch.setattr(growing_rows, "SPARE_ROWS", 3)
    table = Table(0)
    table.vectors = {number: np.ones(DIMENSIONS, np.float32) for number in range(old + new)}
    row_ids = np.arange(old + new, dtype=np.uint64)
    growing = GrowingNamespaceRows(0, table.read(row_ids[:old]), 1_000_000)
    memory, before = growing._memory, growing.latest[1]
    assert growing.advance(before, 1, table.changes(before, row_ids))
    assert (growing._memory is not memory) is is_copied
    assert growing.latest[1].unit.base is growing._memory


@pytest.mark.parametrize(("beyond", "fits"), [(0, True), (1, False)])
def test_rows_take_at_most_their_bytes(beyond: int, *, fits: bool) -> None:
    table = Table(0)
    table.vectors = {number: np.ones(DIMENSIONS, np.float32) for number in range(20 + beyond)}
    row_ids = np.arange(20 + beyond, dtype=np.uint64)
    growing = GrowingNamespaceRows(0, table.read(row_ids[:10]), 20 * 4 * DIMENSIONS)
    before = growing.latest[1]
    assert growing.has_room(before, len(row_ids), 10 + beyond) is fits
    assert growing.advance(before, 1, table.changes(before, row_ids)) is fits
    assert growing.nbytes == (20 if fits else 10) * 4 * DIMENSIONS
    assert growing._memory.nbytes == 20 * 4 * DIMENSIONS


def test_of_almost_equal_vectors_the_nearest_are_exact() -> None:
    chance = np.random.default_rng(1)
    vectors = (chance.standard_normal(384) + 1e-6 * chance.standard_normal((2_000, 384))).astype(np.float32)
    ids = [f"{number:04}" for number in range(len(vectors))]
    held = rows(ids, np.arange(len(vectors), dtype=np.uint64), vectors, embedded=np.ones(len(vectors), dtype=bool))
    asked = held.unit[0]
    # sums of 32 bits put them into another order
    exact = sorted(zip(1 - (held.unit.astype(np.float64) * asked).sum(axis=1), ids, strict=True))
    assert held.nearest(asked, 10).ids == [id_ for _, id_ in exact[:10]]


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 15, 16, 17, 23, 24, 25, 100])
def test_threads_that_share_the_rows_find_what_one_finds(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    vectors = np.random.default_rng(count).standard_normal((count, DIMENSIONS)).astype(np.float32)
    ids = [str(number) for number in range(count)]
    held = rows(ids, np.arange(count, dtype=np.uint64), vectors, embedded=np.ones(count, dtype=bool))
    asked = [*np.eye(DIMENSIONS, dtype=np.float32), *-np.eye(DIMENSIONS, dtype=np.float32)]
    alone = [held.nearest(vector, 1) for vector in asked]
    monkeypatch.setattr(vector_cache, "NUMBERS_PER_THREAD", 8 * DIMENSIONS)
    monkeypatch.setattr(vector_cache, "MAX_THREADS", 3)
    for _ in range(2):
        shared = [held.nearest(vector, 1) for vector in asked]
        assert [(found.ids, found.values) for found in shared] == [(found.ids, found.values) for found in alone]
    assert vector_cache._has_threads.acquire(blocking=False)
    try:
        beside_another = [held.nearest(vector, 1) for vector in asked]
    finally:
        vector_cache._has_threads.release()
    assert [(found.ids, found.values) for found in beside_another] == [(found.ids, found.values) for found in alone]


RANKING = Ranked(["a"], [1.0])
LEG = Leg(5, keywords="words")


@pytest.mark.parametrize(
    ("namespace", "state", "leg"),
    [
        ("b", (1,), LEG),
        ("a", (2,), LEG),
        ("a", (1,), Leg(6, keywords="words")),
        ("a", (1,), Leg(5, keywords="word")),
        ("a", (1,), Leg(5, keywords="words", field="code")),
        ("a", (1,), Leg(5, keywords="words", phrase=True)),
        ("a", (1,), Leg(5, keywords="words", languages=frozenset({"de"}))),
        ("a", (1,), Leg(5, keywords="words", conditions=[Condition("level", "in", [0])])),
        ("a", (1,), Leg(5, vector=np.ones(2, dtype=np.float32))),
    ],
)
def test_a_ranking_is_that_of_its_leg_and_state(namespace: str, state: tuple[int], leg: Leg) -> None:
    rankings = RankingCache()
    key, other_key = ranking_key("a", (1,), LEG), ranking_key(namespace, state, leg)
    rankings.put(key, RANKING)
    assert rankings.get(ranking_key("a", (1,), LEG)) == RANKING
    assert rankings.get(other_key) is None
    rankings.put(other_key, Ranked(["b"], [1.0]))
    assert rankings.get(key) == RANKING


def test_only_the_latest_state_of_a_namespace_is_kept() -> None:
    latest: LatestPerNamespace[str] = LatestPerNamespace(2)
    latest.put("a", (1,), "one")
    assert (latest.get("a", (1,)), latest.get("a", (2,)), latest.get("b", (1,))) == ("one", None, None)
    latest.put("a", (2,), "two")
    assert (latest.get("a", (1,)), latest.get("a", (2,))) == (None, "two")
    latest.put("b", (1,), "three")
    latest.get("a", (2,))
    latest.put("c", (1,), "four")
    assert (latest.get("a", (2,)), latest.get("b", (1,)), latest.get("c", (1,))) == ("two", None, "four")
    latest.drop("a")
    assert latest.get("a", (2,)) is None


def test_more_rows_are_fetched_while_the_last_may_equal_the_last_within_the_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert first_limit(10) == 10 + TIES
    assert next_limit(2, 4, [0.1, 0.2, 0.2, 0.2]) == 4 * GROWTH
    assert next_limit(2, 4, [0.1, 0.2, 0.2, 0.2 + EQUAL / 2]) == 4 * GROWTH
    assert next_limit(2, 4, [0.1, 0.2, 0.2, 0.2 + 2 * EQUAL]) is None
    assert next_limit(2, 4, [0.1, 0.1, 0.2, 0.2]) is None
    # a keyword leg: the best has the greatest score
    assert next_limit(2, 4, [3, 2, 2, 2]) == 4 * GROWTH
    # there are no more rows
    assert next_limit(2, 5, [0.2, 0.2, 0.2, 0.2]) is None
    assert next_limit(2, 5, []) is None
    # the store returns no more, even if the limit is greater
    assert next_limit(2, 4, [0.2] * 4, 6) == 6
    assert next_limit(2, 6, [0.2] * 6, 6) is None
    assert next_limit(9, 6, [0.2] * 6, 6) is None
    monkeypatch.setattr(ties, "MAX_TIES", 5)
    assert next_limit(2, 4, [0.2] * 4) == 7
    assert next_limit(2, 7, [0.2] * 7) is None
    assert MAX_TIES > GROWTH * TIES


#: Ids that begin alike, and ids that do not.
IDS = st.builds(lambda start, end: str(UUID(int=start << 96 | end)), st.integers(0, 3), st.integers(0, 2**96 - 1))


@given(
    st.lists(st.tuples(IDS, st.sampled_from([0.0, 0.5, 1.0])), max_size=40, unique_by=lambda row: row[0]),
    st.integers(0, 45),
    st.booleans(),
)
def test_rows_with_equal_values_are_ordered_by_their_ids(
    found: list[tuple[str, float]], limit: int, descending: bool
) -> None:
    ids, values = [id_ for id_, _ in found], [value for _, value in found]
    number = len(found)
    in_memory = rows(
        ids, np.arange(number, dtype=np.uint64), np.ones((number, 2), np.float32), embedded=np.ones(number, bool)
    )
    best = in_memory.ranked(np.arange(number), np.array(values, np.float64), limit, descending=descending)
    assert best == ranked(ids, values, descending=descending, limit=limit)


@pytest.mark.parametrize("number", [3, 4, 5, 9])
def test_many_rows_with_one_vector_have_one_distance(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    monkeypatch.setattr(vector_cache, "EXACT_ROWS", 4)
    ids = [str(uuid4()) for _ in range(number)]
    vectors = np.tile(np.array([0.1, 0.7], np.float32), (number, 1))
    equal = rows(ids, np.arange(number, dtype=np.uint64), vectors, embedded=np.ones(number, bool))
    nearest = equal.nearest(np.array([0.3, 0.2], np.float32), 2)
    assert nearest.ids == sorted(ids)[:2]
    assert len({*nearest.values}) == 1


@pytest.mark.parametrize("share", [0.0, 0.05, 0.44, 0.46, 0.9, 1.0])
@pytest.mark.parametrize("stretch", [1, 5, 40])
def test_rows_that_pass_a_filter_are_found_however_many_they_are(
    monkeypatch: pytest.MonkeyPatch, share: float, stretch: int
) -> None:
    monkeypatch.setattr(vector_cache, "STRETCH_ROWS", 4)
    monkeypatch.setattr(vector_cache, "COPIED_ROWS", 16)
    count, chance = 200, Random(5)
    vectors = np.random.default_rng(5).standard_normal((count, DIMENSIONS)).astype(np.float32)
    embedded = np.arange(count) % 70 != 0
    held = rows([str(UUID(int=n)) for n in range(count)], np.arange(count, dtype=np.uint64), vectors, embedded=embedded)
    # among them are rows that no vector finds
    begins = chance.sample(range(0, count, stretch), int(share * count / stretch))
    passing = np.zeros(count, np.bool_)
    for begin in begins:
        passing[begin : begin + stretch] = True
    asked = np.ones(DIMENSIONS, np.float32)
    expected = held.nearest(asked, count)
    allowed = {str(UUID(int=int(n))) for n in np.flatnonzero(passing)}
    found = held.nearest(asked, 10, passing)
    assert found.ids == [id_ for id_ in expected.ids if id_ in allowed][:10]
    assert len(held.nearest(asked, count, passing)) == sum(embedded[passing])


@pytest.mark.parametrize(("stretch", "compared"), [(40, 80), (5, 200)])
def test_only_long_stretches_of_rows_are_compared_by_themselves(
    monkeypatch: pytest.MonkeyPatch, stretch: int, compared: int
) -> None:
    monkeypatch.setattr(vector_cache, "STRETCH_ROWS", 8)
    count, multiplied = 200, 0
    vectors = np.random.default_rng(1).standard_normal((count, DIMENSIONS)).astype(np.float32)
    held = rows(
        [str(UUID(int=n)) for n in range(count)],
        np.arange(count, dtype=np.uint64),
        vectors,
        embedded=np.ones(count, bool),
    )
    products = np.matmul

    def multiply(unit: np.ndarray, vector: np.ndarray, out: np.ndarray) -> None:
        nonlocal multiplied
        multiplied += len(unit)
        products(unit, vector, out=out)

    monkeypatch.setattr(np, "matmul", multiply)
    passing = np.arange(count) // stretch % 2 == 1
    assert len(held.nearest(np.ones(DIMENSIONS, np.float32), count, passing)) == sum(passing)
    assert multiplied == compared


def test_scattered_rows_are_compared_without_a_copy_of_all() -> None:
    count = 10_000
    vectors = np.random.default_rng(1).standard_normal((count, 64)).astype(np.float32)
    ids = [str(UUID(int=n)) for n in range(count)]
    held = rows(ids, np.arange(count, dtype=np.uint64), vectors, embedded=np.ones(count, bool))
    passing = np.arange(count) % 4 == 1
    tracemalloc.start()
    try:
        held.nearest(np.ones(64, np.float32), 10, passing)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < vectors[passing].nbytes / 2


class Filter:
    """Which rows pass, and what was read to find them."""

    def __init__(self) -> None:
        self.read: list[Any] = []

    def passing(self, present: RowIds, among: RowIds | None) -> RowIds:
        self.read.append(among)
        read = present if among is None else among
        passing: RowIds = read[read % 3 == 1]
        return passing


@pytest.mark.parametrize("seed", range(6))
def test_of_rows_that_grow_a_filter_reads_only_new_ones(seed: int) -> None:
    table, cache, filtered = Table(seed), vector_cache.FilterCache(), Filter()
    table.change()
    growing = GrowingNamespaceRows(0, table.read(table.row_ids()), 1_000_000)
    states: list[tuple[int, NamespaceRows, RowIds]] = []

    def check(version: int, held: NamespaceRows, row_ids: RowIds) -> None:
        passing = cache.passing(version, "x", held, partial(filtered.passing, row_ids))
        assert len(passing) == len(held.unit)
        assert passing[held.positions_of(row_ids)].tolist() == (row_ids % 3 == 1).tolist()

    for version in range(1, 30):
        _, before = growing.latest
        table.change()
        row_ids = table.row_ids()
        new = np.setdiff1d(row_ids, before.row_ids)
        if not growing.advance(before, version, table.changes(before, row_ids), partial(table.have_same_words, before)):
            growing = GrowingNamespaceRows(version, table.read(row_ids), 1_000_000)
        held = growing.latest[1]
        filtered.read = []
        check(version, held, row_ids)
        if states and held.lineage is before.lineage:
            assert [sorted(read.tolist()) for read in filtered.read] == [sorted(new.tolist())] * bool(len(new))
        else:
            assert filtered.read == [None]
        states.append((version, held, row_ids))
    # a search that began before the last changes needs rows that they deleted
    for state in reversed(states):
        check(*state)


class _Counted(list[str]):
    """Values that count how often they are read."""

    readers = 0

    def __iter__(self) -> Iterator[str]:
        self.readers += 1
        return super().__iter__()


@pytest.mark.parametrize(("values", "times"), [(31, 2), (32, 1), (100_000, 1), (100_001, 2)])
def test_a_long_condition_is_written_once_for_all_legs(
    monkeypatch: pytest.MonkeyPatch, values: int, times: int
) -> None:
    written = 0

    def clean(text: str) -> str:
        nonlocal written
        written += 1
        return text

    monkeypatch.setattr(filter_sql, "clean", clean)
    names = [f"{uuid4()}" for _ in range(values)]
    texts = {filter_sql.where([Condition("file_node_id", "in", names)]) for _ in range(2)}
    assert texts == {f"({filter_sql.is_in('file_node_id', names)})"}
    assert written == times * values
    # what is kept is not even read again
    counted = _Counted(names)
    assert {filter_sql.where([Condition("file_node_id", "in", counted)]) for _ in range(6)} == texts
    assert counted.readers == (1 if times == 1 else 6)
    others = Condition("symbol", "in", counted), Condition("file_node_id", "in", counted, [uuid4()])
    assert {filter_sql.where([each]) for each in others}.isdisjoint(texts)
    other = [Condition("file_node_id", "in", [*names[1:], "other"])]
    assert filter_sql.where(other) not in texts
