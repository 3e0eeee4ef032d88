"""Keyed hashes find what readable strings find, and show nothing else."""

from __future__ import annotations

import string
from collections.abc import Sequence
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.tokens.keywords import IN_ENGLISH, Keywords, keywords_of
from worker.vectors import CHECKED_ATTRIBUTES, Condition, Field, Leg, VectorRow
from worker.vectors.blind import GROUPS, Blind, BlindKey
from worker.vectors.rows import MAX_KEYWORD_BYTES
from worker.vectors.turbopuffer_rows import BlindRows, ReadableRows

KEY = BlindKey.of("a key of the tests")
NAMESPACE = Blind(KEY, "namespace")
#: Few letters, so that one value is often the beginning or the end of another.
VALUES = st.text(st.sampled_from("ab/.\u00e9"), max_size=8)


def holds(condition: Condition, value: str) -> bool:
    """Whether a readable value matches."""
    wanted = [str(each) for each in condition.values]
    if condition.op == "in":
        return value in wanted
    if condition.op == "prefix":
        return any(value == each or value.startswith(f"{each}/") for each in wanted)
    return value.endswith(tuple(wanted))


def matches(condition: Condition, value: str | None) -> bool:
    row = NAMESPACE.row(VectorRow(UUID(int=1), None, {condition.attribute: value}))
    array, hashes = NAMESPACE.condition(condition)
    stored = row[array]
    assert isinstance(stored, list)
    return not set(stored).isdisjoint(hashes)


@pytest.mark.parametrize("name", ["file_id_path", "json_pointer", "scope"])
@given(value=VALUES, wanted=st.lists(VALUES, max_size=3))
def test_a_value_is_found_by_what_it_is_and_lies_below(name: str, value: str, wanted: list[str]) -> None:
    for condition in (Condition(name, "in", wanted), Condition(name, "prefix", wanted)):
        assert matches(condition, value) == holds(condition, value)
        assert not matches(condition, None)


@given(value=VALUES, ending=st.text(st.sampled_from("ab"), max_size=3).map(lambda rest: f".{rest}"))
def test_a_name_is_found_by_its_ending(value: str, ending: str) -> None:
    condition = Condition("file_name", "suffix", [ending])
    assert matches(condition, value) == holds(condition, value)


def test_a_filter_without_hashes_is_an_error_and_finds_not_just_nothing() -> None:
    for condition in (Condition("symbol", "prefix", ["a"]), Condition("scope", "suffix", [".a"])):
        with pytest.raises(ValueError, match=condition.attribute):
            NAMESPACE.condition(condition)


def test_a_patch_changes_a_group_as_a_whole() -> None:
    with pytest.raises(ValueError, match="file_name"):
        NAMESPACE.attributes({"file_name": "a"})
    assert NAMESPACE.attributes({"level": 2}) == {"level": 2}
    whole = dict.fromkeys(GROUPS["file_terms"]) | {"file_name": "a"}
    assert NAMESPACE.attributes(whole).keys() == {"file_terms"}


WORDS = st.lists(st.text(string.ascii_letters, min_size=1, max_size=9), max_size=20)


@given(WORDS, WORDS)
def test_words_keep_their_number_and_nothing_else(text: Sequence[str], code: Sequence[str]) -> None:
    found = NAMESPACE.keywords(Keywords(" ".join(text), " ".join(code)))
    for hashes, words in zip(found, (text, code), strict=True):
        assert hashes == sorted(hashes)
        assert sorted(map(hashes.count, hashes)) == sorted(map(words.count, words))
        assert all(len(hashed) == 8 for hashed in hashes)
    assert set(found[0]).isdisjoint(found[1])
    assert found[0] == sorted(NAMESPACE.tokens("text", text))


def test_equal_words_differ_by_namespace_key_and_field() -> None:
    of = [(KEY, "a"), (KEY, "b"), (BlindKey.of("another key of the tests"), "a")]
    hashes = [tuple(Blind(*each).tokens(field, ["word"])) for each in of for field in ("text", "code")]
    assert len(set(hashes)) == 6
    assert Blind(KEY, "a").tokens("text", ["word"]) == Blind(KEY, "a").tokens("text", ["word"])
    assert KEY.id != BlindKey.of("another key of the tests").id


