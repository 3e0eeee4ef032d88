"""Locks of an administrator's session, and what the service does while they are held."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import psycopg
from psycopg.sql import SQL, Identifier

from tests.integration.test_tenants import CALLS, FILES, PROJECTS, TOOL, filled
from tests.service import ENDED, TOOLS, Service, checked, eventually
from worker.state.access import grants, keys
from worker.state.pool import open_pool

#: Seconds within which each call is answered, another project's tool is ready, and work resumes after the release.
ANSWER_SECONDS, READY_SECONDS = 10.0, 15.0
#: Files of a tenant's folder.
FILES_OF_TENANT = 40
#: Rows that a session may hold of a project and its index, by kind.
ROWS = {
    "task": "SELECT FROM search_index_task WHERE index_id = %(index)s FOR UPDATE",
    "index": "SELECT FROM search_index WHERE project_id = %(project)s FOR UPDATE",
    "tool": "SELECT FROM search_tool WHERE project_id = %(project)s FOR UPDATE",
    "file": "SELECT FROM search_index_file WHERE index_id = %(index)s FOR UPDATE",
    "chunk": "SELECT FROM chunk WHERE index_id = %(index)s FOR UPDATE",
    "delta": "SELECT FROM search_index_task_delta FOR UPDATE",
    "change": "SELECT FROM search_index_change WHERE index_id = %(index)s FOR UPDATE",
    "deletions": "SELECT FROM search_index_upkeep WHERE index_id = %(index)s FOR UPDATE",
    "upkeep": "SELECT FROM upkeep FOR UPDATE",
    "tree": "SELECT FROM summary_tree WHERE index_id = %(index)s FOR UPDATE",
    "lease": "SELECT FROM file_lease WHERE index_id = %(index)s FOR UPDATE",
    "node": "SELECT FROM content_node WHERE project_id = %(project)s FOR UPDATE",
    "key": "SELECT FROM api_key WHERE project_id = %(project)s FOR UPDATE",
    "grant": "SELECT FROM source_grant WHERE project_id = %(project)s FOR UPDATE",
    "cache": "SELECT FROM embedding_cache WHERE project_id = %(project)s FOR UPDATE",
    "name": "SELECT FROM namespace_name FOR UPDATE",
    "project": "SELECT pg_advisory_xact_lock(hashtextextended(%(project)s, 0))",
}
#: All tables.
TABLES = "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace ORDER BY relname"
#: Calls that would end what the test looks at afterwards. They come last.
LAST = (("DELETE", f"{TOOL}/raptor"), ("DELETE", TOOL), ("DELETE", PROJECTS))
DEADLOCKS = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"


@dataclass
class Tenant:
    """A project with a folder, a tool over it, and a key."""

    running: Service
    folder: Path
    project: str
    key: str
    ids: dict[str, str] = field(default_factory=dict)

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.key}"}

    def call(self, method: str, path: str, **given: Any) -> httpx.Response:
        client = self.running.client
        request = client.build_request(method, path, headers=self.headers, **given)
        answer = client.send(request, stream=True)
        if not answer.headers.get("content-type", "").startswith("text/event-stream"):
            answer.read()
        answer.close()
        return answer

    def new_tool(self, files: int = 1, **config: Any) -> str:
        """Create a tool over a new folder."""
        folder = self.folder / uuid4().hex
        folder.mkdir(parents=True)
        write(folder, files)
        source = {"kind": "local", "path": str(folder)}
        body = {"project_id": self.project, "source": source, "config": config}
        return str(checked(self.call("POST", TOOLS, json=body), 202)["tool_id"])

    def status(self, tool: str) -> str:
        return str(checked(self.call("GET", f"{TOOLS}/{tool}/status"), 200)["status"])

    def wait(self, tool: str, seconds: float = 60) -> str:
        eventually(lambda: self.status(tool) in ENDED, seconds, self.running.logs)
        return self.status(tool)

    @property
    def index(self) -> str:
        ((found,),) = self.running.rows("SELECT index_id FROM search_tool WHERE id = %s", self.ids["tool_id"])
        return str(found)


def write(folder: Path, files: int) -> None:
    """Files that no earlier call has written."""
    for number in range(files):
        (folder / f"{number}.py").write_text(f"def ledger{number}():\n    return '{uuid4().hex}'\n")


def tenant(running: Service, root: Path, name: str) -> Tenant:
    """A new project whose tool is ready."""
    project = f"{name}-{uuid4().hex[:8]}"
    with open_pool(running.database_url) as pool:
        _, key = keys.create(pool, project, "key")
        grants.add(pool, project, str(root / project))
    made = Tenant(running, root / project, project, key)
    tree = {"enabled": True, "cluster_method": "adjacent"}
    tool = made.new_tool(files=FILES_OF_TENANT, raptor=tree)
    nodes = f"/api/projects/{project}/nodes"
    node = checked(made.call("POST", nodes, json={"name": "f", "type": "folder"}), 201)["id"]
    checked(made.call("POST", f"/api/projects/{project}/uploads", data={"parent_id": node}, files=FILES), 200)
    assert made.wait(tool) == "ready"
    path = made.call("GET", f"{TOOLS}/{tool}").json()["source"]["path"]
    file = made.call("GET", f"{TOOLS}/{tool}/files").json()["items"][0]["file_id"]
    hits = made.call("POST", f"{TOOLS}/{tool}/query", json={"query": "ledger1", "mode": "keyword"}).json()["results"]
    made.ids = {"project_id": project, "tool_id": tool, "node_id": node, "place": path, "bucket": "none"}
    made.ids |= {"file_id": file, "chunk_id": hits[0]["chunk_id"]}
    return made


@contextmanager
def held(running: Service, *statements: str, **values: object) -> Iterator[None]:
    """Locks of an administrator's session until the block ends."""
    with psycopg.connect(running.database_url, application_name="psql") as session:
        for statement in statements:
            session.execute(statement.encode(), values)
        yield
        session.rollback()


