"""What every vector store does: LanceDB, Turbopuffer's fake, and Turbopuffer itself where a key is set."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import lancedb
import numpy as np
import pytest

from schemas.errors import StoreRefused
from tests.fakes.turbopuffer import FakeTurbopuffer
from worker.keywords import Keywords, code_words
from worker.vectors import Condition, Found, Leg, Patch, Row, Value, Vector, VectorStore, cut
from worker.vectors.lance import LanceStore
from worker.vectors.turbopuffer import TurbopufferStore

D = 8
REAL_KEY = os.environ.get("TURBOPUFFER_API_KEY", "")
HAS_KEY = REAL_KEY.startswith("tpuf_") and not os.environ.get("TURBOPUFFER_BASE_URL")
live = pytest.mark.skipif(not HAS_KEY, reason="TURBOPUFFER_API_KEY holds no key of the real service")
KINDS = [
    *(f"{kind}{suffix}" for kind in ("lance", "fake") for suffix in ("", "-keywords")),
    "held-keywords",
    pytest.param("live", marks=live),
    pytest.param("live-keywords", marks=live),
]


class SearchedTwice(LanceStore):
    """Asks for all a second time, which is answered from the vectors in memory."""

    def search(self, namespace: str, legs: Sequence[Leg]) -> list[list[Found]]:
        first, second = super().search(namespace, legs), super().search(namespace, legs)
        for before, after in zip(first, second, strict=True):
            assert numbers(before) == numbers(after)
            assert [hit.value for hit in before] == pytest.approx([hit.value for hit in after], abs=1e-6)
        return second


def make(kind: str, directory: Path, fake: FakeTurbopuffer) -> VectorStore:
    name, _, keywords = kind.partition("-")
    if name == "lance":
        return LanceStore(directory, has_keywords=bool(keywords))
    if name == "held":
        return SearchedTwice(directory, has_keywords=bool(keywords))
    if name == "fake":
        return TurbopufferStore(fake.api_key, region="nowhere", base_url=fake.url, has_keywords=bool(keywords))
    region = os.environ.get("TURBOPUFFER_REGION", "gcp-us-central1")
    return TurbopufferStore(REAL_KEY, region=region, has_keywords=bool(keywords))


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest, tmp_path: Path, fake: FakeTurbopuffer) -> VectorStore:
    return make(request.param, tmp_path, fake)


@pytest.fixture
def other(request: pytest.FixtureRequest, store: VectorStore, tmp_path: Path, fake: FakeTurbopuffer) -> VectorStore:
    """The same rows through a store with the other `has_keywords`."""
    name = request.node.callspec.params["store"].partition("-")[0]
    return make(name if store.has_keywords else f"{name}-keywords", tmp_path, fake)


@pytest.fixture
def space(store: VectorStore) -> Iterator[str]:
    name = f"foldex-test-{uuid4()}"
    yield name
    store.drop(name)


def axis(number: int, tilt: float = 0.0) -> Vector:
    vector = np.zeros(D, dtype=np.float32)
    vector[number] = 1.0
    vector[(number + 1) % D] = tilt
    return vector


def words(text: str) -> Keywords:
    return Keywords(text, code_words(text))


def row(number: int, vector: Vector | None = None, keywords: str | None = None, **attributes: Value) -> Row:
    given = None if keywords is None else words(keywords)
    return Row(UUID(int=number), vector, {"file_name": f"{number}.md", "level": 0, **attributes}, given)


def numbers(found: list[Found]) -> list[int]:
    return [UUID(hit.id).int for hit in found]


def near(store: VectorStore, space: str, vector: Vector, *conditions: Condition, limit: int = 10) -> list[int]:
    return numbers(store.search(space, [Leg(limit, vector=vector, conditions=conditions)])[0])


def about(store: VectorStore, space: str, text: str, *conditions: Condition, limit: int = 10) -> list[int]:
    return numbers(store.search(space, [Leg(limit, keywords=text, conditions=conditions)])[0])


def only_with_keywords(store: VectorStore) -> None:
    if not store.has_keywords:
        pytest.skip("no keywords here")


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
        "patches": [Patch(UUID(int=3), {"file_name": "new"})],
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
    patches = [Patch(UUID(int=1), {"file_name": "moved", "level": 2}), Patch(UUID(int=2), {"file_name": None})]
    store.write(space, D, patches=[*patches, Patch(UUID(int=99), {"file_name": "moved"})])
    both = Condition("file_name", "in", ["moved"]), Condition("language", "in", ["python"])
    assert near(store, space, axis(0), *both, Condition("level", "in", [2])) == [1]
    assert near(store, space, axis(0), Condition("file_name", "in", ["1.md", "2.md"])) == []
    assert store.ids(space, None, 10) == [UUID(int=1), UUID(int=2)]
    if store.has_keywords:
        assert about(store, space, "apple") == [1]


def test_patched_keywords_replace_the_old_ones(store: VectorStore, space: str) -> None:
    only_with_keywords(store)
    store.write(space, D, [row(1, axis(0), "apples"), row(2, axis(1), "apples too"), row(3, axis(2))])
    for old, new in (("apples", "bananas"), ("bananas", "plums")):
        store.optimize(space)
        patches = [
            Patch(UUID(int=1), {"file_name": new}, words(f"{new} row")),
            Patch(UUID(int=3), {}, words(f"{new} third")),
        ]
        store.write(space, D, patches=[*patches, Patch(UUID(int=2), {"level": 5})])
        assert sorted(about(store, space, new)) == [1, 3]
        assert {1, 3}.isdisjoint(about(store, space, old))
        assert about(store, space, "apples") == [2]
        assert near(store, space, axis(0), Condition("file_name", "in", [new])) == [1]
    store.optimize(space)
    assert [sorted(about(store, space, word)) for word in ("apples", "bananas", "plums")] == [[2], [], [1, 3]]


def test_patched_keywords_are_ignored_without_an_index_of_them(store: VectorStore, space: str) -> None:
    if store.has_keywords:
        pytest.skip("has one")
    store.write(space, D, [row(1, axis(0)), row(2, axis(1))])
    patches = [Patch(UUID(int=1), {"file_name": "new"}, words("word " * 2_000)), Patch(UUID(int=2), {}, words("word"))]
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
    store.write(space, D, [Row(id_, axis(0), {}) for id_ in reversed(wanted)])
    found: list[UUID] = []
    while page := store.ids(space, found[-1] if found else None, 10):
        found += page
    assert found == wanted


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
    store.write(space, D, patches=[Patch(UUID(int=1), {"file_name": "x"})], deletes=[UUID(int=2)])
    store.drop(space)
    store.optimize(space)
    assert store.search(space, [Leg(5, vector=axis(0)), Leg(5, vector=axis(1))]) == [[], []]
    assert store.ids(space, None, 5) == []


def test_a_dropped_namespace_can_be_made_again(store: VectorStore, space: str) -> None:
    store.write(space, D, [row(1, axis(0), "old")])
    store.drop(space)
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
    store.write(space, D, patches=[Patch(UUID(int=1), {"file_name": long})])
    for name in ("symbol", "file_name"):
        assert near(store, space, axis(0), Condition(name, "in", [long])) == [1]
        assert near(store, space, axis(0), Condition(name, "prefix", [long])) == [1]
    assert near(store, space, axis(0), Condition("symbol", "in", [cut(long)])) == [1]


def test_rows_without_vector_are_found_by_keywords_only(store: VectorStore, space: str) -> None:
    store.write(space, D, [row(1, None, "plain words"), row(2, axis(0), "other words")])
    assert near(store, space, axis(0)) == [2]
    assert store.ids(space, None, 9) == [UUID(int=1), UUID(int=2)]
    if store.has_keywords:
        assert about(store, space, "plain") == [1]


def test_any_word_counts_and_rare_ones_more(store: VectorStore, space: str) -> None:
    only_with_keywords(store)
    texts = ["the dogs run", "the dogs", "running zebras", "nothing here", "the the the"]
    store.write(space, D, [row(number, axis(number), text) for number, text in enumerate(texts)])
    assert about(store, space, "zebra dog") == [2, 1, 0]
    assert sorted(about(store, space, "runs")) == [0, 2]
    found = store.search(space, [Leg(5, keywords="dog")])[0]
    assert found[0].value >= found[1].value > 0


def test_keywords_obey_filters_and_limits(store: VectorStore, space: str) -> None:
    only_with_keywords(store)
    store.write(space, D, [row(n, axis(0), "word " * (n + 1), language=("a", "b")[n % 2]) for n in range(6)])
    assert sorted(about(store, space, "word", Condition("language", "in", ["b"]))) == [1, 3, 5]
    assert len(about(store, space, "word", limit=2)) == 2


def test_no_query_text_is_an_error(store: VectorStore, space: str) -> None:
    only_with_keywords(store)
    store.write(space, D, [row(1, axis(0), "fox and hound"), row(2, axis(1), None)])
    for nothing in ("", "   ", '""', "+-*()&|!^~?:\\/", "' OR 1=1 --", "\ud800", "\0", "😀", "日本", "a" * 9000):
        assert about(store, space, nothing) == [], nothing
    for fox in ('"fox', "fox AND cat", "(fox", "fox* OR", "NOT fox", "fox~2", "fox^5", "chunk_text:fox", "fox\ud800"):
        assert about(store, space, fox) == [1], fox


def coded(store: VectorStore, space: str, text: str, *conditions: Condition) -> list[int]:
    return numbers(store.search(space, [Leg(10, keywords=text, field="code", conditions=conditions)])[0])


def test_identifiers_are_found_whole_and_by_their_parts(store: VectorStore, space: str) -> None:
    only_with_keywords(store)
    texts = [
        "def getUserName(): pass",
        "get the user and a name",
        "path/to/giraffe.txt",
        "raise HTTPServerError2",
        "runs",
    ]
    store.write(space, D, [row(n, axis(n), text, language=("a", "b")[n % 2]) for n, text in enumerate(texts)])
    assert coded(store, space, "getUserName")[:2] == [0, 1]
    assert sorted(coded(store, space, "user_name")) == [0, 1]
    assert coded(store, space, "username") == []
    assert coded(store, space, "getusername") == [0]
    assert coded(store, space, "giraffe") == coded(store, space, "Giraffe.TXT") == coded(store, space, "to") == [2]
    assert coded(store, space, "http_error") == [3]
    assert coded(store, space, "run") == []
    assert coded(store, space, "getUserName", Condition("language", "in", ["b"])) == [1]
    store.optimize(space)
    store.write(space, D, [row(5, axis(5), "setUserName")], [Patch(UUID(int=2), {}, words("lion.txt"))])
    assert coded(store, space, "set user")[0] == 5
    assert coded(store, space, "giraffe") == []
    assert coded(store, space, "lion") == [2]


def test_no_code_is_an_error(store: VectorStore, space: str) -> None:
    only_with_keywords(store)
    store.write(space, D, [row(1, axis(0), "fox and hound"), row(2, axis(1), None), row(3, axis(2), "?!")])
    for nothing in ("", "  ", "+-*()&|!^~?:\\/", "_", "...", "\ud800", "\0", "a" * 9000, "日本"):
        assert coded(store, space, nothing) == [], nothing
    for fox in (
        '"fox',
        "(fox",
        "fox\0",
        "fox\ud800",
        "fox's",
        "the_fox",
        " ".join(f"w{n}" for n in range(3000)) + " fox",
    ):
        assert coded(store, space, fox) == ([] if len(fox) > 9000 else [1]), fox[:20]


def test_legs_over_all_fields_are_answered_in_their_order(store: VectorStore, space: str) -> None:
    only_with_keywords(store)
    store.write(space, D, [row(n, axis(n), f"number{n}") for n in range(6)])
    legs = [
        leg
        for n in range(6)
        for leg in (
            Leg(1, vector=axis(n)),
            Leg(1, keywords=f"number{n}"),
            Leg(1, keywords=f"number{n}", field="code"),
            Leg(1, keywords="?", field="code"),
        )
    ]
    expected = [ids for n in range(6) for ids in ([n], [n], [n], [])]
    assert [numbers(found) for found in store.search(space, legs)] == expected


def test_what_an_earlier_release_wrote_lacks_the_field_until_it_is_written_again(
    store: VectorStore, space: str, tmp_path: Path, fake: FakeTurbopuffer
) -> None:
    only_with_keywords(store)
    store.write(space, D, [row(1, axis(0), "getUserName"), row(2, axis(1), "other")])
    if isinstance(store, LanceStore):
        lancedb.connect(tmp_path).open_table(space).drop_columns(["code"])
    else:
        old = fake.namespaces.get(space)
        if old is None:
            pytest.skip("the real service has no such namespace")
        del old.schema["chunk_code"]
        for document in old.rows.values():
            document.values.pop("chunk_code"), document.terms.pop("chunk_code")
    legs = [Leg(5, keywords="user", field="code"), Leg(5, keywords="other"), Leg(5, vector=axis(0))]
    assert [numbers(found) for found in store.search(space, legs)] == [[], [2], [1, 2]]
    assert coded(store, space, "user") == []
    store.write(space, D, patches=[Patch(UUID(int=1), {}, words("getUserName " * 2_000))])
    store.write(space, D, [row(3, axis(2), "userId")])
    assert coded(store, space, "user") == [1, 3]
    store.optimize(space)
    assert coded(store, space, "user") == [1, 3]
    assert about(store, space, "other") == [2]


def test_keyword_legs_need_a_keyword_index(store: VectorStore, space: str) -> None:
    if store.has_keywords:
        pytest.skip("has one")
    with pytest.raises(StoreRefused, match="KEYWORD_INDEX"):
        store.search(space, [Leg(5, keywords="word")])


@pytest.mark.parametrize("bad", [np.full(D, np.nan), np.full(D, np.inf), np.zeros(D), np.ones(D + 1)])
def test_vectors_that_cannot_be_compared_are_refused(store: VectorStore, space: str, bad: Vector) -> None:
    with pytest.raises(StoreRefused) as caught:
        store.write(space, D, [row(1, axis(0)), row(2, bad.astype(np.float32))])
    assert caught.value.data["ids"] == [UUID(int=2)]
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
