"""Users edit, search and delete over three machines, to which one thing happens after the other.

Runs in private namespaces: `tests/chaos/test_machines.py` starts it.
"""

from __future__ import annotations

import argparse
import logging
import random
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from api.stack.programs import answers
from tests.chaos.machines import faults, network
from tests.chaos.machines.fleet import API_PORT, BOTH_WORKERS, Fleet, fleet
from tests.chaos.machines.power import Machine
from tests.fakes.embeddings import EmbeddingsFake
from tests.fakes.turbopuffer import FakeTurbopuffer
from tests.model import ground
from tests.model.folders import Bucket
from tests.model.machine import Machine as User
from tests.model.proof import Proof
from tests.model.served import Served, served
from tests.service import PROJECT, Service
from worker.state.access import grants

#: Where everything lies. The mount is private, so it goes with this process.
PLACE = Path("/mnt")
SMALL = {1: ("foldex-api", BOTH_WORKERS), 2: ("foldex-api", BOTH_WORKERS), 3: ("foldex-beat", "foldex-watch")}
#: As `SMALL`, with the workers of production.
LARGE = {
    **dict.fromkeys((1, 2), ("foldex-api", "foldex-worker-fast", "foldex-worker-bulk")),
    3: ("foldex-beat", "foldex-watch"),
}
#: Files with which a folder begins.
FILES = 12
#: Share of edits among what users do, and the most seconds between two deeds.
SHARE_OF_EDITS, PAUSE = 0.6, 0.5
#: Seconds that a request to the provider takes, so that something is at work when a machine fails.
PROVIDER_SECONDS = 0.5
#: Seconds in which something is at work.
WORK_SECONDS = 10.0
AT_WORK = "SELECT count(*) FROM search_index_file WHERE status = 'indexing'"
BEGAN = time.monotonic()


@dataclass
class LoggedService(Service):
    """The machines as one service."""

    fleet: Fleet | None = None

    def logs(self) -> str:
        """See `Service`."""
        return self.fleet.logs() if self.fleet else ""


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--users", type=int, required=True)
    options.add_argument("--faults", nargs="+", choices=faults.FAULTS, required=True)
    options.add_argument("--seed", type=int, default=random.randrange(10**6))
    options.add_argument("--large", action="store_true", help="separate workers, and longer faults")
    options.add_argument("--rabbitmq", action="store_true", help="RabbitMQ as the broker")
    given = options.parse_args()
    # the server of buckets logs each request
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    say(f"seed {given.seed}")
    network.run("mount", "-t", "tmpfs", "-o", "mode=755", "none", str(PLACE))

    def settings(embeddings: EmbeddingsFake, vectors: FakeTurbopuffer) -> dict[str, str]:
        embeddings.delay = PROVIDER_SECONDS
        return ground.settings(PLACE, embeddings, "turbopuffer", vectors)

    services = LARGE if given.large else SMALL
    with fleet(PLACE, settings, services, rabbitmq=given.rabbitmq) as machines:
        try:
            service = LoggedService(PLACE, machines.env, machines.client, fleet=machines)
            with served(service) as here:
                Chaos(machines, here, random.Random(given.seed), given.large).run(given.users, given.faults)
        except BaseException:
            say(machines.logs())
            raise


@dataclass
class Chaos:
    """Users of folders, and what happens to the machines meanwhile."""

    fleet: Fleet
    here: Served
    by: random.Random
    is_long: bool
    users: list[User] = field(default_factory=list)
    #: The last machine with workers to which something happened.
    met: Machine | None = None

    def run(self, users: int, names: list[str]) -> None:
        """Let everything happen in turn, then prove that it changed nothing."""
        self.users = [self._user(number) for number in range(users)]
        say(f"{users} folders are made")
        for name in names:
            self._happen(name)
        self._leave_one_worker()
        for user in self.users:
            with ground.steps_in_failures(user):
                user.prove()
            say("an index is as it should be")
        say(f"all is as it should be; answers by machine and status: {dict(self.fleet.proxy.answers)}")
        spent = sum(sum(process.cpu_times()[:4]) for process in psutil.process_iter())
        say(f"{spent:.0f} s of processor time")

    def _user(self, number: int) -> User:
        folder = ground.folder_of(self.by.choice(["nodes", "s3"]), PLACE, self.here.client, self.fleet.env, number)
        if isinstance(folder, Bucket):
            grants.add(self.here.resources.pool, PROJECT, f"s3://{folder.bucket}")
        user = User(self.here, folder, Proof(self.here, self.fleet.vectors), self.by.randrange(10**6))
        user.start(FILES)
        return user

    def _happen(self, name: str) -> None:
        fault = faults.FAULTS[name]
        machine = self.by.choice([*self.fleet.machines.values()])
        self.met = machine if machine.has_api else self.met
        seconds = self.by.uniform(*fault.seconds) if self.is_long else fault.seconds[0]
        say(f"{name}: {machine.plan.name}, {seconds:.0f} s, {self._work()} files at work")
        fault.begin(machine, self.by)
        # nobody learns of it by an answer
        assert machine.is_reached or not answers(machine.address, API_PORT, "/healthz")
        self._act(seconds)
        fault.end(machine)
        self._act(1)

    def _work(self) -> int:
        """Let users edit and ask until workers hold files. Returns how many they hold."""
        until = time.monotonic() + WORK_SECONDS
        while not (held := self.here.rows(AT_WORK)[0][0]) and time.monotonic() < until:
            user = self.by.choice(self.users)
            with ground.steps_in_failures(user):
                user.steps.append(f"create {user.create()}, reindex")
                user.ask(user.a_tool(), "reindex")
            time.sleep(PAUSE)
        return int(held)

    def _act(self, seconds: float) -> None:
        """Let users edit, ask and search."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            user = self.by.choice(self.users)
            with ground.steps_in_failures(user):
                user.do(user.edits if self.by.random() < SHARE_OF_EDITS else user.verbs)
            time.sleep(self.by.uniform(0, PAUSE))

    def _leave_one_worker(self) -> None:
        """Turn off a machine with workers, and leave the one to which something happened last: does it still work?"""
        machine = next(each for each in self.fleet.machines.values() if each.has_api and each is not self.met)
        say(f"{machine.plan.name} stays off")
        machine.power_off()
        self._act(1)


def say(text: str) -> None:
    """Print a line with the seconds since the start."""
    sys.stdout.write(f"{time.monotonic() - BEGAN:6.1f} {text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
