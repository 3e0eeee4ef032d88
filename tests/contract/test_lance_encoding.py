"""How LanceDB stores the columns of a table, and that tables of earlier releases go on."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import lance
import numpy as np
import pytest

from worker.tokens.keywords import Keywords
from worker.vectors import Leg, Patch, VectorRow
from worker.vectors.lance import row_tables
from worker.vectors.lance.store import LanceStore

SPACE, DIMENSIONS, ROWS = "encoded", 8, 300
AS_THEY_ARE = {"id", "chunk_id", "content_hash"}
KEY = b"lance-encoding:compression"


def _rows(first: int, generation: int = 0) -> list[VectorRow]:
    numbers = range(first, first + ROWS)
    vectors = np.random.default_rng(first).standard_normal((ROWS, DIMENSIONS)).astype(np.float32)
    return [
        VectorRow(
            UUID(int=number),
            vector,
            {"chunk_id": str(UUID(int=number)), "content_hash": f"sha256:{number:064x}", "file_name": "a.py"},
            Keywords(f"word{number}", f"word{number}"),
            generation,
        )
        for number, vector in zip(numbers, vectors, strict=True)
    ]


def _compressed(place: Path) -> dict[str, bool]:
    """Whether each column of strings may be compressed."""
    fields = lance.dataset(place / f"{SPACE}.lance").schema
    return {field.name: (field.metadata or {}).get(KEY) != b"none" for field in fields if field.type == "string"}


def test_ids_and_hashes_are_stored_as_they_are_also_after_compaction(tmp_path: Path) -> None:
    store = LanceStore(tmp_path, has_keywords=True)
    for first in (0, ROWS):
        store.write(SPACE, DIMENSIONS, upserts=_rows(first))
    store.optimize(SPACE)
    assert {name for name, may_be in _compressed(tmp_path).items() if not may_be} == AS_THEY_ARE
    assert store.ids(SPACE, None, 2 * ROWS) == [UUID(int=number) for number in range(2 * ROWS)]


def test_a_table_of_an_earlier_release_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as earlier:
        earlier.setattr(row_tables, "_AS_THEY_ARE", ())
        LanceStore(tmp_path, has_keywords=True).write(SPACE, DIMENSIONS, upserts=_rows(0))
    assert all(_compressed(tmp_path).values())
    store = LanceStore(tmp_path, has_keywords=True)
    store.write(SPACE, DIMENSIONS, upserts=_rows(ROWS // 2, generation=1))
    store.write(SPACE, DIMENSIONS, patches=[Patch(UUID(int=1), {"file_name": "b.py"}, generation=2)])
    store.write(SPACE, DIMENSIONS, deletes=[UUID(int=0)])
    store.optimize(SPACE)
    last = ROWS + ROWS // 2
    assert store.ids(SPACE, None, 2 * ROWS) == [UUID(int=number) for number in range(1, last)]
    assert store.attributes(SPACE, None, 1)[UUID(int=1)]["file_name"] == "b.py"
    ((found,),) = (ranked.ids for ranked in store.search(SPACE, [Leg(1, keywords=f"word{last - 1}")]))
    assert found == str(UUID(int=last - 1))
