"""The Celery application: queues, settings, and sending by name. It imports no task; workers find them by `include`."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

import structlog
from celery import Celery, signals
from kombu import Connection, Exchange, Queue
from kombu.exceptions import OperationalError

from worker.machine.privacy import keep_private
from worker.settings import Settings

#: Planning, the sweep and small tasks have processes of their own, so that no large folder keeps them waiting.
FAST, BULK = "fast", "bulk"
#: A task of at most so many files is indexed on the fast queue too.
SMALL_TASK = 200
#: Messages of one task that may wake workers at once.
MAX_SLICES = 8
#: Messages in a queue beyond which none is added that comes again by itself: its workers are gone, or busy enough.
MOST_WAITING = 100
#: Seconds in which RabbitMQ must answer on an open connection.
ANSWER_SECONDS = 5
#: Seconds for which a process sends nothing once the broker did not answer.
SILENT_SECONDS = 1.0
#: Seconds between two sweeps: with a lease of 8 s, the files of a dead worker go on within 10 s.
SWEEP_SECONDS = 1.0

# the price map comes with the package; without this an import of LiteLLM asks the network for it first
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")

log = structlog.get_logger()


def make_app(broker_url: str, parse_seconds: float = 60.0) -> Celery:
    """The application over a broker; docs/how-to/production.md says why Celery is pinned."""
    app = Celery("foldex", broker=broker_url, include=["worker.tasks"])
    app.conf.update(
        task_queues=[Queue(name, Exchange(name), routing_key=name) for name in (FAST, BULK)],
        task_default_queue=BULK,
        task_default_exchange=BULK,
        task_default_routing_key=BULK,
        task_create_missing_queues=False,
        # the rows say what is to be done: a message is a hint, and running one twice changes nothing
        task_acks_late=True,
        task_reject_on_worker_lost=True,
        task_ignore_result=True,
        worker_prefetch_multiplier=1,
        # far above any slice: only a parser that never lets go of the interpreter gets here; the helper that reads
        # documents is tried three times, and given twice the time each
        task_time_limit=300 + int(7 * parse_seconds),
        # guards against leaks; memory is only looked at between two tasks
        worker_max_tasks_per_child=500,
        worker_max_memory_per_child=1_500_000,
        worker_cancel_long_running_tasks_on_connection_loss=False,
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        # only RabbitMQ has heartbeats: after two missed ones it gives the messages of a lost host to other workers
        broker_heartbeat=20,
        broker_transport_options=_transport_options(broker_url),
        # an API answers at once; what is not sent, the sweep sends
        task_publish_retry_policy={"max_retries": 2, "interval_start": 0, "interval_step": 0.2, "interval_max": 0.5},
        worker_send_task_events=True,
        task_send_sent_event=True,
        worker_hijack_root_logger=False,
        worker_redirect_stdouts=False,
        beat_schedule={
            # on both, so that it goes on whichever worker dies; one of two that meet does nothing
            f"sweep {queue}": {
                "task": "foldex.sweep",
                "schedule": SWEEP_SECONDS,
                "options": {"queue": queue, "expires": 2 * SWEEP_SECONDS},
            }
            for queue in (FAST, BULK)
        },
    )
    return app


def _is_rabbitmq(broker_url: str) -> bool:
    return urlsplit(broker_url).scheme in {"amqp", "amqps", "pyamqp"}


def _transport_options(broker_url: str) -> dict[str, Any]:
    if _is_rabbitmq(broker_url):
        # without them a broker that is frozen, or that a full disk blocks, keeps its callers for ever
        return {"read_timeout": ANSWER_SECONDS, "write_timeout": ANSWER_SECONDS}
    return {
        # correctness never rests on it, and a duplicate costs one empty claim
        "visibility_timeout": 3600,
        "socket_keepalive": True,
        "socket_timeout": 30,
        "socket_connect_timeout": 2,
        "health_check_interval": 25,
    }


class _Silence:
    """Whether the broker is worth asking: after a failure one caller at a time tries it, all others go on at once."""

    def __init__(self) -> None:
        self._until = 0.0

    def lasts(self) -> bool:
        now = time.monotonic()
        if now < self._until:
            return True
        if self._until:
            # this caller tries; the next one not before it can know
            self._until = now + 2 * ANSWER_SECONDS
        return False

    def begin(self) -> None:
        self._until = time.monotonic() + SILENT_SECONDS

    def end(self) -> None:
        self._until = 0.0


def _close_beat(**_: object) -> None:
    keep_private()


# workers do it in their tasks' module
signals.beat_init.connect(_close_beat)
_silence = _Silence()
_outbox = ThreadPoolExecutor(1, thread_name_prefix="outbox")
_settings = Settings()
app = make_app(_settings.celery_broker_url, _settings.parse_seconds)


def send(name: str, id_: UUID | None = None, *, queue: str, shown: str, countdown: float | None = None) -> bool:
    """Send a task by name; `shown` is what Flower lists as its arguments. False if it was not sent.

    A message that is lost or not sent costs time, never work: the sweep sends it again.
    """
    # RabbitMQ hands messages for later to a worker at once; it is then slow to get others, about a second for each
    if (countdown and _is_rabbitmq(app.conf.broker_url)) or _silence.lasts():
        return False
    options: dict[str, Any] = {"queue": queue, "argsrepr": f"({shown})", "kwargsrepr": "{}", "countdown": countdown}
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


def post(send_it: Callable[[], object]) -> None:
    """Send in a thread of its own, which an API does: a broker that does not answer keeps no request waiting."""
    _outbox.submit(_logged, send_it)


def _logged(send_it: Callable[[], object]) -> None:
    try:
        send_it()
    except Exception:  # nobody looks at what the thread's call ends with
        log.exception("a message was not sent")


def queued(queue: str) -> int:
    """Messages that no worker has taken yet; 0 where the broker does not answer, as then none can be sent either."""
    if _silence.lasts():
        return 0
    with app.pool.acquire(block=True) as connection:
        try:
            # one that failed before is closed when it comes out of the pool
            connection.ensure_connection(max_retries=0)
            count = _count(connection, queue)
        except (OperationalError, *connection.connection_errors):
            # an answer that comes late would be taken for another's
            connection.collect()
            _silence.begin()
            return 0
    _silence.end()
    return count


def _count(connection: Connection, queue: str) -> int:
    try:
        with connection.channel() as channel:
            return int(channel.queue_declare(queue, passive=True).message_count)
    # of Redis, an empty queue is none
    except connection.channel_errors:
        return 0


def crowded(queue: str) -> bool:
    """Whether a message that is sent again later in any case would only lie there."""
    return queued(queue) >= MOST_WAITING


def send_plan(task_id: UUID, tool_id: UUID, countdown: float | None = None) -> bool:
    """Ask for the listing of a task's folder."""
    return send("foldex.plan", task_id, queue=FAST, shown=f"tool {tool_id}, task {task_id}", countdown=countdown)
