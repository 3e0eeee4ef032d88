"""Access lists of nodes: kept as sent, inherited, replaced by own ones, and obeyed by the calls for nodes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any
from uuid import uuid4

import pytest
from httpx2 import Response
from starlette.testclient import TestClient

from api.cli import fsck
from api.main import create_app
from api.routes.content import node_content
from api.routes.content import nodes as content_nodes
from schemas.content.acl import admits
from schemas.scopes import Scope
from worker.resources import Resources
from worker.settings import Settings
from worker.state.access import acl, keys
from worker.state.content import nodes
from worker.state.content.nodes import NewNode, NodeMove, StoredContent
from worker.state.pool import Pool

SECRET = "the salary of Ann"


@dataclass
class Site:
    """A project, and a client for each key of it."""

    pool: Pool
    project: str
    client: TestClient

    def key(self, *scopes: Scope) -> dict[str, str]:
        return {"Authorization": f"Bearer {keys.create(self.pool, self.project, 'k', scopes)[1]}"}

    def ask(self, method: str, path: str, key: dict[str, str], **sent: Any) -> Response:
        answer: Response = self.client.request(
            method, f"/api/projects/{self.project}{path}", headers={**key, **sent.pop("headers", {})}, **sent
        )
        return answer

    def node(self, key: dict[str, str], name: str, type_: str = "folder", **more: Any) -> str:
        body = {"name": name, "type": type_, **({} if type_ == "folder" else {"content": SECRET}), **more}
        answer = self.ask("POST", "/nodes", key, json=body)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["id"])

    def patch(self, key: dict[str, str], node: str, **body: Any) -> dict[str, Any]:
        answer = self.ask("PATCH", f"/nodes/{node}", key, json=body)
        assert answer.status_code == 200, answer.text
        changed: dict[str, Any] = answer.json()
        return changed

    def names(self, key: dict[str, str], folder: str | None = None, limit: int = 100) -> list[str]:
        found: list[str] = []
        params: dict[str, Any] = {"limit": limit, **({} if folder is None else {"parent_id": folder})}
        while True:
            answer = self.ask("GET", "/nodes", key, params=params)
            assert answer.status_code == 200, answer.text
            page = answer.json()
            found += [item["name"] for item in page["items"]]
            if page["next_cursor"] is None:
                return found
            assert len(page["items"]) == limit
            params["cursor"] = page["next_cursor"]

    def effective(self, node: str) -> list[str] | None:
        """The list that counts for a node."""
        query = (
            "SELECT a.entries FROM content_node n LEFT JOIN acl_class a ON a.id = n.acl_class AND"
            " a.project_id = n.project_id WHERE n.project_id = %s AND n.id = %s"
        )
        with self.pool.connection() as connection:
            ((entries,),) = connection.execute(query, (self.project, node)).fetchall()
        return entries  # type: ignore[no-any-return] # a row has any values

    def version(self) -> acl.Version | None:
        return acl.version(self.pool, self.project)


@pytest.fixture(scope="module")
def client(database_url: str, tmp_path_factory: pytest.TempPathFactory) -> TestClient:
    home = tmp_path_factory.mktemp("home")
    return TestClient(create_app(Settings(database_url=database_url, foldex_home=home, auth="on")))


@pytest.fixture
def site(client: TestClient, pool: Pool) -> Site:
    return Site(pool, f"p-{uuid4()}", client)


@pytest.fixture
def write(site: Site) -> dict[str, str]:
    return site.key("write")


def test_a_node_keeps_its_list_until_a_patch_replaces_it(site: Site, write: dict[str, str]) -> None:
    node = site.node(write, "a", acl=["user:b@x", "*", "user:a@x", "user:b@x", "!group:c, with %"])
    assert site.ask("GET", f"/nodes/{node}", write).json()["acl"] == ["!group:c, with %", "*", "user:a@x", "user:b@x"]
    assert site.patch(write, node, name="b")["acl"] == ["!group:c, with %", "*", "user:a@x", "user:b@x"]
    assert site.patch(write, node, acl=[])["acl"] == []
    assert site.effective(node) == []
    assert site.patch(write, node, acl=None)["acl"] is None
    assert site.effective(node) is None
    (item,) = site.ask("GET", "/nodes", write).json()["items"]
    assert {"acl", "withheld", "metadata", "content"}.isdisjoint(item)
    assert site.ask("GET", f"/nodes/{node}", write).json()["version"] == 1


def test_an_own_list_replaces_that_of_the_folder_above(site: Site, write: dict[str, str]) -> None:
    top = site.node(write, "top", acl=["group:a", "!user:x"])
    inner = site.node(write, "inner", parent_id=top)
    leaf = site.node(write, "leaf.md", "markdown", parent_id=inner)
    own = site.node(write, "own.md", "markdown", parent_id=inner, acl=["user:x"])
    assert site.effective(leaf) == ["!user:x", "group:a"]
    assert site.effective(own) == ["user:x"]
    site.patch(write, top, acl=["group:b"])
    assert [site.effective(each) for each in (top, inner, leaf, own)] == [["group:b"]] * 3 + [["user:x"]]
    site.patch(write, inner, acl=[])
    assert [site.effective(each) for each in (top, inner, leaf, own)] == [["group:b"], [], [], ["user:x"]]
    site.patch(write, inner, acl=None)
    other = site.node(write, "other", acl=["group:other"])
    site.patch(write, inner, parent_id=other)
    assert [site.effective(each) for each in (inner, leaf, own)] == [["group:other"]] * 2 + [["user:x"]]
    site.patch(write, inner, parent_id=None)
    site.patch(write, own, acl=None)
    assert [site.effective(each) for each in (inner, leaf, own)] == [None] * 3


def test_an_upload_gives_its_files_the_list_and_leaves_it_alone_without(site: Site, write: dict[str, str]) -> None:
    top = site.node(write, "uploaded", acl=["group:top"])

    def upload(**form: str) -> str:
        files = [("files", ("deep/a.md", b"text"))]
        answer = site.ask("POST", "/uploads", write, data={"parent_id": top, **form}, files=files)
        assert answer.status_code == 200, answer.text
        return str(answer.json()["items"][0]["file_id"])

    node = upload()
    assert site.effective(node) == ["group:top"]
    deep = site.ask("GET", f"/nodes/{node}", write).json()["parent_id"]
    assert site.effective(deep) == ["group:top"]
    before = site.version()
    assert upload(acl='["user:a"]') == node
    assert site.version() != before
    assert (site.effective(node), site.effective(deep)) == (["user:a"], ["group:top"])
    assert upload() == node
    assert site.ask("GET", f"/nodes/{node}", write).json()["acl"] == ["user:a"]
    assert upload(acl="[]") == node
    assert site.effective(node) == []
    site.patch(write, node, acl=None)
    assert site.effective(node) == ["group:top"]
    for wrong in ("null", '"*"', "{}", '["ann"]', "[", "[1]"):
        files = [("files", ("b.md", b"text"))]
        answer = site.ask("POST", "/uploads", write, data={"acl": wrong}, files=files)
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request"), wrong


WRONG: dict[str, Any] = {
    "no kind": ["ann"],
    "no name": ["user:"],
    "a blank name": ["user: "],
    "an unknown wildcard": ["user*"],
    "a denied nothing": ["!"],
    "twice denied": ["!!user:a"],
    "a line break": ["user:a\nb"],
    "a NUL": ["user:a\0"],
    "a lone surrogate": ["user:\ud800"],
    "257 bytes": ["user:" + "é" * 126],
    "a number": [1],
    "a list in it": [["user:a"]],
    "a string": "user:a",
    "an object": {"user:a": True},
    "1,001 entries": [f"user:{number}" for number in range(1001)],
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_no_list_of_principals_is_refused(site: Site, write: dict[str, str], case: str) -> None:
    node = site.node(write, "kept", acl=["user:kept"])
    sent = json.dumps({"acl": WRONG[case]})
    json_body = {"Content-Type": "application/json"}
    answer = site.ask("PATCH", f"/nodes/{node}", write, content=sent, headers=json_body)
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")
    body = sent[:-1] + ', "name": "a", "type": "folder"}'
    assert site.ask("POST", "/nodes", write, content=body, headers=json_body).status_code == 422
    assert site.effective(node) == ["user:kept"]
    assert site.names(write) == ["kept"]


def test_the_longest_list_is_kept(site: Site, write: dict[str, str]) -> None:
    longest = sorted(f"user:{number:04}{'x' * 247}" for number in range(1000))
    node = site.node(write, "long", acl=longest)
    assert site.ask("GET", f"/nodes/{node}", write).json()["acl"] == longest
    body = {"acl": json.dumps(longest)}
    answer = site.ask("POST", "/uploads", write, data=body, files=[("files", ("a.md", b"text"))])
    assert answer.status_code == 200, answer.text
    assert site.effective(answer.json()["items"][0]["file_id"]) == longest


def test_each_change_of_a_list_or_a_place_is_noted(site: Site, write: dict[str, str]) -> None:
    assert site.version() is None
    plain = site.node(write, "plain")
    assert site.version() is None
    seen = {site.version()}

    def is_noted() -> None:
        assert site.version() not in seen
        seen.add(site.version())

    top = site.node(write, "top", acl=["user:a"])
    is_noted()
    inner = site.node(write, "inner", parent_id=top)
    is_noted()
    site.patch(write, inner, acl=["user:b"])
    is_noted()
    site.patch(write, inner, acl=None)
    is_noted()
    site.patch(write, plain, parent_id=top)
    is_noted()
    site.patch(write, inner, parent_id=None)
    is_noted()
    site.ask("DELETE", f"/nodes/{top}", write)
    is_noted()


def test_what_is_hidden_from_a_search_key_does_not_exist(site: Site, write: dict[str, str]) -> None:
    search = site.key("search")
    open_ = site.node(write, "open.md", "markdown")
    hidden = site.node(write, "hidden", acl=["group:hr"])
    within = site.node(write, "within.md", "markdown", parent_id=hidden)
    shown_within = site.node(write, "shown.md", "markdown", parent_id=hidden, acl=["*"])
    denied = site.node(write, "denied.md", "markdown", acl=["user:a", "!user:b"])
    nobody = site.node(write, "nobody.json", "json", acl=[])
    assert site.names(search) == ["open.md"]
    for node in (hidden, within, denied, nobody):
        for path, params in ((f"/nodes/{node}", {}), (f"/nodes/{node}/content", {}), ("/nodes", {"parent_id": node})):
            answer = site.ask("GET", path, search, params=params)
            unknown = site.ask("GET", path.replace(node, "unknown"), search, params=params and {"parent_id": "unknown"})
            assert answer.status_code == unknown.status_code == 404
            assert answer.text.replace(node, "unknown") == unknown.text
        answer, unknown = (site.ask("HEAD", f"/nodes/{each}/content", search) for each in (node, "unknown"))
        assert answer.status_code == 404
        assert answer.headers.keys() == unknown.headers.keys()
    for node in (open_, shown_within):
        assert site.ask("GET", f"/nodes/{node}", search).json()["content"] == SECRET
        assert site.ask("GET", f"/nodes/{node}/content", search).text == SECRET
    site.patch(write, hidden, acl=["*"])
    assert site.names(search, hidden) == ["shown.md", "within.md"]
    site.patch(write, open_, acl=["!*", "*"])
    assert site.ask("GET", f"/nodes/{open_}", search).status_code == 404


def test_pages_do_not_show_where_hidden_nodes_are(site: Site, write: dict[str, str]) -> None:
    search = site.key("search")
    for number in range(12):
        site.node(write, f"{number:02}", acl=["*"] if number % 3 == 0 else ["group:hr"])
    assert site.names(search, limit=2) == ["00", "03", "06", "09"]
    assert site.names(site.key("search", "all_documents"), limit=5) == [f"{number:02}" for number in range(12)]


def test_who_manages_nodes_sees_them_without_their_content(site: Site, write: dict[str, str]) -> None:
    whole = site.key("search", "all_documents")
    folder = site.node(write, "folder", acl=["group:hr"])
    body = {"name": "a.json", "type": "json", "content": SECRET, "parent_id": folder}
    created = site.ask("POST", "/nodes", write, json=body)
    text = site.node(write, "b.md", "markdown", parent_id=folder)
    files = [("files", ("c.json", json.dumps(SECRET).encode()))]
    uploaded = site.ask("POST", "/uploads", write, data={"parent_id": folder}, files=files)
    ids = [created.json()["id"], text, uploaded.json()["items"][0]["file_id"]]
    assert site.names(write, folder) == ["a.json", "b.md", "c.json"]
    for node in ids:
        answers = [
            site.ask("GET", f"/nodes/{node}", write),
            site.ask("PATCH", f"/nodes/{node}", write, json={"url": "https://example.org"}),
            site.ask("PATCH", f"/nodes/{node}", write, json={"acl": ["group:other"]}),
        ]
        for answer in (created, *answers):
            assert SECRET not in answer.text
            assert (answer.json()["content"], answer.json()["withheld"]) == (None, True)
        assert answers[-1].json()["acl"] == ["group:other"]
        etag = site.ask("GET", f"/nodes/{node}/content", whole).headers["etag"]
        for sent in ({}, {"Range": "bytes=0-3"}, {"If-None-Match": etag}):
            for method in ("GET", "HEAD"):
                answer = site.ask(method, f"/nodes/{node}/content", write, headers=sent)
                assert answer.status_code == 403
                assert SECRET not in answer.text
                assert "etag" not in answer.headers
        refusal = site.ask("GET", f"/nodes/{node}/content", write).json()
        assert (refusal["code"], "all_documents" in refusal["detail"]) == ("scope_missing", True)
        assert site.ask("GET", f"/nodes/{node}", whole).json()["content"] == SECRET
        assert site.ask("GET", f"/nodes/{node}", whole).json()["withheld"] is False
        site.patch(write, node, content="new")
        assert site.ask("GET", f"/nodes/{node}", whole).json()["content"] == "new"
        assert site.patch(write, node, acl=["*"])["content"] == "new"
    assert site.ask("DELETE", f"/nodes/{folder}", write).status_code == 202
    assert site.names(write) == []


def test_nothing_of_a_deleted_project_is_kept(site: Site, write: dict[str, str]) -> None:
    site.node(write, "a", acl=["user:ann@example.org"])
    assert site.ask("DELETE", "", site.key("admin")).status_code == 202
    assert site.version() is None


def test_fsck_finds_and_mends_nodes_with_another_list_than_their_folders_say(
    site: Site, write: dict[str, str], database_url: str, tmp_path: Path
) -> None:
    top = site.node(write, "top", acl=["user:a"])
    inner = site.node(write, "inner", parent_id=top)
    ids = [top, inner, *(site.node(write, f"{n}.md", "markdown", parent_id=inner) for n in range(2))]
    own = site.node(write, "own.md", "markdown", parent_id=inner, acl=["user:b"])

    def checked(*, repair: bool) -> list[str]:
        resources = Resources(Settings(database_url=database_url, foldex_home=tmp_path, auth="off"))
        findings = [each for each in fsck.check(resources, None, repair=repair) if each.namespace == site.project]
        return [line for each in findings for line in (str(each.ok), *fsck.lines(each))]

    whole = f"{site.project}: 5 nodes; no drift"
    assert checked(repair=False) == ["True", whole]
    with site.pool.connection() as connection:
        damage = "UPDATE content_node SET acl_class = NULL WHERE id = ANY (%s)"
        connection.execute(damage, ([inner, ids[2], own],))
    before = site.version()
    # below the folder, one node has the folder's, though both are wrong
    wrong = f"{site.project}: 5 nodes; 3 with another access list than their folders say"
    assert checked(repair=False) == ["False", wrong]
    assert (site.effective(inner), site.version()) == (None, before)
    assert checked(repair=True) == ["True", wrong]
    assert [site.effective(each) for each in ids] == [["user:a"]] * 4
    assert site.effective(own) == ["user:b"]
    assert site.version() != before
    assert checked(repair=False) == ["True", whole]


def test_a_process_that_knows_no_lists_leaves_none_open(site: Site, write: dict[str, str]) -> None:
    """An older release inserts and moves nodes without a word of lists."""
    top = site.node(write, "top", acl=["user:a"])
    columns = "project_id, id, parent_id, id_path, name, type"
    with site.pool.connection() as connection:
        values = (site.project, top, f"/{top}/old")
        connection.execute(
            f"INSERT INTO content_node ({columns}) VALUES (%s, 'old', %s, %s, 'old', 'folder')".encode(), values
        )
    assert site.effective("old") == ["user:a"]
    free = site.node(write, "free.md", "markdown")
    with site.pool.connection() as connection:
        connection.execute("UPDATE content_node SET parent_id = %s WHERE id = %s", (top, free))
    assert site.effective(free) == ["user:a"]


def test_random_changes_leave_what_a_model_says(pool: Pool) -> None:
    """Each node has the list of the nearest node at or above it that has one, whatever was moved and changed."""
    random, project = Random(593), f"p-{uuid4()}"
    parents: dict[str, str | None] = {}
    lists: dict[str, list[str] | None] = {}

    def above(node: str) -> list[str]:
        parent = parents[node]
        return [node] if parent is None else [node, *above(parent)]

    def effective(node: str) -> list[str] | None:
        return next((found for each in above(node) if (found := lists[each]) is not None), None)

    for number in range(400):
        drawn = sorted(random.sample(["*", "!user:a", "user:a", "user:b"], random.randrange(4)))
        entries = random.choice([None, None, drawn])
        folder = random.choice([None, *parents])
        step = random.choice(("new", "new", "move", "set"))
        if step == "new" or not parents:
            node = f"n{number}"
            nodes.insert(pool, project, NewNode(node, folder, "n", "folder", acl=entries), StoredContent())
            parents[node], lists[node] = folder, entries
            continue
        node = random.choice([*parents])
        if step == "set":
            nodes.change(pool, project, node, None, None, access=nodes.NodeAcl(entries))
            lists[node] = entries
        elif folder is None or node not in above(folder):
            nodes.change(pool, project, node, NodeMove(None, folder, to_parent=True), None)
            parents[node] = folder
    site = Site(pool, project, None)  # type: ignore[arg-type] # nothing is asked over HTTP
    for node in parents:
        assert site.effective(node) == effective(node)
    for principals in (["user:a"], ["user:b"], []):
        readable = acl.readable(pool, project, principals)
        query = "SELECT id FROM content_node WHERE project_id = %s AND (acl_class IS NULL OR acl_class = ANY (%s))"
        with pool.connection() as connection:
            shown = {id_ for (id_,) in connection.execute(query, (project, list(readable)))}
        expected = {node: ["*"] if (found := effective(node)) is None else found for node in parents}
        assert shown == {node for node, entries in expected.items() if admits(entries, principals)}


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_download_that_a_change_overtakes_shows_nothing(
    site: Site, write: dict[str, str], monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    node, search = site.node(write, "a.md", "markdown", acl=["*"]), site.key("search")
    assert site.ask(method, f"/nodes/{node}/content", search).status_code == 200
    find = content_nodes.seen_node

    def overtaken(*asked: Any) -> nodes.NodeRow:
        row = find(*asked)
        monkeypatch.setattr(node_content, "seen_node", find)
        site.patch(write, node, acl=["user:ann"])
        return row

    monkeypatch.setattr(node_content, "seen_node", overtaken)
    assert site.ask(method, f"/nodes/{node}/content", search).status_code == 404
