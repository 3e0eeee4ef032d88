"""The scheduler (Celery's beat): it requests a sweep each second while anything is open, and seldom otherwise.

Two may run, so that the loss of one machine stops no sweep. `python -m worker.upkeep.clock` runs it alone. It imports
no task, so it takes little memory.
"""

from __future__ import annotations

import functools
import time
from datetime import timedelta
from typing import Any

import psycopg
from celery import signals
from celery.beat import PersistentScheduler, ScheduleEntry, Scheduler

from worker.app import IDLE_LOOK_SECONDS, IDLE_SWEEP_SECONDS, NO_EVENTS, SWEEP_INTERVAL_SECONDS, app, crowded, settings
from worker.hosts.presence import Presence
from worker.machine import logs
from worker.state import open_work, schema_version
from worker.state.connections import SWEEP, Application, name_process
from worker.state.pool import Pool, open_pool


class _SweepSchedule:
    """Decides when to send a queue a message that requests a sweep."""

    def __init__(self) -> None:
        #: Time of the last message, and its queue.
        self._sent: tuple[float, str] = (-IDLE_SWEEP_SECONDS, "")
        #: Time of the last check for open work, over all queues, and its result.
        self._asked: tuple[float, bool] = (-SWEEP_INTERVAL_SECONDS, True)

    def is_due(self, queue: str) -> bool:
        """Return whether to send one now: never while the queue is crowded. Without open work, the queues take turns.

        Messages do not expire, because that would compare the clocks of two machines. A queue's workers may be gone.
        """
        now = time.monotonic()
        sent, last_queue = self._sent
        is_turn = queue != last_queue and now - sent >= IDLE_SWEEP_SECONDS
        if not is_turn and not self._is_any_open(now):
            return False
        self._sent = now, queue
        return not crowded(queue)

    @property
    def is_at_rest(self) -> bool:
        """Return whether the last check found no open work."""
        return not self._asked[1]

    def _is_any_open(self, now: float) -> bool:
        """Return whether there is work to watch over; True if Postgres does not answer."""
        asked, answer = self._asked
        if not asked <= now < asked + SWEEP_INTERVAL_SECONDS / 2:
            try:
                answer = open_work.any_open(_pool(), timedelta(seconds=IDLE_LOOK_SECONDS))
            except psycopg.OperationalError:
                answer = True
            self._asked = now, answer
        return answer


@functools.cache
def _pool() -> Pool:
    return open_pool(settings.session_url, max_size=1, limits=SWEEP)


@functools.cache
def _presence() -> Presence:
    return Presence(settings, "beat")


def _prepare(**_: object) -> None:
    """Wait until the database has this release's schema before requesting sweeps, and enter the registry of hosts."""
    name_process(Application.BEAT)
    schema_version.wait(settings.session_url)
    _presence().keep(_pool())


# also where a worker forks this process
signals.beat_init.connect(_prepare)


class SweepScheduler(Scheduler):  # type: ignore[misc] # Celery has no types
    """Sends sweeps that are due. Flower gets no events for them, because it would list little else.

    Only monotonic time counts. Celery's own scheduler compares times of day, so it stops for as long as they step back.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        # a worker may have forked this process
        name_process(Application.BEAT)
        self._sweeps = _SweepSchedule()
        super().__init__(*args, **options)

    def close(self) -> None:
        """Also leave the registry of hosts, because the process ends."""
        _presence().end()
        super().close()

    def install_default_entries(self, *_: Any) -> None:
        """Add no entries: Celery's own one cleans a store of results, which Foldex does not have."""

    def tick(self, *_: Any, **__: Any) -> float:
        """Send the messages that are due. Returns the seconds to sleep, which are more without open work."""
        began = time.monotonic()
        for entry in [*self.schedule.values()]:
            self.apply_entry(self.reserve(entry), producer=self.producer)
        pause = IDLE_LOOK_SECONDS if self._sweeps.is_at_rest else SWEEP_INTERVAL_SECONDS
        return max(0.0, began + pause - time.monotonic())

    def apply_async(self, entry: ScheduleEntry, producer: Any = None, **_: Any) -> Any:
        """Send the message, if it is due."""
        if not self._sweeps.is_due(entry.options["queue"]):
            return None
        return self.send_task(entry.task, producer=producer, event_dispatcher=NO_EVENTS, **entry.options)


class StatefulSweepScheduler(SweepScheduler, PersistentScheduler):  # type: ignore[misc] # see above
    """A clock with a state file, whose age shows whether it runs."""


def main() -> None:
    """Run the clock without a state file, because a file corrupted by a power cut would stop it permanently."""
    signals.setup_logging.connect(_configure_logs)
    app.conf.include = ()
    app.Beat(scheduler=SweepScheduler, quiet=True).run()


def _configure_logs(**_: Any) -> None:
    logs.configure(settings.log_level)


if __name__ == "__main__":
    main()
