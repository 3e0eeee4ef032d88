"""What finds words fast gives what the plain definitions give, in texts of every kind of character."""

from __future__ import annotations

import re
import sys
from itertools import pairwise

from hypothesis import example, given
from hypothesis import strategies as st

from worker.tokens.invisible import _DIVIDED, _DOT, _HIDING, _NORMAL_OF_WINDOWS, _may_hide, plain
from worker.tokens.keywords import _PARTS, MAX_PARTS, _parts_by_case, _tokens, _words, keywords_of
from worker.tokens.language_words import _all_indexed, _token, groups, stems
from worker.tokens.normal_forms import normalized
from worker.tokens.spellings import (
    _LOOSE_JOINTS,
    _NUMBER_JOINTS,
    _VERSION,
    MAX_APART,
    _compounds,
    _is_stop_word,
    canonical,
    compounds,
    hash_in,
    is_hash,
    numbered,
    short_hash,
)

#: Characters of each class that decide something, and words that belong together.
PARTS = [
    *"aZé9٥५½²æ大 ",  # noqa: RUF001 - foreign letters and digits are the point
    *"\n\t.,-_+#/&'\u2019?=\u00a0\u2028\u00ad\u200b\u0301\u05b0\u3164\ufe0f\U0001f680\U000e0020",
    *(
        "ISO",
        "27001",
        "32",
        "GB",
        "the",
        "TCP",
        "IP",
        "v6",
        "km",
        "h",
        "Mbit",
        "   ",
        "Reilly",
        "data",
        "sets",
        "time-",
        "3.11",
        "x" * MAX_APART,
    ),
]
TEXTS = st.lists(st.sampled_from(PARTS) | st.characters(codec="utf-8"), max_size=24).map("".join)
NAMES = st.lists(
    st.sampled_from(
        [*"aZé9\u0665\u00b2大._-+#", "v1", "beef", "12", "9fceb02a1", "g9fceb02", "Foo", "foo", ".net", "__"]
    ),
    min_size=1,
    max_size=18,
).map("".join)
CAPITALS = "[A-Z][A-Z0-9]{0,4}"
NAME = r"[^\W\d_]+(?:[.-][^\W\d_]+)*"
APART = [
    (r"(?<=[^\W\d_]) {1,3}(?=\d)", NAME, r"\d{1,16}(?:\.\d{1,8}){0,4}"),
    (r"(?<=\d) {1,3}(?=[^\W\d_])", r"\d+(?:\.\d+)*", r"[^\W\d_]{1,5}"),
    (r"(?<=[^\W\d_]) {1,3}(?=[vV]\d)", NAME, r"[vV]\d{1,4}(?:\.\d{1,4}){0,3}"),
    (r"/(?=[A-Z0-9])(?<=[A-Z]/)", CAPITALS, rf"{CAPITALS}|\d{{1,2}}"),
    (r"-\n[ \t]{0,40}", r"[^\W\d_]{2,}", r"[^\W\d_]{2,}"),
    (r"/(?=[hs])(?<=[mBbt]/)", "km|[kKMGT]i?[Bb]|[kKMGT]bit", "[hs]"),
    (r"&(?=[A-Z])(?<=[A-Z]&)", CAPITALS, CAPITALS),
    (r"'(?=[A-Z])(?<=[A-Z]')", "[A-Z]", "[A-Z][a-z]{2,15}"),
    ("\u2019(?=[A-Z])(?<=[A-Z]\u2019)", "[A-Z]", "[A-Z][a-z]{2,15}"),
]


def apart(text: str) -> list[str]:
    """What a text writes apart, by searching for each rule at each place."""
    found = []
    for between, before, after in APART:
        for gap in re.finditer(between, text):
            start = max(0, gap.start() - MAX_APART)
            first = re.compile(rf"(?<![\w.-])(?:{before})\Z").search(text, start, gap.start())
            second = re.compile(rf"(?:{after})(?!\w)").match(text, gap.end())
            if first and second and not _is_stop_word(first[0]) and not _is_stop_word(second[0]):
                found.append(canonical(f"{first[0]}-{second[0]}").lower())
    return found


