"""Normal forms take time that is linear in the text, and are Unicode's for every text that people write."""

from __future__ import annotations

import sys
import time
import unicodedata
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.routes.content.upload_names import clean_path
from worker.tokens.keywords import IN_ENGLISH, keywords_of, query_tokens
from worker.tokens.normal_forms import MAX_ACCENTS, normalized

Form = Literal["NFC", "NFD", "NFKC", "NFKD"]
FORMS: tuple[Form, ...] = ("NFC", "NFD", "NFKC", "NFKD")
JOINER = "\u034f"
#: Two accents that stand in the wrong order whenever they are repeated.
ACCENTS = "\u0301\u0316"


def stated(form: Form, text: str) -> str:
    return unicodedata.normalize(form, text)  # noqa: TID251 - what is compared with


@given(st.text(st.characters(codec="utf-8"), max_size=100), st.sampled_from(FORMS))
def test_a_text_has_the_form_of_unicode(text: str, form: Form) -> None:
    assert normalized(form, text) == stated(form, text)
    assert normalized(form, text * 40).replace(JOINER, "") == stated(form, text * 40).replace(JOINER, "")


@pytest.mark.parametrize(("count", "is_divided"), [(1, False), (MAX_ACCENTS, False), (250, False), (321, True)])
def test_only_a_run_of_accents_that_is_no_text_is_divided(count: int, is_divided: bool) -> None:
    run = "\u0301" * count
    found = normalized("NFD", f"a{run}b")
    assert found.replace(JOINER, "") == f"a{run}b"
    assert (JOINER in found) == is_divided
    assert not is_divided or max(map(len, found[1:-1].split(JOINER))) == MAX_ACCENTS


@pytest.mark.parametrize("run", [ACCENTS, "\u0f73", "\u0f73\uff9e", "\U0001e8d0\u0301", "x" + ACCENTS * 200])
def test_many_accents_take_time_with_their_number(run: str) -> None:
    text = run * (100_000 // len(run))
    begun = time.thread_time()
    for form in FORMS:
        normalized(form, text)
    keywords_of("a.txt", "", text, "en")
    query_tokens(text, "text", IN_ENGLISH)
    query_tokens(text, "code", IN_ENGLISH)
    clean_path(text)
    # each of these took more than ten seconds
    assert time.thread_time() - begun < 8


def test_every_character_that_is_sorted_counts_as_an_accent() -> None:
    sorted_ones = [
        letter
        for letter in map(chr, range(sys.maxunicode + 1))
        if any(map(unicodedata.combining, stated("NFKD", letter)[:1])) and not "\ud800" <= letter <= "\udfff"
    ]
    assert len(sorted_ones) > 900
    for letter in sorted_ones:
        assert JOINER in normalized("NFC", letter * 1000)
