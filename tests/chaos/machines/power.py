"""A machine as its surroundings see it: power, network, and processes that run or do not."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from signal import SIGCONT, SIGSTOP

import psutil

from api.stack.record import ROOT
from tests.chaos.machines import network
from tests.chaos.machines.machine import Plan
from tests.service import eventually


@dataclass
class Machine:
    """A machine, and whether a proxy before it would send it calls."""

    plan: Plan
    log: Path
    init: subprocess.Popen[bytes] = field(init=False)
    is_reached: bool = field(default=False, init=False)

    @property
    def address(self) -> str:
        return network.address_of(self.plan.number)

    @property
    def has_api(self) -> bool:
        return "foldex-api" in self.plan.services

    def power_on(self) -> None:
        """Start it. Its disk is as it was left."""
        spaces = ("--net", "--mount", "--pid", "--uts", "--fork", "--kill-child", "--mount-proc")
        command = ("unshare", *spaces, sys.executable, "-m", "tests.chaos.machines.machine")
        with self.log.open("ab") as log:
            self.init = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=log, stderr=log)
        assert self.init.stdin is not None
        self.init.stdin.write(f"{self.plan.text()}\n".encode())
        self.init.stdin.flush()
        first = psutil.Process(self.init.pid)
        # before that it may still be in this namespace
        eventually(lambda: bool(first.children()), 30)
        network.plug_in(self.plan.number, self.init.pid)
        self.is_reached = True

    def power_off(self) -> None:
        """End everything at once. Nobody learns of it: no connection is closed."""
        self.is_reached = False
        network.unplug(self.plan.number)
        # the kernel ends all processes of a namespace with its first one
        self._first().kill()
        self.init.wait(30)

    def kill(self) -> None:
        """End its processes, if it runs."""
        self.init.kill()
        self.init.wait(30)

    def cut_off(self) -> None:
        """Drop all packets from it and to it."""
        self.is_reached = False
        network.cut_off(self.plan.number)

    def connect(self) -> None:
        network.connect(self.plan.number)
        self.is_reached = True

    def freeze(self) -> None:
        self.is_reached = False
        # what is not frozen yet may start more
        while awake := [each for each in self._processes() if each.status() != psutil.STATUS_STOPPED]:
            for process in awake:
                process.send_signal(SIGSTOP)

    def thaw(self) -> None:
        for process in self._processes():
            process.send_signal(SIGCONT)
        self.is_reached = True

    def services(self) -> list[psutil.Process]:
        """The main processes."""
        return self._first().children()

    def _first(self) -> psutil.Process:
        (first,) = psutil.Process(self.init.pid).children()
        return first

    def _processes(self) -> list[psutil.Process]:
        found = [self._first(), *self._first().children(recursive=True)]
        return [each for each in found if each.status() != psutil.STATUS_ZOMBIE]
