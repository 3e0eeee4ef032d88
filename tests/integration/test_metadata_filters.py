"""Filters by metadata hold in every search, as a model says, whatever was changed meanwhile."""

from __future__ import annotations

import json
from dataclasses import replace
from random import Random
from typing import Any
from uuid import UUID, uuid4

import pytest
from psycopg.sql import SQL

from schemas.queries.metadata import PLAIN
from tests.agents import over_http
from tests.integration.commanding import foldex, refused
from tests.integration.filtered import Shelf, draw_filter
from tests.service import PROJECT, TOOLS, Service, checked, eventually
from worker.state.connections import REQUEST
from worker.state.pool import open_pool
from worker.state.search import metadata

NOTES = 30
#: Tools of agents that follow a name through code.
NAMED_TOOLS = ("find_symbol", "find_references", "callers", "impact")
NODES = f"/api/projects/{PROJECT}/nodes"


@pytest.fixture(scope="module")
def shelf(running: Service) -> Shelf:
    return Shelf(running, Random(5), NOTES)


def test_random_filters_find_what_a_model_says_while_values_change(running: Service, shelf: Shelf) -> None:
    random = Random(59)
    task = running.status(shelf.tool)["task_id"]
    for round_ in range(120):
        if round_ % 3 == 0:
            shelf.change()
        conditions, mode = draw_filter(random), random.choice(("hybrid", "vector", "keyword"))
        expected = shelf.expected(conditions)
        assert (shelf.found(conditions, mode=mode) or set()) == expected, (conditions, mode)
        if round_ % 6 == 0:
            assert shelf.grepped(conditions) == expected, conditions
            assert shelf.listed(conditions) == expected, conditions
    # no change of values needed a run
    assert running.status(shelf.tool)["task_id"] == task


def test_values_that_change_during_runs_hold_at_once(running: Service) -> None:
    random = Random(60)
    shelf = Shelf(running, random, 12)
    for _ in range(30):
        running.post(f"{TOOLS}/{shelf.tool}/reindex", {"full": True})
        shelf.change()
        conditions = draw_filter(random)
        assert (shelf.found(conditions, mode="keyword") or set()) == shelf.expected(conditions), conditions
    assert running.wait(shelf.tool)["failed_files"] == 0


def test_a_filter_that_no_file_passes_is_refused_as_others_are(running: Service, shelf: Shelf) -> None:
    assert shelf.found({"team": "nobody"}) is None
    body = {
        "project_id": PROJECT,
        "tool_ids": [shelf.tool],
        "query": "word",
        "filters": {"metadata": {"team": "nobody"}},
    }
    assert running.post("/api/search", body, 422)["code"] == "no_such_files"


def test_a_filter_holds_beside_others_and_over_several_tools(running: Service, shelf: Shelf) -> None:
    conditions = {"year": {"exists": True}}
    some = sorted(shelf.expected(conditions))
    body = {"query": "word", "top_k": 100, "filters": {"metadata": conditions, "file_ids": [*some[:2], "unknown"]}}
    hits = running.post(f"{TOOLS}/{shelf.tool}/query", body, 200)["results"]
    assert {hit["file_node_id"] for hit in hits} == {*some[:2]}
    across = {"project_id": PROJECT, "tool_ids": [shelf.tool], "query": "word", "top_k": 100}
    hits = running.post("/api/search", {**across, "filters": {"metadata": conditions}}, 200)["results"]
    assert {hit["file_node_id"] for hit in hits} == {*some}
    assert all(hit["metadata"] for hit in hits)


