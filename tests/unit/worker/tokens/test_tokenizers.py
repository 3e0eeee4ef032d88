from __future__ import annotations

import os
import sys
from base64 import b64encode
from itertools import pairwise
from random import Random

import numpy as np
import pytest
import tiktoken
from hypothesis import example, given
from hypothesis import strategies as st

from worker.tokens.byte_tables import Offsets
from worker.tokens.tokenizers import char_offsets, characters, cl100k

FILLING = ["words of a text that goes on\n"] * 40


def plain(text: str) -> list[int]:
    cl100k()
    return tiktoken.get_encoding("cl100k_base").encode(text, disallowed_special=())


def expected(text: str) -> list[int]:
    """The characters at which tiktoken's tokens start."""
    tokens = tiktoken.get_encoding("cl100k_base").decode_tokens_bytes(plain(text))
    lengths = np.array(list(map(len, tokens)))
    return list(char_offsets(np.frombuffer(text.encode(), dtype=np.uint8), np.cumsum(lengths) - lengths))


def pieces(text: str, starts: Offsets) -> list[str]:
    return [text[a:b] for a, b in pairwise([*starts, len(text)])]


@pytest.mark.parametrize(
    "text", ["", "small words", "a <|endoftext|> b", "línea 日本語 😀 e\u0301\r\n", "x = 1\n\n\ty"]
)
def test_counts_what_tiktoken_counts(text: str) -> None:
    assert len(cl100k().starts(text)) == len(plain(text))


def test_a_special_token_is_plain_text() -> None:
    assert len(cl100k().starts("<|endoftext|>")) > 1


PARTS = [
    "'s",
    "'LL",
    "'t",
    "don't",
    " ",
    "  ",
    "\t",
    "\n",
    "\r\n",
    " \n  ",
    ");\n",
    "(",
    "...",
    "1234567",
    "x",
    "Long",
    "é",
    "\u017f",
    "\u0301",
    "Ж",
    "“",
    "€",
    "\u2028",
    "²",
    "字",
]


@given(
    st.text(st.characters(max_codepoint=0x3100, exclude_characters="\0"))
    | st.lists(st.sampled_from(PARTS)).map("".join)
)
def test_a_long_text_has_the_tokens_that_tiktoken_finds(text: str) -> None:
    # on separate lines, which words do not span, and with enough text between that tiktoken does not handle them
    long = "".join((*FILLING, text or "x", "\n", *FILLING))
    assert cl100k().starts(long).tolist() == expected(long)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("signs", ["aeinorstXxé'_=\n\t 12", " \t\t(", "0123456789 "], ids=["words", "blanks", "digits"])
def test_new_words_that_are_split_together_have_their_own_tokens(signs: str, seed: int) -> None:
    random = Random(seed)
    words = ["".join(random.choices(signs, k=random.randint(3, 16))) for _ in range(20)]
    long = "".join((*FILLING, "\n", *words, *FILLING))
    assert cl100k().starts(long).tolist() == expected(long)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(" -漢字" * 80_000, id="no word surely begins in it"),
        pytest.param("".join(f" {Random(i).randbytes(4).hex()}" for i in range(20_000)), id="hexadecimal"),
        pytest.param(b64encode(Random(1).randbytes(150_000)).decode(), id="base64"),
        pytest.param("Они, all of them: (равны). - " * 3_000, id="Russian"),
    ],
)
def test_what_is_left_to_tiktoken_has_its_tokens(text: str) -> None:
    assert cl100k().starts(text).tolist() == expected(text)


@given(st.text())
@example("😀" * 40)
@example("é" + "a" * 5000)
def test_starts_ascend_within_the_text(text: str) -> None:
    starts = cl100k().starts(text)
    assert (np.diff(starts) >= 0).all()
    assert not text or (starts[0] == 0 and starts[-1] < len(text))
    assert "".join(pieces(text, starts)) == text


def test_starts_are_characters_not_bytes() -> None:
    text = "naïve naïve test"
    assert [piece.strip() for piece in pieces(text, cl100k().starts(text))][-1] == "test"


@pytest.mark.parametrize("unit", ["a", " ", "-", "\n", "1", "字", "\u0301", " \n", "\u00a0"])
def test_long_runs_are_counted_nearly_right(unit: str) -> None:
    long, longer = len(cl100k().starts(unit * 1_000)), len(cl100k().starts(unit * 100_000))
    assert longer == pytest.approx(100 * long, rel=0.2)


def test_a_million_blanks_before_a_word_do_not_overflow() -> None:
    assert len(cl100k().starts(" " * 1_500_000 + "x")) > 1_000


def test_loading_leaves_the_environment_alone_and_does_not_import_litellm() -> None:
    had, directory = "litellm" in sys.modules, os.environ.get("TIKTOKEN_CACHE_DIR")
    cl100k()
    assert os.environ.get("TIKTOKEN_CACHE_DIR") == directory
    assert had or "litellm" not in sys.modules


def test_every_character_is_a_token() -> None:
    assert characters().starts("añ😀").tolist() == [0, 1, 2]


def test_a_byte_within_a_character_stands_for_it() -> None:
    raw = np.frombuffer("a😀b".encode(), dtype=np.uint8)
    assert char_offsets(raw, np.array([0, 1, 3, 5])).tolist() == [0, 1, 1, 2]
    assert char_offsets(raw, np.array([3, 5])).tolist() == [1, 2]
    assert char_offsets(raw, np.array([], dtype=np.int64)).tolist() == []
