"""The servers that machines share, the machines, and a proxy before their APIs. Runs in a private network namespace."""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from http import HTTPStatus
from pathlib import Path

import httpx

from api.stack import postgres, redis
from api.stack.processes import ServerProgram, running
from tests import units
from tests.chaos.machines import network
from tests.chaos.machines.machine import Plan
from tests.chaos.machines.power import Machine
from tests.chaos.server_clock import ServerClock, build
from tests.fakes.buckets import buckets
from tests.fakes.embeddings import EmbeddingsFake
from tests.fakes.turbopuffer import FakeTurbopuffer
from tests.rabbitmq import prepare as prepare_rabbitmq
from tests.service import PROJECT, environment
from worker.objects.object_store import s3_client
from worker.state.access import keys
from worker.state.migrate import migrate
from worker.state.pool import open_pool

API_PORT = 8000
#: Seconds by which the clock of a machine is ahead of that of the servers.
AHEAD = {1: -600, 2: 0, 3: 600}
#: Seconds for which a call is sent again.
PATIENCE = 60.0
#: Answers that say that nothing was done, and that a repetition may help.
REPEATED = {HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.TOO_MANY_REQUESTS}
#: One worker with the processes of both, which starts in half the time.
BOTH_WORKERS = "both workers"

#: The settings for a provider and a store.
MakeSettings = Callable[[EmbeddingsFake, FakeTurbopuffer], Mapping[str, str]]


class Proxy(httpx.BaseTransport):
    """Sends each call to one of the machines in turn, as long as they can be reached.

    Sends it again if no machine got it, or if the answer is one of `REPEATED`.
    """

    def __init__(self, machines: Sequence[Machine]) -> None:
        self._machines = machines
        self._transport = httpx.HTTPTransport(limits=httpx.Limits(max_keepalive_connections=0))
        self._turn = 0
        #: Answers by machine and status.
        self.answers: Counter[tuple[int, int]] = Counter()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """See httpx."""
        deadline = time.monotonic() + PATIENCE
        while True:
            self._turn += 1
            there = [each for each in self._machines if each.is_reached]
            machine = there[self._turn % len(there)]
            request.url = request.url.copy_with(scheme="http", host=machine.address, port=API_PORT)
            is_last = time.monotonic() > deadline
            try:
                response = self._transport.handle_request(request)
            except (httpx.ConnectError, httpx.ConnectTimeout):
                if is_last:
                    raise
            else:
                self.answers[machine.plan.number, response.status_code] += 1
                if response.status_code not in REPEATED or is_last:
                    return response
                response.close()
            time.sleep(0.1)


@dataclass(frozen=True, slots=True)
class Fleet:
    """The machines by number. `env` is for whoever looks at the servers from their side."""

    machines: Mapping[int, Machine]
    env: Mapping[str, str]
    client: httpx.Client
    proxy: Proxy
    vectors: FakeTurbopuffer
    home: Path

    def logs(self) -> str:
        """The ends of all logs."""
        logs = [
            path for pattern in ("*.log", "log/*.log", "disks/*/init/log/*.log") for path in self.home.glob(pattern)
        ]
        return "\n".join(f"--- {log}\n{log.read_text(errors='replace')[-3000:]}" for log in sorted(logs))


