"""What is said about a file whose chunks have no vectors."""

from __future__ import annotations

from typing import Any

import pytest

from api.routes.tools import OUTSIDE_BOUNDS, shown_file
from schemas.reason import FileStatus
from schemas.tool import File


@pytest.mark.parametrize(
    ("status", "embedded", "message", "said"),
    [
        ("indexed", False, None, OUTSIDE_BOUNDS),
        ("indexed", False, "It is cut off.", f"It is cut off. {OUTSIDE_BOUNDS}"),
        ("indexed", True, "It is cut off.", "It is cut off."),
        # its vectors follow its words
        ("indexing", False, None, None),
        ("pending", False, None, None),
        ("failed", False, "The model refused it.", "The model refused it."),
    ],
)
def test_only_the_length_of_an_indexed_file_keeps_it_from_its_vectors(
    status: str, embedded: bool, message: str | None, said: str | None
) -> None:
    fields: dict[str, Any] = {"status": FileStatus(status), "embedded": embedded, "message": message, "chunks": 1}
    file = File.model_construct(None, **{**dict.fromkeys(File.model_fields), **fields})
    assert shown_file(file).message == said
