"""The seam to content: a source lists descendants in pages, with cheap stamps, and reads bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

from schemas.document import Content, Page


class Source(Protocol):
    """A folder (or single file) somewhere. Implementations map foreign errors to `SourceError` and `FileError`."""

    def check(self) -> None:
        """Raise `FolderGone`, `SourceRefused` or `SourceUnavailable` unless the root can be listed."""
        ...

    def list(self, cursor: str | None) -> Page:
        """The page after `cursor` (None: the first), in an order that is stable between calls.

        A cursor survives the process that made it. What the tool's rules leave out is counted and not listed, excluded
        directories are not entered. Raises as `check` does.
        """
        ...

    def leaves_out(self, key: bytes) -> bool:
        """Whether it is by the rules that a file once listed is not listed any more."""
        ...

    def read(self, key: bytes, limit: int) -> Content:
        """The bytes of one file; raises `FileError` (`too_large` above `limit` bytes, `unreadable`, …)."""
        ...


def pages(source: Source, check: Callable[[], None]) -> Iterator[Page]:
    """All pages of a source; `check` is called before each, and ends the listing by raising. Raises as `list` does."""
    cursor, is_more = None, True
    while is_more:
        check()
        page = source.list(cursor)
        yield page
        cursor, is_more = page.cursor, page.cursor is not None
