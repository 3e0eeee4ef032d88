"""Words of LanceDB tables in memory: they answer as Lance answers over a new table of the same rows."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from threading import Barrier, Thread
from typing import Any
from uuid import UUID

import lance
import numpy as np
import pyarrow as pa
import pytest
from lance.query import MatchQuery

from tests.contract.stores import ALWAYS, D, axis, numbers, warmed
from worker.tokens.keywords import Keywords, keywords_of
from worker.tokens.normal_forms import normalized
from worker.vectors import Condition, Leg, Patch, Ranked, Value, VectorRow
from worker.vectors.lance import growing_rows, indexes, searcher, word_memory, word_search
from worker.vectors.lance.bm25 import folded
from worker.vectors.lance.compaction import Thresholds
from worker.vectors.lance.growing_rows import GrowingNamespaceRows
from worker.vectors.lance.searcher import FIRST_READ
from worker.vectors.lance.store import LanceStore
from worker.vectors.lance.vector_cache import MAX_BYTES, RowIds, rows
from worker.vectors.lance.word_memory import WordMemory

SPACE = "words"
#: Frequent words first. Some differ in accents only, and so are one word to Lance.
WORDS = [
    *("get", "set", "user", "getUser", "get_user", "file", "read_file", "naïve", "naive", "café", "cafe", "Straße"),
    *("strasse", "smörgåsbord", "HTTPServer", "парсер", "日本語", "retry-after", "os.path", "3.11", "C++", "zebra"),
]
QUERIES = [
    *("get", "user file", "getUser", "cafe café", "naive", "Straße strasse", "read_file HTTPServer zebra"),
    *("парсер", "日本", "missing", "missing zebra", "C++ 3.11", "smorgasbord"),
]
PHRASES = ["user file", "get user", "missing file"]


class Model:
    """A table, and the words of its rows as they should be."""

    def __init__(self, chance: Random) -> None:
        self.chance = chance
        self.rows: dict[int, Keywords | None] = {}
        self.next = 0

    def keywords(self) -> Keywords | None:
        length = self.chance.choice([0, 1, 2, 5, 30, 200])
        ranks = [min(int(self.chance.expovariate(0.2)), len(WORDS) - 1) for _ in range(length)]
        text = " ".join(WORDS[rank] for rank in ranks)
        return None if self.chance.random() < 0.1 else keywords_of("", "", text, "en")

    def change(self, store: LanceStore) -> None:
        """Add rows, replace some, patch the words of some, and delete some."""
        new = range(self.next, self.next + self.chance.choice([0, 1, 3, 40]))
        self.next = new.stop
        chosen = self.chance.sample([*self.rows], min(len(self.rows), self.chance.choice([0, 1, 3, 12])))
        replaced, patched, deleted = chosen[::3], chosen[1::3], chosen[2::3]
        written = {number: self.keywords() for number in [*new, *replaced]}
        patches = {number: self.keywords() or Keywords("", "") for number in patched}
        store.write(
            SPACE,
            D,
            [
                VectorRow(UUID(int=number), axis(number % D, number / 7), attributes(number), words)
                for number, words in written.items()
            ],
            [Patch(UUID(int=number), {}, words) for number, words in patches.items()],
            [UUID(int=number) for number in deleted],
        )
        self.rows = {number: words for number, words in self.rows.items() if number not in deleted} | written | patches

    def written_anew(self, directory: Path) -> LanceStore:
        store = LanceStore(directory, has_keywords=True, word_bytes=0)
        store.write(
            SPACE, D, [VectorRow(UUID(int=n), axis(n % D), attributes(n), words) for n, words in self.rows.items()]
        )
        return store


def attributes(number: int) -> dict[str, Value]:
    return {"file_name": f"{number % 3}"}


def legs(limit: int) -> list[Leg]:
    of_queries = [Leg(limit, keywords=query, field=field) for query in QUERIES for field in ("text", "code")]
    return [*of_queries, *(Leg(limit, keywords=phrase, field="code", phrase=True) for phrase in PHRASES)]


def restricted(found: Ranked, remainders: Sequence[str], limit: int) -> Ranked:
    """The best rows whose `attributes` are these."""
    kept = [row for row in found if str(UUID(row.id).int % 3) in remainders][:limit]
    return Ranked([row.id for row in kept], [row.value for row in kept])


def searched_in_memory(store: LanceStore, legs: Sequence[Leg], monkeypatch: pytest.MonkeyPatch) -> list[Ranked]:
    def never(*_: object, **__: object) -> Any:
        raise AssertionError("Lance searched")

    with monkeypatch.context() as patch:
        patch.setattr(word_search, "found", never)
        return store.search(SPACE, legs)


def assert_same(found: Sequence[Ranked], expected: Sequence[Ranked]) -> None:
    for leg, mine, others in zip(legs(0), found, expected, strict=True):
        assert mine.values == pytest.approx(others.values, rel=1e-5, abs=1e-5), leg
        # rows whose scores differ by less than the precision may change places
        assert sorted(mine.ids) == sorted(others.ids) or mine.values[-1] == pytest.approx(others.values[-1]), leg


@pytest.mark.parametrize("seed", range(3))
def test_random_edits_leave_hits_and_scores_as_of_a_new_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    chance = Random(seed)
    monkeypatch.setattr(word_memory, "FEW_ROWS", chance.choice([0, 10, 1000]))
    thresholds = chance.choice([ALWAYS, Thresholds()])
    store, model = LanceStore(tmp_path / "edited", has_keywords=True, thresholds=thresholds), Model(chance)
    plain = LanceStore(tmp_path / "edited", has_keywords=True, word_bytes=0)
    model.rows = {number: model.keywords() for number in range(chance.choice([5, 150]))}
    model.next = len(model.rows)
    store.write(
        SPACE, D, [VectorRow(UUID(int=n), axis(n % D), attributes(n), words) for n, words in model.rows.items()]
    )
    for step in range(6):
        warmed(store, SPACE)
        anew = model.written_anew(tmp_path / f"anew-{step}")
        for limit in (3, 1000):
            found = searched_in_memory(store, legs(limit), monkeypatch)
            assert_same(found, anew.search(SPACE, legs(limit)))
            all_found = searched_in_memory(store, legs(1000), monkeypatch)
            for remainders in (["0", "2"], ["1"], ["3"]):
                filter_ = [Condition("file_name", "in", remainders)]
                filtered = [replace(leg, conditions=filter_) for leg in legs(limit)]
                expected = [restricted(each, remainders, limit) for each in all_found]
                assert searched_in_memory(store, filtered, monkeypatch) == expected
        for mine, others in zip(found, plain.search(SPACE, legs(limit)), strict=True):
            assert sorted(mine.ids) == sorted(others.ids)
        for _ in range(chance.choice([1, 3])):
            model.change(store)
        if chance.random() < 0.5:
            store.optimize(SPACE)


def test_vectors_that_follow_leave_the_words_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The words were there before. So they are neither counted again, nor do rows take more memory."""
    monkeypatch.setattr(growing_rows, "SPARE_ROWS", 0)
    store, model = LanceStore(tmp_path / "edited", has_keywords=True), Model(Random(0))
    model.rows = {number: keywords_of("", "", " ".join(WORDS[: number + 1]), "en") for number in range(12)}
    store.write(SPACE, D, [VectorRow(UUID(int=n), None, {}, words) for n, words in model.rows.items()])
    for number in range(FIRST_READ):
        store.search(SPACE, [Leg(1 + number, keywords="get")])
    expected = model.written_anew(tmp_path / "anew").search(SPACE, legs(9))
    store._searcher()._background.wait()
    growing, words = _in_memory(store)
    counted = words._state
    for start in (0, 4, 8):
        written = range(start, start + 4)
        store.write(SPACE, D, [VectorRow(UUID(int=n), axis(n % D), {}, model.rows[n], 1) for n in written])
        assert_same(searched_in_memory(store, legs(9), monkeypatch), expected)
        found = store.search(SPACE, [Leg(20, vector=axis(start % D))])[0]
        assert len(found) == start + 4
        assert found.values[0] == pytest.approx(0, abs=1e-6)
    assert _in_memory(store) == (growing, words)
    assert words._state is counted
    assert len(growing.latest[1].unit) == 12


