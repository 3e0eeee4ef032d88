"""The whole service as real processes: API, workers and beat, with a separate database and broker."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any, Protocol
from uuid import uuid4

import httpx
import psycopg
from psycopg.sql import SQL, Identifier
from redis import Redis

from api.stack import programs
from api.stack.processes import Process, Program, server_port, start, stop
from tests.forked import SHARED_FORKS
from worker.settings import Settings

PROJECT = "project-1"
TOOLS = "/api/tools/search"
ENDED = {"ready", "error", "cancelled"}

_brokers = count()


@dataclass
class Service:
    """A running service and the ways in which a test inspects it."""

    home: Path
    env: Mapping[str, str]
    client: httpx.Client
    processes: dict[str, Process] = field(default_factory=dict)

    @property
    def database_url(self) -> str:
        return self.env["DATABASE_URL"]

    def rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.database_url, autocommit=True) as connection:
            cursor = connection.execute(query.encode(), values or None)
            return [] if cursor.description is None else cursor.fetchall()

    def post(self, path: str, body: object, status: int = 202) -> dict[str, Any]:
        return checked(self.client.post(path, json=body), status)

    def get(self, path: str, **params: Any) -> dict[str, Any]:
        return checked(self.client.get(path, params=params), 200)

    def pages(self, path: str, *, limit: int, **params: Any) -> list[dict[str, Any]]:
        """All items of a list. Each page but the last is full, and no page is empty, unless all are."""
        items: list[dict[str, Any]] = []
        while True:
            page = self.get(path, limit=limit, **params)
            items += page["items"]
            if page["next_cursor"] is None:
                assert page["items"] or "cursor" not in params
                return items
            assert len(page["items"]) == limit
            params["cursor"] = page["next_cursor"]

    def node(self, name: str, type_: str, content: object = None, **more: Any) -> str:
        body = {"name": name, "type": type_, **({} if content is None else {"content": content}), **more}
        return str(self.post(f"/api/projects/{PROJECT}/nodes", body, 201)["id"])

    def tool(self, *, project: str = PROJECT, **body: Any) -> str:
        return str(self.post(TOOLS, {"project_id": project, **body})["tool_id"])

    def local_tool(self, folder: Path, **body: Any) -> str:
        return self.tool(source={"kind": "local", "path": str(folder)}, **body)

    def status(self, tool: str) -> dict[str, Any]:
        return self.get(f"{TOOLS}/{tool}/status")

    def wait(self, tool: str, until: str = "ready", seconds: float = 60) -> dict[str, Any]:
        status: dict[str, Any] = {}

        def ended() -> bool:
            # Keep the status: the sweep may start another task at any moment.
            status.update(self.status(tool))
            return status["status"] in ENDED

        eventually(ended, seconds, lambda: f"{status}\n{self.logs()}")
        assert status["status"] == until, f"{status}\n{self.logs()}"
        return status

    def files(self, tool: str, **params: Any) -> list[dict[str, Any]]:
        return list(self.get(f"{TOOLS}/{tool}/files", limit=1000, **params)["items"])

    def query(self, tool: str, query: str, **body: Any) -> list[dict[str, Any]]:
        return list(self.post(f"{TOOLS}/{tool}/query", {"query": query, **body}, 200)["results"])

    def logs(self) -> str:
        logs = sorted((self.home / "log").glob("*.log"))
        return "\n".join(f"--- {log.stem}\n" + log.read_text(errors="replace")[-4000:] for log in logs)


#: Starts a service with its own database, broker and home, in the given mode (`service`) and with the given settings.
NewService = Callable[..., AbstractContextManager[Service]]


class HasEnvironment(Protocol):
    """A running service with the environment of its processes."""

    @property
    def env(self) -> Mapping[str, str]: ...


def checked(response: httpx.Response, status: int) -> dict[str, Any]:
    assert response.status_code == status, response.text
    body: dict[str, Any] = response.json()
    return body


def eventually(holds: Callable[[], bool], seconds: float, what: Callable[[], str] = lambda: "") -> None:
    """Poll until `holds` returns true. After `seconds`, fail with the message of `what`."""
    began = time.monotonic()
    while not holds():
        passed = time.monotonic() - began
        assert passed < seconds, f"not within {seconds} s: {what()}"
        # Poll less often over time, to leave the CPU to the process that is waited for.
        time.sleep(min(max(0.05, passed / 10), 0.25))


@contextmanager
def new_database(server_url: str, template_url: str | None = None) -> Iterator[str]:
    """A separate database on a server, empty or a copy of another one there, and dropped at the end."""
    name = f"foldex_test_{uuid4().hex[:12]}"
    with psycopg.connect(server_url, autocommit=True) as connection:
        copied = SQL(" TEMPLATE {}").format(Identifier(template_url.rsplit("/", 1)[1])) if template_url else SQL("")
        connection.execute(SQL("CREATE DATABASE {}").format(Identifier(name)) + copied)
    try:
        yield server_url.rsplit("/", 1)[0] + f"/{name}"
    finally:
        with psycopg.connect(server_url, autocommit=True) as connection:
            connection.execute(SQL("DROP DATABASE {} WITH (FORCE)").format(Identifier(name)))


def next_broker(redis_url: str) -> str:
    """An emptied database of the test run's Redis. Sixteen are reused in turn, as only a few services run at a time."""
    url = f"{redis_url.rsplit('/', 1)[0]}/{next(_brokers) % 16}"
    with Redis.from_url(url) as broker:
        broker.flushdb()
    return url