@contextmanager
def fleet(
    home: Path, make_settings: MakeSettings, services: Mapping[int, Sequence[str]], *, rabbitmq: bool = False
) -> Iterator[Fleet]:
    """Run machines inside the block, each with the units of these names."""
    network.make_switch()
    (home / "disks").mkdir()
    with ExitStack() as stack:
        embeddings = stack.enter_context(EmbeddingsFake(host=network.SERVERS))
        vectors = stack.enter_context(FakeTurbopuffer(host=network.SERVERS))
        s3 = stack.enter_context(buckets(network.SERVERS))
        s3_client(s3["S3_ENDPOINT_URL"]).create_bucket(Bucket="contents")
        urls = stack.enter_context(_servers(home, rabbitmq=rabbitmq))
        migrate(urls["DATABASE_URL"])
        given = {**make_settings(embeddings, vectors), **s3, **urls, "S3_BUCKET": "contents", "AUTH": "on"}
        own = {"API_HOST": "0.0.0.0", "API_PORT": f"{API_PORT}"}
        all_ = {**environment(home / "unused", "", ""), **given, **own}
        # an empty one is no setting, but it is an argument of a command
        env = {name: value for name, value in all_.items() if value}
        clock = build(home / "clock")
        machines = {number: _machine(home, number, names, env, clock) for number, names in services.items()}
        for machine in machines.values():
            machine.power_on()
            stack.callback(machine.kill)
        proxy = Proxy([machine for machine in machines.values() if machine.has_api])
        with open_pool(env["DATABASE_URL"]) as pool:
            _, key = keys.create(pool, PROJECT, "chaos")
        headers = {"Authorization": f"Bearer {key}"}
        client = httpx.Client(
            transport=proxy, base_url="http://fleet", headers=headers, timeout=httpx.Timeout(60, connect=1)
        )
        yield Fleet(machines, env, stack.enter_context(client), proxy, vectors, home)


@contextmanager
def _servers(home: Path, *, rabbitmq: bool) -> Iterator[dict[str, str]]:
    """Run Postgres and the brokers inside the block, where machines reach them. Yields their addresses."""
    database, broker = postgres.prepare(home), redis.prepare(home, needs_password=True)
    with (home / "postgres" / "data" / "pg_hba.conf").open("a") as allowed:
        allowed.write(f"host all all {network.SUBNET} scram-sha-256\n")
    servers = [_reached(database, "--listen_addresses=*"), _reached(broker, "--bind", "0.0.0.0")]
    if rabbitmq:
        servers.append(prepare_rabbitmq(home, network.SERVERS))
    with ExitStack() as stack:
        for server in servers:
            stack.enter_context(running(server.program, home))
        redis_url = servers[1].url
        yield {"DATABASE_URL": servers[0].url, "CELERY_BROKER_URL": servers[-1].url, "REDIS_URL": redis_url}


def _reached(server: ServerProgram, *options: str) -> ServerProgram:
    """A server with options that let it listen on all addresses, and the address for machines."""
    program = replace(server.program, command=(*server.program.command, *options))
    return ServerProgram(program, server.url.replace("127.0.0.1", network.SERVERS))


def _machine(
    home: Path, number: int, names: Sequence[str], env: Mapping[str, str], clock: ServerClock | None
) -> Machine:
    """A machine whose clock is wrong."""
    if clock:
        own = replace(clock, shift=clock.shift.with_name(f"{number}.shift"))
        own.shift.write_bytes(clock.shift.read_bytes())
        own.set_ahead(AHEAD[number])
        env = {**env, "LD_PRELOAD": str(own.library), "SERVER_CLOCK": str(own.shift)}
    services = {name: _command_of(name, env, number) for name in names}
    common = units.read(units.UNITS[0]).env
    given = {**common, **env, "PATH": os.defpath, "PYTHONPATH": ""}
    plan = Plan(number, f"machine-{number}", str(home / "disks"), str(home / "disk"), services, given)
    return Machine(plan, home / f"{plan.name}.log")


def _command_of(name: str, env: Mapping[str, str], number: int) -> list[str]:
    both = name == BOTH_WORKERS
    unit = units.read(units.FOLDER / f"{'foldex-worker-fast' if both else name}.service")
    words = units.command_of(unit, {**unit.env, **env}, f"machine-{number}", f"{number:032x}")
    assert words[0] == f"{units.CHECKOUT}/.venv/bin/python"
    return [sys.executable, *("fast,bulk" if both and word == "fast" else word for word in words[1:])]
