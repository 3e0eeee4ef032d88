"""The cache of texts that recur, and the words that it divides texts into."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from worker.tokens import remembered
from worker.tokens.invisible import plain
from worker.tokens.keywords import _tokens, _words, code_words
from worker.tokens.language_words import _all_indexed, text_words
from worker.tokens.remembered import MAX_CHARACTERS, Remembered
from worker.tokens.spellings import numbered

#: Texts of what decides where words end: letters, digits, signs, marks, and scripts without spaces.
PARTS = [*"aZ9é.#+-_ \n\u0301水ก", ".net", "++", "C#", "ﬁ", "naïve-", "x" * 65]
TEXTS = st.lists(st.sampled_from(PARTS), max_size=12).map("".join)


def test_short_texts_are_computed_once() -> None:
    computed: list[str] = []

    def compute(text: str) -> str:
        computed.append(text)
        return text.upper()

    cache = Remembered(compute)
    short, long = "x" * MAX_CHARACTERS, "x" * (MAX_CHARACTERS + 1)
    assert [cache[text] for text in (short, long, short, long)] == [short.upper(), long.upper()] * 2
    assert computed == [short, long, long]


def test_a_full_cache_starts_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remembered, "MAX_ENTRIES", 2)
    cache = Remembered(str.upper)
    assert [cache[text] for text in "aba"] == ["A", "B", "A"]
    assert set(cache) == {"a", "b"}
    assert cache["c"] == "C"
    assert set(cache) == {"c"}


@given(TEXTS, st.sampled_from(["en", "de", "tr", "vi"]))
@example("(C++) i++", "en")
@example("(.NET) a.Net", "en")
@example(" .Net", "en")
@example(" .net", "en")
@example("C# #C c#d", "en")
def test_words_are_those_of_the_undivided_text(text: str, language: str) -> None:
    assert sorted(text_words(text, language).split()) == sorted(_all_indexed(plain(text), language).split())
    assert code_words(text).split() == [*" ".join(map(_tokens, _words(text))).split(), *numbered(plain(text))]
