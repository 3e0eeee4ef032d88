"""An API process stays below `API_MEMORY_MB`, whatever two projects and a stranger send and do not read."""

from __future__ import annotations

import os
import random
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import httpx
import orjson
import pytest

from tests.chaos.full import only_in_full
from tests.fakes.embeddings import EmbeddingsFake
from tests.integration.test_keys import foldex, new_key
from tests.private_memory import sampled
from tests.service import ENDED, TOOLS, NewService, Service, checked, eventually, service
from worker.machine.memory.api_memory import DEFAULT_MB

SECONDS = float(os.environ.get("CHAOS_SECONDS") or 40)
#: Connections of a project for each kind of call. As many of them read slowly.
CONNECTIONS = 6
#: Bytes of each of two files, and of a node: less than `MAX_BODY_BYTES`.
FILE_BYTES, NODE_BYTES = 3_000_000, 9_900_000
#: Unfinished headers: each a little smaller than one connection may send.
HALF_HEADERS, HALF_HEADER_BYTES = 300, 60_000
WORDS = "the quiet harbour holds ships that carry apples pears and letters"


@dataclass
class Tenant:
    """A project with large files and nodes."""

    running: Service
    project: str
    key: str
    tool: str = ""
    #: Answers by kind of call and status.
    answers: Counter[tuple[str, int]] = field(default_factory=Counter)

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.key}"}

    def client(self) -> httpx.Client:
        base = self.running.client.base_url
        return httpx.Client(base_url=base, headers=self.headers, timeout=120, trust_env=False)

    @property
    def nodes(self) -> str:
        return f"/api/projects/{self.project}/nodes"

    def fill(self, client: httpx.Client, folder: Path) -> None:
        """Make the tool and the nodes."""
        chance = random.Random(self.project)
        for name in "ab":
            words = chance.choices(WORDS.split(), k=FILE_BYTES // 6)
            (folder / f"{name}.md").write_text(
                "\n".join(" ".join(words[at : at + 12]) for at in range(0, len(words), 12))
            )
        made = client.post(TOOLS, json={"project_id": self.project, "source": {"kind": "local", "path": str(folder)}})
        self.tool = str(checked(made, 202)["tool_id"])
        for name, content in contents().items():
            body = {"id": name, "name": f"{name}.json", "type": "json", "content": content}
            checked(client.post(self.nodes, content=orjson.dumps(body), headers=JSON), 201)

    def ready(self, client: httpx.Client) -> None:
        """Wait for the tool."""
        path = f"{TOOLS}/{self.tool}/status"
        eventually(lambda: client.get(path).json()["status"] in ENDED, 600, self.running.logs)
        assert checked(client.get(path), 200)["status"] == "ready"


JSON = {"Content-Type": "application/json"}


def contents() -> dict[str, object]:
    """Contents that are long, and that have many values."""
    return {"long": "a" * NODE_BYTES, "many": [[] for _ in range(240_000)], "rows": [{"k": "é" * 90}] * 50_000}


@pytest.fixture
def running(new_service: NewService, root: Path) -> Iterator[Service]:
    with EmbeddingsFake() as fake:
        env = {
            "AUTH": "on",
            "LOCAL_SOURCE_ROOTS": str(root),
            "EMBEDDING_API_BASE": fake.url,
            "EMBEDDING_API_KEY": "test",
            "DEFAULT_EMBEDDING_MODEL": "openai/bench-384",
        }
        with new_service(partial(service), **env) as started:
            yield started


@only_in_full
@pytest.mark.timeout(SECONDS + 1200)
def test_the_api_stays_below_its_memory(running: Service, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tenants = [Tenant(running, project, new_key(running, project)) for project in ("large-a", "large-b")]
    with ExitStack() as stack:
        clients = [stack.enter_context(tenant.client()) for tenant in tenants]
        for tenant, client in zip(tenants, clients, strict=True):
            folder = root / tenant.project
            folder.mkdir()
            assert foldex(running, "grants", "add", tenant.project, str(folder)).returncode == 0
            tenant.fill(client, folder)
        for tenant, client in zip(tenants, clients, strict=True):
            tenant.ready(client)
        files = [
            client.get(f"{TOOLS}/{tenant.tool}/files").json()["items"]
            for tenant, client in zip(tenants, clients, strict=True)
        ]
        pid = running.processes["api"].child.pid
        peak = stack.enter_context(sampled(pid))
        over, before = threading.Event(), peak.mebibytes
        threads = [
            threading.Thread(target=attack, args=(over,), daemon=True)
            for tenant, items in zip(tenants, files, strict=True)
            for attack in attacks(tenant, items[0]["file_id"])
        ]
        threads += [threading.Thread(target=half_headers, args=(running, over), daemon=True)]
        for thread in threads:
            thread.start()
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            assert clients[0].get("/healthz").status_code == 200
            time.sleep(0.5)
        over.set()
        for thread in threads:
            thread.join(180)
    with capsys.disabled():
        print(f"\nprivate memory {before} → {peak.mebibytes} MiB", *(sorted(each.answers.items()) for each in tenants))  # noqa: T201 - the measured figure
    for tenant in tenants:
        assert {kind for kind, status in tenant.answers if status < 300} >= {*KINDS}, (
            "no call of this kind was answered"
        )
        assert {status for _, status in tenant.answers} <= {200, 201, 404, 409, 422, 429, 503}
    assert peak.mebibytes < DEFAULT_MB


def calls(tenant: Tenant, file: str) -> dict[str, Callable[[httpx.Client], httpx.Response]]:
    """What clients send that read their answers."""
    tool, long = f"{TOOLS}/{tenant.tool}", f"{WORDS} " * 140
    sent = {name: orjson.dumps({"name": name, "type": "json", "content": each}) for name, each in contents().items()}
    full = orjson.dumps({"query": "a", "filters": {"path": ["*" * 90] * 900}, "more": "a" * 900_000})

    def query(**more: object) -> Callable[[httpx.Client], httpx.Response]:
        return lambda client: client.post(f"{tool}/query", json={"query": "ships and apples", **more})

    return {
        "hits": query(top_k=10_000),
        "wide hits": query(top_k=1_000, mode="keyword"),
        "long queries": query(query=long),
        "grep": lambda client: client.post(f"{tool}/grep", json={"pattern": "har.*our"}),
        "make": lambda client: client.post(tenant.nodes, content=random.choice([*sent.values()]), headers=JSON),
        "full body": lambda client: client.post(f"{tool}/query", content=full, headers=JSON),
        "file": lambda client: client.get(f"{tool}/files/{file}"),
        "chunks": lambda client: client.get(f"{tool}/files/{file}/chunks", params={"limit": 1000}),
        "node": lambda client: client.get(f"{tenant.nodes}/{random.choice([*sent])}"),
        "content": lambda client: client.get(f"{tenant.nodes}/{random.choice([*sent])}/content"),
        "status": lambda client: client.get(f"{tool}/status"),
    }


KINDS = ("hits", "wide hits", "long queries", "grep", "make", "file", "chunks", "node", "content", "status")


def attacks(tenant: Tenant, file: str) -> Iterator[Callable[[threading.Event], None]]:
    """What each thread of a project does."""
    for kind, send in calls(tenant, file).items():
        for _ in range(CONNECTIONS):
            yield partial(repeat, tenant, kind, send)
    tool = f"{TOOLS}/{tenant.tool}"
    paths = [f"{tool}/files/{file}", f"{tool}/files/{file}/chunks?limit=1000", f"{tool}/events"]
    paths += [f"{tenant.nodes}/{name}{end}" for name in contents() for end in ("", "/content")]
    for path in paths:
        for _ in range(CONNECTIONS):
            yield partial(read_slowly, tenant, path)


def repeat(tenant: Tenant, kind: str, send: Callable[[httpx.Client], httpx.Response], over: threading.Event) -> None:
    with tenant.client() as client:
        while not over.is_set():
            # a client that is slow on this machine may be dropped
            with suppress(httpx.TransportError):
                tenant.answers[kind, send(client).status_code] += 1


def read_slowly(tenant: Tenant, path: str, over: threading.Event) -> None:
    """Ask again and again, and read less than 100 kB/s."""
    while not over.is_set():
        with suppress(OSError), socket.socket() as caller:
            caller.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 14)
            caller.settimeout(60)
            caller.connect(address(tenant.running))
            caller.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {tenant.key}\r\n\r\n".encode())
            while not over.wait(0.1) and caller.recv(1 << 13):
                pass


def half_headers(running: Service, over: threading.Event) -> None:
    """Hold connections whose headers never end, and open others for those that were closed."""
    held = list[socket.socket]()
    while not over.wait(0.02):
        with suppress(OSError):
            caller = socket.create_connection(address(running), timeout=5)
            caller.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"a" * HALF_HEADER_BYTES)
            held.append(caller)
        if len(held) > HALF_HEADERS:
            held.pop(0).close()
    for each in held:
        each.close()


def address(running: Service) -> tuple[str, int]:
    return "127.0.0.1", int(running.env["API_PORT"])
