"""Strings are cut to the bytes that a store keeps of them, or searches for."""

from __future__ import annotations

import pytest

from worker.vectors import MAX_FILTERABLE_BYTES, Leg, cut_filterable
from worker.vectors.rows import words


@pytest.mark.parametrize("character", ["a", "é", "名", "😀"])
def test_a_string_is_cut_at_the_last_character_that_fits(character: str) -> None:
    fits = MAX_FILTERABLE_BYTES // len(character.encode())
    for number in (fits - 1, fits, fits + 1, 2 * fits):
        assert cut_filterable(character * number) == character * min(number, fits)


@pytest.mark.parametrize(
    ("keywords", "length"), [("x" * 8_192, 8_192), ("x" * 8_193, 8_192), ("xé" + "é" * 8_000, 8_191)]
)
def test_a_query_has_a_limited_number_of_bytes(keywords: str, length: int) -> None:
    assert len(words(Leg(1, keywords=keywords, field="older")).encode()) == length
