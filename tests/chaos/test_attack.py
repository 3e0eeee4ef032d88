"""Random attacks by one tenant, with a second one as the judge; `make chaos SECONDS=600 SEED=…` runs them."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.chaos.attack import Attacker
from tests.chaos.full import only_in_full
from tests.integration.test_keys import call, foldex, new_key
from tests.service import TOOLS, NewService, Service, checked, eventually, service
from worker.settings import LOCAL_MODEL

SECONDS = float(os.environ.get("CHAOS_SECONDS") or 20)
SEED = int(os.environ.get("CHAOS_SEED") or random.randrange(10**6))
#: Threads that attack.
THREADS = 4
#: Bounds for the judge. They prove that nothing stands still, not that it is fast.
ANSWER_SECONDS, READY_SECONDS = 30.0, 90.0
#: How often the judge makes a tool.
PAUSE_SECONDS = 10.0


@pytest.fixture
def running(new_service: NewService, root: Path) -> Iterator[Service]:
    env = {"DEFAULT_EMBEDDING_MODEL": LOCAL_MODEL, "LOCAL_SOURCE_ROOTS": str(root), "AUTH": "on"}
    with new_service(partial(service), **env) as started:
        yield started


class Judge:
    """A tenant who only wants to be served. `slowest` holds the longest time of each call."""

    def __init__(self, running: Service, root: Path, project: str, text: str) -> None:
        self._running, self.project, self.folder = running, project, root / project
        self.folder.mkdir()
        (self.folder / "a.md").write_text(text)
        self.key = new_key(running, project)
        assert foldex(running, "grants", "add", project, str(self.folder)).returncode == 0
        self.slowest: dict[str, float] = {}
        self.tool = self.make("whole")
        self._expected = self.search()

    def make(self, name: str) -> str:
        """A tool over a folder of its own, once it is ready."""
        place = self.folder / name
        place.mkdir()
        (place / "a.md").write_text("apples and pears")
        source = {"kind": "local", "path": str(place if name != "whole" else self.folder)}
        tool = str(self._call("create", 202, "POST", TOOLS, project_id=self.project, source=source)["tool_id"])
        began = time.monotonic()
        status = f"{TOOLS}/{tool}/status"
        eventually(
            lambda: self._call("status", 200, "GET", status)["status"] == "ready", READY_SECONDS, self._running.logs
        )
        self._note("ready", began)
        return tool

    def search(self) -> list[Any]:
        body = {"query": "apples theirsecret", "mode": "keyword", "top_k": 10}
        answer = self._call("search", 200, "POST", f"{TOOLS}/{self.tool}/query", **body)
        return [(hit["file_path"], hit["chunk_text"], hit["score"]) for hit in answer["results"]]

    def look(self) -> None:
        """What the judge does all the time."""
        assert self.search() == self._expected
        self._call("status", 200, "GET", f"{TOOLS}/{self.tool}/status")
        self._call("health", 200, "GET", "/healthz")

    def make_and_delete(self, number: int) -> None:
        tool = self.make(f"made{number}")
        self._call("delete", 202, "DELETE", f"{TOOLS}/{tool}")

    def _call(self, what: str, status: int, method: str, path: str, **body: Any) -> dict[str, Any]:
        began = time.monotonic()
        try:
            # a timeout of the client is the bound
            answer = call(self._running, method, path, self.key, **body)
        except httpx.TransportError as error:
            raise AssertionError(f"{what} after {time.monotonic() - began:.1f} s: {error!r}") from error
        self._note(what, began)
        return checked(answer, status)

    def _note(self, what: str, began: float) -> None:
        self.slowest[what] = round(max(self.slowest.get(what, 0), time.monotonic() - began), 2)


@only_in_full
@pytest.mark.timeout(SECONDS + 600)
def test_nobody_else_notices_a_hostile_tenant(running: Service, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def say(line: str) -> None:
        with capsys.disabled():
            print(f"\n{line}", flush=True)  # noqa: T201 - the seed must always be visible

    say(f"attack with CHAOS_SEED={SEED}")
    running.client.timeout = httpx.Timeout(ANSWER_SECONDS)
    judge = Judge(running, root, "judge", "apples theirsecret pears")
    hostile = Judge(running, root, "hostile", "apples and oranges")
    url = str(running.client.base_url)
    attacker = Attacker(url, running.database_url, hostile.key, "hostile", hostile.folder, judge.folder)
    attacker.tool = hostile.tool
    over = threading.Event()
    threads = [
        threading.Thread(target=attacker.run, args=(f"{SEED} {number}", over.is_set), daemon=True)
        for number in range(THREADS)
    ]
    try:
        for thread in threads:
            thread.start()
        _judge(judge, time.monotonic() + SECONDS)
    finally:
        over.set()
        for thread in threads:
            thread.join(180)
        say(f"attacks {attacker.counts}, slowest answers to the judge in s {judge.slowest}")
    assert attacker.faults == []
    assert len(attacker.counts) == 6 or SECONDS < 60
    assert not any(thread.is_alive() for thread in threads), "an attacker never got its answer"
    judge.look()


def _judge(judge: Judge, end: float) -> None:
    number, made = 0, time.monotonic()
    while time.monotonic() < end:
        judge.look()
        if time.monotonic() - made > PAUSE_SECONDS:
            judge.make_and_delete(number)
            number, made = number + 1, time.monotonic()
        time.sleep(0.2)
