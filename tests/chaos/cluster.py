"""The service under a supervisor with its own Postgres, Redis and fakes, and methods to hurt it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from http import HTTPStatus
from pathlib import Path
from signal import SIGCONT, SIGKILL, SIGSTOP, Signals
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

import httpx
import psutil
import psycopg
from celery import Celery
from kombu.exceptions import OperationalError
from redis import Redis
from redis.exceptions import RedisError

from api.stack import postgres, programs, redis
from api.stack.forks import ForkServer
from api.stack.processes import Program, ServerProgram, server_port
from api.stack.supervisor import Supervisor
from tests.chaos.gates import Gates
from tests.chaos.server_clock import ServerClock, build
from tests.fakes.chat import ChatFake
from tests.fakes.embeddings import EmbeddingsFake
from tests.fakes.turbopuffer import FakeTurbopuffer
from tests.service import TOOLS, another_node, checked, environment, eventually
from worker.app import make_app
from worker.vectors import StoredAttributes
from worker.vectors.blind import BlindKey, Blinds
from worker.vectors.lance.store import LanceStore

#: Processes of the two workers: as many as stages that a test reaches at once, plus one for the sweep.
FAST, BULK = 5, 5
WORKERS = ("worker-fast", "worker-bulk")
#: Texts per request and requests in flight. Their product is what a killed process may have paid for in vain.
BATCH, IN_FLIGHT = 4, 4
PAID_IN_VAIN = BATCH * IN_FLIGHT


class Unavailable(Exception):
    """The API answered 503, because a server it needs is down."""


@dataclass
class Cluster:
    """A running service and the fakes around it. `lance` is its API that puts new indexes in LanceDB."""

    home: Path
    env: dict[str, str]
    client: httpx.Client
    lance: httpx.Client
    embeddings: EmbeddingsFake
    vectors: FakeTurbopuffer
    chat: ChatFake
    gates: Gates
    #: The clock of Postgres, unless the machine has no C compiler.
    clock: ServerClock | None
    said: list[str]
    #: Programs that the supervisor runs, by name.
    programs: dict[str, Program]

    # ---- looking

    def rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.env["DATABASE_URL"], autocommit=True) as connection:
            cursor = connection.execute(query.encode(), values or None)
            return cursor.fetchall() if cursor.description else []

    def status(self, tool: str) -> dict[str, Any]:
        return checked(self.client.get(f"{TOOLS}/{tool}/status"), 200)

    def wait(self, tool: str, seconds: float = 60) -> dict[str, Any]:
        """The status once the task ended by itself. Polls Postgres, so that the API may be down meanwhile."""

        def ended() -> bool:
            with suppress(psycopg.OperationalError):
                return self.task(tool)[1] in {"ready", "error", "cancelled"}
            return False

        eventually(ended, seconds, lambda: f"{self.task(tool)}\n{self.logs()}")
        eventually(lambda: programs.answers("127.0.0.1", int(self.env["API_PORT"]), "/healthz"), 30, self.logs)
        return self.status(tool)

    def task(self, tool: str) -> tuple[Any, ...]:
        """(id, status, ...) of the newest task."""
        return self.rows(
            "SELECT t.id, t.status, t.listing, t.total_files, t.indexed_files, t.warning, t.error "
            "FROM search_index_task t JOIN search_tool s ON s.index_id = t.index_id "
            "WHERE s.id = %s ORDER BY t.created_at DESC LIMIT 1",
            tool,
        )[0]

    def vector_ids(self, namespace: str, *, lance: bool = False) -> set[str]:
        """All ids in the store."""
        if lance:
            store = LanceStore(self.home / "lancedb", has_keywords=True)
            return {str(id_) for id_ in store.ids(namespace, None, 1_000_000)}
        with self.vectors.lock:
            space = self.vectors.namespaces.get(namespace)
            return set(space.rows) if space else set()

    def attributes(self, namespace: str, *, lance: bool = False) -> dict[str, dict[str, Any]]:
        """The store's attributes of every row, by id. A missing value is None or omitted."""
        if lance:
            store = LanceStore(self.home / "lancedb", has_keywords=True)
            return {str(id_): dict(row) for id_, row in store.attributes(namespace, None, 1_000_000).items()}
        with self.vectors.lock:
            space = self.vectors.namespaces.get(namespace)
            return {str(id_): dict(row.values) for id_, row in space.rows.items()} if space else {}

    def form(self, namespace: str) -> Callable[[Mapping[str, Any]], StoredAttributes]:
        """A function that returns the store's attributes of a row with these values."""
        ((text_key,),) = self.rows("SELECT text_key FROM search_index WHERE namespace = %s", namespace)
        if text_key is None:
            return lambda values: values
        ((secret,),) = self.rows("SELECT secret FROM text_key")
        return Blinds(BlindKey.of(secret)).of(namespace).attributes

    def logs(self) -> str:
        logs = sorted((self.home / "log").glob("*.log"))
        tails = (f"--- {log.stem}\n{log.read_text(errors='replace')[-3000:]}" for log in logs)
        return "\n".join([*self.said[-20:], *tails])

    # ---- using

    def tool(self, project: str, folder: Path, *, lance: bool = False) -> str:
        client = self.lance if lance else self.client
        body = {"project_id": project, "source": {"kind": "local", "path": str(folder)}}
        return str(_checked(client.post(TOOLS, json=body))["tool_id"])

    def delete(self, tool: str) -> None:
        _checked(self.client.delete(f"{TOOLS}/{tool}"))

    def ask(self, tool: str, verb: str, body: object = None) -> dict[str, Any]:
        """Send `reindex`, `cancel` or `retry`."""
        return _checked(self.client.post(f"{TOOLS}/{tool}/{verb}", json=body))

    def patch(self, tool: str, **config: Any) -> None:
        """Change a tool's config."""
        _checked(self.client.patch(f"{TOOLS}/{tool}", json={"config": config}))

    # ---- hurting

    def pid(self, name: str) -> int:
        """The process id of a program's main process. Raises `OSError` while it is down."""
        return int((self.home / "run" / f"{name}.pid").read_text())

    def holder(self, port: int, *names: str) -> str:
        """Which of these workers, by default of the supervised ones, waits at this port for an embeddings answer."""
        pid = client_of(port, self.embeddings.url)
        (name,) = [name for name in names or WORKERS if pid in self.children(name)]
        return name

    def children(self, name: str) -> list[int]:
        """Process ids of a worker's pool."""
        with suppress(OSError, psutil.NoSuchProcess):
            return [child.pid for child in psutil.Process(self.pid(name)).children(recursive=True)]
        return []

    def kill(self, name: str) -> int:
        """`kill -9` a program with its children. Returns its process id."""
        pid = self.pid(name)
        self.end(pid)
        return pid

    def end(self, pid: int) -> None:
        """`kill -9` a main process with its children; each main process leads its own session."""
        with suppress(ProcessLookupError):
            os.killpg(pid, SIGKILL)

    def kill_child(self, pid: int) -> None:
        assert any(pid in self.children(name) for name in WORKERS), f"{pid} is no pool child"
        os.kill(pid, SIGKILL)

    def send(self, name: str, number: Signals) -> None:
        """Send a signal to a program's main process; SIGSTOP and SIGCONT also to its children."""
        pid = self.pid(name)
        for one in [pid, *(self.children(name) if number in {SIGSTOP, SIGCONT} else [])]:
            with suppress(ProcessLookupError):
                os.kill(one, number)

    def ready(self, name: str) -> bool:
        try:
            return psutil.pid_exists(self.pid(name)) and self.programs[name].ready()
        except OSError:
            return False

    def wait_ready(self, *names: str) -> None:
        """Wait until these programs, or all of them, answer."""
        for name in names or self.programs:
            eventually(lambda name=name: self.ready(name), 60, lambda name=name: f"{name}\n{self.logs()}")  # type: ignore[misc] # mypy infers no default's type

    def restarted(self, name: str, old: int) -> None:
        """Wait until the supervisor has replaced a dead process."""

        def other() -> bool:
            with suppress(OSError):
                return self.pid(name) != old and self.ready(name)
            return False

        eventually(other, 60, self.logs)

    def broker(self) -> Redis:
        return Redis.from_url(self.env["CELERY_BROKER_URL"], socket_timeout=5)

    def publish(self, name: str, task: UUID, queue: str, times: int = 1) -> None:
        """Send a message of our own. Does nothing if the broker is down."""
        app: Celery = make_app(self.env["CELERY_BROKER_URL"])
        with app, suppress(OperationalError, RedisError):
            for _ in range(times):
                app.send_task(name, args=[str(task)], queue=queue, retry=False)

    def calm(self) -> None:
        """Remove every fault and wait until everything is up again."""
        self.embeddings.holds.release()
        self.vectors.holds.release()
        self.chat.holds.release()
        self.embeddings.delay = 0.0
        self.embeddings.clear_failures()
        with self.vectors.lock:
            self.vectors.faults.clear()
        for name in WORKERS:
            with suppress(OSError):
                self.send(name, SIGCONT)
        if self.clock:
            self.clock.set_ahead(0)
        self.wait_ready("postgres")
        self.gates.open()
        self.wait_ready()


