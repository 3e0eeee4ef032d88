"""The sizes of chunks, from a tool's config and the settings."""

from __future__ import annotations

from typing import Any

import pytest

from worker.resources import chunk_settings
from worker.settings import Settings

CHARS = {"chunk_size_chars": 200, "chunk_overlap_chars": 30, "chunk_threshold_chars": 90}


@pytest.mark.parametrize(
    ("given", "size", "overlap", "made"),
    [
        ({}, None, None, ("tokens", 512, 64, 0)),
        ({}, 100, None, ("tokens", 100, 50, 0)),
        ({}, 100, 49, ("tokens", 100, 49, 0)),
        ({}, 100, 51, ("tokens", 100, 50, 0)),
        ({}, 101, 51, ("tokens", 101, 50, 0)),
        # a tool may have none, whatever the setting says
        ({}, None, 0, ("tokens", 512, 0, 0)),
        ({"chunk_size_tokens": 64, "chunk_overlap_tokens": 8}, None, None, ("tokens", 64, 8, 0)),
        (CHARS, None, None, ("characters", 200, 30, 90)),
        (CHARS, None, 0, ("characters", 200, 0, 90)),
        (CHARS, None, 101, ("characters", 200, 100, 90)),
        # a size of a tool counts tokens
        (CHARS, 100, None, ("tokens", 100, 50, 90)),
        ({"chunk_size_chars": 200}, None, None, ("characters", 200, 0, 0)),
    ],
)
def test_a_tool_comes_before_the_settings(
    given: dict[str, Any], size: int | None, overlap: int | None, made: tuple[str, int, int, int]
) -> None:
    chunks = chunk_settings(Settings(**given), size, overlap, None)
    assert (chunks.unit, chunks.size, chunks.overlap, chunks.threshold) == made


def test_a_tool_may_have_another_granularity() -> None:
    found = [chunk_settings(Settings(), None, None, each).granularity for each in (None, "definition", "packed")]
    assert found == ["definition", "definition", "packed"]
