"""New chunks that equal live ones keep their ids; lost ones come back with files that did not change."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest.mock import Mock
from uuid import UUID

import pytest

from schemas.content.document import Chunk
from worker.index.file_states import File, FileFacts, PreparedFile, UnchangedFile
from worker.index.reuse_chunks import match_live, restore
from worker.state.index import chunks
from worker.state.index.chunks import LiveChunk, PlacedChunk

FILE, OTHER = UUID(int=1), UUID(int=2)
LIVE = LiveChunk(FILE, UUID(int=100), "hash", 0, "/a", "name", "function", "outer", "python", 0, embedded=True)


def live(*numbers: int, **changed: Any) -> list[LiveChunk]:
    return [replace(LIVE, id=UUID(int=number), chunk_index=at, **changed) for at, number in enumerate(numbers)]


def placed(number: int, *, file: UUID = FILE) -> PlacedChunk:
    piece = Chunk("text", 0, 4, 1, 1, 1, "", "/a", None, "name", "function", "outer")
    return PlacedChunk(UUID(int=number), file, 0, piece, "hash", "python")


def prepared(*numbers: int, file: UUID = FILE, live_chunks: int = 1) -> PreparedFile:
    claim = Mock(id=file, live_chunks=live_chunks)
    return PreparedFile(claim, FileFacts("code"), [placed(number, file=file) for number in numbers], embedded=True)


def matched(
    monkeypatch: pytest.MonkeyPatch, rows: dict[UUID, list[LiveChunk]], *files: PreparedFile
) -> list[list[int]]:
    """The ids of the files' chunks. Those that are live are negative."""
    monkeypatch.setattr(chunks, "live", lambda _, ids: {id_: rows[id_] for id_ in ids})
    found: Any = match_live(Mock(), files)
    return [[-c.id.int if c.id in file.live else c.id.int for c in file.chunks] for file in found]


@pytest.mark.parametrize(
    ("rows", "expected"), [((), [1, 2, 3]), ((100, 101), [-100, -101, 3]), ((100, 101, 102, 103), [-100, -101, -102])]
)
def test_each_live_chunk_is_used_once_and_in_order(
    monkeypatch: pytest.MonkeyPatch, rows: tuple[int, ...], expected: list[int]
) -> None:
    assert matched(monkeypatch, {FILE: live(*rows)}, prepared(1, 2, 3)) == [expected]


@pytest.mark.parametrize(
    "changed",
    [
        {"content_hash": "other"},
        {"json_pointer": "/b"},
        {"symbol": "other"},
        {"node_type": "class"},
        {"scope": None},
        {"language": "ruby"},
        {"level": 1},
        {"embedded": False},
    ],
)
def test_a_chunk_of_which_the_store_holds_something_else_is_new(
    monkeypatch: pytest.MonkeyPatch, changed: dict[str, object]
) -> None:
    assert matched(monkeypatch, {FILE: live(100, **changed)}, prepared(1)) == [[1]]


def test_files_keep_their_own_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = {FILE: live(100), OTHER: live(200, file_id=OTHER)}
    files = [prepared(1, live_chunks=0, file=UUID(int=3)), prepared(2, file=OTHER), prepared(3)]
    assert matched(monkeypatch, rows, *files) == [[1], [-200], [-100]]


def test_only_unchanged_files_that_lost_vectors_get_them_back(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = {FILE: [placed(100)]}
    monkeypatch.setattr(chunks, "read_lost", lambda _, ids: {id_: rows[id_] for id_ in ids if id_ in rows})
    files: list[File] = [
        UnchangedFile(Mock(id=FILE, lost=True), FileFacts("code")),
        # another process wrote its chunks meanwhile
        UnchangedFile(Mock(id=OTHER, lost=True), FileFacts("code")),
        UnchangedFile(Mock(id=FILE, lost=False), FileFacts("code")),
        prepared(1),
    ]
    assert [[chunk.id.int for chunk in file.new] for file in restore(Mock(), files)] == [[100], [], [], [1]]
