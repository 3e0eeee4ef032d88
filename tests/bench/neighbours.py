"""Measures what one project notices of another that sends ten times its load, for each kind of load.

The quiet project has one client, which sends a query and asks for a status in turn, and creates tools of 20 files one
after another. The noisy project has ten clients, which pause between requests as the quiet one does. Each kind is
measured beside the same moments before, because other work on the machine counts, too. The last figure is the peak of
the API's private memory.

`NOISE=greps make bench ONLY=neighbours` measures one kind.
"""

from __future__ import annotations

import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from threading import Thread
from urllib.parse import quote

import httpx
import orjson

from api.stack.record import ROOT
from tests.bench.folder import corpus
from tests.bench.neighbour_load import PAUSE_SECONDS, Load
from tests.bench.running import running
from tests.private_memory import sampled
from tests.service import TOOLS, Service

NOISY, QUIET = "noisy", "quiet"
#: Clients of the noisy project. The quiet one has one.
CLIENTS = 10
#: Seconds between two samples of memory.
SAMPLE_SECONDS = 1.0
#: Seconds of each measurement.
SECONDS = 8.0
#: Seconds of noise before a measurement.
AHEAD_SECONDS = 2.0
#: Files of each tool that the quiet project creates, and the tools whose time counts.
FILES, CREATED = 20, 3
#: Tools that the noisy project creates at once.
MANY_TOOLS = 200
#: Different requests of a kind. A client that comes to their end begins again.
DIFFERENT = 400
MEASURED_QUERIES = 500

#: A request: method, path, content type and body.
Request = tuple[str, str, str, str]
JSON = "application/json"

_folders = count()


@dataclass(frozen=True)
class Noticed:
    """Milliseconds of the quiet project's queries and statuses, and the seconds until its tools were ready."""

    queries: Sequence[float]
    statuses: Sequence[float]
    ready: Sequence[float]


@dataclass(frozen=True)
class Neighbours:
    """Two projects, each with a tool over the same files."""

    service: Service
    place: Path
    folder: Path
    noisy: str
    quiet: str
    words: Sequence[str]

    def text(self, chance: random.Random, letters: int) -> str:
        """A text of words of the folder."""
        text = ""
        while len(text) < letters:
            text += chance.choice(self.words) + " "
        return text[:letters]


def run(place: Path) -> None:
    folder = place / "corpus"
    corpus(folder)
    only = os.environ.get("NOISE")
    if only and only not in KINDS:
        sys.exit(f"NOISE is one of {', '.join(KINDS)}.")
    with running(place, place) as service:
        noisy, quiet = (service.local_tool(folder, project=project) for project in (NOISY, QUIET))
        for tool in (noisy, quiet):
            service.wait(tool, seconds=900)
        both = Neighbours(service, place, folder, noisy, quiet, _words(folder))
        _noticed(both)  # the first calls import and load
        print(f"{'noise':14}{'search p50':>24}{'p99':>24}{'status p50':>24}{'p99':>24}{'ready':>24}")
        for name in [only] if only else KINDS:
            _compare(both, name, KINDS[name](both))


def _compare(both: Neighbours, name: str, requests: Sequence[Request]) -> None:
    before = _noticed(both)
    with sampled(both.service.processes["api"].child.pid, SAMPLE_SECONDS) as peak, _load(both, requests) as statuses:
        time.sleep(AHEAD_SECONDS)
        during = _noticed(both)
    cells = [
        f"{was:.1f} → {now:.1f} ms x {now / was:.1f}"
        for measured in ("queries", "statuses")
        for share in (50, 99)
        for was, now in [(_percentile(getattr(each, measured), share) for each in (before, during))]
    ]
    was, now = statistics.median(before.ready), statistics.median(during.ready)
    cells.append(f"{was:.2f} → {now:.2f} s x {now / was:.1f}")
    print(
        f"{name:14}" + "".join(f"{cell:>24}" for cell in cells) + f"  {peak.mebibytes} MiB  {dict(statuses)}",
        flush=True,
    )
    _rest(both)


def _rest(both: Neighbours) -> None:
    """Wait until the noisy project's work is done."""
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        rows = both.service.rows("SELECT count(*) FROM search_index_task WHERE finished_at IS NULL")
        if not rows[0][0]:
            return
        time.sleep(0.5)


def _percentile(values: Sequence[float], share: int) -> float:
    return statistics.quantiles(values, n=100, method="inclusive")[share - 1]


def _noticed(both: Neighbours) -> Noticed:
    """What the quiet project measures, with tools that it creates meanwhile."""
    queries, statuses, ready = list[float](), list[float](), list[float]()
    creating = Thread(target=_create, args=(both, ready))
    creating.start()
    with httpx.Client(base_url=both.service.client.base_url, timeout=60, trust_env=False) as client:
        deadline, chance, path = time.monotonic() + SECONDS, random.Random(), f"{TOOLS}/{both.quiet}"
        while time.monotonic() < deadline or creating.is_alive():
            body = {"query": both.text(chance, 40)}
            queries.append(_milliseconds(client.post, f"{path}/query", json=body))
            statuses.append(_milliseconds(client.get, f"{path}/status"))
            time.sleep(PAUSE_SECONDS)
    creating.join()
    return Noticed(queries, statuses, ready)


