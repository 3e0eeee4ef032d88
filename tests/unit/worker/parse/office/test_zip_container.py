"""How much a ZIP container may hold, on both sides of each limit."""

from __future__ import annotations

import pytest

from schemas.errors import FileError
from schemas.reason import Reason
from tests.contract.samples import zipped
from worker.parse import Limits
from worker.parse.office import zip_container
from worker.parse.office.zip_container import open_container, related

MEMBERS = {"a": b"x" * 3_000, "b": b"y" * 3_000}


def opens(data: bytes, limits: Limits) -> bool:
    """Whether a container is opened, and not refused as too large."""
    try:
        zip_container.open_container(data, limits).close()
    except FileError as refused:
        return refused.reason is not Reason.TOO_LARGE
    return True


@pytest.mark.parametrize(("most", "is_read"), [(2, True), (1, False)])
def test_members_are_counted(monkeypatch: pytest.MonkeyPatch, most: int, is_read: bool) -> None:
    monkeypatch.setattr(zip_container, "_MAX_MEMBERS", most)
    assert opens(zipped(MEMBERS), Limits()) is is_read


@pytest.mark.parametrize(("most", "is_read"), [(6_000, True), (5_999, False)])
def test_all_members_share_the_memory(most: int, is_read: bool) -> None:
    assert opens(zipped(MEMBERS), Limits(memory_bytes=most)) is is_read


@pytest.mark.parametrize(("ratio", "is_read"), [(1, False), (200, True)])
def test_a_large_container_may_inflate_to_a_multiple_of_its_size(
    monkeypatch: pytest.MonkeyPatch, ratio: int, is_read: bool
) -> None:
    monkeypatch.setattr(zip_container, "_ALWAYS_ALLOWED_BYTES", 5_999)
    monkeypatch.setattr(zip_container, "_MAX_RATIO", ratio)
    assert opens(zipped(MEMBERS), Limits()) is is_read


@pytest.mark.parametrize("name", ["word/document.xml", "word/_rels/document.xml.rels"])
@pytest.mark.parametrize("declaration", [b"<!DOCTYPE x>", b'<!ENTITY a "b">'])
@pytest.mark.parametrize("before", [0, zip_container._CHUNK_BYTES - 1, zip_container._CHUNK_BYTES - 8])
def test_xml_that_declares_entities_is_refused(name: str, declaration: bytes, before: int) -> None:
    data = zipped({name: b" " * before + declaration, "other.bin": declaration})
    with pytest.raises(FileError, match=name):
        open_container(data, Limits(), declarations=False)
    open_container(data, Limits()).close()
    open_container(zipped({"other.bin": declaration}), Limits(), declarations=False).close()


def test_related_members_are_those_within_the_container() -> None:
    relation = '<Relationship Id="{}" Type="http://x/{}" Target="{}"{}/>'
    relations = [
        relation.format("r1", "image", "media/a.png", ""),
        relation.format("r2", "image", "../media/b.png", ' TargetMode="Internal"'),
        relation.format("r3", "chart", "/word/media/a.png", ""),
        relation.format("r4", "image", "media/gone.png", ""),
        relation.format("r5", "hyperlink", "media/a.png", ' TargetMode="External"'),
        relation.format("r6", "image", "../../../media/b.png", ""),
    ]
    rels = f"<Relationships>{''.join(relations)}</Relationships>".encode()
    members = {"word/_rels/document.xml.rels": rels, "word/media/a.png": b"a", "media/b.png": b"b"}
    with open_container(zipped(members), Limits()) as archive:
        assert list(related(archive, "word/document.xml")) == [
            ("r1", "image", "word/media/a.png"),
            ("r2", "image", "media/b.png"),
            ("r3", "chart", "word/media/a.png"),
            ("r6", "image", "media/b.png"),
        ]
        assert list(related(archive, "word/other.xml")) == []
