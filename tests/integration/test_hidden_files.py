"""Hidden files cost nothing in lists of files and chunks, and in statuses: their number cannot be told by the time."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from api.identity.principals import HEADER
from api.main import create_app
from schemas.content.source import ChunkSettings, EmbedderProfile, NodesSource
from schemas.tool import IndexSettings, ToolConfig
from tests.integration import test_hidden_nodes
from tests.integration.database import blocks_read, do, rows_read
from worker.settings import Settings
from worker.state.access import keys
from worker.state.index import tools
from worker.state.pool import Pool

SETTINGS = IndexSettings(embedder=EmbedderProfile(model="m", dimensions=4), chunks=ChunkSettings(), max_file_bytes=1000)
#: Each node has a file with a chunk. Those that are hidden come first.
MAKE_FILES = """
INSERT INTO search_index_file
    (id, index_id, key, node_id, path, id_path, size_bytes, task_id, stamp, code_version, status, live_chunks)
SELECT gen_random_uuid(), i.id, convert_to(n.id, 'UTF8'), n.id, repeat('!', (n.id LIKE '%%eve')::int) || n.name,
       n.id_path, 1, i.id,
       '1-' || (extract(epoch FROM n.created_at) * 1000000)::bigint, '', 'indexed', 1
FROM search_index i JOIN content_node n ON n.project_id = i.project_id AND n.parent_id = 'f' WHERE i.project_id = %s
"""
MAKE_CHUNKS = """
INSERT INTO chunk (id, index_id, file_id, live, chunk_index, chunk_text, context, lead, trail, content_hash,
                   tokens_estimate, start_line, end_line, start_char, end_char)
SELECT gen_random_uuid(), f.index_id, f.id, true, 0, 'x', '', '', '', 'sha256:' || f.node_id, 1, 1, 1, 0, 1
FROM search_index_file f JOIN search_index i ON i.id = f.index_id WHERE i.project_id = %s
"""
PAGE, SHOWN = 10, 3_000
TABLES = "content_node", "acl_class", "search_index_file", "chunk", "search_index_task"


def indexed(pool: Pool, *, has_hidden: bool) -> tuple[str, str]:
    """A project with a tool over a folder, of which Ann may read some files, but not the many of Eve."""
    project = test_hidden_nodes.filled(pool, 10, 100, has_hidden=has_hidden)
    source = NodesSource(kind="nodes", node_id="f")
    tool_id, _ = tools.create(
        pool, tools.NewIndex(project, source, "h.1", SETTINGS, "lancedb", "store"), name="", config=ToolConfig()
    )
    do(pool, MAKE_FILES, project)
    do(pool, MAKE_CHUNKS, project)
    do(pool, "UPDATE search_index_task SET status = 'ready', finished_at = now() WHERE tool_id = %s", tool_id)
    for table in TABLES:
        do(pool, f"ANALYZE {table}")
    return project, f"/api/tools/search/{tool_id}"


@pytest.fixture
def client(database_url: str, tmp_path: Path, pool: Pool) -> Iterator[TestClient]:
    """An API that reads over `pool`, whose connections tell what they have read."""
    app = create_app(Settings(database_url=database_url, foldex_home=tmp_path, auth="on"))
    own, app.state.resources.pool = app.state.resources.pool, pool
    yield TestClient(app, "http://127.0.0.1", client=("127.0.0.1", 1))
    app.state.resources.pool = own


def answered(client: TestClient, tool: str, headers: dict[str, str], path: str, **params: Any) -> Any:
    answer = client.get(f"{tool}{path}", params=params, headers=headers)
    assert answer.status_code == 200, answer.text
    return answer


def test_pages_of_files_pass_over_no_hidden_file(
    pool: Pool, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(test_hidden_nodes, "SHOWN", SHOWN)
    project, tool = indexed(pool, has_hidden=True)
    key = keys.create(pool, project, "gateway", ("search", "impersonate"))[1]
    get = partial(answered, client, tool, {"Authorization": f"Bearer {key}", HEADER: "user:ann"}, "/files")
    whole = [file["file_path"] for file in get(limit=1).json()["items"]]
    before = blocks_read(pool, "search_index_file_path")
    listed: list[str] = []
    cursor = None
    for _ in range(3):
        page = get(limit=PAGE, **({} if cursor is None else {"cursor": cursor})).json()
        listed, cursor = [*listed, *(file["file_path"] for file in page["items"])], page["next_cursor"]
    assert blocks_read(pool, "search_index_file_path") == before
    assert listed[0] == whole[0]
    shown = do(
        pool,
        "SELECT path FROM search_index_file f JOIN search_index i ON i.id = f.index_id WHERE i.project_id = %s"
        " AND f.node_id LIKE '%%ann' ORDER BY path LIMIT 30",
        project,
    )
    assert listed == [path for (path,) in shown]
    # a file that was renamed since does not shift the pages after it
    do(pool, "UPDATE search_index_file SET path = '~' || path WHERE path = %s", listed[-1])
    after = get(limit=PAGE, cursor=cursor).json()["items"]
    assert after[0]["file_path"] > listed[-1]
    assert not {file["file_path"] for file in after} & {*listed}
    # and every file of a kind is found, however rare
    assert [file["file_path"] for file in get(q=listed[20], limit=PAGE).json()["items"]].count(listed[20]) == 1


def test_no_call_reads_a_hidden_row(pool: Pool, client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    # so many that files are read in the order of paths
    monkeypatch.setattr(test_hidden_nodes, "SHOWN", SHOWN)
    listed: list[list[str]] = []
    costs: list[dict[str, int]] = []
    for has_hidden in (False, True):
        project, tool = indexed(pool, has_hidden=has_hidden)
        key = keys.create(pool, project, "gateway", ("search", "impersonate"))[1]
        get = partial(answered, client, tool, {"Authorization": f"Bearer {key}", HEADER: "user:ann"})
        # what is visible is looked up once for each change of lists
        first = get("/files", limit=1).json()["items"][0]
        costs.append({})
        for path in ("/status", "/tasks", "/events", f"/files/{first['file_id']}/chunks", "/files"):
            before = rows_read(pool, *TABLES)
            answer = get(path, limit=PAGE)
            costs[-1][path.rpartition("/")[2]] = rows_read(pool, *TABLES) - before
        listed.append([file["file_path"] for file in answer.json()["items"]])
    assert listed[0] == listed[1]
    assert len(listed[0]) == PAGE
    assert all(cost <= costs[0][path] + 10 * PAGE for path, cost in costs[1].items()), costs
