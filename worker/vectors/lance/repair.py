"""Handles LanceDB tables with deleted files: repairs what can be read, or declares the table lost.

If a table's directory is deleted during a commit, the commit's own files remain, and no library call handles that.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import structlog

from worker.machine.error_texts import lacks_file
from worker.vectors.lance import indexes
from worker.vectors.lance.cleaning import committing

log = structlog.get_logger()

#: Attempts to read a table whose files others delete meanwhile, as compactions do.
ATTEMPTS = 10


def versions(path: Path) -> frozenset[Path]:
    """The files of a table's versions. They change with each commit, and when old versions are deleted."""
    with suppress(FileNotFoundError):
        return frozenset((path / "_versions").iterdir())
    return frozenset()


def is_lost(open_table: Callable[[], Any], path: Path) -> bool:
    """Whether rows of a table at `path` are no longer readable. If they are readable, rebuilds indexes that are not."""
    for _ in range(ATTEMPTS):
        before = versions(path)
        try:
            # Open it again: a compaction deletes files that earlier openings still refer to.
            table = open_table()
            for _ in table.search().select(["id", "vector"]).to_batches():
                pass
        except (RuntimeError, ValueError) as error:
            if not lacks_file(error):
                return False
            if versions(path) == before:
                return True
        else:
            for column in indexes.indexable(table, large_rows=0):
                _mend(table, path, column)
            return False
    return False


def _mend(table: Any, path: Path, column: str) -> None:
    try:
        indexes.read(table, column)
    except RuntimeError as error:
        if not lacks_file(error):
            raise
        log.warning("an index of a LanceDB table lost its files; rebuilding it", table=table.name, column=column)
        with committing(path):
            indexes.create(table, column)