def test_words_that_change_as_their_vectors_come_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file may be renamed while it lacks its vectors."""
    store, model = LanceStore(tmp_path / "edited", has_keywords=True), Model(Random(0))
    model.rows = {number: keywords_of("", "", " ".join(WORDS[: number + 1]), "en") for number in range(12)}
    store.write(SPACE, D, [VectorRow(UUID(int=n), None, {}, words) for n, words in model.rows.items()])
    warmed(store, SPACE)
    model.rows[3] = keywords_of("", "", "zebra", "en")
    store.write(SPACE, D, [VectorRow(UUID(int=n), axis(n % D), {}, model.rows[n], 1) for n in range(6)])
    expected = model.written_anew(tmp_path / "anew").search(SPACE, legs(9))
    assert_same(searched_in_memory(store, legs(9), monkeypatch), expected)
    assert len(_in_memory(store)[0].latest[1].unit) == 13


def test_filters_follow_rows_that_stay_in_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row may get other attributes with its vector, such as the ids of folders that have the names of others."""
    store = LanceStore(tmp_path, has_keywords=True)
    words = keywords_of("", "", "get", "en")
    store.write(SPACE, D, [VectorRow(UUID(int=n), None, {"file_id_path": "/a"}, words) for n in range(4)])
    warmed(store, SPACE)

    def found(path: str) -> list[list[int]]:
        conditions = [Condition("file_id_path", "in", [path])]
        asked = [Leg(9, keywords="get", conditions=conditions), Leg(9, vector=axis(0), conditions=conditions)]
        return [sorted(numbers(each)) for each in searched_in_memory(store, asked, monkeypatch)]

    assert found("/a") == [[0, 1, 2, 3], []]
    assert found("/b") == [[], []]
    for number, path in enumerate("abb"):
        store.write(SPACE, D, [VectorRow(UUID(int=number), axis(0), {"file_id_path": f"/{path}"}, words, 1)])
    assert found("/a") == [[0, 3], [0]]
    assert found("/b") == [[1, 2], [1, 2]]
    assert len(_in_memory(store)[0].latest[1].unit) == 4


