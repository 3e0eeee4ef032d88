"""Rows of found chunks, for tests of ranking."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from worker.state.search.found_chunks import HitRow


def hit_row(chunk_id: str, chunk_text: str = "x", **given: Any) -> HitRow:
    """A chunk of a file of code that has its name."""
    path = given.get("file_path", f"{chunk_id}.py")
    row: dict[str, Any] = {
        "version": "1",
        "file_node_id": "node",
        "file_id": UUID(int=1),
        "file_id_path": f"/{path}",
        "file_path": path,
        "file_type": "code",
        "chunk_index": 0,
        "total_chunks": 9,
        "content_hash": "sha256:0",
        "start_line": 1,
        "end_line": 1,
        "start_char": 0,
        "end_char": len(chunk_text),
        "context": "",
        "level": 0,
        "embedded": True,
        "stale": False,
        **dict.fromkeys(("title", "json_pointer", "language", "symbol", "node_type", "scope", "page", "url")),
    }
    return HitRow(**{**row, "chunk_id": chunk_id, "chunk_text": chunk_text, **given})
