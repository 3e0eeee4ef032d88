"""Strings are cut to the bytes that a store keeps of them, or searches for."""

from __future__ import annotations

import pytest

from worker.vectors import MAX_FILTERABLE_BYTES, Leg, cut_filterable
from worker.vectors.rows import MAX_KEYWORD_BYTES, words


@pytest.mark.parametrize("character", ["a", "é", "名", "😀"])
def test_a_string_is_cut_at_the_last_character_that_fits(character: str) -> None:
    fits = MAX_FILTERABLE_BYTES // len(character.encode())
    for number in (fits - 1, fits, fits + 1, 2 * fits):
        assert cut_filterable(character * number) == character * min(number, fits)


def test_a_query_has_a_limited_number_of_bytes() -> None:
    for count, is_cut in ((500, False), (3_000, True)):
        asked = " ".join(f"mé{number}" for number in range(1000, 1000 + count))
        length = len(words(Leg(1, keywords=asked, field="code")).encode())
        assert length <= MAX_KEYWORD_BYTES
        assert (length > MAX_KEYWORD_BYTES - 10) is is_cut
