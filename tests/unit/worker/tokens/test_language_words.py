"""Words of natural language, in any script."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from worker.tokens.language_words import MAX_WORD, query_words, text_words

ANY_TEXT = st.text(st.characters(exclude_categories=()))
LANGUAGES = st.sampled_from(["en", "de", "ru", "tr", "vi", "ar"])


@pytest.mark.parametrize(
    ("language", "text", "tokens"),
    [
        ("en", "Running users_of the big-cats", "run user of the big cat bigcat"),
        ("de", "Die Häuser, Straße", "die haus strass"),
        ("fr", "l'été à Évian", "l ete a evian"),
        ("ru", "Города API documents", "город api document"),
        ("de", "Города in Häusern", "город in haus"),
        ("en", "Йод हिन्दी", "йод हिन्द"),
        ("vi", "Thủ đô", "thủ đô"),
        ("tr", "İstanbul'daki kitaplar", "istanbul daki kitap"),
        ("tr", "DİKKATİ", "dikkat"),
        ("da", "Smørrebrød", "smorrebrod"),
        ("en", "東京タワー", "東京 京タ タワ ワー 東 京"),
        ("en", "水 ไทย 물은", "水 ไท ทย 물은 물 은"),
        ("en", "C++ C# .NET i++ Node.net", "c++ c c# c .net net i++ i node net"),
        ("en", "a\0b\ud800c", "a b c"),
        ("en", "data-sets or data sets, 3.5mm", "data set dataset or data set 3 5mm 3.5mm dataset"),
        ("de", "data sets", "data set"),
        (
            "en",
            "\U0001f680\U0001f44d\U0001f3fd \u2764\ufe0f \U0001f1e9\U0001f1ea",
            "\U0001f680 \U0001f44d \u2764 \U0001f1e9\U0001f1ea",
        ),
        ("en", "", ""),
    ],
)
def test_words_become_stems(language: str, text: str, tokens: str) -> None:
    assert text_words(text, language) == tokens


def test_data_leaves_no_tokens() -> None:
    assert text_words("x" * MAX_WORD, "en") == "x" * MAX_WORD
    assert text_words("x" * (MAX_WORD + 1), "en") == ""
    assert text_words("é" * 1_000_000 + " end", "en") == "end"
    assert len(text_words("水" * 100_000, "en").split()) == 199_999


@given(ANY_TEXT, LANGUAGES)
def test_tokens_are_short_and_hold_nothing_but_words(text: str, language: str) -> None:
    tokens = text_words(text, language).split()
    assert all(0 < len(token) <= 3 * MAX_WORD for token in tokens)
    assert not set("".join(tokens)) & set(" \0'\"\\:&|!()<>*/")
    "".join(tokens).encode()


@given(ANY_TEXT, LANGUAGES, LANGUAGES)
@example("_", "en", "en")
def test_a_text_finds_itself_in_each_language_of_the_index(text: str, language: str, other: str) -> None:
    asked = query_words(text, {language, other})
    assert bool(asked) == bool(text_words(text, language))
    of_text = set(text_words(text, language).split()) | set(text_words(text, other).split())
    # beyond them it asks for joined spellings
    assert (not asked) == of_text.isdisjoint(asked)


@pytest.mark.parametrize(
    ("query", "languages", "tokens"),
    [
        ("how does the pump work", {"en"}, "pump work pumpwork"),
        ("to be or not to be", {"en"}, "to be or not tobe beor ornot notto"),
        ("die Pumpe der Häuser", {"de"}, "pump haus pumped"),
        ("die Pumpe der Häuser", {"de", "en"}, "pump haus hauser pumped"),
        ("pump of the houses", {"de", "en"}, "pump hous pumpof"),
        ("Die", {"de", "en"}, "die"),
        ("что такое насос", {"ru"}, "так насос такоенасос"),
        ("was ist 東京", {"de"}, "東京"),
        ("水", set(), "水"),
        ("有給は何日ありますか", {"ja"}, "有給 給は は何 何日 日あ"),
        ("ありますか", {"ja"}, "あり りま ます すか"),
        ("しょうが", {"ja"}, "しょ ょう うが"),
        ("らーめんとからし", {"ja"}, "らー ーめ めん んと とか から らし"),
        ("とき 保護", {"ja"}, "とき 保護 とき保護"),
        ("このデータはどこですか", {"ja"}, "この のデ デー ータ タは はど こで"),
        ("PDFはどこですか", {"ja"}, "pdf はど こで"),
        ("isです", {"en"}, "です"),
        (f"{'a' * 65}です", {"ja"}, "です"),
        ("C++", {"en"}, "c++ cplusplus cpp"),
        ("mice", {"en"}, "mice mous"),
        ("mice", {"de"}, "mic"),
        ("sign off", {"en"}, "sign signoff"),
        ("?!", {"en"}, ""),
    ],
)
def test_a_query_leaves_stop_words_out_and_counts_in_each_language(
    query: str, languages: set[str], tokens: str
) -> None:
    assert query_words(query, languages) == tokens.split()
