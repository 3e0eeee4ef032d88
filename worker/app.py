"""The Celery application: queues, settings, and sending tasks by name.

It imports no task; workers find the tasks through `include`.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

import structlog
from celery import Celery, signals
from kombu import Connection, Exchange, Queue
from kombu.exceptions import OperationalError

from worker.machine.privacy import keep_private
from worker.settings import Settings

#: The queue of planning, the sweep and small tasks: it has its own processes, so that no large folder delays them.
FAST = "fast"
#: The queue of all other work.
BULK = "bulk"
#: The queue of summary trees. Workers of the bulk queue alternate between both queues, so neither starves.
TREES = "trees"
#: Maximum number of messages per task that may wake workers at once.
MAX_SLICES = 8
#: Length of a queue from which it gets no recurring message: its workers are gone or busy enough.
MAX_WAITING = 100
#: Seconds in which RabbitMQ must answer on an open connection.
ANSWER_SECONDS = 5
#: Seconds without an acknowledgement after which a connection to Redis is lost.
LOST_BROKER_SECONDS = 20
#: Seconds for which a process sends nothing after the broker failed to answer.
SILENT_SECONDS = 1.0
#: Header of a message: the id of the request that led to it.
REQUEST_ID = "foldex_request_id"
#: Seconds between two sweeps. With a lease of 8 s, other workers continue the files of a dead worker within 10 s.
SWEEP_INTERVAL_SECONDS = 1.0
#: Seconds between two sweeps without open work. The queues take turns, so no dead worker stops them.
IDLE_SWEEP_SECONDS = 12.0
#: Seconds between two checks for open work while there is none. The first lease expires later than that.
IDLE_LOOK_SECONDS = 2.0

# LiteLLM ships its price map; without this variable, importing it fetches the map over the network first
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")

log = structlog.get_logger()


class _NoEvents:
    """An event dispatcher that drops the events of sent messages."""

    def publish(self, *_: Any, **__: Any) -> None:
        """Do nothing."""


#: Sends a message without a Flower event.
NO_EVENTS = _NoEvents()


def make_app(broker_url: str, parse_seconds: float = 60.0) -> Celery:
    """Build the application for a broker. docs/how-to/production.md explains why Celery is pinned."""
    app = Celery("foldex", broker=broker_url, include=["worker.tasks"])
    app.conf.update(
        task_queues=[Queue(name, Exchange(name), routing_key=name) for name in (FAST, BULK, TREES)],
        task_default_queue=BULK,
        task_default_exchange=BULK,
        task_default_routing_key=BULK,
        task_create_missing_queues=False,
        # the rows define the work: a message is a hint, and running it twice changes nothing
        task_acks_late=True,
        task_reject_on_worker_lost=True,
        # a failed run is over: the rows show whether there is more to do
        task_acks_on_failure_or_timeout=True,
        task_ignore_result=True,
        worker_prefetch_multiplier=1,
        # far above any slice: only a parser that never releases the interpreter gets here. The helper that reads
        # documents gets three attempts, each with twice the time.
        task_time_limit=300 + int(7 * parse_seconds),
        # guards against leaks; Celery checks memory only between two tasks
        worker_max_tasks_per_child=500,
        worker_max_memory_per_child=1_500_000,
        worker_cancel_long_running_tasks_on_connection_loss=False,
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        # only RabbitMQ has heartbeats: after two missed ones it redelivers a lost host's messages to other workers
        broker_heartbeat=20,
        broker_transport_options=_transport_options(broker_url),
        # the API must answer at once; the sweep sends unsent messages
        task_publish_retry_policy={"max_retries": 2, "interval_start": 0, "interval_step": 0.2, "interval_max": 0.5},
        worker_send_task_events=True,
        task_send_sent_event=True,
        worker_redirect_stdouts=False,
        beat_scheduler="worker.upkeep.clock:StatefulSweepScheduler",
        beat_schedule={
            # on both queues, so that it continues if one worker dies; of two concurrent sweeps, one does nothing
            f"sweep {queue}": {
                "task": "foldex.sweep",
                "schedule": SWEEP_INTERVAL_SECONDS,
                "options": {"queue": queue},
            }
            for queue in (FAST, BULK)
        },
    )
    return app


def _is_rabbitmq(broker_url: str) -> bool:
    return urlsplit(broker_url).scheme in {"amqp", "amqps", "pyamqp"}


def _transport_options(broker_url: str) -> dict[str, object]:
    if _is_rabbitmq(broker_url):
        # without timeouts, a broker that is frozen or blocked by a full disk blocks its callers forever
        return {"read_timeout": ANSWER_SECONDS, "write_timeout": ANSWER_SECONDS}
    return {
        # correctness does not depend on it, and a duplicate costs one empty claim
        "visibility_timeout": 3600,
        "socket_keepalive": True,
        "socket_keepalive_options": _lost_broker(),
        "socket_timeout": 30,
        "socket_connect_timeout": 2,
        "health_check_interval": 25,
    }


def _lost_broker() -> dict[int, int]:
    """Return TCP options that end connections to a lost Redis."""
    values = {
        "TCP_KEEPIDLE": 10,
        "TCP_KEEPINTVL": 5,
        "TCP_KEEPCNT": 2,
        # in milliseconds
        "TCP_USER_TIMEOUT": LOST_BROKER_SECONDS * 1000,
    }
    # not every system has all these options
    return {getattr(socket, name): value for name, value in values.items() if hasattr(socket, name)}


class _Silence:
    """Whether to skip the broker: after a failure one caller at a time retries it, and the others return at once."""

    def __init__(self) -> None:
        self._until = 0.0

    def lasts(self) -> bool:
        now = time.monotonic()
        if now < self._until:
            return True
        if self._until:
            # this caller retries; others skip the broker until its result must be known
            self._until = now + 2 * ANSWER_SECONDS
        return False

    def begin(self) -> None:
        self._until = time.monotonic() + SILENT_SECONDS

    def end(self) -> None:
        self._until = 0.0


def _make_beat_private(**_: object) -> None:
    keep_private(settings.debuggers)


# workers do this in `worker.tasks.signals`
signals.beat_init.connect(_make_beat_private)
_silence = _Silence()
_outbox = ThreadPoolExecutor(1, thread_name_prefix="outbox")
#: The application of this process. It is built on import, because Celery's command line finds it by its name.
settings = Settings()
app = make_app(settings.celery_broker_url, settings.parse_seconds)


def send(
    name: str,
    id_: UUID | None = None,
    *,
    queue: str,
    shown: str,
    countdown: float | None = None,
    quiet: bool = False,
    request_id: str | None = None,
) -> bool:
    """Send a task by name. Returns False if it was not sent.

    Flower lists `shown` as the task's arguments; with `quiet`, Flower gets no event of the message. `request_id` is the
    request that led to it, by default the current one. A lost or unsent message costs time, never work: the sweep sends
    it again.
    """
    # RabbitMQ delivers delayed messages to a worker at once; each then delays its other messages by about a second
    if (countdown and _is_rabbitmq(app.conf.broker_url)) or _silence.lasts():
        return False
    options: dict[str, object] = {"queue": queue, "argsrepr": f"({shown})", "kwargsrepr": "{}", "countdown": countdown}
    request_id = request_id or _request_of(id_)
    options["headers"] = {REQUEST_ID: request_id} if request_id else {}
    if quiet:
        options["event_dispatcher"] = NO_EVENTS
    try:
        app.send_task(name, args=[] if id_ is None else [str(id_)], **options)
    except OperationalError as error:
        _silence.begin()
        log.warning(
            "broker does not answer; the sweep will send this task", task=name, id=id_ and str(id_), error=str(error)
        )
        return False
    _silence.end()
    return True


def _request_of(id_: UUID | None) -> str | None:
    """Return the id of the current request, if it requested the work of the message.

    A slice also sends messages of other tasks, which other requests started.
    """
    bound = structlog.contextvars.get_contextvars()
    return bound.get("request_id") if bound.get("task_id", str(id_)) == str(id_) else None


def post(send_it: Callable[[], object]) -> None:
    """Send in a background thread. The API uses it, so that an unresponsive broker delays no request."""
    _outbox.submit(copy_context().run, _run_logged, send_it)


def _run_logged(send_it: Callable[[], object]) -> None:
    try:
        send_it()
    except Exception:  # the thread's result is not inspected
        log.exception("a message was not sent")


def count_queued(queue: str) -> int:
    """Count the messages that no worker has taken yet.

    Returns 0 if the broker does not answer: nothing can be sent then.
    """
    if _silence.lasts():
        return 0
    with app.pool.acquire(block=True) as connection:
        try:
            # a connection that failed before comes out of the pool closed
            connection.ensure_connection(max_retries=0)
            count = _count(connection, queue)
        except (OperationalError, *connection.connection_errors):
            # a late answer would be mistaken for the answer to another request
            connection.collect()
            _silence.begin()
            return 0
    _silence.end()
    return count


def _count(connection: Connection, queue: str) -> int:
    try:
        if not _is_rabbitmq(app.conf.broker_url):
            # a new channel would open connections
            return int(connection.default_channel.queue_declare(queue, passive=True).message_count)
        with connection.channel() as channel:
            return int(channel.queue_declare(queue, passive=True).message_count)
    # in Redis, an empty queue does not exist
    except connection.channel_errors:
        return 0


def crowded(queue: str) -> bool:
    """Return whether the queue is so long that a recurring message would only wait in it."""
    return count_queued(queue) >= MAX_WAITING


def send_plan(task_id: UUID, tool_id: UUID, countdown: float | None = None) -> bool:
    """Send the message that lists a task's folder."""
    return send("foldex.plan", task_id, queue=FAST, shown=f"tool {tool_id}, task {task_id}", countdown=countdown)


def post_plan(task_id: UUID, tool_id: UUID) -> None:
    """Send the message that lists a task's folder, in a background thread: see `post`."""
    post(partial(send_plan, task_id, tool_id))