def environment(home: Path, database_url: str, broker_url: str, **env: str) -> dict[str, str]:
    """The environment of a service's processes. Settings of the machine's own environment are emptied first."""
    empty = {name.upper(): "" for name in Settings.model_fields}
    return {
        **empty,
        "FOLDEX_HOME": str(home),
        "DATABASE_URL": database_url,
        "CELERY_BROKER_URL": broker_url,
        "REDIS_URL": broker_url,
        "API_HOST": "127.0.0.1",
        "API_PORT": str(server_port()),
        # Flower reads this variable too, and rejects an empty one
        "FLOWER_PORT": str(server_port()),
        "AUTH": "off",
        # tests find a process by its connection, which only root sees of a private one
        "DEBUGGERS": "on",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        **env,
    }


@contextmanager
def service(env: Mapping[str, str], *, workers: bool = True, bulk: int = 0) -> Iterator[Service]:
    """Start the processes, wait until they are ready, and stop them at the end.

    With `bulk` processes for large folders, workers and beat are separate, as in production. Otherwise one worker does
    everything. That tests the same except for the separation, and starts in a third of the time.
    """
    home = Path(env["FOLDEX_HOME"])
    together = [with_clock(worker_of_all_queues(env), home)] if workers else []
    apart = [programs.fast_worker(env), programs.worker("bulk", bulk, env), programs.beat(env)]
    with _running(env, [programs.api(env), *(apart if workers and bulk else together)]) as started:
        yield started


@contextmanager
def api_alone(env: Mapping[str, str], *options: str) -> Iterator[Service]:
    """The API without workers, with options of `foldex serve`."""
    program = programs.api(env)
    with _running(env, [replace(program, command=(*program.command, *options))]) as started:
        yield started


@contextmanager
def with_one_worker(env: Mapping[str, str]) -> Iterator[Service]:
    """A service whose only worker is the fast one, which is enough for small tasks."""
    worker = with_clock(programs.fast_worker(env), Path(env["FOLDEX_HOME"]))
    with _running(env, [programs.api(env), worker]) as started:
        yield started


@contextmanager
def another_api(service: HasEnvironment, **env: str) -> Iterator[Service]:
    """Another API of a service, with its own settings."""
    given = {**service.env, "API_PORT": str(server_port()), **env}
    with _running(given, [replace(programs.api(given), name=f"api-{given['API_PORT']}")]) as running:
        yield running


@contextmanager
def _running(env: Mapping[str, str], programs_: list[Program]) -> Iterator[Service]:
    home = Path(env["FOLDEX_HOME"])
    with httpx.Client(base_url=f"http://127.0.0.1:{env['API_PORT']}", timeout=30, trust_env=False) as client:
        running = Service(home, env, client)
        try:
            for program in programs_:
                running.processes[program.name] = start(program, home, SHARED_FORKS.fork)
            for process in running.processes.values():
                eventually(process.program.ready, 60, running.logs)
            yield running
        finally:
            stop(running.processes.values())


def worker_of_all_queues(env: Mapping[str, str]) -> Program:
    """A worker with one process more than may index small tasks: each imports the store and opens the model."""
    program = programs.worker("all", 2, env)
    return replace(program, command=tuple("fast,bulk" if part == "all" else part for part in program.command))


def another_node(env: Mapping[str, str], queue: str, name: str, concurrency: int) -> Program:
    """A worker of a queue beside the one that has it already, with a name of its own as on another machine."""
    program = programs.worker(queue, concurrency, env)
    at = program.command.index("-n", program.command.index("celery")) + 1
    new = program.command[at].replace("@", f"-{name}@")
    command = (*program.command[:at], new, *program.command[at + 1 :])
    broker = env["CELERY_BROKER_URL"]
    return replace(
        program, name=f"worker-{queue}-{name}", command=command, ready=lambda: programs._listens(broker, new)
    )


def with_clock(worker: Program, home: Path) -> Program:
    """A worker that also forks Celery's beat, which then need not import anything again."""
    return replace(worker, command=(*worker.command, "-B", "-s", str(home / "run" / "beat-schedule")))


def clean_environment() -> None:
    """Remove every setting of the machine's environment from this process."""
    for name in Settings.model_fields:
        if name != "turbopuffer_api_key":  # the live tests need it
            os.environ.pop(name.upper(), None)
