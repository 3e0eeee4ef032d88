"""Tells by stamps, without reading files, whether an index is behind its folder, and starts a reindex."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import UUID

from api.http.disconnect import Left
from schemas.errors import SourceError
from schemas.search import Note, Refresh
from worker import app as queue
from worker.formats.by_name import is_of
from worker.resources import Resources
from worker.sources import pages
from worker.state.index import tasks, tool_actions
from worker.state.index.tools import Index
from worker.state.search import freshness

#: Maximum seconds to compare a folder, enough for some ten thousand files.
COMPARE_SECONDS = 2.0
#: Seconds between two polls of the awaited task.
POLL = 0.05


@dataclass(frozen=True, slots=True)
class Staleness:
    """Counts of files that an answer lacks or shows outdated: `unseen` by any task, `gone`, and `open` in a task.

    If not `complete`, the time ran out before the whole folder was compared, and `gone` is not known.
    """

    unseen: int
    gone: int
    open: int
    complete: bool

    @property
    def files(self) -> int:
        """The total."""
        return self.unseen + self.gone + self.open


def refresh(
    resources: Resources, tool_id: UUID, index: Index, how: Refresh, *, left: Left
) -> tuple[int | None, list[Note]]:
    """Bring the index up to date as `how` says. Returns the number of stale files (None: unknown), and notes.

    If the folder cannot be listed, a note says so, and the index still answers. Raises `NotFound` for a deleted tool,
    and `CallerLeft`.
    """
    if how == "none":
        return None, []
    try:
        if how == "wait":
            return _wait(resources, tool_id, index, left)
        stale = compare(resources, index, left)
        notes = _take_up(resources, tool_id, index, stale)
    except SourceError as error:
        return None, [Note(code=error.code, detail=error.message)]
    return stale.files, notes + _partly(stale)


def compare(resources: Resources, index: Index, left: Left) -> Staleness:
    """Compare the folder's listing, by the index's rules, with its rows. Raises `SourceError` and `CallerLeft`."""
    deadline = time.monotonic() + COMPARE_SECONDS
    source, pool = resources.source_of(index), resources.pool
    unseen = open_ = known = 0
    unlisted: list[bytes] = []
    for page in pages(source, left.check):
        wanted = [is_of(index.types, entry.path, entry.type) for entry in page.entries]
        found = freshness.compare(pool, index.id, page.entries, wanted)
        unseen, open_, known = unseen + found.unseen, open_ + found.open, known + found.known
        unlisted += page.unlisted
        if page.cursor is not None and time.monotonic() > deadline:
            return Staleness(unseen, 0, open_, complete=False)
    rows = freshness.rows(pool, index.id, unlisted)
    missing = max(0, rows.known - known)
    going = min(missing, rows.going)
    return Staleness(unseen, missing - going, open_ + going, complete=True)


def _take_up(resources: Resources, tool_id: UUID, index: Index, stale: Staleness) -> list[Note]:
    """Start or extend a task for stale files, unless an open task has already listed all of them."""
    task = tasks.newest(resources.pool, index.id)
    if not stale.files:
        return []
    if _are_held(stale, task):
        detail = (
            f'{stale.gone} files have vanished from the folder; reindex with {{"allow_removals": true}} if so meant.'
        )
        return [Note(code="removals_held", detail=detail)]
    if stale.unseen or stale.gone or task is None or task["finished_at"] is not None:
        _reindex(resources, tool_id)
    return [Note(code="reindexing", detail=f"{stale.files} files changed, came or went; they are being indexed.")]


def _are_held(stale: Staleness, task: dict[str, Any] | None) -> bool:
    """Whether the only stale files are removals that wait for the user's confirmation."""
    return task is not None and stale.files == stale.gone == task["held_removals"]


def _reindex(resources: Resources, tool_id: UUID) -> None:
    task_id = tool_actions.reindex(resources.pool, tool_id, full=False, allow_removals=False)
    if task_id is not None:
        queue.post(partial(queue.send_plan, task_id, tool_id))


def _wait(resources: Resources, tool_id: UUID, index: Index, left: Left) -> tuple[int, list[Note]]:
    """Reindex stale files, and parts that could not be compared, and wait for the task."""
    deadline = time.monotonic() + resources.settings.refresh_seconds
    stale = compare(resources, index, left)
    notes = _take_up(resources, tool_id, index, stale)
    if not stale.files and not stale.complete:
        _reindex(resources, tool_id)
    elif [note.code for note in notes] != ["reindexing"]:
        return stale.files, notes
    notes = _ended(resources, index, deadline, left)
    stale = compare(resources, index, left)
    return stale.files, notes + _partly(stale)


def _ended(resources: Resources, index: Index, deadline: float, left: Left) -> list[Note]:
    """Wait for the newest task, and one that follows it. Returns notes on how it ended."""
    while True:
        task = tasks.newest(resources.pool, index.id)
        if task is None or task["finished_at"] is not None:
            break
        if time.monotonic() > deadline:
            return [Note(code="still_indexing", detail="REFRESH_SECONDS were over before all changes were indexed.")]
        left.wait(POLL)
    failed = task is not None and task["status"] == "error"
    return [Note(code="reindex_failed", detail=str(task and task["error"]))] if failed else []


def _partly(stale: Staleness) -> list[Note]:
    if stale.complete:
        return []
    detail = f"Comparing the folder took longer than {COMPARE_SECONDS:g} s: more may have changed; reindex to be sure."
    return [Note(code="partly_compared", detail=detail)]
