"""What every vector store does: LanceDB, the fake Turbopuffer, and the real Turbopuffer if a key is set."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID, uuid4

import numpy as np
import pytest

from schemas.errors import StoreRefused
from tests.contract.stores import WITHOUT_KEYWORDS, D, about, axis, near, numbers, of_file, row, words
from worker.vectors import (
    CHECKED_ATTRIBUTES,
    Condition,
    Leg,
    Patch,
    StoredAttributes,
    Vector,
    VectorRow,
    VectorStore,
    cut_filterable,
)


def test_nearest_first_by_cosine(store: VectorStore, space: str) -> None:
    store.write(space, D, [row(1, axis(0) * 5), row(2, axis(0, 1.0)), row(3, axis(1)), row(4, -axis(0))])
    found = store.search(space, [Leg(3, vector=axis(0))])[0]
    assert numbers(found) == [1, 2, 3]
    assert [hit.value for hit in found] == pytest.approx([0.0, 1 - 2**-0.5, 1.0], abs=1e-5)


def test_equal_distances_come_by_id(store: VectorStore, space: str) -> None:
    store.write(space, D, [row(number, axis(0)) for number in (7, 3, 9, 1, 5)])
    assert near(store, space, axis(0)) == [1, 3, 5, 7, 9]


def test_legs_are_answered_in_their_order(store: VectorStore, space: str) -> None:
    store.write(space, D, [row(number, axis(number)) for number in range(D)])
    legs = [Leg(1, vector=axis(number % D)) for number in range(20)]
    assert [numbers(found) for found in store.search(space, legs)] == [[number % D] for number in range(20)]


def test_repeating_a_write_changes_nothing(store: VectorStore, space: str) -> None:
    store.write(space, D, [row(3, axis(2))])
    change: dict[str, Any] = {
        "upserts": [row(1, axis(0)), row(2, axis(1))],
        "patches": [Patch(UUID(int=3), of_file("new"))],
        "deletes": [UUID(int=4)],
    }
    for _ in range(2):
        store.write(space, D, **change)
        assert store.ids(space, None, 10) == [UUID(int=1), UUID(int=2), UUID(int=3)]
        assert near(store, space, axis(2), Condition("file_name", "in", ["new"])) == [3]


def test_an_upsert_replaces_the_whole_row(store: VectorStore, space: str) -> None:
    store.write(space, D, [row(1, axis(0), language="python")])
    store.write(space, D, [row(1, axis(1))])
    assert near(store, space, axis(0), Condition("language", "in", ["python"])) == []
    assert store.search(space, [Leg(5, vector=axis(1))])[0][0].value == pytest.approx(0, abs=1e-6)


def test_a_patch_leaves_the_rest_alone(store: VectorStore, space: str) -> None:
    store.write(space, D, [row(1, axis(0), "apples", language="python"), row(2, axis(1), "pears")])
    patches = [Patch(UUID(int=1), {**of_file("moved"), "level": 2}), Patch(UUID(int=2), of_file(None))]
    store.write(space, D, patches=[*patches, Patch(UUID(int=99), of_file("moved"))])
    both = Condition("file_name", "in", ["moved"]), Condition("language", "in", ["python"])
    assert near(store, space, axis(0), *both, Condition("level", "in", [2])) == [1]
    assert near(store, space, axis(0), Condition("file_name", "in", ["1.md", "2.md"])) == []
    assert store.ids(space, None, 10) == [UUID(int=1), UUID(int=2)]
    if store.has_keywords:
        assert about(store, space, "apple") == [1]


def named(store: VectorStore, space: str, name: str) -> list[int]:
    return near(store, space, axis(0), Condition("file_name", "in", [name]))


def test_a_patch_applies_to_no_row_of_a_greater_generation(store: VectorStore, space: str) -> None:
    rows = [replace(row(number, axis(0), "apples"), generation=number) for number in (4, 5, 6)]
    store.write(space, D, rows)

    def patch(name: str, generation: int) -> None:
        ids = [UUID(int=number) for number in (4, 5, 6, 7)]
        store.write(space, D, patches=[Patch(id_, of_file(name), words(name), generation) for id_ in ids])

    patch("five", 5)
    assert (sorted(named(store, space, "five")), named(store, space, "6.md")) == ([4, 5], [6])
    patch("four", 4)
    assert (sorted(named(store, space, "five")), named(store, space, "four")) == ([4, 5], [])
    patch("seven", 7)
    patch("seven", 7)
    assert sorted(named(store, space, "seven")) == [4, 5, 6]
    if store.has_keywords:
        assert sorted(about(store, space, "seven")) == [4, 5, 6]
        assert about(store, space, "five four apples") == []


def test_an_upsert_replaces_no_row_of_a_greater_generation(store: VectorStore, space: str) -> None:
    store.write(space, D, [replace(row(number, axis(0)), generation=number) for number in (4, 5, 6)])
    late = [replace(row(number, axis(1), file_name="late"), generation=5) for number in (4, 5, 6, 7)]
    for _ in range(2):
        store.write(space, D, late)
        assert sorted(named(store, space, "late")) == [4, 5, 7]
        assert near(store, space, axis(0))[0] == 6
        assert store.ids(space, None, 10) == [UUID(int=number) for number in (4, 5, 6, 7)]


@pytest.mark.parametrize("store", WITHOUT_KEYWORDS, indirect=True)
def test_patched_keywords_are_ignored_without_an_index_of_them(store: VectorStore, space: str) -> None:
    store.write(space, D, [row(1, axis(0)), row(2, axis(1))])
    patches = [Patch(UUID(int=1), of_file("new"), words("word " * 2_000)), Patch(UUID(int=2), {}, words("word"))]
    store.write(space, D, patches=patches)
    assert near(store, space, axis(0), Condition("file_name", "in", ["new"])) == [1]
    assert near(store, space, axis(1)) == [2, 1]


def test_rows_can_be_deleted_whatever_has_keywords_says(store: VectorStore, other: VectorStore, space: str) -> None:
    store.write(space, D, [row(number, axis(0), "word") for number in range(1, 5)])
    other.write(space, D, deletes=[UUID(int=1), UUID(int=3), UUID(int=77)])
    assert near(store, space, axis(0)) == near(other, space, axis(0)) == [2, 4]
    assert other.ids(space, None, 9) == [UUID(int=2), UUID(int=4)]
    if store.has_keywords:
        assert about(store, space, "word") == [2, 4]
    other.optimize(space)
    other.drop(space)
    assert store.ids(space, None, 9) == []


def test_deleted_rows_are_gone(store: VectorStore, space: str) -> None:
    store.write(space, D, [row(number, axis(0), "word") for number in range(1, 5)])
    store.write(space, D, deletes=[UUID(int=1), UUID(int=3), UUID(int=77)])
    assert near(store, space, axis(0)) == [2, 4]
    if store.has_keywords:
        assert about(store, space, "word") == [2, 4]


def test_ids_come_in_pages(store: VectorStore, space: str) -> None:
    wanted = sorted(uuid4() for _ in range(25))
    store.write(space, D, [VectorRow(id_, axis(0), {}) for id_ in reversed(wanted)])
    found: list[UUID] = []
    while page := store.ids(space, found[-1] if found else None, 10):
        found += page
    assert found == wanted


def test_attributes_come_in_pages_and_say_what_is_missing(store: VectorStore, space: str) -> None:
    store.write(space, D, [row(number, axis(0), symbol="x" if number % 2 else None) for number in range(1, 6)])
    found: dict[UUID, StoredAttributes] = {}
    while page := store.attributes(space, next(reversed(found), None), 2):
        found |= page
    assert [id_.int for id_ in found] == [1, 2, 3, 4, 5]
    first, second = (
        dict.fromkeys(CHECKED_ATTRIBUTES) | {"file_name": name, "symbol": symbol, "level": 0}
        for name, symbol in (("1.md", "x"), ("2.md", None))
    )
    assert (found[UUID(int=1)], found[UUID(int=2)]) == (store.stored(space, first), store.stored(space, second))
    assert found[UUID(int=1)] != store.stored(space, second)
    assert store.attributes("nothing", None, 2) == {}


def test_vectors_can_be_read_back(store: VectorStore, space: str) -> None:
    known = {number: axis(number % D, number / 100) for number in range(1, 900)}
    rows = [row(number, vector / np.linalg.norm(vector)) for number, vector in known.items()]
    store.write(space, D, rows)
    asked = [*range(1, 900, 2), 5000]
    found = store.vectors(space, [UUID(int=number) for number in asked])
    assert {id_.int for id_ in found} == set(asked) - {5000}
    for id_, vector in found.items():
        assert vector.dtype == np.float32
        assert vector == pytest.approx(rows[id_.int - 1].vector, abs=1e-6)


def test_rows_without_vector_have_none_to_read_back(store: VectorStore, space: str) -> None:
    assert store.vectors(space, [UUID(int=1)]) == {}
    assert store.ids(space, None, 10) == []
    store.write(space, D, [row(1, axis(0)), row(2)])
    assert [id_.int for id_ in store.vectors(space, [UUID(int=1), UUID(int=2)])] == [1]
    assert store.vectors(space, []) == {}


def test_a_missing_namespace_is_empty_and_stays_missing(store: VectorStore, space: str) -> None:
    store.write(space, D, patches=[Patch(UUID(int=1), of_file("x"))], deletes=[UUID(int=2)])
    assert not store.drop(space)
    store.optimize(space)
    assert store.search(space, [Leg(5, vector=axis(0)), Leg(5, vector=axis(1))]) == [[], []]
    assert store.ids(space, None, 5) == []


def test_a_dropped_namespace_can_be_made_again(store: VectorStore, space: str) -> None:
    store.write(space, D, [row(1, axis(0), "old")])
    assert [store.drop(space) for _ in range(2)] == [True, False]
    assert near(store, space, axis(0)) == []
    store.write(space, D, [row(2, axis(0), "new")])
    assert near(store, space, axis(0)) == [2]


def test_nothing_is_lost_by_optimizing(store: VectorStore, space: str) -> None:
    for number in range(6):
        store.write(space, D, [row(number, axis(number), f"common only{number}")])
    store.optimize(space)
    store.write(space, D, [row(6, axis(6), "common only6")], deletes=[UUID(int=0)])
    assert near(store, space, axis(6), limit=1) == [6]
    if store.has_keywords:
        assert sorted(about(store, space, "common")) == [1, 2, 3, 4, 5, 6]


ODD = [
    "it's",
    'say "hi"',
    "100%",
    "a_b",
    "*",
    "a?[b]{c}",
    "back\\slash",
    "日本語/é",
    "line\nbreak",
    " x ",
    "'; --",
    "",
    "😀",
]


def test_filters_take_any_value_literally(store: VectorStore, space: str) -> None:
    store.write(space, D, [row(number, axis(0), symbol=value) for number, value in enumerate(ODD)])
    for number, value in enumerate(ODD):
        assert near(store, space, axis(0), Condition("symbol", "in", [value]), limit=99) == [number], value
    assert near(store, space, axis(0), Condition("symbol", "in", ["it's", "*"]), limit=99) == [0, 4]
    assert near(store, space, axis(0), Condition("symbol", "in", ["\ud800"]), limit=99) == []
    assert near(store, space, axis(0), Condition("symbol", "in", []), limit=99) == []


def test_a_prefix_is_a_whole_path(store: VectorStore, space: str) -> None:
    for odd in range(len(ODD)):
        value = ODD[odd]
        paths = [value, f"{value}/deep/er", f"{value}x", f"{value}0", f"{value}.", f"x{value}/deep", None]
        store.write(space, D, [row(odd * 10 + n, axis(0), file_id_path=path) for n, path in enumerate(paths)])
    for odd in range(len(ODD)):
        if not ODD[odd]:
            continue
        found = near(store, space, axis(0), Condition("file_id_path", "prefix", [ODD[odd]]), limit=200)
        assert found == [odd * 10, odd * 10 + 1], ODD[odd]
    both = Condition("file_id_path", "prefix", [ODD[1], ODD[2], "nowhere"])
    assert near(store, space, axis(0), both, limit=200) == [10, 11, 20, 21]


def test_the_prefix_of_the_whole_document(store: VectorStore, space: str) -> None:
    pointers = ["", "/config", "/config/auth", "config", None]
    store.write(space, D, [row(number, axis(0), json_pointer=pointer) for number, pointer in enumerate(pointers)])
    assert near(store, space, axis(0), Condition("json_pointer", "prefix", [""])) == [0, 1, 2]


def test_a_suffix_is_the_end_of_a_name(store: VectorStore, space: str) -> None:
    names = ["a.py", "b.pyi", "py", "c.PY", ".py", "d.py.md", "e.c++", "f.c", None]
    store.write(space, D, [row(number, axis(0), file_name=name) for number, name in enumerate(names)])
    assert near(store, space, axis(0), Condition("file_name", "suffix", [".py"])) == [0, 4]
    assert near(store, space, axis(0), Condition("file_name", "suffix", [".pyi", ".c++"], [UUID(int=8)])) == [1, 6, 8]
    assert near(store, space, axis(0), Condition("file_name", "suffix", [])) == []


def test_all_conditions_must_hold(store: VectorStore, space: str) -> None:
    store.write(space, D, [row(n, axis(0), language=("a", "b")[n % 2], level=n // 2) for n in range(6)])
    both = Condition("language", "in", ["a"]), Condition("level", "in", [1, 2])
    assert near(store, space, axis(0), *both) == [2, 4]
    assert near(store, space, axis(0), Condition("embedded", "in", [True]), *both, limit=1) == [2]


def test_rows_named_by_id_pass_a_condition_too(store: VectorStore, space: str) -> None:
    store.write(space, D, [row(n, axis(0), "word", language=("a", "b")[n % 2], scope=f"s{n}/t") for n in range(6)])
    ids = [UUID(int=2), UUID(int=3), UUID(int=99)]
    named, below = Condition("language", "in", ["a"], ids), Condition("scope", "prefix", ["s1", "s5"], ids)
    assert near(store, space, axis(0), named) == [0, 2, 3, 4]
    assert near(store, space, axis(0), below) == [1, 2, 3, 5]
    assert near(store, space, axis(0), named, below) == [2, 3]
    assert near(store, space, axis(0), below, Condition("language", "in", ["b"])) == [1, 3, 5]
    assert near(store, space, axis(0), Condition("language", "in", [], ids)) == []
    if store.has_keywords:
        assert about(store, space, "word", below) == [1, 2, 3, 5]


def test_a_filter_leaves_the_limit_full(store: VectorStore, space: str) -> None:
    rows = [row(n, axis(0, n / 100), language="rare" if n >= 190 else "common") for n in range(200)]
    store.write(space, D, rows)
    assert near(store, space, axis(0), Condition("language", "in", ["rare"]), limit=5) == [190, 191, 192, 193, 194]


def test_long_values_are_cut_and_found(store: VectorStore, space: str) -> None:
    long = "é" * 4096
    store.write(space, D, [row(1, axis(0), symbol=long, scope="x" * 1024)])
    store.write(space, D, patches=[Patch(UUID(int=1), of_file(long))])
    for name in ("symbol", "file_name"):
        assert near(store, space, axis(0), Condition(name, "in", [long])) == [1]
    store.write(space, D, [row(2, axis(0), scope=long)])
    assert near(store, space, axis(0), Condition("scope", "prefix", [long])) == [2]
    assert near(store, space, axis(0), Condition("symbol", "in", [cut_filterable(long)])) == [1]


def test_rows_without_vector_are_found_by_keywords_only(store: VectorStore, space: str) -> None:
    store.write(space, D, [row(1, None, "plain words"), row(2, axis(0), "other words")])
    assert near(store, space, axis(0)) == [2]
    assert store.ids(space, None, 9) == [UUID(int=1), UUID(int=2)]
    if store.has_keywords:
        assert about(store, space, "plain") == [1]


@pytest.mark.parametrize("store", WITHOUT_KEYWORDS, indirect=True)
def test_keyword_legs_need_a_keyword_index(store: VectorStore, space: str) -> None:
    with pytest.raises(StoreRefused, match="KEYWORD_INDEX"):
        store.search(space, [Leg(5, keywords="word")])


@pytest.mark.parametrize("bad", [np.full(D, np.nan), np.full(D, np.inf), np.zeros(D), np.ones(D + 1)])
def test_vectors_that_cannot_be_compared_are_refused(store: VectorStore, space: str, bad: Vector) -> None:
    with pytest.raises(StoreRefused) as caught:
        store.write(space, D, [row(1, axis(0)), row(2, bad.astype(np.float32))])
    assert caught.value.ids == [UUID(int=2)]
    assert store.ids(space, None, 5) == []


def test_other_dimensions_are_refused(store: VectorStore, space: str) -> None:
    store.write(space, D, [row(1, axis(0))])
    with pytest.raises(StoreRefused):
        store.write(space, D + 1, [row(2, np.ones(D + 1, dtype=np.float32))])
    with pytest.raises(StoreRefused):
        store.search(space, [Leg(1, vector=np.ones(D + 1, dtype=np.float32))])


def test_callers_must_keep_to_the_seam(store: VectorStore, space: str) -> None:
    with pytest.raises(ValueError, match="twice"):
        store.write(space, D, [row(1, axis(0))], deletes=[UUID(int=1)])
    with pytest.raises(ValueError, match="colour"):
        store.write(space, D, [row(1, axis(0), colour="red")])


def test_bad_namespaces_are_refused(store: VectorStore) -> None:
    with pytest.raises(StoreRefused):
        store.write("no spaces/allowed", D, [row(1, axis(0))])
