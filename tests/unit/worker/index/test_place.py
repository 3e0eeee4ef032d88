"""Chunks of a file with their ids and the text between them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest.mock import Mock
from uuid import UUID

import pytest

from schemas.content.document import Chunk, Document
from schemas.content.source import ChunkSettings
from tests.parsing import parse
from worker.chunk import chunk
from worker.index.file_states import FileFacts
from worker.index.prepare import place
from worker.parse import Limits
from worker.state.index.chunks import PlacedChunk
from worker.tokens.tokenizers import cl100k

#: Paragraphs, of which two are equal, with white space around them that no chunk holds.
TEXT = """

The storm closed the harbour.


Nobody saw the comet.


The storm closed the harbour.


Ships wait outside."""
FACTS = FileFacts("text")


def placed(
    text: str, *, overlap: int = 0, epoch: int = 1, embedded: bool = True, facts: FileFacts = FACTS
) -> list[PlacedChunk]:
    document = parse("a.txt", text.encode(), Limits())
    settings = ChunkSettings(unit="characters", size=40, overlap=overlap)
    chunks = chunk(document, settings, cl100k(), 8192)
    claim = Mock(id=UUID(int=1), path="a.txt", id_path="a")
    return place(claim, facts, document, chunks, epoch=epoch, embedded=embedded)


@pytest.mark.parametrize("overlap", [0, 20])
@pytest.mark.parametrize("end", ["", "\n\n \n"])
def test_chunks_and_what_is_between_them_are_the_text(overlap: int, end: str) -> None:
    found, text = placed(TEXT + end, overlap=overlap), ""
    assert len(found) > 2
    for each in found:
        text += each.lead
        text += each.chunk.text[len(text) - each.chunk.start_char :]
        text += each.trail
    assert text == TEXT + end
    assert [each.trail for each in found[:-1]] == [""] * (len(found) - 1)


def test_equal_chunks_of_a_file_have_ids_of_their_own() -> None:
    found = placed(TEXT)
    assert len({each.content_hash for each in found}) < len(found)
    assert len({each.id for each in found}) == len(found)


def test_the_same_text_has_the_same_ids_until_what_the_store_keeps_changes() -> None:
    ids = {each.id for each in placed(TEXT)}
    assert {each.id for each in placed(TEXT)} == ids
    others = [placed(TEXT, epoch=2), placed(TEXT, embedded=False), placed(TEXT, facts=replace(FACTS, type="code"))]
    for other in others:
        assert ids.isdisjoint(each.id for each in other)


def test_a_chunk_within_another_leaves_no_text_twice() -> None:
    pieces = [Chunk("0123456789", 0, 10, 1, 1, 1), Chunk("234", 2, 5, 1, 1, 1), Chunk("cd", 12, 14, 1, 1, 1)]
    claim: Any = Mock(id=UUID(int=1), path="a", id_path="a")
    found = place(claim, FACTS, Document("0123456789abcd", "text"), pieces, epoch=1, embedded=True)
    assert [(each.lead, each.trail) for each in found] == [("", ""), ("", ""), ("ab", "")]


PIECE = Chunk("text", 0, 4, 1, 1, 1, "", "/a", None, "name", "function", "outer", 0)


@pytest.mark.parametrize(
    "changed",
    [
        {"path": "b"},
        {"id_path": "b"},
        {"language": "ruby"},
        {"json_pointer": "/b"},
        {"symbol": "other"},
        {"node_type": "class"},
        {"scope": None},
        {"level": 1},
        {"text": "other"},
    ],
)
def test_whatever_the_store_keeps_of_a_chunk_is_in_its_id(changed: dict[str, Any]) -> None:
    def id_of(path: str = "a", id_path: str = "a", language: str = "python", **of_piece: Any) -> UUID:
        claim: Any = Mock(id=UUID(int=1), path=path, id_path=id_path)
        document = Document("text", "code", language=language)
        (placed,) = place(claim, FACTS, document, [PIECE._replace(**of_piece)], epoch=1, embedded=True)
        return placed.id

    assert id_of(**changed) != id_of()
    # where it is in the file is in its row alone
    assert id_of(start_line=9) == id_of()


def test_an_id_is_that_of_earlier_releases() -> None:
    """A slice that is repeated after an upgrade writes the same rows."""
    claim: Any = Mock(id=UUID(int=1), path="a", id_path="a")
    pieces = [PIECE, PIECE, PIECE._replace(read="\u00f6")]
    found = place(claim, FACTS, Document("text", "code", language="python"), pieces, epoch=1, embedded=True)
    assert [str(each.id) for each in found] == [
        "272fa264-c954-821f-afdd-5820c7e588c1",
        "25383b4c-678b-8ff1-bda9-23128c0ef8b4",
        "c433644e-d74c-85e1-bd1d-e6c191675979",
    ]
