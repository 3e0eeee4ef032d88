"""Searches of callers who may not read all files: these find what they would if the hidden files did not exist."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from httpx import Response

from api.search.text import metadata_filter
from tests.integration.test_trees import TREE
from tests.service import TOOLS, Service, checked, eventually
from tests.shared_service import SharedService, local_settings
from worker.state.access import grants, keys
from worker.state.index import tools
from worker.state.pool import open_pool

ANN = "user:ann"
#: Files of two folders, of which one has those of `HIDDEN` too, by their paths.
SHOWN = {
    "app.py": "from util import helper\n\n\ndef run(order):\n    return helper(order) + Store().load(order)\n",
    "util.py": "def helper(order):\n    return order.total\n\n\nclass Store:\n    def load(self, order):\n"
    "        return 1\n",
    "notes.md": "# Orchard\n\nThe orchard has apples and pears, and a gardener who waters them.\n",
    "same.md": "# Harvest\n\nThe harvest of apples begins in September, with ladders and baskets.\n",
    "data.json": '{"gardener": {"name": "Ann", "tools": ["rake", "spade"]}}',
    "open/plan.md": "# Plan\n\nThe plan of the orchard: more apples next year, and a new pump.\n",
}
HIDDEN = {
    "secret/other.py": "from util import helper\n\n\ndef helper(order):\n    return -1\n\n\ndef covert(order):\n"
    "    return helper(order)\n",
    "secret/Helper.py": "class HELPER:\n    pass\n\n\ndef unseen(order):\n    from app import run\n"
    "    return run(order)\n",
    "secret/wages.md": "# Wages\n\nThe gardener earns kestrel gold for apples of the orchard.\n",
    "secret/same.md": "# Harvest\n\nThe harvest of apples begins in September, with ladders and baskets.\n",
    "secret/app[1].md": "# Kestrel\n\nA kestrel watches the orchard and its apples.\n",
    # as a pattern, its name selects a file that is shown
    "secret/[n]otes.md": "# Secret\n\nApples of the kestrel.\n",
    "secret/table.csv": "kestrel,apples\n1,2\n",
    "secret/hidden.rb": "def ruby_only\n  'kestrel'\nend\n",
}
METADATA = {"app.py": {"team": "red"}, "notes.md": {"team": "blue"}, "secret/wages.md": {"team": "violet"}}


@dataclass
class Project:
    """A folder of nodes with a tool, and the keys to it."""

    service: Service
    name: str
    keys: Mapping[str, str]
    tool: str = ""
    nodes: dict[str, str] = field(default_factory=dict)

    def call(self, method: str, path: str, who: str | None = ANN, **sent: Any) -> Response:
        """The answer to a gateway that acts for a person; None: to a key that reads all."""
        headers = {"Authorization": f"Bearer {self.keys['all' if who is None else 'gateway']}"}
        if who is not None:
            headers["Foldex-Principals"] = who
        return self.service.client.request(method, path, headers=headers, **sent)

    def get(self, path: str, who: str | None = ANN, status: int = 200, **params: Any) -> dict[str, Any]:
        return checked(self.call("GET", f"{TOOLS}/{self.tool}{path}", who, params=params), status)

    def post(self, path: str, body: object, who: str | None = ANN, status: int = 200) -> dict[str, Any]:
        return checked(self.call("POST", f"{TOOLS}/{self.tool}{path}", who, json=body), status)

    def change(self, path: str, acl: list[str] | None) -> None:
        checked(self.call("PATCH", f"/api/projects/{self.name}/nodes/{self.nodes[path]}", None, json={"acl": acl}), 200)

    def make(self, path: str, text: str, acl: list[str] | None = None) -> None:
        folder, _, name = path.rpartition("/")
        if not text:
            self.nodes[path] = self._node(name, "folder", self.nodes[folder])
            return
        parent = self.nodes.get(folder) or self._node(folder or "root", "folder", folder and self.nodes[""])
        self.nodes.setdefault(folder, parent)
        kind = "json" if path.endswith(".json") else "text"
        content: object = json.loads(text) if kind == "json" else text
        more = {"content": content, **({"acl": acl} if acl is not None else {})}
        self.nodes[path] = self._node(name, kind, parent, metadata=METADATA.get(path), **more)

    def _node(self, name: str, kind: str, parent: str | None, **more: Any) -> str:
        body = {"name": name, "type": kind, **({"parent_id": parent} if parent else {})}
        body |= {key: value for key, value in more.items() if value is not None}
        made = self.call("POST", f"/api/projects/{self.name}/nodes", None, json=body)
        return str(checked(made, 201)["id"])

    def index(self, **config: Any) -> None:
        config = {"metadata": {"team": "string"}, **config}
        body = {"project_id": self.name, "node_id": self.nodes[""], "config": config}
        self.tool = checked(self.call("POST", TOOLS, None, json=body), 202)["tool_id"]
        self.wait()

    def wait(self) -> None:
        def is_ready() -> bool:
            return bool(self.get("/status", None)["status"] in {"ready", "error"})

        eventually(is_ready, 60, self.service.logs)
        assert self.get("/status", None)["status"] == "ready"


@pytest.fixture(scope="module")
def guarded(shared_service: SharedService, shared_root: Path) -> Service:
    """A service that asks for keys."""
    return shared_service.get({**local_settings(shared_root), "AUTH": "on"})


def project_in(service: Service) -> Project:
    name = f"p-{uuid4().hex[:8]}"
    with open_pool(service.database_url) as pool:
        made = {
            "gateway": keys.create(pool, name, "gateway", ("write", "impersonate"))[1],
            "all": keys.create(pool, name, "all", ("admin", "all_documents"))[1],
        }
    return Project(service, name, made)


@pytest.fixture(scope="module")
def twins(guarded: Service) -> tuple[Project, Project]:
    """A folder with hidden files, and one without them."""
    full, part = project_in(guarded), project_in(guarded)
    for project in (full, part):
        for path, text in SHOWN.items():
            project.make(path, text, acl=[ANN] if path == "open/plan.md" else None)
    for path, text in HIDDEN.items():
        full.make(path, text, acl=["user:bob"])
    part.make("secret", "")
    for project in (full, part):
        project.index(raptor=TREE)
    for project in (full, part):
        eventually(lambda project=project: project.get("/raptor/status", None)["indexing_status"] == "indexed", 60)  # type: ignore[misc]
    return full, part


#: What differs between equal folders, and totals, which are null for who may not read all files.
LEFT_OUT = re.compile(
    r"\w*_ids?|id|file_id_path|took_ms|score|distance|coverage|next_cursor|raptor_\w+|mtime_ms|timings|attempts"
    r"|embedded_chunks|tokens"
)
IDS = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|[0-9a-f]{32}")


def plain(value: Any) -> Any:
    """A value without what differs between equal folders."""
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items() if not LEFT_OUT.fullmatch(key)}
    if isinstance(value, list):
        return sorted((plain(each) for each in value), key=lambda each: json.dumps(each, sort_keys=True))
    return IDS.sub("id", value) if isinstance(value, str) else value


def said(answer: Response) -> tuple[int, Any]:
    return answer.status_code, plain(answer.json())


QUERIES: dict[str, dict[str, Any]] = {
    "plain": {"query": "apples of the orchard"},
    "words": {"query": "kestrel", "mode": "keyword"},
    "phrase": {"query": '"kestrel gold" apples', "mode": "keyword"},
    "meaning": {"query": "who waters the fruit trees", "mode": "vector"},
    "definition": {"query": "where is helper defined?"},
    "another case": {"query": "class HELPER"},
    "neighbours": {"query": "gardener", "before": 2, "after": 2},
    "by file": {"query": "apples", "group_by_file": True},
    "twins": {"query": "harvest of apples", "top_k": 5},
    "a hidden path": {"query": "apples", "filters": {"path": "secret/**"}},
    "a pattern that is a hidden name": {"query": "apples", "filters": {"path": "[n]otes.md"}},
    "a hidden name": {"query": "apples", "filters": {"path": "app[1].md"}},
    "a hidden type": {"query": "kestrel", "filters": {"types": ["csv"]}},
    "a hidden language": {"query": "kestrel", "filters": {"languages": ["ruby"]}},
    "an ending": {"query": "apples", "filters": {"types": [".rb"]}},
    "hidden symbol": {"query": "order", "filters": {"symbols": ["covert"]}},
    "shown symbol": {"query": "order", "filters": {"symbols": ["helper"]}},
    "scope": {"query": "order", "filters": {"scope": "Store"}},
    "metadata": {"query": "apples", "filters": {"metadata": {"team": "violet"}}},
    "no metadata": {"query": "apples", "filters": {"metadata": {"team": {"exists": False}}}},
    "explained": {"query": "apples", "explain": True, "trace": True, "fields": ["file_path", "chunk_text"]},
    "several": {"queries": ["apples", "kestrel"]},
    "tree": {"query": "apples of the orchard", "tree": "collapsed"},
    "tree without leaves": {"query": "kestrel gold", "tree": "collapsed", "expand_to_leaves": False},
    "walk": {"query": "kestrel gold", "tree": "tree_traversal"},
}


@pytest.mark.parametrize("name", QUERIES)
def test_a_query_finds_what_there_is_for_the_caller(twins: tuple[Project, Project], name: str) -> None:
    full, _ = twins
    body = {"top_k": 50, **QUERIES[name]}
    shown, expected = (said(each.call("POST", f"{TOOLS}/{each.tool}/query", json=body)) for each in twins)
    if "trace" in body or "tree" in body:
        # scores differ, so summaries of another tree do, and leaves of this one are all that is compared
        for _, answer in (shown, expected):
            answer.pop("trace", None)
            answer.pop("summaries", None)
    drop_fit(shown)
    drop_fit(expected)
    assert shown == expected
    found = full.post("/query", body, None, status=shown[0] if shown[0] == 200 else 200)
    if name == "words":
        assert found["results"], "there is something to hide"
    assert "secret" not in json.dumps(shown) or "filters" in body
    raw = full.call("POST", f"{TOOLS}/{full.tool}/query", json=body).text
    assert re.search("earns|watches|unseen|ruby_only", raw) is None, "also in summaries"


def drop_fit(answer: tuple[int, Any]) -> None:
    """A note that depends on scores, which depend on statistics of the whole index."""
    if "notes" in answer[1]:
        answer[1]["notes"] = [note for note in answer[1]["notes"] if note["code"] != "nothing_fits_well"]


def test_no_total_covers_hidden_files(twins: tuple[Project, Project]) -> None:
    full, part = twins
    for path, body in (("/query", {"query": "apples"}), ("/grep", {"pattern": "apples"})):
        assert full.post(path, body)["coverage"]["total_files"] is None
        assert full.post(path, body)["coverage"]["indexed_files"] is None
        assert full.post(path, body, None)["coverage"]["total_files"] == len(SHOWN) + len(HIDDEN)
        assert part.post(path, body)["coverage"]["total_files"] in {len(SHOWN), None}
    found = full.post("/query", {"query": "apples", "trace": True, "top_k": 50})
    assert found["total_results"] == len(found["results"])
    assert found["coverage"]["vector_share"] is None


GREPS: dict[str, dict[str, Any]] = {
    "a word": {"pattern": "kestrel"},
    "lines": {"pattern": "apples", "before": 1, "after": 1},
    "a hidden path": {"pattern": "apples", "path": "secret"},
    "a hidden file": {"pattern": "apples", "path": "secret/wages.md"},
    "a glob of names": {"pattern": "apples", "glob": "app[1].md"},
    "a glob that is a hidden name": {"pattern": "apples", "glob": "[n]otes.md"},
    "types": {"pattern": "apples", "types": ["md"]},
    "metadata": {"pattern": "apples", "metadata": {"team": {"any": ["violet", "blue"]}}},
}


@pytest.mark.parametrize("name", GREPS)
def test_a_grep_reads_what_the_caller_may_read(twins: tuple[Project, Project], name: str) -> None:
    shown, expected = (said(each.call("POST", f"{TOOLS}/{each.tool}/grep", json=GREPS[name])) for each in twins)
    assert shown == expected


READS: dict[str, tuple[str, dict[str, Any]]] = {
    "symbols": ("/symbols", {"limit": 1000}),
    "a symbol": ("/symbols", {"name": "helper"}),
    "a hidden symbol": ("/symbols", {"name": "covert"}),
    "outline": ("/outline", {}),
    "a hidden outline": ("/outline", {"path": "secret"}),
    "references": ("/references", {"name": "helper"}),
    "callers": ("/symbols/callers", {"name": "helper", "depth": 5}),
    "callees": ("/symbols/callees", {"name": "run", "depth": 5}),
    "hidden callers": ("/symbols/callers", {"name": "run", "depth": 5}),
    "impact": ("/impact", {"name": "helper"}),
    "metadata": ("/metadata", {}),
    "files": ("/files", {"limit": 1000}),
}


@pytest.mark.parametrize("name", READS)
def test_what_is_listed_is_what_the_caller_may_read(twins: tuple[Project, Project], name: str) -> None:
    path, params = READS[name]
    shown, expected = (said(each.call("GET", f"{TOOLS}/{each.tool}{path}", params=params)) for each in twins)
    assert shown == expected
    assert (shown == said(twins[0].call("GET", f"{TOOLS}/{twins[0].tool}{path}", None, params=params))) == (
        # what app.py calls is clear without the hidden files
        name == "callees"
    )


def test_ids_of_hidden_files_are_unknown(twins: tuple[Project, Project]) -> None:
    full, _ = twins
    hits = full.post("/query", {"query": "kestrel gold", "mode": "keyword", "top_k": 50}, None)["results"]
    hidden = next(hit for hit in hits if hit["file_path"] == "secret/wages.md")
    none = str(uuid4())

    def asked(path: str) -> Iterator[tuple[int, str]]:
        for id_ in (hidden["chunk_id"], hidden["file_id"], hidden["file_node_id"], none):
            answer = full.call("GET", f"{TOOLS}/{full.tool}{path.format(id_)}")
            yield answer.status_code, answer.json()["detail"].replace(id_, "")

    for path in ("/chunks/{}", "/files/{}", "/files/{}/chunks", "/chunks/{}?before=1&picture=true"):
        assert len(set(asked(path))) == 1, path
    assert full.get(f"/chunks/{hidden['chunk_id']}", None)["chunk"]["chunk_text"]
    for filters in ({"file_ids": [hidden["file_id"]]}, {"file_ids": [none]}):
        status, problem = said(full.call("POST", f"{TOOLS}/{full.tool}/query", json={"query": "x", "filters": filters}))
        assert (status, problem["code"]) == (422, "no_such_files")


def test_several_tools_and_paths_are_searched_as_the_caller_sees_them(twins: tuple[Project, Project]) -> None:
    def across(project: Project, **where: Any) -> tuple[int, Any]:
        body = {"project_id": project.name, "query": "kestrel apples", "top_k": 50, **where}
        answer = said(project.call("POST", "/api/search", json=body))
        drop_fit(answer)
        return answer[0], json.loads(json.dumps(answer[1]).replace(project.name, "project"))

    full, part = twins
    assert across(full, tool_ids=[full.tool]) == across(part, tool_ids=[part.tool])
    for path in ("root", "root/notes.md", "root/secret", "root/secret/wages.md", "root/nothing"):
        assert across(full, paths=[path]) == across(part, paths=[path]), path
    assert across(full, paths=["root/secret/wages.md"])[0] == 422


def test_folders_without_a_tool_show_what_the_caller_may_read(guarded: Service) -> None:
    project = project_in(guarded)
    for path, text in SHOWN.items():
        project.make(path, text)
    for path, text in HIDDEN.items():
        project.make(path, text, acl=["user:bob"])
    body = {"project_id": project.name, "query": "kestrel apples", "top_k": 50, "paths": ["root"]}
    found = checked(project.call("POST", "/api/search", json=body), 200)
    assert {hit["file_path"] for hit in found["results"]} == {"root/notes.md", "root/same.md", "root/open/plan.md"}
    assert "secret" not in json.dumps(found)
    missing = project.call("POST", "/api/search", json={**body, "paths": ["root/secret/wages.md"]})
    nothing = project.call("POST", "/api/search", json={**body, "paths": ["root/secret/absent.md"]})
    assert (missing.status_code, missing.json()["code"]) == (nothing.status_code, nothing.json()["code"])
    everything = checked(project.call("POST", "/api/search", None, json=body), 200)
    assert "root/secret/wages.md" in {hit["file_path"] for hit in everything["results"]}


def test_what_a_change_revokes_is_hidden_once_it_is_answered(guarded: Service) -> None:
    project = project_in(guarded)
    project.make("open.md", "The kestrel is known to all.\n")
    project.make("turn.md", "The kestrel is a secret of some.\n")
    project.index()
    for _ in range(20):
        for acl, paths in ((["user:bob"], {"open.md"}), ([ANN], {"open.md", "turn.md"})):
            project.change("turn.md", acl)
            hits = project.post("/query", {"query": "kestrel"})["results"]
            assert {hit["file_path"] for hit in hits} == paths
            assert {hit["file_path"] for hit in project.post("/grep", {"pattern": "kestrel"})["hits"]} == paths
            assert {item["file_path"] for item in project.get("/files")["items"]} == paths


def test_callers_share_no_answer(twins: tuple[Project, Project]) -> None:
    full, _ = twins
    body = {"query": "kestrel", "mode": "keyword", "filters": {"types": ["markdown", "md"]}}
    for who, is_shown in [(ANN, False), ("user:bob", True), (ANN, False), (None, True), ("user:bob", True)] * 3:
        hits = full.post("/query", {"query": "kestrel", "mode": "keyword"}, who)["results"]
        assert ("secret/wages.md" in {hit["file_path"] for hit in hits}) == is_shown
        answer = full.call("POST", f"{TOOLS}/{full.tool}/query", who, json=body).json()
        assert ("secret/wages.md" in {hit["file_path"] for hit in answer.get("results", ())}) == is_shown


def test_rules_hide_files_of_a_folder(guarded: Service, shared_root: Path) -> None:
    project = project_in(guarded)
    root = shared_root / project.name
    for path, text in (SHOWN | HIDDEN).items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    granted(guarded, project, root)
    config = {"rules": [{"path": "secret/**", "acl": ["user:bob"]}]}
    body = {"project_id": project.name, "source": {"kind": "local", "path": str(root)}, "config": config}
    project.tool = checked(project.call("POST", TOOLS, None, json=body), 202)["tool_id"]
    # before and after anything is indexed
    for _ in range(2):
        for found in (project.post("/grep", {"pattern": "kestrel"}), project.post("/query", {"query": "kestrel"})):
            assert "secret" not in json.dumps(found)
        for paths in ([str(root)], [str(root / "secret")], [str(root / "secret/wages.md")]):
            asked = {"project_id": project.name, "query": "kestrel", "paths": paths}
            answer = project.call("POST", "/api/search", json=asked)
            assert "gold" not in answer.text
            assert (answer.status_code == 422) == (paths != [str(root)])
        project.wait()
    hits = project.post("/query", {"query": "kestrel"}, "user:bob")["results"]
    assert "secret/wages.md" in {hit["file_path"] for hit in hits}


def test_a_search_of_paths_obeys_the_rules_of_every_tool_there(guarded: Service, shared_root: Path) -> None:
    project = project_in(guarded)
    root = shared_root / project.name
    for path, text in (SHOWN | HIDDEN).items():
        (root / "in" / path).parent.mkdir(parents=True, exist_ok=True)
        (root / "in" / path).write_text(text)
    granted(guarded, project, root)

    def add(place: Path, **config: Any) -> None:
        body = {"project_id": project.name, "source": {"kind": "local", "path": str(place)}, "config": config}
        project.tool = checked(project.call("POST", TOOLS, None, json=body), 202)["tool_id"]
        project.wait()

    def across(who: str | None, place: Path, **more: Any) -> Response:
        body = {"project_id": project.name, "query": "kestrel gold", "paths": [str(place)], **more}
        return project.call("POST", "/api/search", who, json=body)

    add(root / "in", rules=[{"path": "secret/**", "acl": ["user:bob"]}])
    for who in (ANN, None):
        answer = checked(across(who, root, index_missing=True), 200)
        refused = [note["detail"] for note in answer["notes"] if note["code"] == "invalid_request"]
        assert len(refused) == 1
        assert project.tool in refused[0]
        listed = checked(project.call("GET", TOOLS, None, params={"project_id": project.name}), 200)
        assert len(listed["items"]) == 1
    # tools without rules, of which each is newer, and one is more specific
    for place in (root, root / "in", root / "in" / "secret"):
        add(place)
    for place in (root, root / "in", root / "in/secret", root / "in/secret/wages.md"):
        assert "earns" not in across(ANN, place).text, place
        assert "earns" in across("user:bob", place).text, place
        assert "earns" in across(None, place).text, place


def test_the_count_of_metadata_is_cut_by_files_of_the_caller_alone(
    twins: tuple[Project, Project], monkeypatch: pytest.MonkeyPatch
) -> None:
    full, _ = twins
    shown = frozenset(UUID(file["file_id"]) for file in full.get("/files")["items"])
    with open_pool(full.service.database_url) as pool:
        index = tools.index_of_tool(pool, UUID(full.tool))
        assert index is not None
        for most, is_cut in ((len(shown), False), (1, True)):
            monkeypatch.setattr(metadata_filter, "MAX_COUNTED_FILES", most)
            assert metadata_filter.keys_of(pool, index.id, index.metadata, 10, shown).truncated is is_cut


def granted(service: Service, project: Project, root: Path) -> None:
    with open_pool(service.database_url) as pool:
        assert grants.add(pool, project.name, str(root))


def test_the_code_of_a_failure_is_hidden_with_its_text(guarded: Service) -> None:
    project = project_in(guarded)
    project.nodes[""] = project._node("root", "folder", None)
    data = {"parent_id": project.nodes[""], "acl": json.dumps(["user:eve"])}
    files = {"files": ("report.pdf", b"%PDF-1.7\nbroken")}
    checked(project.call("POST", f"/api/projects/{project.name}/uploads", None, data=data, files=files), 200)
    body = {"project_id": project.name, "node_id": project.nodes[""]}
    project.tool = checked(project.call("POST", TOOLS, None, json=body), 202)["tool_id"]
    eventually(lambda: project.get("/status", None)["error_code"] == "no_file_indexed", 60, guarded.logs)
    shown = project.get("/status")
    assert (shown["error"], shown["error_code"]) == (None, None)