def _checked(response: httpx.Response) -> dict[str, Any]:
    if response.status_code == HTTPStatus.SERVICE_UNAVAILABLE:
        raise Unavailable(response.text)
    return checked(response, 202)


def client_of(port: int, server: str) -> int:
    """The process at the client end of a loopback connection to a server's URL. Raises `LookupError` if it is gone.

    Linux gives one port to several clients at a time if their servers differ.
    """
    ends = [port, urlsplit(server).port]
    for connection in psutil.net_connections("tcp"):
        if connection.pid and [end[1] for end in (connection.laddr, connection.raddr) if end] == ends:
            return connection.pid
    raise LookupError(port)


@contextmanager
def cluster(
    home: Path, root: Path, broker: ServerProgram | None = None, *, fast: int = FAST, bulk: int = BULK, **more: str
) -> Iterator[Cluster]:
    """Run everything inside the block. Folders to index are in `root`; `more` are settings.

    Redis is the broker unless another one is given. `fast` and `bulk` are the processes of the two workers.
    """
    with EmbeddingsFake() as embeddings, FakeTurbopuffer() as vectors, ChatFake() as chat, ExitStack() as stack:
        clock, database = build(home / "postgres"), postgres.prepare(home)
        if clock:
            database = replace(database, program=clock.preloaded(database.program))
        servers = [database, redis.prepare(home, needs_password=False), *([broker] if broker else [])]
        env = _environment(home, root, embeddings, vectors, servers[0].url, servers[1].url) | chat.env | more
        env["CELERY_BROKER_URL"] = servers[-1].url
        lance_env = {**env, "API_PORT": str(server_port()), "VECTOR_STORE": "lancedb", "KEYWORD_INDEX": "store"}
        workers = [programs.worker("fast", fast, env), programs.worker("bulk", bulk, env), programs.beat(env)]
        lance_api = replace(programs.api(lance_env), name="api-lance")
        stages = [[server.program for server in servers], [programs.api(env)], [lance_api, *workers]]
        said: list[str] = []
        supervisor = Supervisor(stages, home, said.append, ForkServer(programs.fork_server(env), home))
        supervisor.start(120)
        stack.callback(supervisor.stop)
        client, lance_client = (stack.enter_context(_client(given["API_PORT"])) for given in (env, lance_env))
        gates = stack.enter_context(Gates.open_in(env["DATABASE_URL"]))
        by_name = {program.name: program for stage in stages for program in stage}
        yield Cluster(home, env, client, lance_client, embeddings, vectors, chat, gates, clock, said, by_name)


