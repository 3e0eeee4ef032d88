"""Keywords in Postgres: BM25 over chunks that were written as a worker writes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID, uuid4

import pytest

from schemas.content.document import Chunk
from worker.state.index import chunks
from worker.state.index.chunks import PlacedChunk
from worker.state.pool import Pool
from worker.state.search import found_chunks, keywords, languages
from worker.tokens.keywords import IN_ENGLISH, phrase_tokens

FILTERS = (
    *("file_node_ids", "id_paths", "below", "folders", "endings", "types", "languages"),
    *("symbols", "symbol_ids", "node_types", "scope", "scope_ids", "json_pointer", "level"),
)
INDEX = """
INSERT INTO search_index (id, project_id, identity, source, settings, vector_store, keyword_index, namespace)
VALUES (%(id)s, 'p', %(id)s::text, '{}', '{}', 'lancedb', 'postgres', %(id)s::text)
"""
FILE = """
INSERT INTO search_index_file (id, index_id, key, path, id_path, size_bytes, task_id, stamp, code_version, status,
    lease_owner, live_chunks, type)
VALUES (%s, %s, 'k', %s, '', 1, %s, '', '', 'indexing', %s, %s, 'text')
"""


class Index:
    """Chunks of one file, numbered from 0."""

    def __init__(self, pool: Pool, texts: Sequence[str], path: str = "notes.txt", language: str = "en") -> None:
        self.pool, self.id, self.file_id, owner = pool, uuid4(), uuid4(), uuid4()
        self.placed = [self._placed(number, text) for number, text in enumerate(texts)]
        with pool.connection() as connection:
            connection.execute(INDEX, {"id": self.id})
            connection.execute(FILE, (self.file_id, self.id, path, uuid4(), owner, len(texts)))
        texts_with_words = [
            (p, keywords.vectors(path, p.chunk.context, p.chunk.text, language), False) for p in self.placed
        ]
        with pool.connection() as connection:
            chunks.write_live(connection, self.id, texts_with_words)

    def _placed(self, number: int, text: str) -> PlacedChunk:
        language = ("a", "b")[number % 2]
        return PlacedChunk(UUID(int=self.id.int ^ number), self.file_id, number, _chunk(text), str(number), language)

    def search(
        self,
        query: str,
        field: keywords.Field = "text",
        limit: int = 10,
        written: frozenset[str] = IN_ENGLISH,
        *,
        phrase: bool = False,
        **filters: Any,
    ) -> list[int]:
        values = {**dict.fromkeys(FILTERS), **filters, "query": query, "index_id": self.id, "limit": limit}
        found = keywords.search(self.pool, values, field, written, phrase=phrase)
        return [UUID(id_).int ^ self.id.int for id_, _ in found]

    def run(self, statement: str) -> None:
        with self.pool.connection() as connection:
            connection.execute(statement.encode(), (self.id,))


def _chunk(text: str) -> Chunk:
    return Chunk(text, 0, len(text), 1, 1, len(text.split()))


def test_rare_words_count_more_and_short_texts(pool: Pool) -> None:
    common = [f"the ferry sails at {n}" for n in range(20)]
    index = Index(pool, [*common, "a ferry in fog", "fog here all day long", "fog " + "and much more " * 20])
    assert sorted(index.search("ferry fog")[:2]) == [20, 21]
    assert index.search("fogs") == [20, 21, 22]
    assert sorted(index.search("ferry", limit=99)) == list(range(21))


def test_more_mentions_rank_higher_until_it_is_enough(pool: Pool) -> None:
    filler = ["one", "two", "three", "four", "five", "six", "seven"]
    index = Index(pool, [" ".join(["tide"] * n + filler[n:]) for n in range(8)])
    assert index.search("tide") == [7, 6, 5, 4, 3, 2, 1]


def test_identifiers_are_found_whole_and_by_their_parts(pool: Pool) -> None:
    texts = ["def getUserName(): pass", "get the user and a name", "import lion.txt", "runs"]
    index = Index(pool, texts, path="zoo/bigGiraffe.txt")
    assert index.search("getUserName", "code")[:2] == [0, 1]
    assert sorted(index.search("user_name", "code")) == [0, 1]
    assert index.search("getUserName", "code", languages=["b"]) == [1]
    assert index.search("lion", "code") == index.search("LION.txt", "code", limit=1) == [2]
    assert sorted(index.search("giraffe", "code")) == [0, 1, 2, 3]
    assert index.search("run", "code") == []
    assert index.search("run", "text") == [3]


def test_a_move_changes_the_words_of_the_path_only(pool: Pool) -> None:
    index = Index(pool, ["old fish", "new fish"], path="old.txt")
    index.run("UPDATE search_index_file SET path = 'newPlace.md' WHERE index_id = %s")
    with pool.connection() as connection:
        chunks.move_keywords(connection, {index.file_id: keywords.path_vectors("newPlace.md", "en")})
    assert index.search("old", "code") == index.search("old") == [0]
    assert sorted(index.search("place", "code")) == [0, 1]
    assert index.search("txt", "code") == []


def test_chunks_that_are_kept_get_their_words_anew(pool: Pool) -> None:
    index = Index(pool, ["getUserName", "fish"])
    index.run("UPDATE chunk SET code = NULL WHERE index_id = %s")
    assert index.search("user", "code") == []
    kept = [(p, keywords.vectors("notes.txt", "", p.chunk.text, "en"), False) for p in index.placed]
    with pool.connection() as connection:
        chunks.move_kept(connection, kept)
    assert index.search("user", "code") == [0]


def test_stop_words_count_only_if_nothing_else_is_left(pool: Pool) -> None:
    index = Index(pool, ["to be or not to be", "fish"])
    for field in keywords.FIELDS:
        assert index.search("to be or not", field) == [0]
        assert index.search("to be a fish or not", field) == [1]


@pytest.mark.parametrize(
    ("language", "text", "query"),
    [
        ("de", "Die Häuser am Fluss", "Haus"),
        ("ru", "Города на реке Волга", "городами"),
        ("en", "东京的水族馆", "水"),
        ("en", "C++ and C# run on .NET", ".NET"),
    ],
)
def test_words_are_found_in_the_forms_of_their_language(pool: Pool, language: str, text: str, query: str) -> None:
    index = Index(pool, [text, "the C compiler of a net"], language=language)
    assert index.search(query, written=frozenset({"en", language})) == [0]


def test_a_phrase_is_found_whatever_its_white_space(pool: Pool) -> None:
    texts = ["The connection\n   POOL is  exhausted", "a pool for the connection", "the pool", "在东京的地方"]
    index = Index(pool, texts)

    def found(phrase: str) -> tuple[list[int], list[int]]:
        field, _ = phrase_tokens(phrase)
        with_words = index.search(phrase, field, phrase=True)
        ids = [str(index.placed[number].id) for number in with_words]
        holding = found_chunks.with_phrase(pool, index.id, ids, phrase)
        return sorted(with_words), sorted(UUID(id_).int ^ index.id.int for id_ in holding)

    assert found("connection pool") == ([0, 1], [0])
    assert found("is \t exhausted") == ([0], [0])
    assert found("the connection") == ([0, 1], [0, 1])
    assert found("no connection") == ([], [])
    assert found("东京的") == ([3], [3])
    assert found("pool?\0\ud800") == ([0, 1, 2], [])


def test_common_words_are_bounded_and_those_together_come_first(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keywords, "MAX_CANDIDATES", 5)
    monkeypatch.setattr(keywords, "MAX_COUNT", 5)
    index = Index(pool, [*(f"left {n}" for n in range(20)), *(f"right {n}" for n in range(20)), "left and right"])
    assert index.search("left right")[0] == 40
    assert len(index.search("left right")) == 5


@pytest.mark.parametrize(
    "filters",
    [{}, {"languages": ["b"]}, {"types": ["text"]}, {"endings": ["%.txt"]}, {"id_paths": [""], "below": ["/"]}],
)
def test_of_too_many_chunks_the_first_by_id_are_scored(
    pool: Pool, monkeypatch: pytest.MonkeyPatch, filters: dict[str, Any]
) -> None:
    monkeypatch.setattr(keywords, "MAX_CANDIDATES", 20)
    index = Index(pool, ["every text says the same"] * 300)
    passing = range(1, 300, 2) if "languages" in filters else range(300)
    first = sorted(passing, key=lambda number: index.id.int ^ number)[:20]
    assert index.search("every same", limit=99, **filters) == first


def test_nothing_is_remembered_of_a_young_index(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keywords, "MIN_REMEMBERED", 2)
    index = Index(pool, [*(f"left {n}" for n in range(9)), "right"])
    index.run("UPDATE search_index_file SET live_chunks = 1 WHERE index_id = %s")
    assert len(index.search("left")) == 9
    assert index.id not in keywords._sizes
    assert not [key for key in keywords._shares if key[0] == index.id]
    monkeypatch.setattr(keywords, "SAMPLE_CHUNKS", 10)
    index.run("UPDATE search_index_file SET live_chunks = 10 WHERE index_id = %s")
    assert len(index.search("left right")) == 10
    assert keywords._sizes[index.id] == (10.0, 1.9)
    assert {key[2]: share for key, share in keywords._shares.items() if key[0] == index.id} == {"left": 0.9}


@pytest.mark.parametrize("field", ["text", "code"])
def test_no_query_is_an_error(pool: Pool, field: keywords.Field) -> None:
    index = Index(pool, ["fox and hound", "?!", "it's C:\\dir"])
    for nothing in ("", "  ", "+-*()&|!^~?:\\/", "\ud800", "\0", "😀", "a" * 9000, "日本", "zebra"):
        assert index.search(nothing, field) == [], nothing
    for fox in (
        '"fox',
        "fox & !cat:*",
        "(fox",
        "fox\0",
        "fox\ud800",
        "fox\\",
        " ".join(map(str, range(20_000))) + " foxes fox",
    ):
        assert index.search(fox, field)[:1] == [0] or len(fox) > 1000, fox
    assert index.search("C:\\dir", field) == [2]


def test_an_index_without_chunks_has_none_to_find(pool: Pool) -> None:
    assert Index(pool, []).search("fish") == []


def test_chunks_that_are_not_live_change_no_score(pool: Pool) -> None:
    index = Index(pool, ["fog at sea", "fog and a ferry", "a ferry sails", "nothing of it"])
    values = {**dict.fromkeys(FILTERS), "query": "ferry fog", "index_id": index.id, "limit": 10}
    before = keywords.search(pool, values, "text", IN_ENGLISH)
    assert len(before) == 3
    unfinished = "jsonb_build_object('id', gen_random_uuid(), 'live', false)"
    copied = f"INSERT INTO chunk SELECT (jsonb_populate_record(c, {unfinished})).* FROM chunk c, generate_series(1, 5)"
    index.run(f"{copied} WHERE c.index_id = %s")
    assert keywords.search(pool, values, "text", IN_ENGLISH) == before


def test_a_file_without_text_says_nothing_of_the_languages(pool: Pool) -> None:
    index = Index(pool, ["some text"])
    index.run("UPDATE search_index_file SET words_language = 'de' WHERE index_id = %s")
    for language in ("null", '"fr"'):
        changed = f'{{"key": "\\\\x{language.encode().hex()}", "live_chunks": 0, "words_language": {language}}}'
        index.run(
            "INSERT INTO search_index_file SELECT (jsonb_populate_record(f, jsonb_build_object('id', gen_random_uuid())"
            f" || '{changed}')).* FROM search_index_file f WHERE f.index_id = %s AND f.live_chunks > 0"
        )
    assert languages.of_index(pool, index.id) == frozenset({"de"})
