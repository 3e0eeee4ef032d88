"""Strings are cut to the bytes that a store keeps of them."""

from __future__ import annotations

import pytest

from worker.vectors import MAX_FILTERABLE_BYTES, cut_filterable


@pytest.mark.parametrize("character", ["a", "é", "名", "😀"])
def test_a_string_is_cut_at_the_last_character_that_fits(character: str) -> None:
    fits = MAX_FILTERABLE_BYTES // len(character.encode())
    for number in (fits - 1, fits, fits + 1, 2 * fits):
        assert cut_filterable(character * number) == character * min(number, fits)