def _in_memory(store: LanceStore) -> tuple[GrowingNamespaceRows, WordMemory]:
    """The rows of the namespace in memory, and their words."""
    searching = store._searcher()
    return searching._rows_in_memory._cached[SPACE][1], searching._word_memories._kept._cached[SPACE][1]


def test_a_compaction_that_replaces_all_indexes_leaves_rows_and_words_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The files of the indexes that a search knew are gone before the next search."""
    store, model = LanceStore(tmp_path / "edited", has_keywords=True, thresholds=ALWAYS), Model(Random(0))
    model.rows = {number: keywords_of("", "", " ".join(WORDS[: number + 1]), "en") for number in range(12)}
    for number, words in model.rows.items():
        store.write(SPACE, D, [VectorRow(UUID(int=number), axis(number % D), {}, words, generation=1)])
    warmed(store, SPACE)
    before, indexes = _in_memory(store), tmp_path / "edited" / f"{SPACE}.lance" / "_indices"
    known = {*indexes.iterdir()}
    store.optimize(SPACE)
    assert known.isdisjoint(indexes.iterdir())
    found = searched_in_memory(store, legs(9), monkeypatch)
    assert_same(found, model.written_anew(tmp_path / "anew").search(SPACE, legs(9)))
    assert _in_memory(store) == before


@pytest.mark.parametrize("written_again", [0, 3])
def test_a_compaction_leaves_rows_and_words_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written_again: int
) -> None:
    """It gives rows other row ids, and Lance itself would answer until all were read again."""
    monkeypatch.setattr(searcher, "FEW_ROWS", 0)
    monkeypatch.setattr(growing_rows, "SPARE_ROWS", 0)
    store, model = LanceStore(tmp_path / "edited", has_keywords=True, thresholds=ALWAYS), Model(Random(0))
    model.rows = {number: keywords_of("", "", " ".join(WORDS[: number + 1]), "en") for number in range(12)}
    for number, words in model.rows.items():
        store.write(SPACE, D, [VectorRow(UUID(int=number), axis(number % D), {}, words, generation=1)])
    warmed(store, SPACE)
    before, _ = _in_memory(store)
    for number in range(written_again):
        model.rows[number] = keywords_of("", "", WORDS[-number - 1], "en")
        row = VectorRow(UUID(int=number), axis((number + 1) % D), {}, model.rows[number], generation=2)
        store.write(SPACE, D, [row])
    store.optimize(SPACE, writing=True)
    # the first search begins to compare the rows
    store.search(SPACE, [Leg(9, keywords="get")])
    store._searcher()._background.wait()
    found = searched_in_memory(store, legs(9), monkeypatch)
    assert_same(found, model.written_anew(tmp_path / "anew").search(SPACE, legs(9)))
    assert store.search(SPACE, [Leg(1, vector=axis(1 % D))])[0].ids == [str(UUID(int=0 if written_again else 1))]
    after, _ = _in_memory(store)
    assert after is before
    assert len(after.latest[1].unit) == 12 + written_again


def test_rows_that_are_deleted_count_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = Model(Random(0))
    model.rows = {number: keywords_of("", "", " ".join(WORDS[: number + 1]), "en") for number in range(9)}
    store = LanceStore(tmp_path / "edited", has_keywords=True)
    store.write(SPACE, D, [VectorRow(UUID(int=n), axis(n % D), {}, words) for n, words in model.rows.items()])
    for step in range(3):
        warmed(store, SPACE)
        found = searched_in_memory(store, legs(9), monkeypatch)
        assert_same(found, model.written_anew(tmp_path / f"anew-{step}").search(SPACE, legs(9)))
        # nothing but deletes: no new words are read
        store.write(SPACE, D, deletes=[UUID(int=step)])
        del model.rows[step]


def test_equal_texts_have_equal_scores_whenever_they_were_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lance itself scores rows that are not indexed yet apart."""
    texts = ["apples and pears", "apples", "pears", "plums"]
    store = LanceStore(tmp_path, has_keywords=True, thresholds=ALWAYS)
    written = [VectorRow(UUID(int=n), axis(n), {}, keywords_of("", "", text, "en")) for n, text in enumerate(texts)]
    store.write(SPACE, D, written)
    store.optimize(SPACE)
    store.write(SPACE, D, [VectorRow(UUID(int=n + 4), axis(n), {}, written[1].keywords) for n in range(3)])
    leg = Leg(10, keywords="apples")
    by_lance = dict(LanceStore(tmp_path, has_keywords=True, word_bytes=0).search(SPACE, [leg])[0])
    warmed(store, SPACE)
    in_memory = dict(searched_in_memory(store, [leg], monkeypatch)[0])
    ids = [str(UUID(int=number)) for number in (1, 4, 5, 6)]
    assert len({in_memory[id_] for id_ in ids}) == 1
    assert len({by_lance[id_] for id_ in ids}) > 1


