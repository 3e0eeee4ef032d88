"""Runs the service and a fake provider without cost, each in its own processes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from api.stack.postgres import postgres
from api.stack.processes import server_port, wait_until
from api.stack.programs import answers
from api.stack.record import ROOT
from api.stack.redis import redis
from tests.service import Service, clean_environment, environment, service


@contextmanager
def provider(delay_ms: int = 0) -> Iterator[str]:
    """Start the fake embedding provider. Yields its address."""
    port = server_port()
    command = [sys.executable, "-m", "tests.fakes.embeddings", "--port", str(port), "--delay", str(delay_ms)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    with subprocess.Popen(command, cwd=ROOT, env=environment) as process:
        try:
            if not wait_until(lambda: answers("127.0.0.1", port, "/_audit"), 20):
                raise SystemExit("the embedding fake does not start")
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            process.terminate()


def settings(base: str, roots: Path) -> dict[str, str]:
    """Settings for the provider at an address, and for folders under `roots`."""
    return {
        "EMBEDDING_API_BASE": base,
        "EMBEDDING_API_KEY": "bench",
        "DEFAULT_EMBEDDING_MODEL": "openai/bench-384",
        "LOCAL_SOURCE_ROOTS": str(roots),
    }


@contextmanager
def running(place: Path, roots: Path, bulk: int = 2, delay_ms: int = 0, **env: str) -> Iterator[Service]:
    """Run everything on this machine, with LanceDB and the 384 dimensions of the fake provider."""
    clean_environment()
    with postgres(place) as database, redis(place) as broker, provider(delay_ms) as base:
        given = {**settings(base, roots), "VECTOR_STORE": "lancedb", **env}
        with service(environment(place / "home", database, broker, **given), bulk=bulk) as started:
            yield started
