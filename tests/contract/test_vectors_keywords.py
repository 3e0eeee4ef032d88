"""What every vector store with a keyword index does: words, and names in code."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import lancedb
import pytest

from tests.contract.stores import WITH_KEYWORDS, D, about, axis, coded, near, numbers, row, words
from tests.fakes.turbopuffer import FakeTurbopuffer
from worker.vectors import Condition, Leg, Patch, VectorStore
from worker.vectors.lance.store import LanceStore

pytestmark = pytest.mark.parametrize("store", WITH_KEYWORDS, indirect=True)


def test_patched_keywords_replace_the_old_ones(store: VectorStore, space: str) -> None:
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


def test_any_word_counts_and_rare_ones_more(store: VectorStore, space: str) -> None:
    texts = ["the dogs run", "the dogs", "running zebras", "nothing here", "the the the"]
    store.write(space, D, [row(number, axis(number), text) for number, text in enumerate(texts)])
    assert about(store, space, "zebra dog") == [2, 1, 0]
    assert sorted(about(store, space, "runs")) == [0, 2]
    found = store.search(space, [Leg(5, keywords="dog")])[0]
    assert found[0].value >= found[1].value > 0


def test_keywords_obey_filters_and_limits(store: VectorStore, space: str) -> None:
    store.write(space, D, [row(n, axis(0), "word " * (n + 1), language=("a", "b")[n % 2]) for n in range(6)])
    assert sorted(about(store, space, "word", Condition("language", "in", ["b"]))) == [1, 3, 5]
    assert len(about(store, space, "word", limit=2)) == 2


def test_no_query_text_is_an_error(store: VectorStore, space: str) -> None:
    store.write(space, D, [row(1, axis(0), "fox and hound"), row(2, axis(1), None)])
    for nothing in ("", "   ", '""', "+-*()&|!^~?:\\/", "' OR 1=1 --", "\ud800", "\0", "😀", "日本", "a" * 9000):
        assert about(store, space, nothing) == [], nothing
    for fox in ('"fox', "fox AND cat", "(fox", "fox* OR", "NOT fox", "fox~2", "fox^5", "chunk_text:fox", "fox\ud800"):
        assert about(store, space, fox) == [1], fox


def test_identifiers_are_found_whole_and_by_their_parts(store: VectorStore, space: str) -> None:
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
    store.write(space, D, [row(1, axis(0), "getUserName"), row(2, axis(1), "other")])
    if isinstance(store, LanceStore):
        lancedb.connect(tmp_path).open_table(space).drop_columns(["code"])
    else:
        old = fake.namespaces.get(space)
        if old is None:
            pytest.skip("run against the fake: the real service has no namespace without such a column")
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
