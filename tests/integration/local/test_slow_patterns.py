"""The API answers others while a caller's pattern is matched."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.service import TOOLS, Service

HOSTILE = ["*a*a*a*a/*a*a*a*b", "*a" * 60 + "/" + "*a" * 60 + "b", "**/*a*a*a/**/*a*a*a*b"]
HARMLESS = "docs/*.b"


@pytest.fixture(scope="module")
def tool(running: Service, root: Path) -> str:
    """A tool over files below directories, with names of 44 and of 200 letters."""
    for length in (44, 200):
        place = root / "long" / ("a" * length)
        place.mkdir(parents=True)
        for number in range(20):
            (place / f"{'a' * (length - 5)}{number:02}.md").write_text("apples")
    tool = running.local_tool(root / "long")
    running.wait(tool)
    return tool


@contextmanager
def polled(running: Service) -> Iterator[list[float]]:
    """Ask for the health all the time; the seconds that the answers took."""
    took: list[float] = []
    over = threading.Event()

    def poll() -> None:
        with httpx.Client(base_url=running.client.base_url, timeout=60, trust_env=False) as client:
            while not over.is_set():
                began = time.monotonic()
                client.get("/healthz").raise_for_status()
                took.append(time.monotonic() - began)

    thread = threading.Thread(target=poll)
    thread.start()
    try:
        yield took
    finally:
        over.set()
        thread.join()


def seconds(running: Service, tool: str, pattern: str) -> float:
    """The longest time of a call with the pattern, and of others meanwhile, as a busy machine delays both."""
    with polled(running) as took:
        began = time.monotonic()
        body = {"query": "apples", "mode": "keyword", "filters": {"path": pattern}}
        found = running.client.post(f"{TOOLS}/{tool}/query", json=body)
        assert found.json()["code"] == "no_such_files"
        running.post(f"{TOOLS}/{tool}/grep", {"pattern": "apples", "glob": pattern}, 200)
        return max([time.monotonic() - began, *took])


def test_a_hostile_pattern_takes_no_longer_than_a_harmless_one(running: Service, tool: str) -> None:
    seconds(running, tool, HARMLESS)  # loads what the first search needs
    harmless = max(seconds(running, tool, HARMLESS) for _ in range(3))
    for pattern in HOSTILE:
        assert min(seconds(running, tool, pattern) for _ in range(2)) < 20 * harmless, pattern
