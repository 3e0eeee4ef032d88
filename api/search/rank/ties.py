"""Orders equal hits by their place in the folder, never by ids, so that equal folders give equal answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def place_of(row: Mapping[str, Any]) -> tuple[str, str, int]:
    """Where a chunk is: the path of its file, the ids that tell files with one path apart, and its position."""
    return row["file_path"], row["file_id_path"], row["chunk_index"]
