"""What can happen to a machine, and how it ends."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

import psutil

from tests.chaos.machines import network
from tests.chaos.machines.power import Machine


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that happens to a machine, for some seconds: at least and at most."""

    begin: Callable[[Machine, random.Random], None]
    end: Callable[[Machine], None]
    seconds: tuple[float, float]


def _kill(machine: Machine, by: random.Random) -> None:
    """Kill a service with its children, or one of these."""
    service = by.choice(machine.services())
    children = service.children(recursive=True)
    killed = [by.choice(children)] if children and by.random() < 0.5 else [service, *children]
    for process in killed:
        process.kill()
    # until then it may accept another call
    psutil.wait_procs(killed, 10)


def _cut_off_for_long(machine: Machine, _: random.Random) -> None:
    """Cut off a machine until the servers have given it up, which takes a quarter of an hour without this setting."""
    network.let_servers_resend(network.IMPATIENT)
    machine.cut_off()


def _connect_again(machine: Machine) -> None:
    network.let_servers_resend(network.USUAL)
    machine.connect()


FAULTS = {
    "kill": Fault(_kill, lambda _: None, (1, 3)),
    "freeze": Fault(lambda machine, _: machine.freeze(), Machine.thaw, (9, 30)),
    "power": Fault(lambda machine, _: machine.power_off(), Machine.power_on, (3, 20)),
    "cut": Fault(lambda machine, _: machine.cut_off(), Machine.connect, (9, 30)),
    "long cut": Fault(_cut_off_for_long, _connect_again, (12, 40)),
}
