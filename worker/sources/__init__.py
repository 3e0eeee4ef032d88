"""The interface to content: a source lists descendants in pages, with cheap stamps, and reads files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from schemas.content.document import FileContent, ListingPage


class Source(Protocol):
    """A folder or a single file. Implementations map foreign errors to `SourceError` and `FileError`."""

    def check(self) -> None:
        """Raise `FolderGone`, `SourceRefused` or `SourceUnavailable` unless the root can be listed."""
        ...

    def list(self, cursor: str | None) -> ListingPage:
        """Return the page after `cursor` (None: the first page). The pages after a cursor show all the rest.

        A cursor stays valid after the process that made it ends. Entries that the tool's rules exclude are counted but
        not listed, and excluded directories are not entered. Raises as `check` does.
        """
        ...

    def narrow(self, keys: Sequence[bytes]) -> Sequence[bytes] | None:
        """From now on list only entries at or below these keys, and entries that their change may affect.

        Returns the keys that are listed, with everything below them; None if this source still lists everything.
        """
        ...

    def leaves_out(self, key: bytes) -> bool:
        """Return whether rules explain why a previously listed file is missing from the listing."""
        ...

    def near(self) -> str | None:
        """Return a sentence about the contents near a root without files; None if that does not help."""
        ...

    def read(self, key: bytes, limit: int, listed: str = "", /) -> FileContent:
        """Return the bytes of one file. Raises `FileError` (`too_large` above `limit` bytes, `unreadable`, …).

        A source need not read again what it still holds for the stamp `listed`.
        """
        ...


def pages(source: Source, check: Callable[[], None]) -> Iterator[ListingPage]:
    """Yield all pages of a source. `check` runs before each page and may raise to stop it. Raises as `list` does."""
    cursor, is_more = None, True
    while is_more:
        check()
        page = source.list(cursor)
        yield page
        cursor, is_more = page.cursor, page.cursor is not None