def _environment(
    home: Path, root: Path, embeddings: EmbeddingsFake, vectors: FakeTurbopuffer, database: str, broker: str
) -> dict[str, str]:
    return environment(
        home,
        database,
        broker,
        API_PORT=str(server_port()),
        REDIS_URL=f"{broker.removesuffix('/0')}/1",
        LOCAL_SOURCE_ROOTS=str(root),
        DEFAULT_EMBEDDING_MODEL="openai/fake",
        EMBEDDING_API_BASE=embeddings.url,
        EMBEDDING_API_KEY="key",
        EMBEDDING_BATCH_SIZE=str(BATCH),
        EMBEDDING_CONCURRENCY=str(IN_FLIGHT),
        TURBOPUFFER_API_KEY=vectors.api_key,
        TURBOPUFFER_BASE_URL=vectors.url,
    )


def _client(port: str) -> httpx.Client:
    return httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30, trust_env=False)


def second_worker(here: Cluster, queue: str, name: str = "next", **env: str) -> Program:
    """A worker of a queue that runs beside the supervised one, as in a rollout."""
    return another_node({**here.env, **env}, queue, name, 2)


def gone(pid: int) -> Callable[[], bool]:
    """A function that tells whether a process has ended, reaped or not."""

    def ended() -> bool:
        try:
            return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return True

    return ended
