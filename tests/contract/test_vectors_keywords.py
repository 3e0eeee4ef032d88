"""What every vector store with a keyword index does: words, and names in code."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from tests.contract.stores import WITH_KEYWORDS, D, about, axis, coded, near, numbers, of_file, row, words
from worker.reading import words as as_words
from worker.tokens.keywords import keywords_of
from worker.vectors import Condition, Field, Leg, Patch, VectorStore

pytestmark = pytest.mark.parametrize("store", WITH_KEYWORDS, indirect=True)


def test_patched_keywords_replace_the_old_ones(store: VectorStore, space: str) -> None:
    store.write(space, D, [row(1, axis(0), "apples"), row(2, axis(1), "apples too"), row(3, axis(2))])
    for old, new in (("apples", "bananas"), ("bananas", "plums")):
        store.optimize(space)
        patches = [
            Patch(UUID(int=1), of_file(new), words(f"{new} row")),
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


def test_texts_are_found_as_they_are_read(store: VectorStore, space: str) -> None:
    written = {
        "json": ('"Schr\\u00f6derweg"', "Schröderweg"),
        "tex": ('Kurt G{\\"o}del', "Gödel"),
        "markdown": ("M&uuml;nchner", "Münchner"),
        "code": ('"first\\nsecondword"', "secondword"),
        "text": (r"C:\newdir\tablecloth", "newdir tablecloth"),
    }
    rows = [
        replace(row(number, axis(number), "x"), keywords=keywords_of("", "", as_words(type_, text), "en"))
        for number, (type_, (text, _)) in enumerate(written.items())
    ]
    store.write(space, D, rows)
    for number, (_, query) in enumerate(written.values()):
        assert [about(store, space, word) for word in query.split()] == [[number]] * len(query.split())


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


@pytest.mark.parametrize(
    ("language", "text", "queries"),
    [
        ("de", "Die Häuser wurden von Pumpen getrocknet.", ["Haus", "häusern", "pumpe"]),
        ("ru", "Города на реке Волга", ["город", "городами", "реки"]),
        ("tr", "İstanbul'daki kitaplar", ["kitap", "kitaplar", "istanbul"]),
        ("vi", "Hà Nội là thủ đô", ["thủ đô"]),
        ("en", "东京的水族馆 and カタカナ", ["水族", "水", "族馆", "カタ"]),
        ("en", "ภาษาไทยง่าย", ["ไทย"]),
        ("en", "C++ and C# run on .NET", ["C++", "c#", ".NET", "running"]),
    ],
)
def test_words_are_found_in_the_forms_of_their_language(
    store: VectorStore, space: str, language: str, text: str, queries: list[str]
) -> None:
    other = row(2, axis(1), "the C compiler of a net")
    store.write(space, D, [replace(row(1, axis(0)), keywords=words(text, language)), other])
    for query in queries:
        asked = Leg(5, keywords=query, languages=frozenset({"en", language}))
        assert numbers(store.search(space, [asked])[0]) == [1], query
    assert about(store, space, "C compilers") == [2, 1] if "C++" in text else [2]


@pytest.mark.parametrize(
    ("field", "phrase", "expected"),
    [
        ("code", "connection pool", [1, 2]),
        ("code", "Pool  exhausted", [1]),
        ("code", "pools exhausted", []),
        ("code", "for the connection", [2]),
        ("code", "getUser of C++", [3]),
        ("text", "东京的", [3]),
        ("code", "?!", []),
    ],
)
def test_of_a_phrase_every_word_is_there(
    store: VectorStore, space: str, field: Field, phrase: str, expected: list[int]
) -> None:
    texts = ["the connection-pool is exhausted", "a pool for the connection", "getUser() of C++ 在东京的地方"]
    store.write(space, D, [row(number, axis(number), text) for number, text in enumerate(texts, 1)])
    written = frozenset({"en", "de"})
    leg = Leg(5, keywords=phrase, field=field, phrase=True, languages=written)
    for _ in range(2):
        assert sorted(numbers(store.search(space, [leg])[0])) == expected
        store.optimize(space)
