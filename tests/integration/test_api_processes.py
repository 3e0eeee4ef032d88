"""Several processes of the API that share its port."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import pytest
from prometheus_client.parser import text_string_to_metric_families

from api.stack.record import ROOT
from tests.service import TOOLS, Service, another_api, eventually

SECONDS = 60


@pytest.fixture(scope="module")
def shared(running: Service) -> Iterator[Service]:
    with another_api(running, API_PROCESSES="2") as started:
        yield started


def parent(service: Service) -> psutil.Process:
    (process,) = service.processes.values()
    return psutil.Process(process.child.pid)


def answering(service: Service) -> list[psutil.Process]:
    """The processes that serve. Each has connections to clients or waits for them."""
    return parent(service).children()


def ask(service: Service) -> int:
    """Ask over a connection of its own, for what nobody else asks."""
    base, headers = str(service.client.base_url), service.client.headers
    return httpx.get(f"{base}/api/indexers", headers=headers, timeout=SECONDS, trust_env=False).status_code


def asked(service: Service) -> float:
    families = text_string_to_metric_families(service.client.get("/metrics").text)
    labels = {"method": "GET", "route": "/api/indexers", "status": "200"}
    return sum(s.value for f in families for s in f.samples if s.name == "foldex_requests_total" and s.labels == labels)


def test_the_processes_answer_and_count_together(shared: Service) -> None:
    first, second = answering(shared)
    before, each = asked(shared), 5
    for stopped in (first, second):
        # whichever is left must answer
        stopped.suspend()
        try:
            assert [ask(shared) for _ in range(each)] == [200] * each
        finally:
            stopped.resume()
    assert asked(shared) - before == 2 * each


def test_one_process_finds_what_another_created(shared: Service, root: Path) -> None:
    folder = root / "harbour"
    folder.mkdir()
    (folder / "a.md").write_text("# Harbour\n\nThe ferry leaves at nine.\n")
    tool = shared.local_tool(folder)
    shared.wait(tool)
    for stopped in answering(shared):
        stopped.suspend()
        try:
            with httpx.Client(base_url=shared.client.base_url, headers=shared.client.headers, timeout=SECONDS) as other:
                answer = other.post(f"{TOOLS}/{tool}/query", json={"query": "ferry"})
        finally:
            stopped.resume()
        assert [hit["file_path"] for hit in answer.json()["results"]] == ["a.md"]


def test_a_killed_process_is_replaced(shared: Service) -> None:
    killed, other = answering(shared)
    killed.kill()

    def is_replaced() -> bool:
        return len({process.pid for process in answering(shared)} - {killed.pid}) == 2

    eventually(is_replaced, SECONDS, shared.logs)
    assert other.pid in {process.pid for process in answering(shared)}
    other.suspend()
    try:
        assert ask(shared) == 200
    finally:
        other.resume()


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_no_process_outlives_its_parent(running: Service, ending: signal.Signals) -> None:
    with another_api(running, API_PROCESSES="2") as started:
        children = answering(started)
        assert len(children) == 2
        os.kill(parent(started).pid, ending)
        _, alive = psutil.wait_procs(children, SECONDS)
        assert not alive


def test_a_port_in_use_is_named(running: Service) -> None:
    env = {**os.environ, **running.env, "API_PROCESSES": "2"}
    command = [sys.executable, "-m", "api", "serve"]
    ended = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert ended.returncode == 3
    assert "Address already in use" in ended.stdout + ended.stderr
