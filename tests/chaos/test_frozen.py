"""Servers that accept requests and answer nothing, each in turn, for longer than a lease. Then they continue."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from tests.chaos import corpus
from tests.fakes.embeddings import EmbeddingsFake
from tests.fakes.silence import Silence
from tests.fakes.turbopuffer import FakeTurbopuffer
from tests.service import TOOLS, NewService, Service, eventually, next_broker, service
from worker.state.index.tasks import LEASE

#: Seconds within which a caller learns that Postgres does not answer, and calls that need no other server return.
#: A quiet machine takes a third of each bound here; a call that hangs takes a minute and more.
REFUSED, SOON = 15.0, 9.0
#: Seconds within which a query returns without the frozen part. A request to the store may take 15 s.
SEARCHED, WITHOUT_STORE = 24.0, 45.0
SERVERS = ("postgres", "redis", "store", "provider")
LIVE = """
SELECT f.path, f.status, f.reason, c.id::text, c.chunk_index, c.context || c.chunk_text
FROM search_index_file f LEFT JOIN chunk c ON c.file_id = f.id AND c.live
WHERE f.index_id = (SELECT index_id FROM search_tool WHERE id = %s) ORDER BY 1, 5
"""


@dataclass
class Frozen:
    """A service with a separate proxy in front of every server."""

    running: Service
    proxies: dict[str, Silence]
    embeddings: EmbeddingsFake
    vectors: FakeTurbopuffer
    root: Path

    def tool(self, name: str) -> str:
        """Create a tool over a new folder."""
        mark = corpus.new_mark()
        return self.running.local_tool(corpus.make(self.root / mark, mark), project=f"{name}-{mark}")

    def timed(self, method: str, path: str, body: object = None) -> tuple[int, float]:
        began = time.monotonic()
        status = self.running.client.request(method, path, json=body).status_code
        return status, time.monotonic() - began

    def holds(self, tool: str) -> list[tuple[object, ...]]:
        """Every file's outcome and chunks. The store must have exactly these chunks."""
        rows = self.running.rows(LIVE, tool)
        ((namespace,),) = self.running.rows(
            "SELECT i.namespace FROM search_index i JOIN search_tool s ON s.index_id = i.id WHERE s.id = %s", tool
        )
        with self.vectors.lock:
            assert set(self.vectors.namespaces[namespace].rows) == {row[3] for row in rows if row[3]}
        return [(path, status, reason, place) for path, status, reason, _, place, _ in rows]


@pytest.fixture(scope="module")
def frozen(new_service: NewService, database_url: str, redis_url: str, root: Path) -> Iterator[Frozen]:
    with ExitStack() as stack:
        embeddings, vectors = stack.enter_context(EmbeddingsFake()), stack.enter_context(FakeTurbopuffer())
        broker = next_broker(redis_url)
        urls = {"postgres": database_url, "redis": broker, "store": vectors.url, "provider": embeddings.url}
        proxies = {name: stack.enter_context(Silence(urlsplit(url).port or 0)) for name, url in urls.items()}
        through = {
            name: url.replace(f":{urlsplit(url).port}", f":{proxies[name].port}", 1) for name, url in urls.items()
        }
        env = {
            "DATABASE_URL": through["postgres"],
            "CELERY_BROKER_URL": through["redis"],
            "REDIS_URL": through["redis"],
            "TURBOPUFFER_API_KEY": vectors.api_key,
            "TURBOPUFFER_BASE_URL": through["store"],
            "DEFAULT_EMBEDDING_MODEL": "openai/fake",
            "EMBEDDING_API_BASE": through["provider"],
            "EMBEDDING_API_KEY": "key",
            "EMBEDDING_BATCH_SIZE": "4",
            "LOCAL_SOURCE_ROOTS": str(root),
        }
        running = stack.enter_context(new_service(partial(service, bulk=2), **env))
        made = Frozen(running, proxies, embeddings, vectors, root)
        yield made
        for proxy in proxies.values():
            proxy.thaw()


@pytest.fixture(scope="module")
def whole(frozen: Frozen) -> str:
    """A tool that was indexed before anything froze."""
    tool = frozen.tool("whole")
    frozen.running.wait(tool)
    return tool


