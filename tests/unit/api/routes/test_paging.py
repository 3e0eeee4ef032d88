"""Pages of a list, and the cursors that lead from one to the next."""

from __future__ import annotations

from uuid import UUID

import pytest

from api.routes.paging import from_cursor, page, to_cursor
from schemas.errors import Invalid

ID = UUID(int=1)


def test_a_cursor_comes_back_as_its_parts() -> None:
    assert from_cursor(to_cursor("ä/b", ID), str, UUID) == ("ä/b", ID)
    assert from_cursor(None, str, UUID) is None
    assert from_cursor("", str, UUID) is None


@pytest.mark.parametrize("cursor", ["x", "ä", "W10=", "WzFd", "bnVsbA==", "IjEi", to_cursor("a", "no id")])
def test_a_cursor_that_is_none_is_refused(cursor: str) -> None:
    with pytest.raises(Invalid, match="next_cursor"):
        from_cursor(cursor, str, UUID)


@pytest.mark.parametrize(("length", "items", "last"), [(0, [], None), (2, ["0", "1"], None), (3, ["0", "1"], 1)])
def test_a_page_names_the_next_one_only_if_there_is_more(length: int, items: list[str], last: int | None) -> None:
    shown = page(lambda most: range(length)[:most], 2, str, lambda row: [row])
    assert shown.items == items
    assert from_cursor(shown.next_cursor, int) == (None if last is None else (last,))