def test_letters_are_folded_as_by_lance(tmp_path: Path) -> None:
    letters = [
        letter
        for letter in map(chr, [*range(0x80, 0x3000), *range(0xA640, 0xAC00), *range(0xFB00, 0x10000)])
        if unicodedata.category(letter)[0] in "LMN" and normalized("NFKC", letter) == letter == letter.lower()
    ]
    # a letter between ASCII ones, so that only the row of this letter has the token
    tokens = {letter: f"{ord(letter):x}q{letter}q" for letter in letters}
    rows = pa.table({"id": letters, "words": [tokens[letter] for letter in letters]})
    opened = lance.write_dataset(rows, tmp_path / "t.lance")
    indexes.create(opened, "words")

    def having(tokens: list[str]) -> set[str]:
        found: set[str] = set()
        for start in range(0, len(tokens), 8_000):
            query = MatchQuery(" ".join(tokens[start : start + 8_000]), "words")
            table = opened.scanner(columns=["id"], limit=len(letters), full_text_query=query).to_table()
            found |= {*table["id"].to_pylist()}
        return found

    assert having([folded(tokens[letter]) for letter in letters]) == {*letters}
    changed = {letter for letter in letters if folded(tokens[letter]) != tokens[letter]}
    assert {"é", "ø", "ß"} < changed
    # Lance has no plain letter for any other
    plain = [f"{ord(letter):x}q{ascii_}q" for letter in letters if letter not in changed for ascii_ in ("", "a", "e")]
    assert having(plain) == set()


