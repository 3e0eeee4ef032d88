"""Threads that serve all projects of a process in turn."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar

from worker.machine.sharing.owner import working_for
from worker.machine.sharing.slots import Slots

Result = TypeVar("Result")


class FairThreads:
    """Runs functions in `number` threads, of which one owner uses at most `per_owner`. Thread-safe."""

    def __init__(self, name: str, number: int, per_owner: int) -> None:
        self.name, self.number, self.per_owner = name, number, per_owner
        self._slots = Slots(number, per_owner)
        self._threads = ThreadPoolExecutor(number, thread_name_prefix=name)

    def submit(self, owner: str, work: Callable[[], Result]) -> Future[Result]:
        """Run `work` once the owner has a turn. A future that is cancelled until then does nothing."""
        job = _Job(self._slots, self._threads, owner, work)
        self._slots.join(job, owner)
        return job.future


class _Job(Generic[Result]):
    """A turn of an owner, which begins the work by itself."""

    def __init__(self, slots: Slots, threads: ThreadPoolExecutor, owner: str, work: Callable[[], Result]) -> None:
        self._slots, self._threads, self._owner, self._work = slots, threads, owner, work
        self._is_set = False
        self.future: Future[Result] = Future()

    def set(self) -> None:
        """Begin. There is a free thread for each slot."""
        self._is_set = True
        self._threads.submit(self._run)

    def is_set(self) -> bool:
        """Return whether it has begun."""
        return self._is_set

    def _run(self) -> None:
        try:
            if self.future.set_running_or_notify_cancel():
                self._answer()
        finally:
            self._slots.release(self._owner)

    def _answer(self) -> None:
        try:
            with working_for(self._owner):
                result = self._work()
        except BaseException as error:  # noqa: BLE001 # whatever it is, it belongs to who waits for the result
            self.future.set_exception(error)
        else:
            self.future.set_result(result)
