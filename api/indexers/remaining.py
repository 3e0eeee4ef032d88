"""Estimates how long a task still takes, by the work that is left and what such work took so far."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from worker.state.index.statuses import TaskOfTool


class _Usual(NamedTuple):
    """Milliseconds of one byte or image before the task has told: they weigh as much as `amount` that it has read."""

    ms: float
    amount: float


#: Measured on one core. A first image tells whether text is recognized in it, which takes a second.
_TEXT = _Usual(1e-3, 256 * 1024)
_DOCUMENT = _Usual(2.5e-4, 1024 * 1024)
_IMAGE = _Usual(50.0, 1)


class _Work(NamedTuple):
    """Milliseconds of one process: what the task has read of a kind, and what is left."""

    done: float
    left: float


def seconds(task: TaskOfTool, now: datetime) -> float | None:
    """Estimate the remaining seconds of a task; None before it has done something.

    Once all files are found by their words, vectors are what is left.
    """
    if task.vectors_due:
        elapsed = _elapsed(task, task.searchable_at, now)
        is_known = elapsed is not None and task.embedded_chunks > 0
        return _rounded(elapsed * task.vectors_due / task.embedded_chunks) if elapsed is not None and is_known else None
    return _reading_seconds(task, task.worked_from, now)


def words_seconds(task: TaskOfTool, now: datetime) -> float | None:
    """As `seconds`, until the words of all files are searchable; None then. They are no later than the run ends."""
    if task.searchable_at is not None:
        return None
    words, all_ = _reading_seconds(task, task.started_at, now), seconds(task, now)
    return words if words is None or all_ is None else min(words, all_)


def _reading_seconds(task: TaskOfTool, since: datetime | None, now: datetime) -> float | None:
    """The seconds of the reading that is left.

    Several processes divide the time of all kinds. Time beyond that of reading went into the chunks of texts and
    documents, so it is no measure of images.
    """
    elapsed = _elapsed(task, since, now)
    if elapsed is None or task.text_read + task.document_read + task.image_read <= 0:
        return None
    text = _work(_TEXT, task.text_left, task.text_read, task.text_ms)
    document = _work(_DOCUMENT, task.document_left, task.document_read, task.document_ms)
    image = _work(_IMAGE, task.image_left, task.image_read, task.image_ms)
    done, left = text.done + document.done, text.left + document.left
    took = 1000 * elapsed
    pace = min(1.0, took / (done + image.done))
    chunks_pace = max(pace, (took - image.done) / done) if done else pace
    return _rounded((image.left * pace + left * chunks_pace) / 1000)


def _work(usual: _Usual, left: int, read: int, ms: int) -> _Work:
    each = (usual.ms * usual.amount + max(ms, 0)) / (usual.amount + max(read, 0))
    return _Work(each * max(read, 0), each * max(left, 0))


def _elapsed(task: TaskOfTool, since: datetime | None, now: datetime) -> float | None:
    return None if task.finished_at is not None or since is None else max((now - since).total_seconds(), 0.0)


def _rounded(estimate: float) -> float:
    return float(round(estimate, 1))
