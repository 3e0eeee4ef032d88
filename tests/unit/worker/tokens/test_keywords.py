"""The tokens of identifiers, in any text."""

from __future__ import annotations

from string import ascii_uppercase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.tokens.keywords import (
    IN_ENGLISH,
    MAX_PARTS,
    MAX_TOKEN,
    Keywords,
    code_words,
    keywords_of,
    query_tokens,
)
from worker.tokens.language_words import text_words
from worker.tokens.languages import DEFAULT, NONE


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("HTTPServerError2", "httpservererror2 http server error 2"),
        ("getUserName", "getusername get user name"),
        ("foo_bar.baz", "foobarbaz foobar baz foo bar"),
        ("docs/big-cats/giraffe.txt", "docs bigcats big cats giraffetxt giraffe txt"),
        ("--dry-run", "dryrun dry run"),
        ("Python 3.11, E1234", "python 3.11 3 11 e1234 e 1234 python3.11"),
        ("__init__ = _", "__init__ init"),
        ("Is a plain sentence. Is it?", "is a plain sentence is it"),
        ("C:\\dir\\File.CS", "c dir filecs file cs"),
        ("größeÄndern", "größeändern größe ändern"),
        ("cafe\u0301 हिन्दी привет 日本語", "café हिन्दी привет 日本語"),
        ("a\0b\ud800c", "a b c"),
        ("C++, C# on .NET; i++ ASP.NET", "c++ c c# c on .net net i++ i aspnet asp net"),
        ("v1.2.3 x86_64 2024-01-05", "1.2.3 v1 2 3 v 1 x86-64 x 86 64 2024-01-05 2024 01 05"),
        ("32 GB in 1990, ISO 27001", "32 gb in 1990 iso 27001 iso27001 32gb"),
        ("R&D by O'Reilly", "r d by o reilly rd oreilly"),
        ("9fceb02d0ae598e95dc970b decade2020", "9fceb02d0ae598e95dc970b 9fceb02 decade2020 decade 2020"),
        ("", ""),
    ],
)
def test_words_and_their_parts(text: str, tokens: str) -> None:
    assert code_words(text) == tokens


def test_a_document_of_no_known_language_has_the_words_of_an_english_one() -> None:
    text = "数据库里的 data base, databases 和水泵"
    assert keywords_of("a.md", "", text, NONE) == keywords_of("a.md", "", text, DEFAULT)
    assert text_words(text, NONE) == text_words(text, DEFAULT)


def test_data_leaves_no_tokens() -> None:
    assert code_words("x" * 10_000_000) == ""
    assert code_words("aB3" * 10 + " end").split() == ["ab3" * 10, "end"]
    assert code_words(f"test_{'of_' * 40}length").split()[-1] == "length"
    assert code_words(f"{'x' * 65}.txt") == "txt"


@pytest.mark.parametrize(("number", "tokens"), [(MAX_PARTS, 1 + MAX_PARTS), (MAX_PARTS + 1, 1)])
def test_a_name_of_too_many_parts_is_data(number: int, tokens: int) -> None:
    assert len(code_words("".join(f"{letter}y" for letter in ascii_uppercase[:number])).split()) == tokens


@given(st.text(st.characters(exclude_categories=())))
def test_tokens_are_short_and_hold_nothing_but_words(text: str) -> None:
    tokens = code_words(text).split()
    assert all(0 < len(token) <= 3 * MAX_TOKEN for token in tokens)
    assert not set("".join(tokens)) & set(" \0'\"\\:&|!()<>*/")
    "".join(tokens).encode()


@pytest.mark.parametrize(
    ("query", "tokens"),
    [
        ("kiwi17", "kiwi17"),
        ("word30x", "word30x"),
        ("getUser2 page", "getuser2 get user2 page getuser2page"),
        ("kiwi 17", "kiwi 17 kiwi17"),
        ("a_b1", "ab1 a b1"),
        ("where is getUser?", "getuser get user"),
        ("to be or not to be", "to be or not tobe beor ornot notto"),
        ("C++ or C# on .NET", "c++ c# .net cplusplus cpp csharp dotnet"),
        ("log in to the data base", "log data base login database"),
        ("U. S. A.", "u us sa usa"),
        ("9fceb02d0ae5", "9fceb02d0ae5 9fceb02"),
        ("mice", "mice"),
        ("mouse", "mouse mice"),
        ("indexes", "indexes indices"),
    ],
)
def test_a_query_keeps_digits_with_their_letters(query: str, tokens: str) -> None:
    assert query_tokens(query, "code", IN_ENGLISH) == tokens.split()


def test_the_path_is_part_of_both_fields() -> None:
    fields = keywords_of("src/userName.py", "class A", "texts", "en")
    assert fields.text == "src usernam py class a text"
    assert fields.code == "src usernamepy username py user name class a texts"


#: What may join words, divide them, or change with its neighbours.
PARTS = [*"aBé1_-./+# \n'…", "C++", "c#", ".NET", "word", "getUser", "名", "한", "ก", "\u0301", "ﬁ", "\u2028", "x" * 60]


@given(st.lists(st.sampled_from(PARTS), max_size=12).map("".join), st.sampled_from(["en", "de", "tr", "zh"]))
def test_one_pass_over_a_chunk_finds_the_words_of_both_fields(text: str, language: str) -> None:
    searchable = f"p/q.py\nC\n{text}"
    words = Keywords(text_words(searchable, language), code_words(searchable))
    assert keywords_of("p/q.py", "C", text, language) == words
