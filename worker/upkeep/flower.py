"""Shows failures in Flower that no run of a Celery task reports."""

from __future__ import annotations

from uuid import UUID, uuid4

import structlog
from kombu.exceptions import OperationalError

from worker.app import app

log = structlog.get_logger()


def show_failed_run(task_id: UUID, tool_id: UUID, failure: tuple[str, str]) -> None:
    """Show that a run over an index ended with an error, if the sweep closed it.

    Its last slice ended before that, and so reported no failure. Flower lists one more failed `foldex.index`.
    """
    run = app.current_worker_task
    if run is None:
        return
    shown = {"name": "foldex.index", "args": f"(closed by the sweep, tool {tool_id}, task {task_id})", "kwargs": "{}"}
    shown_id, reason = str(uuid4()), ": ".join(failure)
    try:
        # under the name of this worker, so that Flower lists no further one
        with app.events.default_dispatcher(hostname=run.request.hostname) as events:
            events.send("task-received", uuid=shown_id, **shown)
            events.send("task-started", uuid=shown_id)
            events.send("task-failed", uuid=shown_id, exception=reason, traceback="")
    except OperationalError as error:
        log.warning("broker does not answer; Flower does not show a failed run", task_id=str(task_id), error=str(error))