WRONG: dict[str, Any] = {
    "a list": ["team"],
    "no condition": {"team": {}},
    "an unknown operator": {"team": {"like": "r%"}},
    "null": {"team": None},
    "an empty list": {"team": []},
    "a nested list": {"team": [["red"]]},
    "a deep object": {"team": {"any": {"any": "red"}}},
    "a number for a string": {"team": 7},
    "a string for a number": {"year": "2020"},
    "a boolean for a number": {"year": True},
    "a fraction for an integer": {"year": 2020.5},
    "a time without a zone": {"due": {"gte": "2026-01-01T00:00:00"}},
    "a date for a time": {"due": "2026-01-01"},
    "an order of strings": {"team": {"gte": "red"}},
    "an order of booleans": {"open": {"lt": True}},
    "a list to compare with": {"year": {"gte": [1]}},
    "all of one value": {"team": {"all": ["red"]}},
    "exists as a number": {"team": {"exists": 1}},
    "too many keys": {f"k{number}": 1 for number in range(33)},
    "too many values": {"team": ["x"] * 1001},
    "a key of SQL": {"team' OR 1=1 --": "red"},
    "a huge integer": {"year": 1 << 63},
    "a huge number": {"share": 1e300},
    "a NUL": {"team": "\0"},
    "a string longer than metadata": {"team": {"not": "x" * 17_000}},
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_filter_is_refused_everywhere(running: Service, shelf: Shelf, case: str) -> None:
    at = f"{TOOLS}/{shelf.tool}"
    answers = [
        running.client.post(f"{at}/query", json={"query": "word", "filters": {"metadata": WRONG[case]}}),
        running.client.post(f"{at}/grep", json={"pattern": "word", "metadata": WRONG[case]}),
    ]
    # longer than an address may be
    if case not in {"too many values", "a string longer than metadata"}:
        named = {each: {"name": "x"} for each in ("references", "symbols/callers", "symbols/callees", "impact")}
        lists = {"files": {}, "symbols": {}, "outline": {}, **named}
        where = json.dumps(WRONG[case])
        for each, more in lists.items():
            answers.append(running.client.get(f"{at}/{each}", params={**more, "metadata": where}))
    for answer in answers:
        assert checked(answer, 422)["code"] == "invalid_request", answer.text


def test_an_empty_filter_is_none(running: Service, shelf: Shelf) -> None:
    assert shelf.found({}) == shelf.grepped({}) == shelf.listed({}) == {*shelf.notes}
    at = f"{TOOLS}/{shelf.tool}"
    for each, params in (("files", {}), ("symbols", {}), ("outline", {}), ("references", {"name": "x"})):
        assert running.get(f"{at}/{each}", **params, metadata="{}") == running.get(f"{at}/{each}", **params), each
    body = {"project_id": PROJECT, "tool_ids": [shelf.tool], "query": "word", "top_k": 100}
    hits = running.post("/api/search", {**body, "filters": {"metadata": {}}}, 200)["results"]
    assert {hit["file_node_id"] for hit in hits} == {*shelf.notes}


def test_values_of_very_many_files_may_take_long(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(
        metadata._SQL, "files_by_values", SQL("SELECT '[1]'::jsonb, NULL, '{}'::uuid[], '{}'::text[] FROM pg_sleep(1)")
    )
    with open_pool(database_url, limits=replace(REQUEST, answer=0.5, patient=10.0)) as pool:
        (held,) = metadata.files_by_values(pool, UUID(int=1), ["key"], PLAIN)
    assert held.values == [1]


def test_an_unknown_key_names_those_that_are_declared(running: Service, shelf: Shelf) -> None:
    body = {"query": "word", "filters": {"metadata": {"nobody": 1}}}
    for path, sent in ((f"{TOOLS}/{shelf.tool}/query", body), ("/api/search", {**body, "project_id": PROJECT})):
        if path == "/api/search":
            sent["tool_ids"] = [shelf.tool]
        refused = running.post(path, sent, 422)
        assert refused["code"] == "invalid_request"
        assert "due, open, share, tags, team, year" in refused["detail"]


def test_a_declaration_can_change_without_a_run(running: Service) -> None:
    top = running.node("declared", "folder")
    node = running.node("a.md", "markdown", "words", parent_id=top, metadata={"code": 5})
    tool = running.tool(node_id=top)
    task = running.wait(tool)["task_id"]
    body = {"query": "words", "filters": {"metadata": {"code": 5}}}
    assert "it declares none" in running.post(f"{TOOLS}/{tool}/query", body, 422)["detail"]
    for kind, status in (("int", 200), ("float", 200), ("string", 422)):
        patched = running.client.patch(f"{TOOLS}/{tool}", json={"config": {"metadata": {"code": kind}}})
        assert checked(patched, 202)["config"]["metadata"] == {"code": kind}
        answer = running.client.post(f"{TOOLS}/{tool}/query", json=body)
        assert answer.status_code == status
        if status == 200:
            assert running.status(tool)["warning"] is None
        else:
            # a thread counts, which a status does not wait for
            eventually(lambda: "code (1)" in (running.status(tool)["warning"] or ""), 60)
            assert "another type" in running.status(tool)["warning"]
    listed = running.get(f"{TOOLS}/{tool}/metadata")
    assert listed["items"] == [
        {"key": "code", "type": "string", "files": 0, "mistyped_files": 1, "values": [], "has_more": False}
    ]
    assert "code (1)" in listed["warning"]
    hits = running.query(tool, "words")
    assert [(hit["file_node_id"], hit.get("metadata")) for hit in hits] == [(node, None)]
    checked(running.client.patch(f"{NODES}/{node}", json={"metadata": {"code": "5"}}), 200)
    assert running.status(tool)["warning"] is None
    assert running.status(tool)["task_id"] == task


def test_a_node_that_is_deleted_and_made_again_is_found_by_its_new_value(running: Service) -> None:
    top = running.node("again", "folder")
    note: dict[str, Any] = {"id": f"again-{uuid4().hex}", "parent_id": top}
    node = running.node("a.md", "markdown", "words", **note, metadata={"code": 5})
    running.node("b.md", "markdown", "words", parent_id=top, metadata={"code": 7})
    tool = running.tool(node_id=top, config={"metadata": {"code": "int"}})
    running.wait(tool)

    def found(code: int) -> set[str]:
        # other nodes pass as well, so that the filter selects something
        conditions = {"code": [code, 7]}
        hits = running.query(tool, "words", filters={"metadata": conditions})
        return {hit["file_node_id"] for hit in hits} & {node}

    assert (found(5), found(6)) == ({node}, set())
    checked(running.client.delete(f"{NODES}/{node}"), 202)
    assert (found(5), found(6)) == (set(), set())
    running.node("a.md", "markdown", "words", **note, metadata={"code": 6})
    assert (found(5), found(6)) == (set(), {node})


def test_keys_are_listed_with_their_frequent_values(running: Service) -> None:
    top = running.node("counted", "folder", metadata={"team": "red"})
    values: list[Any] = [{"tags": ["a", "a", "b"]}, {"tags": ["b"]}, {"team": "blue", "tags": "b"}, {"due": "soon"}]
    for number, more in enumerate(values):
        running.node(f"{number}.md", "markdown", "words", parent_id=top, metadata=more)
    declared = {"team": "string", "tags": "strings", "due": "time", "unused": "int"}
    tool = running.tool(node_id=top, config={"metadata": declared})
    running.wait(tool)
    listed = running.get(f"{TOOLS}/{tool}/metadata", values=1)
    assert [item["key"] for item in listed["items"]] == sorted(declared)
    due, tags, team, unused = listed["items"]
    assert (team["files"], team["values"], team["has_more"]) == (4, [{"value": "red", "files": 3}], True)
    assert (tags["files"], tags["mistyped_files"], tags["values"]) == (2, 1, [{"value": "b", "files": 2}])
    assert (due["files"], due["mistyped_files"]) == (0, 1)
    assert unused["files"] == 0
    assert listed["warning"].endswith("due (1), tags (1).")
    assert not listed["truncated"]


@pytest.mark.parametrize(
    "declared",
    [
        {f"k{number}": "int" for number in range(33)},
        {"a b": "int"},
        {"team": "text"},
        {"team": None},
        {"": "int"},
        ["team"],
        {"team": {"type": "int"}},
    ],
)
def test_a_wrong_declaration_is_refused(running: Service, declared: Any) -> None:
    top = running.node("wrong", "folder")
    body = {"project_id": PROJECT, "node_id": top, "config": {"metadata": declared}}
    assert running.post(TOOLS, body, 422)["code"] == "invalid_request"


def test_definitions_and_uses_are_filtered(running: Service) -> None:
    top = running.node("code", "folder")
    nodes = {
        team: running.node(f"{team}.py", "file", f"def shared():\n    return {team}()\n\nshared()\n", parent_id=top,
                           metadata={"team": team})
        for team in ("red", "blue")
    }  # fmt: skip
    tool = running.tool(node_id=top, config={"metadata": {"team": "string"}})
    running.wait(tool)
    where = json.dumps({"team": "red"})
    for each, params in (("symbols", {"name": "shared"}), ("outline", {}), ("references", {"name": "shared"})):
        items = running.get(f"{TOOLS}/{tool}/{each}", **params)["items"]
        assert {item["file_node_id"] for item in items} == {*nodes.values()}, each
        items = running.get(f"{TOOLS}/{tool}/{each}", **params, metadata=where)["items"]
        assert {item["file_node_id"] for item in items} == {nodes["red"]}, each


CODE = {
    "red/shop.py": "from red.tools import weigh\nfrom blue.extra import wrap\n\ndef sell():\n    weigh(wrap())\n",
    "red/tools.py": "def weigh(what):\n    return what\n\ndef test_it():\n    sell()\n",
    "blue/extra.py": "from red.shop import sell\n\ndef wrap():\n    weigh(sell())\n\ndef weigh(it):\n    sell()\n",
    "blue/old.lua": "function sell()\n  weigh(wrap())\nend\n",
    "blue/top.py": "from red.shop import sell\nfrom red.tools import weigh as scale\n\nsell()\nscale(sell)\nweigh\n",
}


def test_calls_and_what_a_change_affects_are_as_if_only_the_selected_files_existed(running: Service) -> None:
    def made(name: str, *teams: str) -> str:
        top = running.node(name, "folder")
        for team in teams:
            folder = running.node(team, "folder", parent_id=top, metadata={"team": team})
            for path, text in CODE.items():
                if path.startswith(team):
                    running.node(path.removeprefix(f"{team}/"), "file", text, parent_id=folder)
        tool = running.tool(node_id=top, config={"metadata": {"team": "string"}})
        running.wait(tool)
        return tool

    everything, alone = made("all code", "red", "blue"), made("red code", "red")
    for path in ("symbols/callers", "symbols/callees", "impact"):
        for name in ("sell", "weigh", "wrap"):
            asked = {"name": name} | ({} if path == "impact" else {"depth": 3})
            of_all = _without_ids(running.get(f"{TOOLS}/{everything}/{path}", **asked))
            filtered = running.get(f"{TOOLS}/{everything}/{path}", **asked, metadata=json.dumps({"team": "red"}))
            assert _without_ids(filtered) == _without_ids(running.get(f"{TOOLS}/{alone}/{path}", **asked)), (path, name)
            assert _without_ids(filtered) != of_all, (path, name)


def _without_ids(answer: Any) -> Any:
    """An answer without what differs between two folders of the same content."""
    if isinstance(answer, list):
        return [_without_ids(each) for each in answer]
    if isinstance(answer, dict):
        differing = ("file_id", "file_node_id", "file_id_path", "coverage")
        return {key: _without_ids(value) for key, value in answer.items() if key not in differing}
    return answer


def test_a_file_that_is_not_listed_yet_passes_no_filter(running: Service) -> None:
    top = running.node("later", "folder", metadata={"team": "red"})
    tool = running.tool(node_id=top, config={"metadata": {"team": "string"}})
    running.wait(tool)
    running.node(f"{uuid4()}.md", "markdown", "word", parent_id=top)
    body = {"pattern": "word", "metadata": {"team": "red"}}
    assert running.post(f"{TOOLS}/{tool}/grep", body, 200)["hits"] == []
    assert len(running.post(f"{TOOLS}/{tool}/grep", {"pattern": "word"}, 200)["hits"]) == 1


def test_the_command_filters_by_what_the_tool_declares(running: Service) -> None:
    top = running.node("commanded", "folder")
    for year in (2019, 2021):
        running.node(f"{year}.md", "markdown", "words", parent_id=top, metadata={"year": year, "team": "red"})
    tool = running.tool(node_id=top, config={"metadata": {"year": "int", "team": "string"}})
    running.wait(tool)
    for verb, word in (("search", "words"), ("grep", "words")):
        where = ("--where", "team=red", "--where", "year>=2020")
        done = foldex(running, verb, word, tool, *where, "--json", "--project", PROJECT)
        assert done.returncode == 0, done.stderr
        answer = json.loads(done.stdout)
        assert [hit["file_path"] for hit in answer.get("results") or answer["hits"]] == ["2021.md"]
        unknown = refused(foldex(running, verb, word, tool, "--where", "nobody=1", "--project", PROJECT))
        assert "it declares team, year" in unknown
    calls = {
        name: f"def used():\n    return {name}()\n\ndef {name}():\n    return used()\n" for name in ("red", "blue")
    }
    for team, text in calls.items():
        running.node(f"{team}.py", "file", text, parent_id=top, metadata={"team": team, "year": 2000})
    running.post(f"{TOOLS}/{tool}/reindex", {})
    running.wait(tool)
    where = ("--where", "team=red", "--where", "year=2000")
    for verb in ("callers", "callees", "impact"):
        done = foldex(running, verb, "used", tool, *where, "--json", "--project", PROJECT)
        assert done.returncode == 0, done.stderr
        assert ("red.py" in done.stdout, "blue.py" in done.stdout) == (True, False), verb


def test_tools_of_agents_over_code_filter_by_metadata(running: Service) -> None:
    top = running.node("asked by agents", "folder")
    for team in ("red", "blue"):
        text = f"def shared():\n    return 1\n\ndef {team}():\n    return shared()\n"
        running.node(f"{team}.py", "file", text, parent_id=top, metadata={"team": team})
    tool = running.tool(node_id=top, config={"metadata": {"team": "string"}})
    running.wait(tool)
    with over_http(running) as agent:
        for name, asked in (("outline", {}), *((each, {"name": "shared"}) for each in NAMED_TOOLS)):
            everything = agent.ask(name, folder=tool, **asked)
            assert ("red.py" in everything, "blue.py" in everything) == (True, True), name
            found = agent.ask(name, folder=tool, metadata={"team": "red"}, **asked)
            assert ("red.py" in found, "blue.py" in found) == (True, False), name


def test_rules_and_properties_of_documents_give_metadata(running: Service) -> None:
    top = running.node("ruled", "folder", metadata={"team": "red"})
    hr = running.node("hr", "folder", parent_id=top, metadata={"level": 1})
    page = (
        "<html><head><title>Tides</title><meta name='author' content='Ada'><meta name='keywords' content='sea,, moon,'>"
    )
    page += "</head><body><p>Each word of the page.</p></body></html>"
    running.node("page.html", "file", page, parent_id=hr)
    running.node("note.md", "markdown", "word", parent_id=top, metadata={"title": "Mine"})
    declared = {"team": "string", "level": "int", "title": "string", "author": "string", "keywords": "strings"}
    tool = running.tool(node_id=top, config={"metadata": declared})
    task = running.wait(tool)["task_id"]

    def found(**conditions: Any) -> list[str]:
        body = {"query": "word", "filters": {"metadata": conditions}}
        answer = running.client.post(f"{TOOLS}/{tool}/query", json=body)
        return sorted(hit["file_path"] for hit in answer.json().get("results", ()))

    assert found(author="Ada") == []
    rules = [{"path": "hr/**", "set": {"team": "hr", "level": 2}}, {"path": "*.html", "set": {"level": 3}}]
    config = {"metadata_from": ["properties"], "rules": rules}
    checked(running.client.patch(f"{TOOLS}/{tool}", json={"config": config}), 202)
    assert found(author="Ada", keywords="moon") == ["hr/page.html"]
    assert found(title="Mine") == ["note.md"]
    assert (found(team="hr"), found(team="red"), found(level=3)) == (["hr/page.html"], ["note.md"], ["hr/page.html"])
    (hit,) = running.query(tool, "word", filters={"metadata": {"team": "hr"}})
    assert hit["metadata"] == {
        "team": "hr", "level": 3, "title": "Tides", "author": "Ada", "keywords": ["sea", "moon"]
    }  # fmt: skip
    body = {"pattern": "word", "metadata": {"team": "hr"}}
    assert {hit["file_path"] for hit in running.post(f"{TOOLS}/{tool}/grep", body, 200)["hits"]} == {"hr/page.html"}
    (team,) = (item for item in running.get(f"{TOOLS}/{tool}/metadata")["items"] if item["key"] == "team")
    assert [value["value"] for value in team["values"]] == ["hr", "red"]
    assert running.status(tool)["task_id"] == task


@pytest.mark.parametrize(
    "config",
    [
        {"rules": [{"path": "hr/**", "acl": ["hr"]}]},
        {"rules": [{"path": "hr/**", "acl": ["group:" + "x" * 251]}]},
        {"rules": [{"path": "hr/**", "acl": [f"group:{n}" for n in range(1_001)]}]},
        {"rules": [{"path": "hr/**"}]},
        {"rules": [{"path": "", "set": {"team": "hr"}}]},
        {"rules": [{"path": "hr/**", "set": {"team": {"deep": 1}}}]},
        {"rules": [{"path": "**", "set": {"team": "x" * 17_000}}]},
        {"rules": [{"path": "x", "set": {"a": 1}}] * 33},
        {"rules": [{"path": "x", "set": {"a": "x" * 9_000}}] * 2},
        {"metadata_from": ["nowhere"]},
        {"metadata_from": "properties"},
    ],
)
def test_wrong_rules_and_origins_are_refused(running: Service, config: dict[str, Any]) -> None:
    top = running.node("wrong", "folder")
    body = {"project_id": PROJECT, "node_id": top, "config": config}
    assert running.post(TOOLS, body, 422)["code"] == "invalid_request"
