"""The pages of a list: each names the place where the next one begins."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypeVar

import orjson
from fastapi import Query

from schemas.errors import Invalid
from schemas.tool import Listing

Cursor = Annotated[str | None, Query(description="`next_cursor` of the previous page; omit it for the first page.")]
Limit = Annotated[int, Query(ge=1, le=1000, description="Maximum number of items on the page.")]

Row = TypeVar("Row")
Item = TypeVar("Item")


def page(
    read: Callable[[int], Sequence[Row]],
    limit: int,
    shown: Callable[[Row], Item],
    place: Callable[[Row], Sequence[Any]],
) -> Listing[Item]:
    """The page of at most `limit` rows that `read` returns when asked for one more, which starts the next page.

    `place` says where a row stands in the list, in the parts that `from_cursor` takes.
    """
    rows = read(limit + 1)
    next_cursor = to_cursor(*place(rows[limit - 1])) if len(rows) > limit else None
    return Listing(items=[shown(row) for row in rows[:limit]], next_cursor=next_cursor)


def to_cursor(*parts: Any) -> str:
    """Encode the position after a row as an opaque cursor."""
    return base64.urlsafe_b64encode(orjson.dumps(parts)).decode()


def from_cursor(cursor: str | None, *kinds: Any) -> tuple[Any, ...] | None:
    """The parts of a cursor, each converted by its kind; an empty one is none. Raises `Invalid` for a malformed one."""
    if not cursor:
        return None
    try:
        parts = orjson.loads(base64.urlsafe_b64decode(cursor))
        return tuple(kind(part) for kind, part in zip(kinds, parts, strict=True))
    except (ValueError, TypeError, AttributeError) as error:
        raise Invalid("The cursor is invalid; send next_cursor of the previous page unchanged, or omit it.") from error
