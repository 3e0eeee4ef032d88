"""Two projects whose nodes have the same ids and paths: whatever one does, the other's rows stay as they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import numpy as np
import orjson
import pytest

from schemas.content.source import EmbedderProfile, NodesSource
from schemas.errors import FolderGone
from schemas.tool import IndexSettings, ToolConfig
from tests.helpers import POOL
from worker.ignore import Rules
from worker.objects.directory_objects import DirectoryObjects
from worker.sandbox.pool import ProjectHelpers
from worker.sources.nodes import SLASH_IN_NAME, NodeTree
from worker.state.access import grants, keys
from worker.state.content import nodes, uploads
from worker.state.content.nodes import NewNode, NodeLink, NodeMove, StoredContent
from worker.state.content.uploads import ReceivedFile
from worker.state.index import embedding_cache, tools
from worker.state.index.embedding_cache import VectorOwner
from worker.state.index.tools import NewIndex
from worker.state.pool import Pool

PROFILE = EmbedderProfile(model="openai/m", dimensions=4)
HASH = "sha256:" + "1" * 64
#: Everything of a project, as text.
ROWS = """
SELECT 'node', n::text FROM content_node n WHERE project_id = %(p)s
UNION ALL SELECT 'key', k::text FROM api_key k WHERE project_id = %(p)s
UNION ALL SELECT 'grant', g::text FROM source_grant g WHERE project_id = %(p)s
UNION ALL SELECT 'vector', e::text FROM embedding_cache e WHERE project_id = %(p)s
UNION ALL SELECT 'tool', s::text FROM search_tool s WHERE project_id = %(p)s
UNION ALL SELECT 'index', i::text FROM search_index i WHERE project_id = %(p)s AND deleted_at IS NULL
UNION ALL SELECT 'task', t::text FROM search_index_task t, search_index i WHERE i.id = index_id AND project_id = %(p)s
UNION ALL SELECT 'change', c::text FROM search_index_change c, search_index i WHERE i.id = index_id
    AND project_id = %(p)s