@pytest.fixture(scope="module")
def expected(frozen: Frozen, whole: str) -> list[tuple[object, ...]]:
    """What a run without a fault makes of the folder. Later, `whole` may be indexed again."""
    return frozen.holds(whole)


@pytest.mark.parametrize("server", SERVERS)
def test_a_server_freezes_in_the_middle_of_the_work(
    frozen: Frozen, whole: str, expected: list[tuple[object, ...]], server: str
) -> None:
    frozen.embeddings.delay = 0.1
    tools = [frozen.tool(server) for _ in range(3)]
    time.sleep(0.5)
    frozen.proxies[server].freeze()
    since = time.monotonic()
    try:
        CHECKS[server](frozen, whole, tools)
        time.sleep(max(0.0, since + 1.5 * LEASE.total_seconds() - time.monotonic()))
    finally:
        frozen.embeddings.delay = 0.0
        frozen.proxies[server].thaw()
    eventually(lambda: frozen.timed("GET", "/readyz")[0] == HTTPStatus.OK, 10, frozen.running.logs)
    for tool in tools:
        frozen.running.wait(tool, seconds=90)
        assert frozen.holds(tool) == expected


def postgres_is_frozen(frozen: Frozen, whole: str, tools: list[str]) -> None:
    """Every caller gets an error in time, however many there are."""
    asked = [("GET", "/readyz"), ("GET", f"{TOOLS}/{tools[0]}/status"), ("POST", f"{TOOLS}/{whole}/cancel")] * 30
    with (
        ThreadPoolExecutor(len(asked)) as callers,
        httpx.Client(
            base_url=frozen.running.client.base_url,
            timeout=30,
            trust_env=False,
            limits=httpx.Limits(max_connections=None),
        ) as client,
    ):

        def ask(call: tuple[str, str]) -> tuple[int, float]:
            began = time.monotonic()
            return client.request(*call).status_code, time.monotonic() - began

        answers = list(callers.map(ask, asked))
        statuses = {status for status, _ in answers}
        # a caller's share of calls may be full of those that wait
        assert statuses - {HTTPStatus.TOO_MANY_REQUESTS} == {HTTPStatus.SERVICE_UNAVAILABLE}
        assert max(seconds for _, seconds in answers) < REFUSED
    status, seconds = frozen.timed("GET", "/healthz")
    assert (status, seconds < SOON) == (HTTPStatus.OK, True)
    status, seconds = frozen.timed("POST", f"{TOOLS}/{whole}/query", {"query": "apples"})
    assert (status, seconds < REFUSED) == (HTTPStatus.SERVICE_UNAVAILABLE, True)


def redis_is_frozen(frozen: Frozen, whole: str, tools: list[str]) -> None:
    goes_on(frozen, whole, tools)
    # Messages that no caller waits for must not use up the sending threads.
    for _ in range(50):
        assert frozen.timed("POST", f"{TOOLS}/{whole}/reindex")[0] == HTTPStatus.ACCEPTED
    goes_on(frozen, whole, tools)


def goes_on(frozen: Frozen, whole: str, tools: list[str], patience: float = SEARCHED) -> None:
    """Calls that need no frozen server are as quick as ever, and a query leaves the frozen part out."""
    status, seconds = frozen.timed("GET", f"{TOOLS}/{tools[0]}/status")
    assert (status, seconds < SOON) == (HTTPStatus.OK, True)
    began = time.monotonic()
    tools.append(frozen.tool("meanwhile"))
    assert time.monotonic() - began < SOON
    status, seconds = frozen.timed("POST", f"{TOOLS}/{whole}/query", {"query": f"apples {time.monotonic()}"})
    assert (status, seconds < patience) == (HTTPStatus.OK, True)
    assert frozen.timed("GET", "/readyz")[0] == HTTPStatus.OK


CHECKS: dict[str, Callable[[Frozen, str, list[str]], None]] = {
    "postgres": postgres_is_frozen,
    "redis": redis_is_frozen,
    "store": partial(goes_on, patience=WITHOUT_STORE),
    "provider": goes_on,
}
