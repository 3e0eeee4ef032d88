"""Tells by stamps, without reading files, whether an index is behind its folder, and starts a reindex."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from api.http.disconnect import Disconnect
from api.http.shares import elsewhere
from api.http.sight import SeenIndex
from api.search.text.visibility import are_counted
from schemas.errors import SourceError
from schemas.queries.search import Note, Refresh
from worker import dispatch
from worker.formats.by_name import has_type
from worker.resources import Resources
from worker.sources import pages
from worker.state.index import tasks
from worker.state.index.tasks import TaskState
from worker.state.search import freshness

#: Maximum seconds to compare a folder, enough for some ten thousand files.
COMPARE_SECONDS = 2.0
#: Seconds between two polls of the awaited task.
POLL_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class StaleFiles:
    """Counts of files that an answer lacks or shows outdated: `unseen` by any task, `vanished`, and `open` in a task.

    If not `complete`, the time ran out before the whole folder was compared, and `vanished` is not known.
    """

    unseen: int
    vanished: int
    open: int
    complete: bool

    @property
    def total(self) -> int:
        """All stale files."""
        return self.unseen + self.vanished + self.open


class Freshness(NamedTuple):
    """The number of stale files (None: unknown), and notes on them."""

    stale_files: int | None
    notes: Sequence[Note] = ()


def refresh(
    resources: Resources, tool_id: UUID, index: SeenIndex, how: Refresh, *, disconnect: Disconnect
) -> Freshness:
    """Bring the index up to date as `how` says.

    If the folder cannot be listed, a note says so, and the index still answers. Raises `NotFound` for a deleted tool,
    and `CallerLeft`.
    """
    if how == "none":
        return Freshness(None)
    try:
        if how == "wait":
            return _wait(resources, tool_id, index, disconnect)
        stale = compare(resources, index, disconnect)
        notes = _reindex_stale(resources, tool_id, index, stale)
    except SourceError as error:
        return Freshness(None, [Note(code=error.code, detail=error.message)])
    return Freshness(stale.total, notes + _partly_compared(stale))


def compare(resources: Resources, index: SeenIndex, disconnect: Disconnect) -> StaleFiles:
    """Compare the folder's listing, by the index's rules, with its rows. Raises `SourceError` and `CallerLeft`."""
    deadline = time.monotonic() + COMPARE_SECONDS
    source, pool = resources.source_of(index), resources.pool
    unseen = open_ = with_row = 0
    unlisted: list[bytes] = []
    for page in pages(source, disconnect.check):
        is_indexed = [has_type(index.types, entry.path, entry.type) for entry in page.entries]
        counts = freshness.compare(pool, index.id, page.entries, is_indexed)
        unseen, open_, with_row = unseen + counts.unseen, open_ + counts.open, with_row + counts.known
        unlisted += page.unlisted
        if page.cursor is not None and time.monotonic() > deadline:
            return StaleFiles(unseen, 0, open_, complete=False)
    rows = freshness.count_rows(pool, index.id, unlisted)
    missing = max(0, rows.known - with_row)
    going = min(missing, rows.going)
    return StaleFiles(unseen, missing - going, open_ + going, complete=True)


def _reindex_stale(resources: Resources, tool_id: UUID, index: SeenIndex, stale: StaleFiles) -> list[Note]:
    """Start or extend a task for stale files, unless an open task has already listed all of them."""
    task = tasks.newest(resources.pool, index.id)
    if not stale.total:
        return []
    if _are_held_removals(stale, task):
        # the answer has a note on them in any case
        return []
    if stale.unseen or stale.vanished or task is None or task.finished_at is not None:
        dispatch.reindex(resources.pool, tool_id)
    detail = "Files that were added, changed or removed, and are being indexed"
    counted = are_counted(resources.pool, index)
    return [Note(code="reindexing", detail=f"{detail}: {stale.total}." if counted else f"{detail}: some.")]


def _are_held_removals(stale: StaleFiles, task: TaskState | None) -> bool:
    """Whether the only stale files are removals that wait for the user's confirmation."""
    return task is not None and stale.total == stale.vanished == task.held_removals


def _wait(resources: Resources, tool_id: UUID, index: SeenIndex, disconnect: Disconnect) -> Freshness:
    """Reindex stale files, and parts that could not be compared, and wait for the task."""
    deadline = time.monotonic() + resources.settings.search_seconds
    stale = compare(resources, index, disconnect)
    notes = _reindex_stale(resources, tool_id, index, stale)
    if not stale.total and not stale.complete:
        dispatch.reindex(resources.pool, tool_id)
    elif [note.code for note in notes] != ["reindexing"]:
        return Freshness(stale.total, notes)
    notes = _wait_for_task(resources, index, deadline, disconnect)
    stale = compare(resources, index, disconnect)
    return Freshness(stale.total, notes + _partly_compared(stale))


def _wait_for_task(resources: Resources, index: SeenIndex, deadline: float, disconnect: Disconnect) -> list[Note]:
    """Wait for the words of the newest task, and of one that follows it. Returns notes on how it ended."""
    while True:
        task = tasks.newest(resources.pool, index.id)
        if task is None or task.finished_at is not None or task.has_words:
            break
        if time.monotonic() > deadline:
            return [Note(code="still_indexing", detail="SEARCH_SECONDS elapsed before all changes were indexed.")]
        with elsewhere():
            disconnect.wait(POLL_SECONDS)
    if task is None or task.status != "error":
        return []
    # it may name files, so the status leaves it out for the same callers
    cause = task.error if are_counted(resources.pool, index) else "The run failed; whoever reads all files sees why."
    return [Note(code="reindex_failed", detail=str(cause))]


def _partly_compared(stale: StaleFiles) -> list[Note]:
    if stale.complete:
        return []
    detail = f"Comparing the folder took longer than {COMPARE_SECONDS:g} s: more may have changed; reindex to be sure."
    return [Note(code="partly_compared", detail=detail)]