def test_a_row_has_no_readable_string() -> None:
    values = {name: f"readable {name}" for name in CHECKED_ATTRIBUTES if name not in {"level", "chunk_id"}}
    row = NAMESPACE.row(VectorRow(UUID(int=1), None, {**values, "level": 3, "chunk_id": "id"}))
    assert not [value for value in row.values() if "readable" in str(value)]
    assert row.keys() == {*GROUPS, "content_hash", "chunk_id", "level", "embedded", "generation"}
    assert (row["level"], row["chunk_id"], row["embedded"]) == (3, "id", False)


def test_lone_surrogates_have_hashes() -> None:
    assert matches(Condition("symbol", "in", ["\ud800"]), "\ud800")


FIELDS: tuple[Field, Field] = ("text", "code")
#: A sentence by language, with a word to ask for that stands in it in another form.
SENTENCES = {
    "en": ("The ferries were crossing the harbour", "ferry"),
    "de": ("Die Schröderwege führten durch die Häuser", "Haus"),
    "fr": ("Les bibliothèques étaient fermées", "bibliothèque"),
    "es": ("Las canciones antiguas del niño", "canción"),
    "ru": ("Старые книги лежали на столах", "книга"),
    "ar": ("ذهب الطلاب إلى المدرسة الجديدة", "المدرسة"),
    "zh": ("图书馆里有很多旧书", "图书馆"),
    "ja": ("東京の図書館で本を読む", "図書館"),
    "ko": ("도서관에서 책을 읽었다", "도서관에서"),
    "hi": ("पुस्तकालय में पुरानी किताबें हैं", "पुस्तकालय"),
    "th": ("ห้องสมุดมีหนังสือเก่า", "ห้องสมุด"),
    "tr": ("Kütüphanede eski kitaplar", "kitap"),
    "code": ("def parseHTTPRequest(raw_bytes): return C++", "parseHTTPRequest"),
}


@pytest.mark.parametrize("language", SENTENCES)
@pytest.mark.parametrize("phrase", [False, True])
def test_a_query_has_the_hashes_of_the_rows_that_it_finds(language: str, phrase: bool) -> None:
    text, asked = SENTENCES[language]
    written = frozenset({language}) if language != "code" else IN_ENGLISH
    row = keywords_of("a/b.txt", "", text, language if language != "code" else "en")
    hashes: dict[Field, list[str]] = dict(zip(FIELDS, NAMESPACE.keywords(row), strict=True))
    readable: dict[Field, list[str]] = {"text": row.text.split(), "code": row.code.split()}
    blind, plain = BlindRows(NAMESPACE), ReadableRows()
    for query in (text, asked, "zebra"):
        for field in FIELDS:
            leg = Leg(10, keywords=query, field=field, phrase=phrase, languages=written)
            found = [hashed in hashes[field] for hashed in blind.tokens(leg)]
            assert found == [token in readable[field] for token in plain.tokens(leg)]
    assert set(hashes["text"]) & set(blind.tokens(Leg(10, keywords=asked, languages=written)))


def test_a_message_of_the_store_shows_words_and_not_their_hashes() -> None:
    rows = BlindRows(NAMESPACE)
    legs = [Leg(10, keywords="ferry harbour", conditions=[Condition("symbol", "in", ["sail"])])]
    words = [*rows.tokens(legs[0]), *NAMESPACE.condition(legs[0].conditions[0])[1]]
    assert rows.readable(f"bad tokens {words}", legs) == "bad tokens ['ferri', 'harbour', 'ferryharbour', 'sail']"


def test_a_long_query_keeps_to_the_limit_of_the_store() -> None:
    leg = Leg(10, keywords=" ".join(f"w{number}" for number in range(3000)), field="code")
    assert len(" ".join(BlindRows(NAMESPACE).tokens(leg))) <= MAX_KEYWORD_BYTES
