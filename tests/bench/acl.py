"""Measures access lists: what filters by them cost, and how long changes of them take.

`FILES=1000` measures fewer files than 10,000 of ten chunks.
"""

from __future__ import annotations

import os
import random
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import httpx
import orjson

from api.identity.principals import HEADER
from schemas.scopes import Scope
from tests.bench.running import running
from tests.service import PROJECT, TOOLS, Service, eventually
from worker.state.access import acl, keys
from worker.state.pool import Pool, open_pool

FILES, CHUNKS_OF_FILE = int(os.environ.get("FILES") or 10_000), 10
#: Queries of each caller, who take turns.
ROUNDS = 200
#: Distinct lists of a project. Each file has one of them, as far as there are files.
CLASSES = (10, 1_000, 50_000)
#: Nodes of the folder whose list is changed.
NODES = 100_000
WORDS = [f"w{number}" for number in range(3_000)]

_CLASSES = """
WITH made AS (
    INSERT INTO acl_class (project_id, entries, digest)
    SELECT %(project)s, ARRAY ['group:' || n, CASE WHEN n %% 2 = 0 THEN 'group:even' ELSE 'group:odd' END],
           sha256(n::text::bytea)
    FROM generate_series(1, %(classes)s) n RETURNING id
), numbered AS (SELECT id, row_number() OVER () AS number FROM made),
files AS (SELECT id, row_number() OVER (ORDER BY id) AS number FROM content_node
          WHERE project_id = %(project)s AND type <> 'folder')
UPDATE content_node c SET own_acl = n.id, acl_class = n.id FROM files f
JOIN numbered n ON n.number = 1 + f.number %% %(classes)s
WHERE c.project_id = %(project)s AND c.id = f.id
"""
_NO_CLASSES = """
WITH none AS (UPDATE content_node SET own_acl = NULL, acl_class = NULL WHERE project_id = %(project)s)
DELETE FROM acl_class WHERE project_id = %(project)s
"""
_MANY_NODES = """
INSERT INTO content_node (project_id, id, parent_id, name, type, id_path, json)
SELECT project_id, id || '-' || n, id, 'n' || n, 'json', id_path || '/' || id || '-' || n, '1'
FROM content_node, generate_series(1, %(nodes)s) n WHERE project_id = %(project)s AND id = 'many'
"""


def run(place: Path) -> None:
    with running(place, place, AUTH="on") as service, open_pool(service.database_url) as pool:
        callers = _callers(pool)
        tool = _filled(service, callers["admin"])
        ask = _asking(service, tool, callers)
        for name in ("all", "even"):
            ask(name, WORDS[0])
        print(
            f"{FILES * CHUNKS_OF_FILE:,} chunks; {ROUNDS} queries of each caller, taking turns; no list in the project"
        )
        _compare(ask)
        for classes in CLASSES:
            _change(pool, _NO_CLASSES)
            _change(pool, _CLASSES, classes=classes)
            print(f"{classes:,} lists, half of the files hidden")
            first = _timed(lambda: ask("even", WORDS[1]))
            print(f"    first query after a change: {first * 1000:.1f} ms")
            _compare(ask)
        _changes(service, pool, callers["admin"], ask)


def _callers(pool: Pool) -> dict[str, dict[str, str]]:
    def bearer(*scopes: Scope) -> dict[str, str]:
        return {"Authorization": f"Bearer {keys.create(pool, PROJECT, 'bench', scopes)[1]}"}

    return {
        "admin": bearer("admin", "all_documents"),
        "all": bearer("search", "all_documents"),
        "even": {**bearer("search", "impersonate"), HEADER: "group:even"},
    }


