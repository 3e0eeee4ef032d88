"""The first process of a machine: `python -m tests.chaos.machines.machine`, in namespaces of its own.

It reads its plan from the first line of its input, gives the machine its name, its network and its disk, and runs its
services until its input ends.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from api.stack.processes import Program, SystemAccount, run_once
from api.stack.record import ROOT
from api.stack.supervisor import Supervisor
from tests.chaos.machines import network

#: The user of machine N is this one and N.
FIRST_USER = 30_000


@dataclass(frozen=True, slots=True)
class Plan:
    """What a machine is. `disk` is where its own directory of `disks` appears; those of the others do not."""

    number: int
    name: str
    disks: str
    disk: str
    services: dict[str, list[str]]
    env: dict[str, str]

    @property
    def user(self) -> int:
        return FIRST_USER + self.number

    def text(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def read(cls, text: str) -> Self:
        return cls(**json.loads(text))


def main() -> None:
    plan = Plan.read(sys.stdin.readline())
    while not network.has_cable():
        time.sleep(0.01)
    network.configure(plan.number)
    socket.sethostname(plan.name)
    _mount_disk(plan)
    account = _account(plan)
    services = [_program(plan, name, command, account) for name, command in plan.services.items()]
    supervisor = Supervisor([services], Path(plan.disk) / "init")
    supervisor.start(120)
    sys.stdin.read()
    supervisor.stop()


def _mount_disk(plan: Plan) -> None:
    """Show this machine's disk at its place, and hide all others."""
    own = Path(plan.disks) / f"{plan.number}"
    for directory in (own, own / "home", own / "tmp"):
        directory.mkdir(exist_ok=True)
        os.chown(directory, plan.user, plan.user)
    Path(plan.disk).mkdir(exist_ok=True)
    network.run("mount", "--bind", str(own), plan.disk)
    network.run("mount", "-t", "tmpfs", "-o", "mode=700", "none", plan.disks)


def _account(plan: Plan) -> SystemAccount:
    """The machine's user, who may reach the checkout and its Python even if they lie in somebody's home."""
    account = SystemAccount(plan.user, plan.user)
    probe = ("/bin/sh", "-c", 'test -x "$0" && test -r "$1"', sys.executable, str(ROOT / "Makefile"))
    is_reached = run_once(probe, account, Path("/")).returncode == 0
    return account if is_reached else SystemAccount(plan.user, plan.user, reach=True)


def _program(plan: Plan, name: str, command: list[str], account: SystemAccount) -> Program:
    own = {"FOLDEX_HOME": f"{plan.disk}/home", "HOME": f"{plan.disk}/home", "TMPDIR": f"{plan.disk}/tmp"}
    return Program(name, tuple(command), lambda: True, ROOT, {**plan.env, **own}, account)


if __name__ == "__main__":
    main()