def _milliseconds(send: Callable[..., httpx.Response], path: str, **more: object) -> float:
    began = time.perf_counter()
    response = send(path, **more)
    took = time.perf_counter() - began
    response.raise_for_status()
    return 1000 * took


def _create(both: Neighbours, ready: list[float]) -> None:
    for _ in range(CREATED):
        folder = _folder(both, FILES)
        began = time.monotonic()
        with httpx.Client(base_url=both.service.client.base_url, timeout=60, trust_env=False) as client:
            own = Service(both.service.home, both.service.env, client)
            own.wait(own.local_tool(folder, project=QUIET), seconds=300)
        ready.append(time.monotonic() - began)


def _folder(both: Neighbours, files: int) -> Path:
    number, chance = next(_folders), random.Random()
    folder = both.place / f"made-{number}"
    folder.mkdir()
    for each in range(files):
        (folder / f"{each}.md").write_text(f"# Note {number} {each}\n\n{both.text(chance, 400)}\n")
    return folder


@contextmanager
def _load(both: Neighbours, requests: Sequence[Request]) -> Iterator[Mapping[str, int]]:
    """Send the requests of the noisy project meanwhile. Yields its answers by status, empty until then."""
    load = Load(int(both.service.env["API_PORT"]), CLIENTS, list(requests), len(requests) != MANY_TOOLS)
    command = [sys.executable, "-m", "tests.bench.neighbour_load"]
    statuses: dict[str, int] = {}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(orjson.dumps([*load]) + b"\n")
        process.stdin.flush()
        yield statuses
        process.stdin.close()
        statuses |= orjson.loads(process.stdout.read())


def _words(folder: Path) -> list[str]:
    texts = [path.read_text(errors="ignore") for path in sorted(folder.rglob("*"))[:200] if path.is_file()]
    return [word for text in texts for word in text.split() if word.isidentifier()]


def _post(path: str, body: object) -> Request:
    return "POST", path, JSON, orjson.dumps(body).decode()


def _texts(both: Neighbours, least: int, most: int) -> list[str]:
    chance = random.Random(0)
    return [both.text(chance, chance.randint(least, most)) for _ in range(DIFFERENT)]


def _queries(both: Neighbours, **more: object) -> list[Request]:
    return [_post(f"{TOOLS}/{both.noisy}/query", {"query": text, **more}) for text in _texts(both, 30, 50)]


def _long_queries(both: Neighbours) -> list[Request]:
    return [_post(f"{TOOLS}/{both.noisy}/query", {"query": text}) for text in _texts(both, 8_000, 10_000)]


def _many_hits(both: Neighbours) -> list[Request]:
    return _queries(both, top_k=10_000)


def _greps(both: Neighbours) -> list[Request]:
    words = sorted(set(both.words))[:DIFFERENT]
    return [_post(f"{TOOLS}/{both.noisy}/grep", {"pattern": f"{word}.*e", "regex": True}) for word in words]


def _across(both: Neighbours) -> list[Request]:
    bodies = [{"project_id": NOISY, "query": text, "tool_ids": [both.noisy]} for text in _texts(both, 30, 50)]
    return [_post("/api/search", body) for body in bodies]


def _new_tool(folder: Path, **more: object) -> Request:
    return _post(TOOLS, {"project_id": NOISY, "source": {"kind": "local", "path": str(folder)}, **more})


def _estimates(both: Neighbours) -> list[Request]:
    return [_new_tool(both.folder, dry_run=True)]


def _uploads(both: Neighbours) -> list[Request]:
    parts = [
        f'--edge\r\nContent-Disposition: form-data; name="files"; filename="{number}.md"\r\n\r\n'
        f"{both.text(random.Random(number), 20_000)}\r\n"
        for number in range(50)
    ]
    path = f"/api/projects/{NOISY}/uploads"
    return [("POST", path, "multipart/form-data; boundary=edge", "".join(parts) + "--edge--\r\n")]


def _event_streams(both: Neighbours) -> list[Request]:
    # of a finished task: each stream ends at once, and its client opens the next
    return [("GET", f"{TOOLS}/{both.noisy}/events", JSON, "")]


def _statuses(both: Neighbours) -> list[Request]:
    return [("GET", f"{TOOLS}?project_id={quote(NOISY)}", JSON, "")]


def _reindexes(both: Neighbours) -> list[Request]:
    return [_post(f"{TOOLS}/{both.noisy}/reindex", {"full": True})]


def _many_tools(both: Neighbours) -> list[Request]:
    return [_new_tool(_folder(both, 1)) for _ in range(MANY_TOOLS)]


#: What makes the requests of each kind of load.
KINDS: dict[str, Callable[[Neighbours], Sequence[Request]]] = {
    "queries": _queries,
    "long queries": _long_queries,
    "10,000 hits": _many_hits,
    "greps": _greps,
    "across": _across,
    "estimates": _estimates,
    "uploads": _uploads,
    "event streams": _event_streams,
    "lists": _statuses,
    "reindexes": _reindexes,
    "200 tools": _many_tools,
}