def joined_by_table(words: list[str]) -> list[str]:
    """The compounds of the table among neighbours."""
    pairs = [(first, second.strip("._+#-").lower()) for first, second in pairwise(words)]
    return [f"{first}{second}".lower() for first, second in pairs if second in _compounds().get(first, ())]


def spelled(word: str) -> str:
    """The canonical spelling, by patterns alone."""
    joined = _NUMBER_JOINTS.sub("-", _LOOSE_JOINTS.sub("", word))
    return _VERSION.sub("", joined) if joined[:1] in "vV" else joined


def tokens_of(word: str) -> str:
    """The tokens of a word, without any shortcut for frequent kinds."""
    parts = _PARTS.findall(word) if word.isascii() else _parts_by_case(word)
    parts = parts if len(parts) <= MAX_PARTS else []
    names = [name for name in re.split("[.-]", word.rstrip("+#")) if name]
    if word.isalnum():
        found = [word, short_hash(word)] if is_hash(word) else [word, *parts]
    elif len(names) > 1 or "." in word or word[-1] in "+#":
        found = [spelled(word), *map(spelled, names), *filter(None, map(hash_in, names)), *parts]
    else:
        found = [spelled(word), *parts]
    return " ".join(dict.fromkeys(found)).lower()


@given(NAMES)
@example("_a.b_")
@example("1.2-b")
def test_canonical_spellings_follow_their_patterns(word: str) -> None:
    assert canonical(word) == spelled(word)


@given(NAMES)
@example("data.load_all")
@example(".".join("abcdefghijklmnopq"))
@example("v1.2-3-g9fceb02")
def test_tokens_of_frequent_words_are_those_of_any_word(text: str) -> None:
    assert [_tokens(word) for word in _words(text)] == [tokens_of(word) for word in _words(text)]


@given(TEXTS)
@example("x" * MAX_APART + " 7")
@example("x" * (MAX_APART + 1) + " 7")
@example("\u0665 kg")
@example("a \u0665")
def test_what_is_written_apart_is_found(text: str) -> None:
    assert numbered(text) == apart(text)


@given(TEXTS)
@example("\u0130stanbul \u00c9T\u00c9 .NET C++ ISO 27001")
def test_all_tokens_are_in_lower_case(text: str) -> None:
    """The indexes of LanceDB do not change the case of tokens."""
    for language in ("en", "vi", ""):
        found = keywords_of(text, "", text, language)
        assert (found.text, found.code) == (found.text.lower(), found.code.lower())


@given(TEXTS)
def test_groups_end_where_no_word_goes_on(text: str) -> None:
    assert groups(text) == re.findall("[A-Za-z0-9_.+#\x80-\U0010ffff-]+", text)


@given(TEXTS)
def test_compounds_are_those_of_the_table(text: str) -> None:
    assert compounds(groups(text)) == joined_by_table(groups(text))


@given(TEXTS)
def test_a_plain_text_hides_nothing(text: str) -> None:
    normal = _DIVIDED.sub("", normalized("NFKC", text).translate(_NORMAL_OF_WINDOWS))
    shown = _DOT.sub("", normalized("NFKC", _HIDING.sub("", normal)) if _HIDING.search(normal) else normal)
    assert plain(text) == shown.replace("\u2010", "-").replace("\u2013", "-")


def test_each_hidden_character_is_looked_for() -> None:
    hidden = filter(_HIDING.match, map(chr, range(sys.maxunicode + 1)))
    assert [ascii(character) for character in hidden if not _may_hide(f"a{character}b")] == []


@given(st.lists(st.sampled_from(["data", "Data", "set", "sets", "Sets.", "-", "_", "time", "out", "x-", "C#"])))
def test_stems_are_those_of_each_group_and_of_compounds(words: list[str]) -> None:
    expected = [*(_all_indexed(word, "en") for word in words), *(_token(word, "en") for word in compounds(words))]
    assert stems(words, "en") == " ".join(filter(None, expected))
