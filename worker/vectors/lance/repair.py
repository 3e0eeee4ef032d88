"""Tables of LanceDB of which somebody deleted files: what is left is made whole, or given up.

A directory deleted while a commit is at work keeps the commit's own files, and no call of the library gets past them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import structlog

from worker.vectors.lance import indexes

log = structlog.get_logger()


def lacks_file(error: BaseException | None) -> bool:
    """Tell whether LanceDB misses a file, or finds no table in a directory. It has no class of its own for either."""
    return isinstance(error, RuntimeError | ValueError) and "not found" in str(error).lower()


def is_lost(open_table: Callable[[], Any]) -> bool:
    """Tell whether rows of a table cannot be read any more, after its indexes were made anew where those could not."""
    try:
        table = open_table()
        # looked at anew, for a compaction takes files away from those who opened the table before
        for _ in table.search().select(["id", "vector"]).to_batches():
            pass
    except (RuntimeError, ValueError) as error:
        return lacks_file(error)
    for column in indexes.indexable(table):
        _mend(table, column)
    return False


def _mend(table: Any, column: str) -> None:
    try:
        indexes.read(table, column)
    except RuntimeError as error:
        if not lacks_file(error):
            raise
        log.warning("an index of a LanceDB table lost its files and is made anew", table=table.name, column=column)
        indexes.create(table, column)
