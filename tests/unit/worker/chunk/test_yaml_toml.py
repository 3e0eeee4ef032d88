"""Configuration text with lines of any length."""

from __future__ import annotations

import pytest

from tests.unit.worker.chunk.chunking import cut


@pytest.mark.parametrize("mark", ["- ", "# ", "a: ", " "])
def test_a_line_of_megabytes_is_cut_in_linear_time(mark: str) -> None:
    """If the time grows with the square of a line's length, this test times out."""
    text = mark * (4_000_000 // len(mark))
    chunks = cut(f"top:\n  {text}x\n", "a.yaml")
    assert len(chunks) > 1 or not text.strip()
    assert chunks[-1].text.endswith("x")


def test_pieces_of_a_long_line_keep_what_is_around_it() -> None:
    chunks = cut("top:\n  inner:\n    - " + "word " * 3000 + "\n  other: 1\n", "a.yaml")
    assert len(chunks) > 3
    assert {c.context for c in chunks[1:-1]} == {"top > inner"}
