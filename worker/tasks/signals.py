"""Handlers for the start and end of Celery's processes."""

from __future__ import annotations

import multiprocessing
import os
import sys
from typing import Any

import psycopg
import structlog
from celery import Task, signals
from celery.utils.log import current_process_index

from schemas.errors import ContentsElsewhere, VectorsElsewhere
from worker.app import BULK, REQUEST_ID, TREES, settings
from worker.machine import logs
from worker.machine.niceness import share_with_session
from worker.machine.privacy import close_home, keep_private
from worker.machine.scratch import hold_files_of_pool, remove_abandoned
from worker.parse.sandbox.client import prepare
from worker.resources import check_directories, preload
from worker.sandbox.helper import stop_all
from worker.state import schema_version
from worker.state.connections import Application, name_process
from worker.stores import store_directories
from worker.tasks import process
from worker.tokens.languages import share_model

log = structlog.get_logger()


@signals.setup_logging.connect
def _configure_logs(**_: Any) -> None:
    logs.configure(settings.log_level)
    for sentence in settings.misspelt(os.environ):
        log.warning(sentence)


@signals.task_prerun.connect
def _bind_request(task: Task, **_: Any) -> None:
    """Add the request behind a task to its log lines, and remove an earlier task's."""
    structlog.contextvars.clear_contextvars()
    request_id = task.request.get(REQUEST_ID)
    if request_id:
        structlog.contextvars.bind_contextvars(request_id=request_id)


@signals.worker_init.connect
def _check_semaphores(**_: Any) -> None:
    """Exit with one sentence where Celery's pool would exit with a traceback."""
    try:
        multiprocessing.Lock()
    except OSError as error:
        place = "/dev/shm" if sys.platform == "linux" else "the place of semaphores"  # noqa: S108 - where Linux keeps them
        raise SystemExit(f"{place} is not writable ({error.strerror}); worker processes need it") from None


@signals.worker_init.connect
def _name_process(**_: Any) -> None:
    """Name our connections; the pool's processes inherit the name."""
    name_process(Application.WORKER)


@signals.worker_init.connect
def _share_niceness(**_: Any) -> None:
    """Let this worker's niceness count among all programs, whoever started it."""
    share_with_session(os.getpid())


@signals.worker_init.connect
def _keep_private(**_: Any) -> None:
    """Make files private; the pool's processes inherit it."""
    keep_private(settings.debuggers)
    close_home(settings.foldex_home, store_directories())


@signals.worker_init.connect
def _share_language_model(**_: Any) -> None:
    """Set the directory of shared files; the pool's processes inherit it."""
    share_model(settings.foldex_home.absolute() / "run")


@signals.worker_init.connect
def _wait_for_schema(**_: Any) -> None:
    """Take no task before the database has this release's schema."""
    schema_version.wait(settings.session_url)


@signals.worker_init.connect
def _check_directories(**_: Any) -> None:
    """Exit with one sentence if this process sees other directories than the installation's."""
    try:
        check_directories(settings)
    except (VectorsElsewhere, ContentsElsewhere) as error:
        raise SystemExit(error.message) from None
    except psycopg.Error as error:
        # each task checks again
        log.warning("directories not checked yet", error=str(error))


@signals.worker_init.connect
@signals.worker_process_init.connect
def _remove_scratch(**_: Any) -> None:
    """Remove leftovers of killed processes from the disk."""
    remove_abandoned()


@signals.worker_init.connect
def _hold_files_of_pool(**_: Any) -> None:
    hold_files_of_pool()


@signals.celeryd_after_setup.connect
def _prepare_parsing(**_: Any) -> None:
    refused = prepare()
    if refused:
        log.warning(
            "files are parsed with less protection because the system does not support all of it", refused=refused
        )


@signals.celeryd_after_setup.connect
def _build_trees(instance: Any, **_: Any) -> None:
    """Let each worker of the bulk queue build trees, whichever queues its command names."""
    queues = instance.app.amqp.queues
    if BULK in queues.consume_from:
        queues.select_add(queues[TREES])


@signals.celeryd_after_setup.connect
def _enter_registry(sender: str, instance: Any, **_: Any) -> None:
    """Enter this worker in the registry of hosts before it takes work, which it may have to leave to others."""
    process.enter_registry(sender, list(instance.app.amqp.queues.consume_from))


@signals.worker_process_init.connect
def _stay_in_registry(**_: Any) -> None:
    """Let one of the pool's processes register heartbeats of this worker, because threads and forks conflict."""
    # the only process of a pool without forks has no number
    if not current_process_index(base=0):
        process.stay_in_registry()


@signals.worker_process_init.connect
def _unpack_language_model(**_: Any) -> None:
    """Let one of the pool's processes unpack the model before a folder needs it."""
    if not current_process_index(base=0):
        process.unpack_language_model()


@signals.worker_shutdown.connect
def _leave_registry(**_: Any) -> None:
    process.leave_registry()


@signals.worker_process_shutdown.connect
def _stop_parsing(**_: Any) -> None:
    stop_all()


@signals.worker_init.connect
def _import_before_fork(**_: Any) -> None:
    preload(settings)
