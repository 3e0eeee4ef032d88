"""A path as its row stores it."""

from __future__ import annotations

import pytest

from worker.state.index.files import fitting


@pytest.mark.parametrize(
    ("path", "stored"),
    [
        ("a" * 2000, "a" * 2000),
        ("a" * 1000 + "b" * 1001, "a" * 1000 + "…" + "b" * 1000),
        # no character is cut in two
        ("é" * 1000, "é" * 1000),
        ("aé" + "é" * 999, "a" + "é" * 499 + "…" + "é" * 500),
        ("é" * 1000 + "a", "é" * 500 + "…" + "é" * 499 + "a"),
    ],
)
def test_a_path_of_more_bytes_than_the_limit_keeps_its_ends(path: str, stored: str) -> None:
    assert fitting(path) == stored
