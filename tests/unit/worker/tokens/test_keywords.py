"""The tokens of identifiers, in any text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.tokens.keywords import MAX_TOKEN, code_words, keywords_of, query_words


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("HTTPServerError2", "httpservererror2 http server error 2"),
        ("getUserName", "getusername get user name"),
        ("foo_bar.baz", "foo_bar.baz foo_bar baz foo bar"),
        ("docs/big-cats/giraffe.txt", "docs big-cats big cats giraffe.txt giraffe txt"),
        ("--dry-run", "dry-run dry run"),
        ("Python 3.11, E1234", "python 3.11 3 11 e1234 e 1234"),
        ("__init__ = _", "__init__ init"),
        ("Is a plain sentence. Is it?", "is a plain sentence is it"),
        ("C:\\dir\\File.CS", "c dir file.cs file cs"),
        ("größeÄndern", "größeändern größe ändern"),
        ("cafe\u0301 हिन्दी привет 日本語", "café हिन्दी привет 日本語"),
        ("a\0b\ud800c", "a b c"),
        ("", ""),
    ],
)
def test_words_and_their_parts(text: str, tokens: str) -> None:
    assert code_words(text) == tokens


def test_data_leaves_no_tokens() -> None:
    assert code_words("x" * 10_000_000) == ""
    assert code_words("aB3" * 10 + " end").split() == ["ab3" * 10, "end"]
    assert code_words(f"test_{'of_' * 40}length").split()[-1] == "length"
    assert code_words(f"{'x' * 65}.txt") == "txt"


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
        ("getUser2 page", "getuser2 get user2 page"),
        ("kiwi 17", "kiwi 17"),
        ("a_b1", "a_b1 a b1"),
    ],
)
def test_a_query_keeps_digits_with_their_letters(query: str, tokens: str) -> None:
    assert query_words(query) == tokens.split()


def test_the_path_is_part_of_both_fields() -> None:
    fields = keywords_of("src/userName.py", "class A", "text")
    assert fields.text == "src/userName.py\nclass A\ntext"
    assert fields.code == "src username.py username py user name class a text"
