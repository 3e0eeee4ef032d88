"""Rows that vectors of one byte a dimension rule out: never one that is among the nearest."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from worker.machine.onnx import session
from worker.vectors.lance import rough_rows
from worker.vectors.lance.growing_rows import Changes, GrowingNamespaceRows
from worker.vectors.lance.rough_rows import BLOCK_ROWS, GrowingRoughRows, RoughRows
from worker.vectors.lance.vector_cache import READ_SHARE, NamespaceRows, RowIds, rows

ROWS, DIMENSIONS = 17 * BLOCK_ROWS + 700, 48

#: No rows that moved, and no row ids of them.
NOTHING = np.empty(0, np.intp), np.empty(0, np.uint64)

Vectors = NDArray[np.float32]


def _random(rng: np.random.Generator) -> Vectors:
    return rng.standard_normal((ROWS, DIMENSIONS), np.float32)


def _alike(rng: np.random.Generator) -> Vectors:
    """Vectors that differ by less than is rounded."""
    return rng.standard_normal(DIMENSIONS, np.float32) + np.float32(1e-3) * _random(rng)


def _uneven(rng: np.random.Generator) -> Vectors:
    """Vectors in which one number hides what the others add up to."""
    vectors = _random(rng)
    vectors[np.arange(ROWS), rng.integers(0, DIMENSIONS, ROWS)] *= 300
    return vectors


def _equal(rng: np.random.Generator) -> Vectors:
    return _random(rng)[rng.integers(0, 3, ROWS)]


def _few_values(rng: np.random.Generator) -> Vectors:
    return rng.integers(-1, 2, (ROWS, DIMENSIONS)).astype(np.float32)


KINDS = (_random, _alike, _uneven, _equal, _few_values)


def _read(vectors: Vectors, rng: np.random.Generator) -> NamespaceRows:
    ids = [f"{number:08x}-{at}" for at, number in enumerate(rng.integers(0, 2**32, len(vectors)))]
    embedded = rng.random(len(vectors)) < 0.95
    return rows(ids, np.arange(len(vectors), dtype=np.uint64), vectors.copy(), embedded=embedded)


@pytest.mark.parametrize("make", KINDS, ids=lambda make: make.__name__.strip("_"))
@pytest.mark.parametrize("limit", [1, 100, 3_000])
def test_rows_are_found_as_without_rough_ones(make: object, limit: int) -> None:
    assert callable(make)
    rng = np.random.default_rng(limit)
    plain = _read(make(rng), rng)
    growing = GrowingNamespaceRows(0, plain, 1 << 30)
    _, quick = growing.latest
    assert quick.rough is not None
    for share in (None, 0.9, 0.4, 0.01):
        passing = None if share is None else rng.random(ROWS) < share
        for vector in (plain.unit[7], plain.unit[8] + plain.unit[9], rng.standard_normal(DIMENSIONS, np.float32)):
            assert quick.nearest(vector, limit, passing) == plain.nearest(vector, limit, passing)


def test_most_rows_are_ruled_out() -> None:
    rng = np.random.default_rng(0)
    plain = _read(_random(rng), rng)
    rough = GrowingRoughRows(DIMENSIONS).of(plain.unit, 1 << 40)
    assert rough is not None
    takes = np.ones(ROWS, np.bool_)
    possible = rough.possible(takes, plain.unit[5], 100)
    assert possible[5]
    assert takes.all()
    # the rows behind the last full block have no rough ones
    assert possible[17 * BLOCK_ROWS :].all()
    assert np.count_nonzero(possible[: 17 * BLOCK_ROWS]) < 300


@pytest.mark.parametrize(("of_nearest", "of_others"), [((0.49, 0.49), (2, 0)), ((28, 0), (0.51, 0.51))])
def test_a_row_is_not_ruled_out_by_what_is_lost(
    of_nearest: tuple[float, float], of_others: tuple[float, float]
) -> None:
    """All small numbers of the nearest are rounded to 0, or those of the others are rounded up."""
    step = 1 / rough_rows.ROW_LEVELS
    vectors = np.empty((ROWS, DIMENSIONS), np.float32)
    for at, (second, further) in ((slice(None), of_others), (77, of_nearest)):
        vectors[at, 0], vectors[at, 1], vectors[at, 2:] = 1, second * step, further * step
    query = np.ones(DIMENSIONS, np.float32)
    query[0] = 0
    ids = [str(at) for at in range(ROWS)]
    plain = rows(ids, np.arange(ROWS, dtype=np.uint64), vectors, embedded=np.ones(ROWS, np.bool_))
    _, quick = GrowingNamespaceRows(0, plain, 1 << 30).latest
    assert quick.nearest(query, 1).ids == plain.nearest(query, 1).ids == ["77"]


def test_what_is_lost_is_at_most_what_is_said() -> None:
    rng = np.random.default_rng(1)
    for make in KINDS:
        unit = _read(make(rng), rng).unit
        rough = GrowingRoughRows(DIMENSIONS).of(unit, 1 << 40)
        assert rough is not None
        codes = rough.codes.transpose(0, 2, 1).reshape(-1, DIMENSIONS).astype(np.float64)
        lost = unit[: len(codes)] - codes * rough.scales[:, None].astype(np.float64)
        assert (np.linalg.norm(lost, axis=1) <= rough.errors).all()


@pytest.mark.parametrize("depth", [384, 1536])
@pytest.mark.parametrize("overflows", [False, True])
def test_products_of_the_largest_numbers_are_exact(
    monkeypatch: pytest.MonkeyPatch, depth: int, *, overflows: bool
) -> None:
    rng = np.random.default_rng(2)
    _forget()
    overflows = overflows or session._overflows()
    monkeypatch.setattr(session, "_overflows", lambda: overflows)
    codes = rng.choice(np.array([-127, 126, 127], np.int8), (2, depth, BLOCK_ROWS))
    query = rng.choice(np.array([1, 64, 127], np.uint8), (2, depth))
    (found,) = rough_rows._session().run(None, {"query": query, "codes": codes})
    _forget()
    assert np.array_equal(found, (query.astype(np.int64) - 64) @ codes.astype(np.int64))


def test_rough_rows_follow_the_rows() -> None:
    rng = np.random.default_rng(3)
    unit, row_ids = _read(_random(rng), rng).unit, np.arange(ROWS, dtype=np.uint64)
    first = 16 * BLOCK_ROWS - 5
    growing = GrowingNamespaceRows(0, _numbered(unit[:first], row_ids[:first]), 1 << 30)
    assert growing.latest[1].rough is None
    for version, until in enumerate([first + 4, first + 5, 17 * BLOCK_ROWS + 1, ROWS], 1):
        _, before = growing.latest
        added = slice(len(before.ids), until)
        added_rows = _numbered(unit[added], row_ids[added])
        assert growing.advance(before, version, Changes(*NOTHING, added_rows, until, lambda: row_ids[:0]))
        _, now = growing.latest
        assert _blocks(now.rough) == (0 if version == 1 else until // BLOCK_ROWS)
        vector = rng.standard_normal(DIMENSIONS, np.float32)
        assert now.nearest(vector, 50) == replace(now, rough=None).nearest(vector, 50)


def test_rough_rows_follow_vectors_that_come_in_place() -> None:
    rng = np.random.default_rng(5)
    unit, row_ids = _read(_random(rng), rng).unit, np.arange(ROWS, dtype=np.uint64)
    late = np.flatnonzero(rng.random(ROWS) < 0.3)
    embedded = np.ones(ROWS, np.bool_)
    embedded[late] = False
    ids = [f"{number:08x}" for number in row_ids]
    growing = GrowingNamespaceRows(0, rows(ids, row_ids, unit.copy(), embedded=embedded), 1 << 30)
    # another vector than the one in memory, which no search compares
    unit[late] = _read(_random(rng), rng).unit[late]
    read = rows([ids[at] for at in late], row_ids[late] + ROWS, unit[late], embedded=np.ones(len(late), np.bool_))
    _, before = growing.latest
    changes = Changes(*NOTHING, read, ROWS, lambda: row_ids[:0])
    assert growing.advance(before, 1, changes, lambda _, positions: np.ones(len(positions), np.bool_))
    _, now = growing.latest
    assert len(now.unit) == ROWS
    for vector in (unit[late[5]], unit[late[6]] + unit[7], rng.standard_normal(DIMENSIONS, np.float32)):
        assert now.nearest(vector, 50) == replace(now, rough=None).nearest(vector, 50)
        assert now.nearest(vector, 50).ids == _numbered(unit, row_ids).nearest(vector, 50).ids


def _numbered(unit: Vectors, row_ids: RowIds) -> NamespaceRows:
    return rows([f"{number:08x}" for number in row_ids], row_ids, unit.copy(), embedded=np.ones(len(unit), np.bool_))


@pytest.mark.parametrize(("room", "expected"), [(15.5, 0), (16.5, 16), (17.5, 17), (19, 17)])
def test_rough_rows_keep_to_the_bytes_that_are_left(room: float, expected: int) -> None:
    rng = np.random.default_rng(3)
    plain = _read(_random(rng), rng)
    block = BLOCK_ROWS * (DIMENSIONS + rough_rows.ROW_BYTES)
    most = int((plain.unit.nbytes + room * block) / READ_SHARE)
    growing = GrowingNamespaceRows(0, plain, most)
    assert _blocks(growing.latest[1].rough) == expected
    assert growing.nbytes == plain.unit.nbytes + expected * block
    # and rows to come find no room that these have taken
    beyond = (most - growing.nbytes) // (4 * DIMENSIONS)
    assert growing.has_room(growing.latest[1], len(plain.row_ids), beyond)
    assert not growing.has_room(growing.latest[1], len(plain.row_ids), beyond + 1)


def _blocks(rough: RoughRows | None) -> int:
    return 0 if rough is None else len(rough.codes)


def _fail(_: bytes) -> None:
    raise ImportError("a library is missing")


@pytest.mark.parametrize(("name", "instead"), [("is_installed", lambda: False), ("open_session", _fail)])
def test_without_a_runtime_that_works_all_rows_are_compared(
    monkeypatch: pytest.MonkeyPatch, name: str, instead: object
) -> None:
    _forget()
    monkeypatch.setattr(rough_rows, name, instead)
    rng = np.random.default_rng(4)
    plain = _read(_random(rng), rng)
    growing = GrowingNamespaceRows(0, plain, 1 << 30)
    _forget()
    assert growing.latest[1].rough is None
    assert growing.nbytes == plain.unit.nbytes
    assert growing.latest[1].nearest(plain.unit[3], 10) == plain.nearest(plain.unit[3], 10)


def _forget() -> None:
    rough_rows._session.cache_clear()
    rough_rows._can_multiply.cache_clear()
