"""The tools of agents, by a real client of the Model Context Protocol over both transports."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.shared.exceptions import MCPError

from api.agents.fitting import counted
from api.stack.processes import start, stop
from tests.agents import Agent, frozen, over_http, over_stdio, status_calls, text_of, until_nobody_waits
from tests.integration.test_keys import assert_unauthorized, foldex, new_key
from tests.service import TOOLS, Service, another_api, eventually

HANDBOOK = "# Handbook\n\n## Holidays\n\nEverybody has thirty days of holiday a year.\n"
CODE = (
    "def make_token(user):\n    return sign(user)\n\n\ndef log_in(user):\n    return make_token(user)\n\n\n"
    "def main():\n    log_in('ann')\n"
)
PING = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
READING = {
    *("search", "grep", "read_file", "list_files", "outline", "find_symbol", "find_references", "callers", "impact"),
}
CHANGING = {"index_folder", "refresh"}


@pytest.fixture(scope="module")
def guarded(running: Service) -> Iterator[Service]:
    """The same service behind keys."""
    with another_api(running, AUTH="on", MCP_ALLOW_DELETE="true") as started:
        yield started


def filled(folder: Path) -> Path:
    (folder / "src").mkdir(parents=True)
    (folder / "handbook.md").write_text(HANDBOOK)
    (folder / "src" / "tokens.py").write_text(CODE)
    (folder / "src" / "long.txt").write_text("".join(f"line {number} of a lighthouse\n" for number in range(1, 2001)))
    (folder / "broken.pdf").write_text("%PDF-1.7")
    return folder


@pytest.fixture(scope="module")
def docs(running: Service, root: Path) -> Path:
    """An indexed folder."""
    folder = filled(root / "docs")
    running.wait(running.local_tool(folder), seconds=100)
    return folder


@pytest.fixture(scope="module")
def stdio(running: Service, docs: Path) -> Iterator[Agent]:
    """An agent that works in the indexed folder."""
    with over_stdio(running, cwd=docs) as agent:
        yield agent


@pytest.fixture(scope="module")
def http(running: Service, docs: Path) -> Iterator[Agent]:
    with over_http(running) as agent:
        yield agent


@pytest.fixture(scope="module")
def legacy(running: Service, docs: Path) -> Iterator[Agent]:
    with over_http(running, mode="legacy") as agent:
        yield agent


@pytest.fixture(params=["stdio", "http", "legacy"])
def agent(request: pytest.FixtureRequest) -> Agent:
    found: Agent = request.getfixturevalue(request.param)
    return found


def test_a_search_gives_place_and_text_and_says_what_was_searched(agent: Agent, docs: Path) -> None:
    said = agent.ask("search", query="how many days of vacation do I get", folder=str(docs), top_k=1)
    assert re.match(r"handbook\.md:\d+-\d+  \d\.\d\d  .*Holidays", said), said
    assert "Everybody has thirty days of holiday a year." in said
    assert said.endswith(f"Searched docs ({docs}): 3 of 4 files indexed.")
    data = agent.data("search", query="make_token", folder="docs", path="src/*.py", types=["python"])
    assert {hit["file"] for hit in data["hits"]} == {"src/tokens.py"}
    assert (data["cut"], data["indexed_files"], data["total_files"]) == (False, 3, 4)
    assert data["calibrated"]


def test_a_part_of_a_folder_is_searched_alone(agent: Agent, docs: Path) -> None:
    for folder in (f"{docs}/src", f"{docs}/src/tokens.py"):
        data = agent.data("search", query="vacation", folder=folder)
        assert {hit["file"] for hit in data["hits"]} <= {"src/tokens.py", "src/long.txt"}
        assert agent.data("grep", pattern="user", folder=folder)["files"][0]["file"] == "src/tokens.py"
        assert agent.data("grep", pattern="holiday", folder=folder)["files"] == []


def test_finding_nothing_says_where_it_was_looked(agent: Agent, docs: Path) -> None:
    for name, arguments in (
        ("search", {"query": "vacation", "types": ["pdf"]}),
        ("grep", {"pattern": "no such words"}),
        ("list_files", {"text": "nowhere"}),
        ("find_symbol", {"name": "nowhere"}),
        ("find_references", {"name": "nowhere"}),
        ("callers", {"name": "nowhere"}),
        ("impact", {"name": "nowhere"}),
    ):
        said = agent.ask(name, folder="docs", **arguments)
        assert said.startswith("No"), said
        assert f"Searched docs ({docs}): 3 of 4 files indexed." in said


def test_lines_are_found_with_their_context(agent: Agent, docs: Path) -> None:
    said = agent.ask("grep", pattern=r"make_\w+\(", folder="docs", context=1)
    assert said.splitlines()[:6] == [
        "src/tokens.py:1-7",
        "1:def make_token(user):",
        "2-    return sign(user)",
        "5-def log_in(user):",
        "6:    return make_token(user)",
        "7-",
    ]
    assert agent.data("grep", pattern="MAKE_token(", fixed=True, ignore_case=True, folder="docs")["files"]
    assert not agent.data("grep", pattern="make", word=True, folder="docs")["files"]


def test_a_file_is_read_by_its_lines(agent: Agent, docs: Path) -> None:
    said = agent.ask("read_file", file="src/tokens.py", folder="docs", first_line=5, last_line=6)
    assert said == "src/tokens.py:5-6\ndef log_in(user):\n    return make_token(user)"
    assert agent.data("read_file", file=f"{docs}/src/tokens.py")["text"].startswith("def make_token")
    assert agent.data("read_file", file="tokens.py", folder="docs")["file"] == "src/tokens.py"
    assert "1999" not in agent.ask("read_file", file="long.txt", folder="docs", max_tokens=300)


def test_a_long_file_is_read_on_where_it_was_cut(agent: Agent) -> None:
    text = ""
    line: int | None = 1
    while line:
        data = agent.data("read_file", file="src/long.txt", folder="docs", first_line=line, max_tokens=8000)
        assert counted(data["text"]) <= 8000
        text += data["text"].rstrip("\n") + "\n"
        line = data.get("next_line")
    assert text.splitlines() == [f"line {number} of a lighthouse" for number in range(1, 2001)]


def test_files_that_share_a_path_are_told_apart(http: Agent, running: Service) -> None:
    folder = running.node("untitled notes", "folder")
    for number in (1, 2, 3):
        running.node("untitled.md", "markdown", content=f"# Note {number}", parent_id=folder)
    running.wait(running.tool(node_id=folder))
    first = http.data("read_file", file="untitled.md", folder="untitled notes")
    assert "3 files have this path" in first["notes"][0]
    texts = {first["text"]}
    for id_ in re.findall(r"[0-9a-f]{8}-[0-9a-f-]{27}", first["notes"][0]):
        other = http.data("read_file", file=id_, folder="untitled notes")
        assert (other["file"], other["notes"]) == ("untitled.md", [])
        texts.add(other["text"])
    assert texts == {f"# Note {number}" for number in (1, 2, 3)}


def test_a_file_that_cannot_be_read_says_why(agent: Agent, docs: Path) -> None:
    assert "list_files" in agent.refused("read_file", file="nowhere.md", folder="docs")
    assert "2,000 lines" in agent.refused("read_file", file="src/long.txt", folder="docs", first_line=5000)
    assert "reason" in agent.refused("read_file", file="broken.pdf", folder="docs")
    listed = agent.ask("list_files", folder="docs", status="failed") + agent.ask(
        "list_files", status="skipped", folder="docs"
    )
    assert "broken.pdf: " in listed
    assert agent.data("list_files", folder=f"{docs}/src")["files"] == [
        {"file": "src/long.txt", "status": "indexed"},
        {"file": "src/tokens.py", "status": "indexed"},
    ]


@pytest.mark.parametrize("path", ["../../../etc/passwd", "/etc/passwd", "src/../../../../etc/passwd", "~/.ssh/id_rsa"])
def test_no_path_leads_out_of_the_folder(agent: Agent, path: str) -> None:
    assert "root:" not in agent.refused("read_file", file=path, folder="docs")
    agent.refused("read_file", file=path)
    for name, arguments in (("search", {"query": "root"}), ("list_files", {})):
        answer = agent.call(name, folder=path, **arguments)
        assert answer.is_error


def test_folders_outside_what_may_be_read_are_not_indexed(
    agent: Agent, tmp_path: Path, root: Path, shared_root: Path
) -> None:
    (tmp_path / "secret.md").write_text("secret")
    (root / "link").unlink(missing_ok=True)
    (root / "link").symlink_to(tmp_path)
    for path in (tmp_path, shared_root / ".." / tmp_path.name, root / "link"):
        assert "LOCAL_SOURCE_ROOTS" in agent.refused("index_folder", path=str(path))
    assert "choose an existing directory" in agent.refused("index_folder", path=str(root / "missing"))


def test_an_address_without_a_bucket_is_told_to_be_none(stdio: Agent) -> None:
    assert "names no bucket" in stdio.refused("index_folder", path="s3://")


def test_names_are_followed_in_code(agent: Agent) -> None:
    assert agent.ask("find_symbol", name="make_token", folder="docs").startswith(
        "src/tokens.py:1-2  function  def make_token(user)\n"
    )
    assert {each["name"] for each in agent.data("find_symbol", prefix="m", folder="docs")["definitions"]} == {
        *("make_token", "main"),
    }
    assert agent.ask("find_references", name="make_token", folder="docs").splitlines()[:2] == [
        *("src/tokens.py:6-6", "6 call in log_in"),
    ]
    assert agent.ask("outline", path="src", folder="docs").splitlines()[:3] == [
        *("src/tokens.py", "1-2 def make_token(user)", "5-6 def log_in(user)"),
    ]
    touched = agent.data("impact", name="log_in", folder="docs")["parts"]
    assert {part["part"]: part["text"] for part in touched} == {
        "definitions": "src/tokens.py:5-6 def log_in(user)",
        "references": "src/tokens.py:10 call in main",
    }
    calls = agent.data("callers", name="make_token", depth=2, folder="docs")["calls"]
    assert [(call["name"], call["depth"]) for call in calls] == [("log_in", 1), ("main", 2)]
    callees = agent.data("callers", name="log_in", direction="callees", folder="docs")["calls"]
    assert [call["name"] for call in callees] == ["make_token"]
    said = agent.ask("callers", name="make", folder="docs")
    assert said.startswith("No definition and no callers of 'make' are known"), said
    said = agent.ask("callers", name="sign", folder="docs")
    assert said.startswith("src/tokens.py:1-2  make_token"), said
    assert "No definition of 'sign' is known; this is what calls the name." in said


def test_an_answer_keeps_within_its_tokens_and_says_what_is_cut(agent: Agent, running: Service, docs: Path) -> None:
    for name, arguments in (
        ("search", {"query": "lighthouse", "top_k": 50}),
        ("grep", {"pattern": "lighthouse"}),
        ("read_file", {"file": "src/long.txt"}),
    ):
        for most in (300, 1000):
            said = agent.ask(name, folder="docs", max_tokens=most, **arguments)
            assert most / 3 < counted(said) <= most, name
            assert re.search(r"^Cut", said, re.MULTILINE), said


def test_an_answer_costs_far_less_than_that_of_the_api(http: Agent, running: Service, docs: Path) -> None:
    tool = tool_of(running, docs)
    raw = running.client.post(f"{TOOLS}/{tool}/query", json={"query": "holiday", "top_k": 3}).text
    assert counted(http.ask("search", query="holiday", folder="docs", top_k=3)) < counted(raw) / 2


def tool_of(running: Service, folder: Path) -> str:
    [found] = [t for t in running.get(TOOLS, limit=1000)["items"] if t["source"].get("path") == str(folder)]
    return str(found["tool_id"])


def test_an_agent_need_not_name_the_folder_in_which_it_works(stdio: Agent, docs: Path, running: Service) -> None:
    assert "Searched docs" in stdio.ask("grep", pattern="holiday")
    with over_stdio(running, cwd=docs / "src") as below:
        assert f"Searched docs ({docs}) below src:" in below.ask("list_files")
        assert below.data("list_files")["files"][0]["file"].startswith("src/")


def test_a_folder_is_indexed_shown_and_brought_up_to_date(agent: Agent, root: Path, request: Any) -> None:
    folder = root / f"fresh-{request.node.callspec.id}"
    folder.mkdir()
    (folder / "a.md").write_text("# Cranes\n\nThe harbour has nine cranes.\n")
    told: list[tuple[float, float | None, str | None]] = []

    async def tell(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, total, message))

    call = partial(agent.client.call_tool, "index_folder", {"path": str(folder)}, progress_callback=tell)
    answer = agent.portal.call(call)
    assert text_of(answer).startswith(f"{folder.name} ({folder}): ready, 1 of 1 file indexed, 1 chunk"), answer
    assert [each[0] for each in told] == sorted({each[0] for each in told})
    assert told
    assert told[-1][2] is not None
    assert told[-1][2] == "ready: 1 of 1 file"
    listed = agent.data("list_folders")["folders"]
    assert (str(folder), "ready") in {(each.get("path"), each["state"]) for each in listed}
    (folder / "a.md").write_text("# Cranes\n\nThe harbour has a dredger.\n")
    assert agent.data("refresh", folder=folder.name)["state"] == "ready"
    assert "dredger" in agent.ask("search", query="dredger", folder=folder.name)
    (folder / "b.md").write_text("A lantern.\n")
    assert "b.md" in agent.ask("search", query="lantern", folder=folder.name, fresh=True)
    # a second time it is the same folder
    assert agent.data("index_folder", path=str(folder))["id"] == agent.data("index_status", folder=str(folder))["id"]


def test_an_index_that_is_still_running_is_said_to_be(stdio: Agent, http: Agent, running: Service, root: Path) -> None:
    folder = root / "slow"
    folder.mkdir()
    (folder / "a.md").write_text("Words.\n")
    with frozen(running):
        assert stdio.data("index_folder", path=str(folder), wait_seconds=0)["state"] in {"pending", "indexing"}
        for agent in (stdio, http):
            for name, arguments in (
                ("search", {"query": "words"}),
                ("find_symbol", {"name": "x"}),
                ("index_status", {}),
            ):
                said = agent.ask(name, folder="slow", **arguments)
                assert re.search(r"0 of \d files? indexed", said), said
                assert "Note: " in said
    assert http.data("refresh", folder="slow")["state"] == "ready"


@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_a_cancelled_call_stops_waiting_and_the_session_goes_on(
    running: Service, docs: Path, request: pytest.FixtureRequest, transport: str
) -> None:
    agent: Agent = request.getfixturevalue(transport)

    async def give_up() -> None:
        with anyio.move_on_after(30) as scope:

            async def heard(progress: float, total: float | None, message: str | None) -> None:
                scope.cancel()

            await agent.client.call_tool("refresh", {"folder": "docs", "wait_seconds": 600}, progress_callback=heard)

    with frozen(running):
        agent.portal.call(give_up)
        assert agent.ask("grep", pattern="holiday", folder="docs")
        until_nobody_waits(running)
    eventually(lambda: agent.data("index_status", folder="docs")["state"] == "ready", 60)


def test_a_folder_that_vanished_is_told_and_what_is_known_of_it_stays(agent: Agent, root: Path, request: Any) -> None:
    folder = root / f"gone-{request.node.callspec.id}"
    folder.mkdir()
    (folder / "a.md").write_text("An anchor.\n")
    agent.data("index_folder", path=str(folder))
    shutil.rmtree(folder)
    said = agent.ask("refresh", folder=str(folder))
    assert ": error, " in said
    assert "no longer exists" in said
    assert "anchor" in agent.ask("search", query="anchor", folder=str(folder))


def test_a_folder_that_is_deleted_meanwhile_is_told(agent: Agent, running: Service, root: Path, request: Any) -> None:
    folder = root / f"deleted-{request.node.callspec.id}"
    folder.mkdir()
    with frozen(running), ThreadPoolExecutor(1) as pool:
        tool = agent.data("index_folder", path=str(folder), wait_seconds=0)["id"]
        before = status_calls(running)
        waiting = pool.submit(agent.refused, "refresh", folder=tool, wait_seconds=600)
        try:
            eventually(lambda: status_calls(running) > before, 60)
        finally:
            running.client.delete(f"{TOOLS}/{tool}")
        assert "deleted meanwhile" in waiting.result(60)
    assert "list_folders" in agent.refused("search", query="x", folder=tool)


def test_wrong_arguments_are_named(agent: Agent, docs: Path) -> None:
    assert "query: Field required" in agent.refused("search", folder="docs")
    assert "top_k" in agent.refused("search", query="x", folder="docs", top_k=0)
    assert "grep takes" in agent.refused("grep", pattern="x", files="*.py")
    assert "no_such" in agent.refused("no_such")
    assert agent.refused("grep", pattern="(", folder="docs")


def test_a_folder_that_is_not_known_or_not_one_is_refused_with_those_that_are(agent: Agent, docs: Path) -> None:
    said = agent.refused("search", query="x", folder="nowhere")
    assert f"docs ({docs})" in said


def test_of_several_folders_with_one_name_each_is_listed(http: Agent, running: Service, root: Path) -> None:
    ids = []
    for name in ("one", "two"):
        folder = root / "twins" / name
        folder.mkdir(parents=True)
        ids.append(running.local_tool(folder, name="twin"))
    said = http.refused("search", query="x", folder="twin")
    assert all(each in said for each in ids)
    assert "2 folders" in said
    assert "`folder`" in http.refused("grep", pattern="x")
    # both are searched, under names that lead to each
    data = http.data("search", query="x", folder=ids)
    assert {each["folder"] for each in data["folders"]} == set(ids)


def test_scores_that_are_no_chances_are_not_shown(http: Agent, docs: Path) -> None:
    asked = {"query": "how many days of vacation do I get", "folder": str(docs), "mode": "keyword", "top_k": 1}
    assert not http.data("search", **asked)["calibrated"]
    assert re.match(r"handbook\.md:\d+-\d+  [A-Z]", http.ask("search", **asked))


def test_indexes_are_deleted_only_where_that_is_allowed(
    running: Service, guarded: Service, stdio: Agent, http: Agent, root: Path
) -> None:
    folder = root / "unwanted"
    folder.mkdir()
    running.local_tool(folder)
    for agent in (stdio, http):
        assert "no tool" in agent.refused("delete_folder", folder=str(folder))
    with over_stdio(running, "--allow-delete") as allowed:
        assert allowed.tools()["delete_folder"].annotations.destructive_hint  # type: ignore[union-attr]
        assert "No indexed folder" in allowed.refused("delete_folder", folder=f"{folder}/below")
        assert "untouched" in allowed.ask("delete_folder", folder=str(folder))
    assert folder.is_dir()
    assert str(folder) not in stdio.ask("list_folders")


def test_a_session_survives_a_restart_of_the_service(running: Service, docs: Path) -> None:
    with another_api(running) as api, over_stdio(api) as stdio, over_http(api) as http:
        for agent in (stdio, http):
            assert agent.ask("index_status", folder="docs")
        [(name, process)] = api.processes.items()
        stop([process])
        assert "does not answer" in stdio.refused("index_status", folder="docs")
        api.processes[name] = start(process.program, api.home)
        eventually(process.program.ready, 60)
        for agent in (stdio, http):
            assert agent.ask("index_status", folder="docs")


# --- keys


@pytest.fixture(scope="module")
def keys(guarded: Service, running: Service, root: Path) -> dict[str, str]:
    """The keys of two projects, each with a folder of its own."""
    made = {}
    for project in ("left", "right"):
        folder = root / project
        folder.mkdir()
        (folder / "note.py").write_text(f"def of_{project}():\n    return '{project}'\n")
        made[project] = new_key(guarded, project)
        assert foldex(guarded, "grants", "add", project, str(folder)).returncode == 0
        with over_http(guarded, made[project]) as agent:
            assert agent.data("index_folder", path=str(folder))["state"] == "ready"
    return made


def calls(word: str, project: str) -> dict[str, dict[str, Any]]:
    """A call of each tool about a folder."""
    named = {
        "search": {"query": "x"},
        "grep": {"pattern": "return"},
        "read_file": {"file": "note.py"},
        "list_files": {},
        "find_symbol": {"name": f"of_{project}"},
        "find_references": {"name": f"of_{project}"},
        "callers": {"name": f"of_{project}"},
        "outline": {},
        "impact": {"name": f"of_{project}"},
        "index_status": {},
        "refresh": {},
        "delete_folder": {},
    }
    return {name: {"folder": word, **arguments} for name, arguments in named.items()}


def test_what_is_anothers_is_answered_as_what_does_not_exist(
    guarded: Service, keys: dict[str, str], root: Path, docs: Path
) -> None:
    with over_http(guarded, keys["right"]) as owner:
        [theirs] = owner.data("list_folders")["folders"]
    with over_http(guarded, keys["left"]) as agent:
        assert set(agent.tools()) == {*calls("", ""), "list_folders", "index_folder"}
        missing = {"id": "00000000-0000-4000-8000-000000000000", "name": "absent", "path": str(root / "absent")}
        for field, absent in missing.items():
            there, not_there = calls(theirs[field], "right"), calls(absent, "right")
            for name in there:
                said = agent.refused(name, **there[name]).replace(theirs[field], "…")
                assert said == agent.refused(name, **not_there[name]).replace(absent, "…"), name
        assert [each["name"] for each in agent.data("list_folders")["folders"]] == ["left"]
        assert "left" in agent.ask("search", query="left")
        refused = agent.refused("index_folder", path=theirs["path"])
        assert refused.replace(theirs["path"], "…") == agent.refused("index_folder", path=missing["path"]).replace(
            missing["path"], "…"
        )
        assert agent.refused("read_file", file=f"{theirs['path']}/note.py")
        assert agent.ask("delete_folder", folder="left")
    with over_http(guarded, keys["right"]) as owner:
        assert [each["name"] for each in owner.data("list_folders")["folders"]] == ["right"]


@pytest.mark.parametrize("authorization", [None, "Bearer wrong", "Bearer", "Basic x"])
def test_without_a_valid_key_nothing_is_answered(guarded: Service, authorization: str | None) -> None:
    headers = {"Accept": "application/json, text/event-stream"}
    headers |= {} if authorization is None else {"Authorization": authorization}
    for method in ("POST", "GET", "DELETE"):
        assert_unauthorized(guarded.client.request(method, "/mcp", headers=headers, json=PING))


def test_a_wrong_key_is_told_to_an_agent_over_stdio(guarded: Service) -> None:
    with over_stdio(guarded, "--key", "wrong") as agent:
        assert agent.tools()
        assert "foldex keys create" in agent.refused("list_folders")


def test_pages_of_other_sites_are_refused(running: Service) -> None:
    headers = {"Accept": "application/json, text/event-stream"}
    post: Callable[..., Any] = partial(running.client.post, "/mcp", json=PING)
    assert post(headers=headers).status_code == 200
    assert post(headers={**headers, "Host": "evil.example"}).json()["code"] == "auth_required"
    assert post(headers={**headers, "Origin": "https://evil.example"}).json()["code"] == "cross_site"
    assert running.client.get("/mcp", headers=headers).status_code == 405


def test_a_byte_order_mark_before_a_message_is_passed_over(running: Service) -> None:
    headers = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
    marked = running.client.post("/mcp", content=b"\xef\xbb\xbf" + json.dumps(PING).encode(), headers=headers)
    assert (marked.status_code, "result" in marked.text) == (200, True)


def test_a_path_with_brackets_is_found_by_search_and_grep(agent: Agent, root: Path, request: Any) -> None:
    folder = root / f"routes-{request.node.callspec.id}"
    for name in ("[slug]", "s"):
        (folder / "app" / name).mkdir(parents=True)
        (folder / "app" / name / "page.tsx").write_text("export const bracketed = 1\n")
    agent.ask("index_folder", path=str(folder))
    for path in ("app/[slug]/page.tsx", "app/[slug]/**"):
        grepped = agent.data("grep", pattern="bracketed", path=path, folder=str(folder))
        searched = agent.data("search", query="bracketed", path=path, folder=str(folder), types=None)
        found = {hit["file"] for hit in [*grepped["files"], *searched["hits"]]}
        assert found == {"app/[slug]/page.tsx"}
        below = agent.data("search", query="bracketed", path="[slug]/*", folder=f"{folder}/app", top_k=None)
        assert {hit["file"] for hit in below["hits"]} == {"app/[slug]/page.tsx"}


def test_the_calls_of_one_message_have_its_id_in_the_log(running: Service, docs: Path) -> None:
    sent = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "list_folders", "arguments": {}}}
    headers = {"Accept": "application/json, text/event-stream", "X-Request-Id": "of-an-agent"}
    assert "docs" in running.client.post("/mcp", json=sent, headers=headers).text
    log = running.home / "log" / "api.log"

    def routes() -> set[str]:
        lines = [line for line in log.read_text().splitlines() if "request_id=of-an-agent" in line]
        return {found[1] for line in lines if (found := re.search(r"route=(\S+)", line))}

    eventually(lambda: {"/mcp", TOOLS} <= routes(), 20)


def test_files_are_resources_with_lines(agent: Agent, docs: Path) -> None:
    listed = agent.portal.call(agent.client.list_resources).resources
    assert f"{docs}" in next(each.description or "" for each in listed if str(each.uri) == "foldex://docs/")
    [template] = agent.portal.call(agent.client.list_resource_templates).resource_templates
    assert template.uri_template == "foldex://{folder}/{+path}"

    def read(address: str) -> str:
        [content] = agent.portal.call(partial(agent.client.read_resource, address)).contents
        return str(getattr(content, "text", ""))

    assert read("foldex://docs/src/tokens.py#L1") == "src/tokens.py:1-1\ndef make_token(user):"
    assert read("foldex://docs/src/tokens.py#L5-L6").startswith("src/tokens.py:5-6\ndef log_in(user):")
    assert "src/tokens.py" in read("foldex://docs/")
    for wrong, said in (
        ("foldex://docs/src/none.py", "list_files"),
        ("foldex://docs/src/tokens.py#5", "foldex://folder/path"),
        ("foldex://docs/src/tokens.py#L0", "greater than or equal to 1"),
        ("foldex://docs/../../etc/passwd", "no file"),
        ("file:///etc/passwd", "foldex://folder/path"),
        ("foldex:///etc/passwd", "foldex://folder/path"),
    ):
        with pytest.raises(MCPError, match=re.escape(said)):
            read(wrong)


def test_prompts_say_how_to_answer_and_how_to_prepare_a_change(http: Agent) -> None:
    assert [each.name for each in http.portal.call(http.client.list_prompts).prompts] == ["answer", "change"]

    def text(name: str, /, **given: str) -> str:
        [message] = http.portal.call(partial(http.client.get_prompt, name, given)).messages
        return str(getattr(message.content, "text", ""))

    assert "of docs: where is {x}?" in text("answer", question="where is {x}?", folder="docs")
    assert text("change", name="Client.send").startswith("I want to change Client.send. Call impact")
    for name, given, said in (("none", {}, "answer, change"), ("answer", {"folder": "docs"}, "needs question")):
        with pytest.raises(MCPError, match=said):
            text(name, **given)


def test_llms_txt_names_what_there_is(http: Agent, running: Service) -> None:
    answer = running.client.get("/llms.txt")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/plain; charset=utf-8")
    assert answer.text.startswith("# Foldex\n\n> ")
    for address in re.findall(r"\]\((/[^)]+)\)", answer.text):
        assert running.client.get(address).status_code != 404, address
    tools = set(http.tools())
    chosen = {name for line in re.findall(r"^- ([a-z_, ]+):", answer.text, re.MULTILINE) for name in line.split(", ")}
    assert chosen <= tools
    assert {"search", "impact"} <= chosen