UNION ALL SELECT 'stray', o::text FROM content_stray o WHERE starts_with(key, %(p)s)
ORDER BY 1, 2
"""


class Twin(NamedTuple):
    """A project with two folders, a tool that follows one, a tool that does not, a key, a grant and a vector."""

    pool: Pool
    name: str

    def fill(self) -> None:
        self.add("f", None, "Notes", "folder")
        self.add("g", None, "Others", "folder")
        self.add("sub", "f", f"Sub of {self.name}", "folder")
        self.add("a", "sub", "a.md", "markdown", key=f"{self.name}/a")
        self.add("c", "f", "c.json", "json", json={"of": self.name})
        for auto_reindex in (True, False):
            config = ToolConfig(auto_reindex=auto_reindex)
            wanted = self.wanted(size=64 if auto_reindex else 128)
            tools.create(self.pool, wanted, name=self.name, config=config)
        with self.pool.connection() as connection:
            connection.execute("UPDATE search_index_task SET status = 'indexing'")
        keys.create(self.pool, self.name, "key")
        grants.add(self.pool, self.name, "s3://bucket/place")
        embedding_cache.insert(self.pool, VectorOwner(self.name, PROFILE), {HASH: np.ones(4, dtype=np.float32)})

    def add(
        self, id_: str, parent: str | None, name: str, type_: str, *, key: str | None = None, json: Any = None
    ) -> None:
        if key is not None:
            self.announce(key)
        content = StoredContent(None if json is None else orjson.dumps(json).decode(), key, 1)
        nodes.insert(self.pool, self.name, NewNode(id_, parent, name, type_), content)

    def announce(self, key: str) -> None:
        """Prepare for an object that a node will refer to."""
        with self.pool.connection() as connection:
            connection.execute("INSERT INTO content_stray (key, due_at) VALUES (%s, now())", (key,))

    def wanted(self, size: int = 64) -> NewIndex:
        settings = {"embedder": PROFILE, "chunks": {"size": size, "overlap": 0}, "max_file_bytes": 1000}
        source = NodesSource(node_id="f")
        return NewIndex(self.name, source, "f", IndexSettings.model_validate(settings), "lancedb", "store")

    def rows(self) -> list[tuple[Any, ...]]:
        with self.pool.connection() as connection:
            return connection.execute(ROWS, {"p": self.name}).fetchall()

    def tree(self, directory: Path, node_id: str = "f") -> NodeTree:
        return NodeTree(self.pool, DirectoryObjects(directory), ProjectHelpers(POOL, self.name), node_id, Rules())


@pytest.fixture
def twins(pool: Pool) -> tuple[Twin, Twin]:
    made = Twin(pool, f"p-{uuid4().hex}"), Twin(pool, f"p-{uuid4().hex}")
    for twin in made:
        twin.fill()
    other = made[1]
    # what only the other has
    other.add("only", "f", "only.md", "markdown")
    other.add("ignore", "f", ".gitignore", "text", key=f"{other.name}/ignore")
    other.add("top", None, "top.md", "markdown")
    other.add("x" * (nodes.MAX_ID_PATH - len("/f/sub/")), "sub", "deep", "folder")
    return made


def test_a_project_finds_what_is_its_own(twins: tuple[Twin, Twin]) -> None:
    in_folder = ["c", "sub"], ["c", "ignore", "only", "sub"]
    for (pool, name), top, children in zip(twins, (["f", "g"], ["f", "g", "top"]), in_folder, strict=True):
        assert nodes.get(pool, name, "c").project_id == name
        assert [node.id for node in nodes.page(pool, name, None, after=None, limit=9)] == top
        assert sorted(node.id for node in nodes.page(pool, name, "f", after=None, limit=9)) == children
        for path in ("/f/sub/a", f"/Notes/Sub of {name}/a.md"):
            assert [node.id for node in nodes.find(pool, name, path, SLASH_IN_NAME)] == ["a"]
        assert sorted(nodes.id_paths(pool, name, ["c", "ignore", "only", "sub"])) == children
        assert [key.project_id for key in keys.page(pool, name)] == [name]
        assert [row.project_id for row in grants.page(pool, name)] == [name]
        assert {tool.index.project_id for tool in tools.searchable(pool, name)} == {name}
        assert {tool.project_id for tool in tools.page(pool, name, None, 9)} == {name}


def test_a_project_indexes_its_own_nodes(twins: tuple[Twin, Twin], tmp_path: Path) -> None:
    first, second = (twin.tree(tmp_path) for twin in twins)
    for twin, tree in zip(twins, (first, second), strict=True):
        assert twin.name in tree.read(b"c", 1000).data.decode()
    page = first.list(None)
    assert (page.ignored, sorted(entry.path for entry in page.entries)) == (
        {},
        [f"Sub of {twins[0].name}/a.md", "c.json"],
    )
    # its folder has no ignore file of this id
    assert first.narrow([b"a", b"ignore", b"c"]) is not None
    assert sorted(entry.key for entry in first.list(None).entries) == [b"a", b"c"]
    with pytest.raises(FolderGone):
        twins[0].tree(tmp_path, "only").check()


def test_a_project_shares_its_own_indexes_only(pool: Pool) -> None:
    one, another = (Twin(pool, f"p-{uuid4().hex}") for _ in range(2))
    tools.create(pool, one.wanted(), name="", config=ToolConfig())
    source, config = one.wanted().source, ToolConfig()
    for twin, is_there in ((one, True), (another, False)):
        found = (
            tools.find(pool, twin.wanted()),
            tools.over_whole(pool, twin.name, source, config),
            tools.first_precision(pool, twin.name, source, PROFILE.model),
            tools.first_keyword_index(pool, twin.name, source, "lancedb"),
            tools.newest_file_stems(pool, twin.name, source, PROFILE.model),
        )
        assert [value is not None for value in found] == [is_there] * 5
    tool_id, _ = tools.create(pool, another.wanted(), name="", config=config)
    index = tools.index_of_tool(pool, tool_id)
    assert index is not None
    assert index.project_id == another.name


def test_what_a_project_changes_is_its_own(twins: tuple[Twin, Twin]) -> None:
    (pool, name), other = twins
    before = other.rows()

    def is_as_before() -> bool:
        return other.rows() == before

    twins[0].add("only", "g", "mine.md", "markdown")
    assert is_as_before()
    nodes.change(pool, name, "c", NodeMove("d.json", "g", to_parent=True), None, NodeLink("https://e.org"))
    assert is_as_before()
    assert nodes.get(pool, name, "c").id_path == "/g/c"
    nodes.change(pool, name, "a", None, StoredContent(size=7))
    assert is_as_before()
    # the other's deep folder does not count
    nodes.change(pool, name, "f", NodeMove(None, "g", to_parent=True), None)
    assert is_as_before()
    # names that only the other has are new, and one that both have is not
    for parent, path in (("f", (f"Sub of {name}", "a.md")), ("f", ("only.md",)), (None, ("top.md",))):
        key = f"{name}/{path[-1]}"
        twins[0].announce(key)
        [saved], _ = uploads.save(pool, name, parent, [ReceivedFile(path, "markdown", key, 1)])
        assert saved.is_new == (path[-1] != "a.md")
        assert is_as_before()
    assert sorted(nodes.delete(pool, name, "g")) == [f"{name}/a.md", f"{name}/only.md"]
    assert is_as_before()
    grants.remove(pool, name, "s3://bucket/place")
    assert is_as_before()
    assert embedding_cache.lookup(pool, VectorOwner(name, PROFILE), [HASH]).keys() == {HASH}
    tools.delete(pool, tools.searchable(pool, name)[0].tool_id)
    assert is_as_before()


def test_a_deleted_project_leaves_all_others_as_they_are(twins: tuple[Twin, Twin]) -> None:
    (pool, name), other = twins
    before = other.rows()
    assert tools.project_exists(pool, name)
    assert tools.delete_project(pool, name) == [f"{name}/a"]
    assert other.rows() == before
    assert not tools.project_exists(pool, name)
    left = {kind for kind, _ in twins[0].rows()}
    assert left == {"task", "stray"}


def test_a_node_a_tool_or_a_key_is_enough_for_a_project_to_exist(pool: Pool) -> None:
    with_node, with_tool, with_key = (Twin(pool, f"p-{uuid4().hex}") for _ in range(3))
    with_node.add("f", None, "f", "folder")
    tools.create(pool, with_tool.wanted(), name="", config=ToolConfig())
    keys.create(pool, with_key.name, "key")
    for project in (with_node, with_tool, with_key):
        assert tools.project_exists(pool, project.name)
        tools.delete_project(pool, project.name)
        assert not tools.project_exists(pool, project.name)