def _filled(service: Service, admin: dict[str, str]) -> str:
    dice = random.Random(1)
    client = service.client
    client.post(f"/api/projects/{PROJECT}/nodes", json={"id": "top", "name": "top", "type": "folder"}, headers=admin)
    for start in range(0, FILES, 100):
        files = [
            ("files", (f"{number // 100}/{number}.md", _text(number, dice).encode()))
            for number in range(start, min(start + 100, FILES))
        ]
        at = f"/api/projects/{PROJECT}/uploads"
        client.post(at, data={"parent_id": "top"}, files=files, headers=admin).raise_for_status()
    made = client.post(TOOLS, json={"project_id": PROJECT, "node_id": "top"}, headers=admin)
    tool = str(made.json()["tool_id"])

    def is_ready() -> bool:
        return bool(client.get(f"{TOOLS}/{tool}/status", headers=admin).json()["status"] == "ready")

    eventually(is_ready, 3600, service.logs)
    return tool


def _text(number: int, dice: random.Random) -> str:
    parts = (f"# Part {number}-{part}\n\n{' '.join(dice.choices(WORDS, k=60))}\n" for part in range(CHUNKS_OF_FILE))
    return "\n".join(parts)


def _asking(service: Service, tool: str, callers: dict[str, dict[str, str]]) -> Callable[[str, str], list[Any]]:
    def ask(caller: str, text: str) -> list[Any]:
        answer = service.client.post(f"{TOOLS}/{tool}/query", json={"query": text}, headers=callers[caller])
        answer.raise_for_status()
        return list(orjson.loads(answer.content)["results"])

    return ask


def _compare(ask: Callable[[str, str], list[Any]]) -> None:
    """The medians of who sees all and of who sees half."""
    dice = random.Random(2)
    took: dict[str, list[float]] = {"all": [], "even": []}
    for _ in range(ROUNDS):
        # texts that nobody has asked, so that no caller profits from another
        for name, times in took.items():
            text = " ".join(dice.choices(WORDS, k=5))
            times.append(_timed(lambda name=name, text=text: ask(name, text)))  # type: ignore[misc] # mypy infers no default's type
    whole, half = (statistics.median(times) for times in took.values())
    print(
        f"    p50 of who sees all {whole * 1000:.1f} ms, of who sees by lists {half * 1000:.1f} ms, "
        f"ratio {half / whole:.2f}"
    )


def _changes(service: Service, pool: Pool, admin: dict[str, str], ask: Callable[[str, str], list[Any]]) -> None:
    nodes = f"/api/projects/{PROJECT}/nodes"

    def patch(node: str, acl: Sequence[str]) -> httpx.Response:
        return service.client.patch(f"{nodes}/{node}", json={"acl": acl}, headers=admin, timeout=120).raise_for_status()

    _change(pool, _NO_CLASSES)
    service.client.post(nodes, json={"id": "many", "name": "many", "type": "folder"}, headers=admin).raise_for_status()
    _change(pool, _MANY_NODES, nodes=NODES)
    for entries in (["group:odd"], ["group:even"]):
        took = _timed(lambda entries=entries: patch("many", entries))  # type: ignore[misc] # as above
        print(f"list of a folder of {NODES:,} nodes: {took:.2f} s")
    for node in ("top", ask("all", WORDS[0])[0]["file_node_id"]):
        patch(node, ["group:odd"])
        hidden = _timed(lambda node=node: patch(node, ["group:odd"]))  # type: ignore[misc] # as above
        granted = _timed(lambda node=node: patch(node, ["group:even"]))  # type: ignore[misc] # as above
        appears = _timed(lambda: eventually(lambda: bool(ask("even", WORDS[0])), 60))
        print(f"{node}: revoked in {hidden:.2f} s, granted in {granted:.2f} s, found {appears:.2f} s later")


def _change(pool: Pool, statement: str, **values: object) -> None:
    with pool.connection() as connection:
        connection.execute(statement.encode(), {"project": PROJECT, **values})
        # otherwise a process goes on with the files that it knows as visible
        acl.note_change(connection, PROJECT, revokes=True)


def _timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started