@pytest.mark.parametrize(("word_bytes", "is_kept"), [(0, False), (20_000, False), (200_000, True)])
def test_words_take_at_most_their_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, word_bytes: int, *, is_kept: bool
) -> None:
    store = LanceStore(tmp_path, has_keywords=True, word_bytes=word_bytes)
    texts = [" ".join(f"word{n * 7 + m}" for m in range(10)) for n in range(60)]
    words = [keywords_of("", "", text, "en") for text in texts]
    store.write(SPACE, D, [VectorRow(UUID(int=n), axis(n % D), {}, of_row) for n, of_row in enumerate(words)])
    warmed(store, SPACE)
    leg = Leg(10, keywords="word14")
    if is_kept:
        assert numbers(searched_in_memory(store, [leg], monkeypatch)[0]) == [1, 2]
        kept = store._searcher()._word_memories._kept._cached
        assert 20_000 < kept.currsize <= word_bytes
    else:
        assert numbers(store.search(SPACE, [leg])[0]) == [1, 2]
        with pytest.raises(AssertionError, match="Lance searched"):
            searched_in_memory(store, [Leg(9, keywords="word14")], monkeypatch)


@pytest.mark.parametrize(
    ("max_bytes", "batches", "is_kept"), [(10_000, 4, False), (300_000, 20, False), (1_000_000, 20, True)]
)
def test_reading_ends_once_postings_take_too_much(max_bytes: int, batches: int, *, is_kept: bool) -> None:
    row_ids = np.arange(1_000, dtype=np.uint64)
    growing = GrowingNamespaceRows(
        1, rows([""] * 1_000, row_ids, np.ones((1_000, 1), np.float32), embedded=row_ids > 0), MAX_BYTES
    )
    read = []

    def texts(columns: Sequence[str], _: RowIds | None) -> Iterator[pa.RecordBatch]:
        for start in range(0, 1_000, 50):
            read.append(start)
            numbers = range(start, start + 50)
            of_rows = pa.array([" ".join(f"w{number}x{n}" for n in range(3)) for number in numbers])
            yield pa.record_batch([row_ids[start : start + 50], *[of_rows for _ in columns]], ["_rowid", *columns])

    memory = WordMemory(growing, ["words", "code"])
    memory.add(growing.latest[1], texts, max_bytes)
    assert len(read) == batches
    assert memory.is_too_large() is not is_kept
    assert (memory.nbytes > max_bytes / 2) is is_kept


def test_words_leave_the_memory_with_their_rows(tmp_path: Path) -> None:
    store = LanceStore(tmp_path, has_keywords=True)
    for space in ("one", "two"):
        store.write(space, D, [VectorRow(UUID(int=1), axis(1), {}, keywords_of("", "", "word", "en"))])
    warmed(store, "one")
    searcher = store._searcher()
    assert [*searcher._word_memories._kept._cached] == ["one"]
    store.drop("one")
    warmed(store, "two")
    assert [*searcher._word_memories._kept._cached] == ["two"]
    assert [*searcher._rows_in_memory._cached] == ["two"]


