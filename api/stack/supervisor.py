"""Keeps programs running: starts them in stages, restarts those that die, stops all in order."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from threading import Thread

from api.stack import processes
from api.stack.forks import ForkServer, reap_adopted
from api.stack.processes import Process, Program, StackError, no_fork
from worker.machine.disk_space import free_bytes, full_message, means_full

#: Seconds before a dead program is restarted for the first time. The wait doubles with each death.
FIRST_RESTART_SECONDS = 0.2

#: Maximum seconds before a dead program is restarted.
MAX_RESTART_SECONDS = 5.0

#: Seconds of life after which a death no longer counts as a failed start.
SETTLED_SECONDS = 10.0

#: Seconds of a start after which the end of a log is shown. A first start with cold disk caches takes about 20 s.
LATE_SECONDS = 30.0

#: Deaths in a row that count as a crash loop.
CRASH_LOOP_DEATHS = 3

#: The obstacle of programs that cannot start because the disk is full.
DISK_FULL = "full"

#: Seconds between two rounds.
ROUND_SECONDS = 0.1


@dataclass(slots=True)
class _Slot:
    """A program, its process, its deaths in a row, and its last exit code."""

    program: Program
    process: Process | None = None
    deaths: int = 0
    due: float = 0.0
    code: int | None = None
    ready: bool = False
    #: Why it does not run for long; empty once it does.
    obstacle: str = ""


def _has_settled(process: Process) -> bool:
    return time.monotonic() - process.started > SETTLED_SECONDS


def _lacks_space(slot: _Slot) -> bool:
    """Whether a program ended again and again because the disk is full."""
    return slot.obstacle == DISK_FULL and slot.deaths >= CRASH_LOOP_DEATHS


class Supervisor:
    """Runs the programs of `stages`, one stage after the other, in a separate thread.

    That thread does everything: Linux ends a process with the thread that started it, and this thread ends last.
    `say` gets one line of text at a time. `forks` starts the programs that it can.
    """

    def __init__(
        self,
        stages: Sequence[Sequence[Program]],
        home: Path,
        say: Callable[[str], None] = print,
        forks: ForkServer | None = None,
    ) -> None:
        self._stages = [[_Slot(program) for program in stage] for stage in stages]
        self._slots: list[_Slot] = []
        self._home = home
        self._say = say
        self._forks = forks
        self._stopping = self._is_forced = self._is_up = False
        self._error: StackError | None = None
        self._patience = 0.0
        self._thread = Thread(target=self._run, name="supervisor", daemon=True)

    def start(self, patience: float) -> None:
        """Start all programs and return once they are ready. If a stage is late, stops all and raises `StackError`."""
        self._patience = patience
        self._thread.start()
        while not self._is_up:
            if not self.alive():
                raise self._error or StackError("The stack was stopped before it was ready.")
            time.sleep(processes.POLL_SECONDS)

    def alive(self) -> bool:
        """Whether the supervisor thread still runs."""
        return self._thread.is_alive()

    def stop(self) -> None:
        """Stop everything and return when it has ended. Pressing Ctrl-C meanwhile speeds it up."""
        self._stopping = True
        while self.alive():
            try:
                self._thread.join(ROUND_SECONDS)
            except KeyboardInterrupt:
                self._is_forced = True

    def _run(self) -> None:
        try:
            for stage in self._stages:
                self._slots += stage
                self._bring_up(stage)
            self._is_up = not self._stopping
            while not self._stopping:
                self._round()
        except StackError as error:
            self._error = error
        finally:
            self._stop_all()

    def _bring_up(self, stage: Sequence[_Slot]) -> None:
        began, is_told = time.monotonic(), False
        while not self._stopping and not all(slot.ready for slot in stage):
            self._round()
            for slot in [slot for slot in stage if not slot.ready]:
                # to ask a worker takes processor time that those before it still need
                if not (slot.process and slot.program.ready()):
                    break
                slot.ready = True
                self._say(f"  {slot.program.name:<12} ready after {time.monotonic() - began:.1f} s")
            waited = time.monotonic() - began
            if waited > self._patience or any(map(_lacks_space, stage)):
                raise StackError(self._late(stage))
            if waited > LATE_SECONDS and not is_told:
                is_told = True
                self._report_late(stage)

    def _late(self, stage: Iterable[_Slot]) -> str:
        late = next(slot for slot in stage if not slot.ready)
        if late.obstacle == DISK_FULL:
            return full_message(self._home, processes.NEEDED_BYTES)
        return processes.not_ready(late.program.name, self._home, late.code)

    def _report_late(self, stage: Iterable[_Slot]) -> None:
        """Tell what the first program that runs without getting ready says; deaths are reported when they happen."""
        for slot in [slot for slot in stage if slot.process and not slot.ready and not slot.deaths][:1]:
            name = slot.program.name
            cause, log = processes.cause(self._home, name, None), processes.log_file(self._home, name)
            self._say(f"  {name} is not ready yet: {cause}. Its log is {log}")

    def _round(self) -> None:
        for slot in self._slots:
            if slot.process and slot.process.ended():
                self._handle_death(slot, slot.process)
            elif slot.process and _has_settled(slot.process):
                slot.obstacle = ""
            if slot.process is None and time.monotonic() >= slot.due:
                self._start_program(slot)
        if self._forks:
            reap_adopted({process.child.pid for process in self._processes()})
        time.sleep(ROUND_SECONDS)

    def _start_program(self, slot: _Slot) -> None:
        try:
            slot.process = processes.start(slot.program, self._home, self._forks.fork if self._forks else no_fork)
        except (StackError, OSError) as error:  # for example a full disk, which may have room again later
            self._report(slot, DISK_FULL if means_full(error) else str(error))
            self._postpone(slot)

    def _report(self, slot: _Slot, obstacle: str) -> None:
        """Report once the reason that a program does not start. A full disk is reported once for all programs."""
        reported = {other.obstacle for other in self._slots} if obstacle == DISK_FULL else {slot.obstacle}
        slot.obstacle = obstacle
        if obstacle not in reported:
            full = f"{full_message(self._home, processes.NEEDED_BYTES)} Waiting for it."
            self._say(f"  {full if obstacle == DISK_FULL else obstacle}")

    def _handle_death(self, slot: _Slot, process: Process) -> None:
        slot.deaths = 0 if _has_settled(process) else slot.deaths
        name, code = slot.program.name, process.child.returncode
        slot.process, slot.code = None, code
        self._postpone(slot)
        if free_bytes(self._home) < processes.NEEDED_BYTES:
            self._report(slot, DISK_FULL)
        elif slot.deaths < CRASH_LOOP_DEATHS:
            self._say(f"  {name} exited with {code}; restarting it")
        elif slot.deaths == CRASH_LOOP_DEATHS:
            cause, log = processes.cause(self._home, name, code), processes.log_file(self._home, name)
            self._say(f"  {name} keeps exiting: {cause}. Its log is {log}")

    def _postpone(self, slot: _Slot) -> None:
        slot.due = time.monotonic() + min(FIRST_RESTART_SECONDS * 2**slot.deaths, MAX_RESTART_SECONDS)
        slot.deaths += 1

    def _processes(self) -> list[Process]:
        own = [slot.process for slot in self._slots] + ([self._forks.process] if self._forks else [])
        return [process for process in own if process]

    def _stop_all(self) -> None:
        if self._forks:
            self._forks.stop()
        running = self._processes()
        running.sort(key=lambda process: process.program.rank)
        for _, together in groupby(running, key=lambda process: process.program.rank):
            processes.stop(list(together), is_forced=lambda: self._is_forced)
