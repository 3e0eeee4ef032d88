"""The reaction of a task to an error: wait, end with its reason, or leave it to the sweep."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any, NamedTuple
from uuid import UUID

import psycopg
import structlog
from celery import Task
from psycopg.errors import LockNotAvailable, ProgramLimitExceeded

from schemas.errors import FoldexError, LeaseLost, SliceOver
from worker import dispatch
from worker.state.index import messages, task_notes, tasks
from worker.state.index.tasks import ListingLease, RunningTask
from worker.state.pool import Pool
from worker.tasks import process

#: The state of a successful run in Flower.
Result = dict[str, object]

#: Seconds before work is retried after a transient error.
RETRY_SECONDS = 3.0
#: The result of a slice that met a lock.
LOCKED: Result = {"left": "locked"}
#: The result of a message about work that this process leaves to others.
ELSEWHERE: Result = {"left": "to a worker that sees the directory or the folder"}
#: Maximum length in characters of an unexpected exception in a task's message.
MAX_FAULT = 300

log = structlog.get_logger()


class RunFailed(Exception):
    """Shows a run of a Celery task as failed in Flower. Celery acknowledges its message and does not run it again.

    `trace` is the traceback that Flower shows; "" for errors of ours, whose reason says all.
    """

    def __init__(self, reason: str, trace: str = "") -> None:
        super().__init__(reason, trace)
        self.trace = trace

    def __str__(self) -> str:
        return str(self.args[0])

    def __repr__(self) -> str:
        """Return the exception text for Flower."""
        return str(self)


class ShownTask(Task):  # type: ignore[misc] # Celery has no types
    """A task whose failures Flower shows. Celery does not log them, because they are logged where they happen."""

    throws = (RunFailed,)

    def on_failure(self, exc: BaseException, _id: str, _args: Any, _kwargs: Any, einfo: Any) -> None:
        """Replace the traceback of the event, which would lead to where `RunFailed` was raised."""
        if isinstance(exc, RunFailed):
            einfo.traceback = exc.trace


class SliceEnd(NamedTuple):
    """The end of a slice: its result, and the seconds until its message is sent again (None: not at all)."""

    result: Result
    retry_seconds: float | None


def settle(pool: Pool, task: ListingLease | RunningTask, error: FoldexError) -> SliceEnd:
    """Retry after transient errors; end the task with the reason of permanent ones. Raises `LeaseLost` again."""
    if isinstance(error, LeaseLost):
        raise error
    if isinstance(error, SliceOver):
        return SliceEnd({"ended": error.code, "more": True}, 0)
    if error.retryable:
        log.warning("waiting", code=error.code, reason=error.message)
        task_notes.warn(pool, task.id, f"Waiting: {error.message}")
        seconds = retry_seconds(error)
        # the sweep also skips the task until then
        messages.note_sent(pool, task.id, seconds)
        return SliceEnd({"waiting": error.code}, seconds)
    log.error("task failed", code=error.code, reason=error.message)
    dispatch.send_next(tasks.fail(pool, task.id, task.index_id, error))
    return SliceEnd(_failed(error.code, error.message), None)


def retry_seconds(error: FoldexError) -> float:
    """Return the seconds until failed work is retried: the service's request, within the bounds that sweeps trust."""
    return max(RETRY_SECONDS, min(error.retry_after or 0, tasks.LONGEST_WAIT.total_seconds()))


def unless_locked(work: Callable[[UUID], Result], task_id: UUID) -> Result:
    """Work on a task, or pass over it while another transaction locks its rows: others wait for this process."""
    try:
        return work(task_id)
    except LockNotAvailable as error:
        log.warning(
            "a lock stays on what the task needs; it is tried again later", locked=str(task_id), error=str(error)
        )
        messages.pass_over(process.resources().pool, task_id)
        return LOCKED


def outcome(pool: Pool, task_id: UUID) -> Result:
    """Return the slice result if its task has ended as `error`, whichever process closed it; else nothing."""
    failure = tasks.failure(pool, task_id)
    return _failed(*failure) if failure else {}


def contain(
    id_: UUID,
    work: Callable[[UUID], Result],
    *,
    name: str = "task_id",
    warn: Callable[[Pool, UUID, str], None] | None = None,
) -> Result:
    """Run a task and let only `RunFailed` reach Celery: its row records the result and the next step."""
    structlog.contextvars.bind_contextvars(**{name: str(id_)})
    try:
        result = work(id_)
    except LeaseLost as error:
        return {"ended": error.code}
    except psycopg.OperationalError as error:
        log.warning("waiting for the sweep", cause=_cause(error), error=str(error))
        return {"waiting": "postgres"}
    except MemoryError:
        # Celery would stop the whole worker; instead the lease expires and the files are tried again
        log.exception("out of memory")
        return {"waiting": "memory"}
    except Exception as error:  # a bug of ours must neither end the worker nor go unreported
        log.exception("slice failed")
        warning = f"Waiting: {type(error).__name__} in a worker. It is retried; see the worker's log."
        # the message may name another row than the one that was due
        due = UUID(structlog.contextvars.get_contextvars().get(name, str(id_)))
        (warn or task_notes.warn)(process.resources().pool, due, warning)
        raise RunFailed(one_line(error), traceback.format_exc()) from None
    finally:
        structlog.contextvars.clear_contextvars()
    if "error" in result:
        raise RunFailed(f"{result['error']}: {result['reason']}")
    return result


def contain_upkeep(message: str, work: Callable[[], Result]) -> Result:
    """Run upkeep and let only `RunFailed` reach Celery.

    Upkeep is sent again anyway, so a failure of Postgres only logs a line.
    """
    try:
        return work()
    except psycopg.OperationalError as error:
        log.warning(message, cause=_cause(error), error=str(error))
        return {"skipped": "postgres"}
    except FoldexError as error:
        log.warning(message, code=error.code, reason=error.message)
        raise RunFailed(f"{error.code}: {error.message}") from None
    except Exception as error:  # a bug of ours must not go unreported
        log.exception(message)
        raise RunFailed(one_line(error), traceback.format_exc()) from None


def is_outage(error: Exception) -> bool:
    """Return whether Postgres is away or out of space. A permanent refusal, as of too long a value, is neither."""
    return isinstance(error, psycopg.OperationalError) and not isinstance(error, ProgramLimitExceeded)


def one_line(error: Exception) -> str:
    """Describe an exception on one line, without long quotations."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:MAX_FAULT]


def _failed(code: str, message: str) -> Result:
    return {"error": code, "reason": message}


def _cause(error: psycopg.OperationalError) -> str:
    """Name the cause: a deadlock or a shutdown is an answer and has a different remedy from silence."""
    return f"Postgres says {type(error).__name__}" if error.sqlstate else "Postgres does not answer"
