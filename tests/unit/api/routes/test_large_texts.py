"""Large texts: how many calls hold one in memory, and that slow readers hold none."""

from __future__ import annotations

import tracemalloc
from contextlib import AbstractContextManager
from typing import Any

import pytest

from api.http import large_answers
from api.http.shares import LARGE_TEXTS
from api.routes.content import node_answers, node_content
from worker.state.content.nodes import NodeRow

LARGE = 8 << 20


def holds_room(block: AbstractContextManager[None]) -> bool:
    with block:
        return bool(LARGE_TEXTS.slots._held)


def node(size: int, object_key: str | None = None) -> NodeRow:
    values: dict[str, Any] = {"project_id": "p", "size": size, "object_key": object_key}
    return NodeRow.model_construct(**values)


@pytest.mark.parametrize("more", [0, 1])
def test_only_large_texts_need_room(more: int) -> None:
    assert holds_room(large_answers.text(large_answers.LARGE_CHUNKS + more, "p")) is bool(more)
    assert holds_room(node_answers.room_for(node(node_answers.MAX_PARSED_BYTES + more))) is bool(more)


def test_a_whole_file_needs_room() -> None:
    assert holds_room(large_answers.text(0, "p", with_file=True))


def test_a_content_of_the_store_is_never_in_memory() -> None:
    assert not holds_room(node_answers.room_for(node(LARGE, "key")))


@pytest.mark.parametrize("size", [0, 1, node_answers.PIECE - 1, node_answers.PIECE, node_answers.PIECE + 1, LARGE])
def test_a_content_arrives_whole(size: int) -> None:
    data = bytes(range(256)) * (size // 256) + bytes(size % 256)
    assert b"".join(node_answers.spool(data)) == data
    reader = node_content._InRow(data).reader(None)
    assert (reader.size, b"".join(node_answers.read(reader, "n"))) == (size, data)


@pytest.mark.parametrize("part", [None, range(1, LARGE - 1)], ids=["whole", "part"])
def test_what_a_slow_reader_has_not_read_is_not_in_memory(part: range | None) -> None:
    tracemalloc.start()
    try:
        pieces = node_answers.spool(bytes(LARGE))
        reader = node_content._InRow(bytes(LARGE)).reader(part)
        assert next(pieces)
        assert reader.read(1)
        held, _ = tracemalloc.get_traced_memory()
        assert held < LARGE // 4
    finally:
        tracemalloc.stop()
    reader.close()
