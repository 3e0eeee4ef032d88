"""Errors that end a task of a worker, or a slice of one."""

from __future__ import annotations

from schemas.errors.base import FoldexError


class TaskCrashed(FoldexError):
    """A task that would otherwise be retried forever and fail each time."""

    code = "task_crashed"


class PlanCrashed(TaskCrashed):
    """Each worker that lists the folder crashes or meets an unexpected error."""

    code = "plan_crashed"


class SliceCrashed(TaskCrashed):
    """Workers that index files meet unexpected errors, and no file is completed."""

    code = "slice_crashed"


class TreeCrashed(TaskCrashed):
    """Workers that build a summary tree die or meet unexpected errors, again and again."""

    code = "tree_crashed"


class LeaseLost(FoldexError):
    """The lease or the epoch has changed; this worker must drop what it still holds."""

    code = "lease_lost"
    status = 409


class SliceOver(FoldexError):
    """The slice's time is up before its work is done. Its files go back untried, and the next slice starts at once."""

    code = "slice_over"
    status = 503
    retryable = True

    def __init__(self, message: str = "The slice's time is up; the next slice continues.") -> None:
        super().__init__(message)
