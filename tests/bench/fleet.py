"""Measures fleets of 2 to 200 simulated workers: files a second, Postgres' time, and what a small folder notices.

`tests/bench/fleet_worker.py` says what is simulated. The processes share this machine with Postgres, so that the clock
says how far the machine goes. Postgres' processor time a file says how far Postgres goes elsewhere.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from http import HTTPStatus
from itertools import count
from pathlib import Path
from threading import Event, Thread
from typing import Any

import psutil
from starlette.testclient import TestClient

from api.main import create_app
from api.stack import postgres, programs, redis
from api.stack.processes import running
from api.stack.record import ROOT
from schemas.content.source import EmbedderProfile
from schemas.tool import IndexSettings
from tests.bench.fleet_worker import DIMENSIONS, PROVIDER_SECONDS, SIMULATED, TEXTS
from tests.bench.size.rows import fill, rows, spending
from tests.fakes.embeddings import EmbeddingsFake
from tests.service import TOOLS, Service, checked, clean_environment, environment
from worker.app import app
from worker.machine import logs
from worker.resources import chunk_settings
from worker.settings import Settings
from worker.state.migrate import migrate
from worker.state.pool import Pool, open_pool

NUMBERS = (2, 10, 50, 100, 200)
#: Seconds until more workers are at work, and of a measurement.
AHEAD_SECONDS, SECONDS = 10.0, 24.0
#: Large folders, each of a project of its own, and files in each.
FOLDERS, FILES = 24, 5_000
#: Files of a small folder.
SMALL = 20
#: Connections of Postgres: a simulated worker has up to four.
CONNECTIONS = 900

LARGE = """
WITH made AS (
    INSERT INTO search_index (id, project_id, identity, source, settings, vector_store, keyword_index, namespace, epoch)
    SELECT gen_random_uuid(), %(project)s || n, 'i-' || n, '{"kind": "local", "path": "/nowhere"}',
        %(settings)s::jsonb, 'lancedb', 'store', 'n-' || n, 1
    FROM generate_series(1, %(folders)s) AS n RETURNING id
), tasks AS (
    INSERT INTO search_index_task (id, tool_id, index_id, kind, status, epoch, listing, created_at, started_at,
        moved_at)
    SELECT gen_random_uuid(), gen_random_uuid(), id, 'create', 'indexing', 1, false, now() - interval '1 min', now(),
        now()
    FROM made RETURNING id, index_id
)
INSERT INTO search_index_file (id, index_id, key, path, id_path, size_bytes, task_id, stamp, code_version, status)
SELECT gen_random_uuid(), t.index_id, convert_to(p, 'UTF8'), p, '/' || p, 100, t.id, 's', 'v', 'pending'
FROM tasks t, generate_series(1, %(files)s) AS n, LATERAL (SELECT 'note-' || n || '.md' AS p) AS named
"""
DONE = "SELECT count(*) FROM search_index_file WHERE status = 'indexed'"
AT_WORK = "SELECT count(DISTINCT lease_owner) FROM search_index_file WHERE status = 'indexing'"
CONNECTED = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'"


@dataclass(frozen=True, slots=True)
class Measured:
    """What was measured while so many workers ran."""

    workers: int
    at_work: int
    files: float
    postgres: float
    simulators: float
    connections: int
    small: list[float]

    def __str__(self) -> str:
        small = f"{statistics.median(self.small):.1f} s" if self.small else f"more than {SECONDS:.0f} s"
        return (
            f"{self.workers} workers, {self.at_work} at work, {self.connections} connections: {self.files:.0f} files a "
            f"second of {self.workers * TEXTS / PROVIDER_SECONDS:.0f} that the provider allows; a file takes "
            f"{1e6 * self.postgres / self.files:.0f} µs of Postgres and {1e6 * self.simulators / self.files:.0f} µs of "
            f"workers; a folder of {SMALL} files is ready after {small}"
        )


def run(place: Path) -> None:
    clean_environment()
    logs.configure("ERROR")
    with ExitStack() as stack:
        url, broker = (stack.enter_context(server) for server in (_postgres(place), redis.redis(place)))
        migrate(url)
        provider = stack.enter_context(EmbeddingsFake(dimensions=DIMENSIONS))
        env = environment(place / "home", url, broker, **_settings(place, provider))
        app.conf.update(broker_url=broker, broker_read_url=broker, broker_write_url=broker)
        settings = Settings.model_validate({name.lower(): value for name, value in env.items() if value})
        fill(url, LARGE, project=SIMULATED, settings=_index_settings(settings), folders=FOLDERS, files=FILES)
        stack.enter_context(running(programs.beat(env), place))
        simulator = stack.enter_context(_simulator(env))
        pool = stack.enter_context(open_pool(url))
        service = stack.enter_context(_api(place, env, settings))
        for workers in NUMBERS:
            _tell(simulator, workers)
            time.sleep(AHEAD_SECONDS)
            print(_measured(workers, pool, simulator, service, place), flush=True)
        ((left,),) = rows(pool, "SELECT count(*) FROM search_index_file WHERE status = 'pending'")
        print(f"{left} files were left of {FOLDERS * FILES}", flush=True)


def _settings(place: Path, provider: EmbeddingsFake) -> dict[str, str]:
    return {
        **provider.env,
        "EMBEDDING_DIMENSIONS": f"{DIMENSIONS}",
        "EMBEDDING_BATCH_SIZE": f"{TEXTS}",
        "EMBEDDING_CONCURRENCY": "1",
        "LOCAL_SOURCE_ROOTS": f"{place}",
        "VECTOR_STORE": "lancedb",
        "LOG_LEVEL": "ERROR",
    }


def _index_settings(settings: Settings) -> str:
    profile = EmbedderProfile(model=settings.default_embedding_model, dimensions=DIMENSIONS)
    chunks = chunk_settings(settings, None, None, None)
    return IndexSettings(embedder=profile, chunks=chunks, max_file_bytes=settings.max_file_bytes).model_dump_json()


@contextmanager
def _postgres(place: Path) -> Iterator[str]:
    """Run a Postgres that takes many connections."""
    server = postgres.prepare(place)
    command = (*server.program.command, f"--max_connections={CONNECTIONS}")
    with running(replace(server.program, command=command), place):
        yield server.url


@contextmanager
def _simulator(env: Mapping[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "tests.bench.fleet_worker"]
    given = {**os.environ, **env, **programs.ONE_THREAD}
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, env=given, stdin=pipe, stdout=pipe) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()  # everything is imported
            yield process
        finally:
            for child in psutil.Process(process.pid).children():
                child.kill()
            process.kill()


def _tell(simulator: subprocess.Popen[bytes], workers: int) -> None:
    assert simulator.stdin is not None
    simulator.stdin.write(f"{workers}\n".encode())
    simulator.stdin.flush()


@contextmanager
def _api(place: Path, env: dict[str, str], settings: Settings) -> Iterator[Service]:
    """An API in this process, which makes the small folders' tools."""
    api = create_app(settings)
    client: Any = TestClient(api, "http://127.0.0.1", client=("127.0.0.1", 1))
    yield Service(place, env, client)
    api.state.resources.pool.close()


