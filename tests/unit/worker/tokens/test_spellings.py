"""Which spellings are one word, by the tokens of texts and queries alone."""

from __future__ import annotations

import re
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.tokens.keywords import IN_ENGLISH, keywords_of, query_tokens
from worker.tokens.spellings import (
    JOINED_NAMES,
    LONG_HASH,
    MAX_APART,
    MAX_JOINED_WORDS,
    MAX_WHOLE_NUMBERS,
    SHORT_HASH,
    joined,
    numbered,
)

#: Spellings that find each other, beyond those that every keyword index is asked for.
ALIKE = [
    ("A4", "A 4"),
    ("Windows 11", "windows11"),
    ("5 kg", "5kg"),
    ("512MB", "512 MB", "512-MB"),
    ("2.5 GHz", "2.5GHz"),
    ("CI/CD", "CICD", "CI-CD"),
    ("AT&T", "ATT"),
    ("L'Oréal", "LOreal"),
    ("O\u2019Reilly", "oreilly"),
    ("front-end", "frontend", "front end"),
    ("real-time", "realtime", "real time"),
    ("ISO  27001", "iso27001"),
    ("IP v6", "IPv6", "ip-v6"),
    ("km/h", "kmh"),
    ("100 Mbit/s", "Mbits"),
    ("HTTP/2", "http2"),
    ("8   GB", "8GB"),
    (".NET", "dotnet"),
    ("C#", "csharp"),
    ("C++", "cplusplus"),
    ("file system", "filesystem"),
    ("health care", "healthcare"),
    ("Ph.D.", "PhD"),
    ("U.K.", "UK"),
    ("socket.io", "socketio"),
    ("Next.js 14", "nextjs14"),
    ("utf-8", "utf8", "UTF 8"),
    ("SHA-256", "sha256", "SHA 256"),
    ("T-shirt", "tshirt", "t shirt"),
    ("multi-threaded", "multithreaded"),
    ("e-mails", "email"),
    ("wi\u2013fi", "wifi"),
    ("GPT\u00a04", "GPT4"),
    ("32\u202fGB", "32GB"),
    ("résumé", "resume"),
    ("coöperate", "co-operate"),
    ("grandchildren", "grandchild"),
    ("firewomen", "firewoman"),
    ("formulae", "formulas", "formula"),
    ("\U0001f469\u200d\U0001f4bb", "\U0001f469\U0001f4bb"),
    ("\u2714\ufe0f", "\u2714"),
    ("a1b2c3d4e5f6a7b8", "a1b2c3d4e5", "a1b2c3d"),
    ("deadbeef1234567", "deadbee"),
    ("v1.2-3-g9fceb02d", "9fceb02", "9fceb02d"),
    ("salespeople", "salesperson"),
    ("consortia", "consortium"),
    ("paparazzi", "paparazzo"),
    ("seraphim", "seraph"),
    ("k-means", "kmeans", "k means"),
    ("know-how", "knowhow", "know how"),
    ("\u25b6\ufe0f", "\u25b6"),
    ("\u2194\ufe0f", "\u2194"),
    ("75 m²", "75m²", "75m2"),
    ("ISO/27001", "ISO27001"),
    ("L'Équipe", "léquipe", "LÉquipe"),
    ("L'Oréal", "loréal"),
    ("O'REILLY", "oreilly"),
    ("paral·lel", "parallel", "para\u0140lel"),
    ("1,000 km", "1000km", "1000 km"),
    ("1,234,567 EUR", "1234567EUR"),
    ("ad hoc", "adhoc", "ad-hoc"),
    ("anti virus", "antivirus"),
    ("menus", "menu"),
    ("bureaus", "bureau", "bureaux"),
    ("staves", "staff"),
    ("staves", "stave"),
    ("c\x9cur", "cœur"),
    ("Petr\x9ealka", "Petržalka"),
    ("1,000", "1000"),
    ("1'000'000", "1000000"),
    ("Müller", "Mueller"),
    ("Goethe", "Göthe"),
    ("Straße", "Strasse"),
    ("C++", "cpp"),
    ("C#", "csharp", "C sharp"),
    ("non zero", "nonzero", "non-zero"),
    ("pre-processing", "preprocessing", "pre processing"),
    ("machine learning", "machinelearning", "machine-learning"),
    ("p-value", "pvalue", "p value"),
    ("20240115", "2024-01-15"),
    ("DE89370400440532013000", "DE89 3704 0044 0532 0130 00"),
]
#: Queries with signs between thousands or groups, and a text that they find. The text's own signs may mean otherwise.
FROM_QUERY = [
    ("1.000", "1000"),
    ("1 000", "1000"),
    ("1234567", "1,234,567.89"),
    ("1_000", "1000"),
    ("1\u2019000", "1000"),
    ("+49 89 1234567", "+49891234567"),
    ("030 / 123456", "030123456"),
]
#: Queries in which a number precedes one of three digits, and tokens of texts that they still find.
KEPT = [
    ("iPhone 15 256 GB", "iphone15 256gb"),
    ("Windows 11 512 GB", "windows11 512gb"),
    ("GPT 4 128 k", "gpt4 128k"),
    ("error 404 500", "error404"),
    ("RFC 8259 123", "rfc8259"),
    ("ISO 9001 123 a", "iso9001"),
    ("python 3.11 100", "python3.11"),
    ("node 18.123", "node18.123 18.123"),
    ("Boeing 747 400", "747-400"),
    ("ip 172.16.254.123", "172.16.254.123"),
    ("192.168.1.100:8080", "192.168.1.100"),
    ("libfoo.so.1.234", "libfooso1.234"),
    ("24 7 365", "24-7"),
    ("1,000", "1 000 1000"),
    ("a population of 1 234 567 people", "1234567"),
]
#: What looks alike and is not.
APART = [
    ("32 GB", "64MB"),
    ("3.11", "311"),
    ("192.168.0.1", "19216801"),
    ("what is a cat", "isa"),
    ("in2019", "in 2019"),
    ("decade2", "decade2020"),
    ("2024010", "20240105"),
    ("C++", "C"),
    ("C", "csharp"),
    ("srch", "src/h"),
    ("andor", "and/or"),
    ("table5", "table    5"),
    ("1000km", "1,00 km"),
    ("a\x85b", "ab"),
    ("a·b", "ab"),
    ("123456", "a,123,456,b"),
    ("1000", "1,0000"),
    ("1000", "12345,000"),
    ("queue", "qüü"),
    ("neue", "nü"),
    ("20241315", "2024-13-15"),
]


