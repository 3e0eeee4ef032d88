"""How much a ZIP container may hold, on both sides of each limit."""

from __future__ import annotations

import pytest

from schemas.errors import FileError
from schemas.status import Reason
from tests.contract.samples import zipped
from worker.parse import Limits
from worker.parse.office import zip_container

MEMBERS = {"a": b"x" * 3_000, "b": b"y" * 3_000}


def opens(data: bytes, limits: Limits) -> bool:
    """Whether a container is opened, and not refused as too large."""
    try:
        zip_container.opened(data, limits).close()
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
