"""Compares grep over 1,500 files with rg itself, on disk and on the same text in Postgres."""

from __future__ import annotations

import statistics
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

from api.http.sight import seen
from api.search.grep import ripgrep
from api.search.grep.grep import grep
from schemas.content.acl import EVERYTHING
from schemas.queries.grep import Grep
from tests.bench.folder import corpus
from tests.bench.running import running
from tests.service import PROJECT, TOOLS, Service
from worker.resources import Resources
from worker.settings import Settings
from worker.state.index import tools

PATTERNS = (("connection refused", False), (r"def \w+_token\(", True), ("zzqqzz", False), ("import", False))
ROUNDS = 15


def run(place: Path) -> None:
    folder = place / "corpus"
    size = corpus(folder)
    with running(place, folder) as service:
        tool = service.local_tool(folder)
        service.wait(tool, seconds=600)
        for pattern, regex in PATTERNS:
            _beside_rg(service, tool, folder, pattern, regex=regex)
        _stored(service, folder, size)


def _beside_rg(service: Service, tool: str, folder: Path, pattern: str, *, regex: bool) -> None:
    """Median times of alternating runs, over HTTP and of the bare program."""
    program = ripgrep.program()
    assert program is not None
    command = [program, "-n", "-i", *([] if regex else ["-F"]), "--", pattern, str(folder)]
    ours: list[float] = []
    bare: list[float] = []
    for _ in range(ROUNDS):
        ours.append(_timed(lambda: service.post(f"{TOOLS}/{tool}/grep", {"pattern": pattern, "regex": regex}, 200)))
        bare.append(_timed(lambda: subprocess.run(command, check=False, capture_output=True)))
    one, other = statistics.median(ours), statistics.median(bare)
    print(f"{pattern!r}: p50 {one * 1000:.1f} ms, bare rg {other * 1000:.1f} ms, ratio {one / other:.2f}")


def _stored(service: Service, folder: Path, size: int) -> None:
    """The engine for stored text, over a tree of nodes with the same files."""
    parent = service.node("corpus", "folder")
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    for start in range(0, len(paths), 100):
        files = [("files", (str(p.relative_to(folder)), p.read_bytes())) for p in paths[start : start + 100]]
        path = f"/api/projects/{PROJECT}/uploads"
        service.client.post(path, data={"parent_id": parent}, files=files).raise_for_status()
    tool = service.tool(node_id=parent)
    service.wait(tool, seconds=600)
    resources = Resources(Settings(auth="off", database_url=service.database_url, foldex_home=service.home))
    index = tools.index_of_tool(resources.pool, UUID(tool))
    assert index is not None
    shown = seen(index, EVERYTHING)
    seconds = statistics.median(_timed(lambda: grep(resources, shown, Grep(pattern="zzqqzz"))) for _ in range(5))
    resources.pool.close()
    print(f"stored text: {seconds * 1000:.0f} ms for {size / 1e6:.1f} MB, {size / 1e6 / seconds:.0f} MB/s")


def _timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started
