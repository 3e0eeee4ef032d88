"""Keys that ended long ago and access lists that no node has any more are forgotten, and nothing else."""

from __future__ import annotations

from uuid import UUID, uuid4

import pytest

from tests.integration.database import do
from worker.resources import Resources
from worker.state.access import acl, keys
from worker.state.content import nodes
from worker.state.content.nodes import NewNode, NodeAcl, NodeMove, StoredContent
from worker.state.pool import Pool
from worker.tasks import process, upkeep


def folder(pool: Pool, project: str, id_: str, parent: str | None = None, entries: list[str] | None = None) -> None:
    nodes.insert(pool, project, NewNode(id_, parent, id_, "folder", acl=entries), StoredContent())


def lists(pool: Pool, project: str) -> list[list[str]]:
    rows = do(pool, "SELECT entries FROM acl_class WHERE project_id = %s ORDER BY id", project)
    return [entries for (entries,) in rows]


def shown(pool: Pool, project: str, id_: str) -> list[str] | None:
    return nodes.get(pool, project, id_).acl


def test_a_list_is_kept_as_long_as_a_node_has_it(pool: Pool) -> None:
    project, other = f"p-{uuid4()}", f"p-{uuid4()}"
    folder(pool, project, "a", entries=["group:a"])
    folder(pool, project, "b", "a")
    folder(pool, project, "c", entries=["group:c"])
    folder(pool, other, "a", entries=["group:other"])
    for number in range(5):
        nodes.change(pool, project, "c", None, None, access=NodeAcl([f"group:{number}"]))
    nodes.change(pool, other, "a", None, None, access=NodeAcl(None))
    assert len(lists(pool, project)) == 7
    before = acl.version(pool, project)
    nodes.forget_unused_lists(pool)
    assert lists(pool, project) == [["group:a"], ["group:4"]]
    assert (shown(pool, project, "a"), shown(pool, project, "c")) == (["group:a"], ["group:4"])
    # the newest one tells that the project had a list
    nodes.change(pool, project, "c", None, None, access=NodeAcl(None))
    nodes.change(pool, project, "a", None, None, access=NodeAcl(None))
    nodes.forget_unused_lists(pool)
    assert (lists(pool, project), lists(pool, other)) == ([["group:4"]], [["group:other"]])
    assert before is not None
    assert acl.version(pool, project) is not None
    # a list that comes back is a new one
    nodes.change(pool, project, "b", None, None, access=NodeAcl(["group:a"]))
    assert shown(pool, project, "b") == ["group:a"]
    assert nodes.count_misfiled(pool, project, repair=False) == 0


def test_a_list_that_only_a_misfiled_node_has_is_kept(pool: Pool) -> None:
    """As a process of an older release leaves it."""
    project = f"p-{uuid4()}"
    folder(pool, project, "a", entries=["group:a"])
    folder(pool, project, "b", "a")
    folder(pool, project, "c", entries=["group:c"])
    folder(pool, project, "d", entries=["group:d"])
    nodes.change(pool, project, "b", NodeMove(None, None, to_parent=True), None)
    do(pool, "UPDATE content_node n SET acl_class = c.acl_class FROM content_node c WHERE n.project_id = %s"
             " AND n.id = 'b' AND c.project_id = n.project_id AND c.id = 'a'", project)  # fmt: skip
    nodes.delete(pool, project, "a")
    nodes.forget_unused_lists(pool)
    assert lists(pool, project) == [["group:a"], ["group:c"], ["group:d"]]


def ended(pool: Pool, project: str, column: str, age: str) -> UUID:
    row, _ = keys.create(pool, project, "old")
    do(pool, f"UPDATE api_key SET {column} = now() - %s::interval WHERE id = %s", age, row.id)
    return row.id


def test_a_key_is_listed_for_ninety_days_after_its_end(
    resources: Resources, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = f"p-{uuid4()}"
    kept = {keys.create(pool, project, "valid")[0].id}
    kept |= {ended(pool, project, column, "89 days") for column in ("revoked_at", "expires_at")}
    for column in ("revoked_at", "expires_at"):
        ended(pool, project, column, "91 days")
    folder(pool, project, "a", entries=["group:a"])
    nodes.change(pool, project, "a", None, None, access=NodeAcl(["group:b"]))
    monkeypatch.setattr(process, "resources", lambda: resources)
    forgotten = upkeep._evict()["forgotten"]
    assert isinstance(forgotten, int)
    assert forgotten >= 3
    assert {key.id for key in keys.every(pool, project)} == kept
    assert lists(pool, project) == [["group:b"]]
