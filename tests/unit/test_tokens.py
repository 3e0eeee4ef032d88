from __future__ import annotations

import os
import sys
from itertools import pairwise

import numpy as np
import pytest
import tiktoken
from hypothesis import example, given
from hypothesis import strategies as st

from worker.tokens import Offsets, char_offsets, characters, cl100k


def plain(text: str) -> list[int]:
    cl100k()
    return tiktoken.get_encoding("cl100k_base").encode(text, disallowed_special=())


def pieces(text: str, starts: Offsets) -> list[str]:
    return [text[a:b] for a, b in pairwise([*starts, len(text)])]


@pytest.mark.parametrize(
    "text", ["", "small words", "a <|endoftext|> b", "línea 日本語 😀 e\u0301\r\n", "x = 1\n\n\ty"]
)
def test_counts_what_tiktoken_counts(text: str) -> None:
    assert len(cl100k().starts(text)) == len(plain(text))


def test_a_special_token_is_plain_text() -> None:
    assert len(cl100k().starts("<|endoftext|>")) > 1


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
    had = "litellm" in sys.modules
    cl100k()
    assert "TIKTOKEN_CACHE_DIR" not in os.environ
    assert had or "litellm" not in sys.modules


def test_every_character_is_a_token() -> None:
    assert characters().starts("añ😀").tolist() == [0, 1, 2]


def test_a_byte_within_a_character_stands_for_it() -> None:
    raw = np.frombuffer("a😀b".encode(), dtype=np.uint8)
    assert char_offsets(raw, np.array([0, 1, 3, 5])).tolist() == [0, 1, 1, 2]
    assert char_offsets(raw, np.array([3, 5])).tolist() == [1, 2]
    assert char_offsets(raw, np.array([], dtype=np.int64)).tolist() == []