def shared(query: str, text: str) -> list[str]:
    words = keywords_of("", "", text, "en")
    of_text = set(words.text.split()).intersection(query_tokens(query, "text", IN_ENGLISH))
    of_code = set(words.code.split()).intersection(query_tokens(query, "code", IN_ENGLISH))
    return sorted(of_text | of_code)


@pytest.mark.parametrize(("query", "text"), [pair for group in ALIKE for pair in permutations(group, 2)])
def test_spellings_share_a_token(query: str, text: str) -> None:
    assert shared(query, text)


@pytest.mark.parametrize(("query", "text"), FROM_QUERY)
def test_signs_of_a_query_do_not_hide_a_number(query: str, text: str) -> None:
    assert shared(query, text)


@pytest.mark.parametrize(("query", "tokens"), KEPT)
def test_signs_between_thousands_do_not_change_other_words_of_a_query(query: str, tokens: str) -> None:
    assert set(tokens.split()) <= set(query_tokens(query, "code", IN_ENGLISH))


@pytest.mark.parametrize(
    "query", ["1,0000", "12345 000", "1,234,5", "1.2.345", "3.11 100", "v1.234", "x_1_000", "1 000 00", "x 24 7 365"]
)
def test_only_a_number_in_groups_of_three_is_asked_for_without_its_signs(query: str) -> None:
    assert not any(word.isdigit() for word in joined(query, ()))


@pytest.mark.parametrize("number", ["1,234", "1'234"])
def test_a_text_with_few_numbers_has_them_without_signs(number: str) -> None:
    """A table of numbers has none: each would be a new word of the index."""
    few = [f"{number},{part}".replace(",", number[1]) for part in range(100, 100 + MAX_WHOLE_NUMBERS)]
    assert numbered("; ".join(few * 2)) == [re.sub(r"\D", "", each) for each in few]
    assert numbered("; ".join([*few, number])) == []


@pytest.mark.parametrize(("query", "text"), APART)
def test_other_words_share_none(query: str, text: str) -> None:
    assert shared(query, text) == []


@pytest.mark.parametrize(("length", "found"), [(MAX_APART, 1), (MAX_APART + 1, 0)])
def test_a_word_before_its_number_is_short(length: int, found: int) -> None:
    assert len(numbered(f"the {'x' * length} 7")) == found


@pytest.mark.parametrize(("words", "found"), [(MAX_JOINED_WORDS, MAX_JOINED_WORDS - 1), (MAX_JOINED_WORDS + 1, 0)])
def test_the_neighbours_in_a_long_query_are_not_joined(words: int, found: int) -> None:
    assert len(joined(" ".join(f"{chr(ord('a') + number)}bc" for number in range(words)), ())) == found


@pytest.mark.parametrize("words", range(1, 6))
def test_a_name_of_few_words_is_also_joined_as_a_whole(words: int) -> None:
    name = "get user name by id".split()[:words]  # noqa: SIM905 - a name reads better as one string
    assert ("".join(name) in joined(" ".join(name), ())) == (words in {2, *JOINED_NAMES})


@pytest.mark.parametrize("end", ["-\n  ", "-\r\n", "\u2010\n", "\u00ad\n  ", "\u00ad\r\n", "\u00ad"])
def test_a_word_across_the_end_of_a_line_is_found(end: str) -> None:
    assert shared("donaudampfschiff", f"on a Donau{end}dampfschiff")


def test_a_number_in_thousands_is_asked_for_as_one() -> None:
    assert "1000" in query_tokens("1,000 users", "code", IN_ENGLISH)
    assert "1000" not in query_tokens("1,0000 users", "code", IN_ENGLISH)


@given(st.text("0123456789abcdef", min_size=LONG_HASH, max_size=64), st.integers(SHORT_HASH, 40))
def test_a_hash_is_found_by_each_beginning(word: str, length: int) -> None:
    if not (word.isdigit() or word.isalpha()):
        assert shared(word[: min(length, len(word))], f"commit {word} of them")