def hold_rows(victim: Tenant, *kinds: str) -> AbstractContextManager[None]:
    """See `held`."""
    statements = [ROWS[kind] for kind in kinds]
    return held(victim.running, *statements, index=victim.index, project=victim.project)


def hold_tables(running: Service, *tables: str) -> AbstractContextManager[None]:
    """See `held`."""
    locks = [SQL("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE").format(Identifier(table)).as_string() for table in tables]
    return held(running, *locks)


def begin_task(victim: Tenant) -> None:
    """Leave a task of the victim open that has all to do."""
    write(Path(victim.ids["place"]), FILES_OF_TENANT)
    checked(victim.call("POST", f"{TOOLS}/{victim.ids['tool_id']}/reindex", json={"full": True}), 202)


def walk(who: Tenant, threads: int = 16) -> list[str]:
    """Call everything, last what would end the rest. Returns what was not answered in time, or wrongly."""
    routes = sorted(CALLS.keys() - {*LAST})
    with ThreadPoolExecutor(threads) as pool:
        return [said for said in pool.map(lambda route: _walked(who, route), routes) if said]


def walk_last(who: Tenant) -> list[str]:
    """The same of what ends the rest."""
    return [said for route in LAST if (said := _walked(who, route))]


def _walked(who: Tenant, route: tuple[str, str]) -> str | None:
    method, path = route
    began = time.monotonic()
    try:
        answer = who.call(method, filled(path, who.ids), **filled(dict(CALLS[route][0]), who.ids))
    except httpx.HTTPError as error:
        return f"{method} {path}: {error!r}"
    passed = time.monotonic() - began
    is_well = answer.status_code < HTTPStatus.INTERNAL_SERVER_ERROR
    is_told = answer.status_code == HTTPStatus.SERVICE_UNAVAILABLE and answer.json()["code"]
    if passed > ANSWER_SECONDS or not (is_well or is_told):
        return f"{method} {path}: {answer.status_code} after {passed:.1f} s {answer.text[:200]}"
    return None


def prove(who: Tenant, running: Service) -> None:
    """Its work resumes after the release, and nothing was lost."""
    tool = who.ids["tool_id"]
    eventually(lambda: who.status(tool) in ENDED, READY_SECONDS, running.logs)
    checked(who.call("POST", f"{TOOLS}/{tool}/reindex"), 202)
    eventually(lambda: who.status(tool) == "ready", READY_SECONDS, running.logs)
    body = {"query": "ledger7", "mode": "keyword"}
    assert checked(who.call("POST", f"{TOOLS}/{tool}/query", json=body), 200)["results"]
    rows = "SELECT count(*) FROM search_index_file WHERE index_id = %s AND status = 'indexed'"
    assert running.rows(rows, who.index) == [(FILES_OF_TENANT,)]


def deadlocks(running: Service) -> int:
    ((number,),) = running.rows(DEADLOCKS)
    return int(number)


def settings(root: Path, model: str, llm: str) -> Mapping[str, str]:
    """Settings of a service with keys."""
    return {
        "AUTH": "on",
        "DEFAULT_EMBEDDING_MODEL": model,
        "DEFAULT_LLM_MODEL": llm,
        "LOCAL_SOURCE_ROOTS": str(root),
        "SEARCH_SECONDS": "60",
    }
