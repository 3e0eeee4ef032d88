"""Measures `foldex --help` and `foldex search` as processes, beside the same search by the service alone."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

from tests.bench.running import running
from tests.service import Service
from worker.settings import LOCAL_MODEL

RUNS = 15
QUERY = "where are leases renewed"


def run(place: Path) -> None:
    folder = place / "folders" / "notes"
    folder.mkdir(parents=True)
    for number in range(20):
        (folder / f"{number}.md").write_text(f"# {number}\n\nA thread renews lease {number} every two seconds.\n")
    with running(place, place / "folders", DEFAULT_EMBEDDING_MODEL=LOCAL_MODEL) as service:
        tool = service.local_tool(folder)
        service.wait(tool)
        service.query(tool, QUERY)  # the first query loads the model
        print(f"foldex --help: {_measured(service, '--help')}")
        print(f"foldex search: {_measured(service, 'search', QUERY, str(folder))}")
        began = time.monotonic()
        service.query(tool, QUERY)
        print(f"the same query over HTTP: {time.monotonic() - began:.3f} s")


def _measured(service: Service, *arguments: str) -> str:
    env = {**os.environ, "FOLDEX_URL": str(service.client.base_url), "FOLDEX_HOME": f"{service.home}/none"}
    seconds, processor = [], []
    for _ in range(RUNS):
        began, used = time.monotonic(), os.times()
        subprocess.run([sys.executable, "-m", "foldex", *arguments], env=env, check=True, capture_output=True)
        seconds.append(time.monotonic() - began)
        now = os.times()
        spent = now.children_user + now.children_system - used.children_user - used.children_system
        processor.append(spent)
    return (
        f"{statistics.median(seconds):.3f} s, of which {statistics.median(processor):.3f} s of processor time "
        f"(medians of {RUNS})"
    )