def _measured(workers: int, pool: Pool, simulator: subprocess.Popen[bytes], service: Service, place: Path) -> Measured:
    small = list[float]()
    stop = Event()
    creating = Thread(target=_create, args=(service, place / f"small-{workers}", small, stop))
    creating.start()
    ((before,),) = rows(pool, DONE)
    used = _processor(simulator)
    with spending(pool) as spent:
        time.sleep(SECONDS)
        ((after,),) = rows(pool, DONE)
    used = _processor(simulator) - used
    ((at_work,),), ((connections,),) = rows(pool, AT_WORK), rows(pool, CONNECTED)
    stop.set()
    creating.join()
    files = after - before
    per_second = files / spent.seconds
    return Measured(
        workers, at_work, per_second, spent.processor / spent.seconds, used / spent.seconds, connections, small
    )


def _processor(process: subprocess.Popen[bytes]) -> float:
    return sum(sum(child.cpu_times()[:2]) for child in psutil.Process(process.pid).children())


def _create(service: Service, place: Path, ready: list[float], stop: Event) -> None:
    """Make tools over small folders, one after the other, each by another user."""
    for number in count():
        folder = place / f"{number}"
        folder.mkdir(parents=True)
        for each in range(SMALL):
            (folder / f"{each}.md").write_text(f"# Note {number} {each}\n\nThe ferry waits for the tide.\n")
        began = time.monotonic()
        body = {"project_id": f"small-{number}", "source": {"kind": "local", "path": f"{folder}"}}
        # a busy Postgres may refuse for now
        while (made := service.client.post(TOOLS, json=body)).status_code == HTTPStatus.SERVICE_UNAVAILABLE:
            if stop.wait(0.1):
                return
        tool = checked(made, HTTPStatus.ACCEPTED)["tool_id"]
        while service.status(tool)["status"] != "ready":
            if stop.wait(0.1):
                return
        ready.append(time.monotonic() - began)
        if stop.is_set():
            return