def test_searches_during_edits_see_whole_states(tmp_path: Path) -> None:
    """Each edit replaces all words. A search finds those of one state: all rows have the word, and equal scores."""
    store = LanceStore(tmp_path, has_keywords=True)
    count, edits = 40, 6

    def write(edit: int) -> None:
        words = keywords_of("", "", "common " + "other " * edit, "en")
        store.write(SPACE, D, [VectorRow(UUID(int=n), axis(n % D), {}, words, edit) for n in range(count)])

    write(0)
    warmed(store, SPACE)
    begin, ended = Barrier(4), False
    wrong: list[Ranked] = []

    def search() -> None:
        begin.wait()
        number = 0
        while not ended:
            number += 1
            vector = axis(0) + np.float32(1e-3 * number)
            found = store.search(SPACE, [Leg(100, keywords="common"), Leg(1, vector=vector)])[0]
            if len(found) != count or len({round(value, 6) for value in found.values}) != 1:
                wrong.append(found)

    threads = [Thread(target=search) for _ in range(3)]
    for thread in threads:
        thread.start()
    begin.wait()
    for edit in range(1, edits + 1):
        write(edit)
        store.optimize(SPACE)
    ended = True
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_filtered_search_goes_on_while_others_read_newer_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = LanceStore(tmp_path, has_keywords=True)
    asked = Leg(9, keywords="get", conditions=[Condition("file_type", "in", ["py"])])

    def write(numbers: range) -> None:
        words = keywords_of("", "", "get user", "en")
        store.write(SPACE, D, [VectorRow(UUID(int=n), axis(n % D), {"file_type": "py"}, words) for n in numbers])

    def found(self: WordMemory, *args: Any) -> Ranked | None:
        if newer:
            write(newer.pop())
            store.search(SPACE, [Leg(9, keywords="user")])
        return find(self, *args)

    find, newer = WordMemory.found, [range(4, 6)]
    write(range(4))
    warmed(store, SPACE)
    monkeypatch.setattr(WordMemory, "found", found)
    assert sorted(numbers(store.search(SPACE, [asked])[0])) == [0, 1, 2, 3]
    assert newer == []
    assert len(store.search(SPACE, [replace(asked, limit=8)])[0]) == 6


def test_rows_keep_their_ids_if_memory_is_short_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = LanceStore(tmp_path, has_keywords=True)

    def write(numbers: range) -> None:
        words = [keywords_of("", "", f"word{n}", "en") for n in numbers]
        written = zip(numbers, words, strict=True)
        store.write(SPACE, D, [VectorRow(UUID(int=n), axis(n % D, n / 7), {}, each) for n, each in written])

    def advanced(*args: Any) -> Any:
        if short:
            raise short.pop()
        return advance(*args)

    advance, short = growing_rows._advanced, [MemoryError()]
    write(range(8))
    warmed(store, SPACE)
    monkeypatch.setattr(growing_rows, "_advanced", advanced)
    write(range(8, 12))
    with pytest.raises(MemoryError):
        store.search(SPACE, [Leg(1, keywords="word9")])
    write(range(12, 15))
    for number in range(15):
        asked = [Leg(1, keywords=f"word{number}"), Leg(1, vector=axis(number % D, number / 7))]
        assert [numbers(each) for each in searched_in_memory(store, asked, monkeypatch)] == [[number], [number]]


def test_words_beyond_their_limit_are_not_read_for_a_comparison(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = LanceStore(tmp_path, has_keywords=True, word_bytes=6_000)
    words = [keywords_of("", "", f"get user{n}", "en") for n in range(400)]
    store.write(SPACE, D, [VectorRow(UUID(int=n), None, {}, words[n]) for n in range(400)])
    warmed(store, SPACE)
    assert _in_memory(store)[1].is_too_large()
    monkeypatch.setattr(WordMemory, "are_same", None)
    store.write(SPACE, D, [VectorRow(UUID(int=n), axis(n % D), {}, words[n], 1) for n in range(400)])
    assert len(store.search(SPACE, [Leg(400, vector=axis(2))])[0]) == 400
