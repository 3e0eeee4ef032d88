"""Tools of agents where there is much: several pages, an early stop, files that are called alike, and many folders."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any
from uuid import UUID

import httpx
import pytest

from api.agents import code, find, search
from api.agents.access import CallRefused, ServiceAccess, as_it_is, path_for_others
from api.agents.several import MAX_FOLDERS
from api.agents.tool import AgentTool, ToolReply
from foldex_client import AsyncFoldex, Status
from tests import coroutines
from tests.unit.client.test_contract import VALUES, answer, operation_of

TOOLS = {tool.name: tool for tool in (search.TOOL, *find.TOOLS, *code.TOOLS)}
#: Results that a test lets a tool look at.
MOST = 300


class Listings:
    """A service with a tool over `/home`. Each of its listings has an item for each of `paths`."""

    def __init__(self, paths: Sequence[str], *, truncated: bool = False) -> None:
        self.paths, self.truncated = paths, truncated

    def __call__(self, request: httpx.Request) -> httpx.Response:
        name, _ = operation_of(request)
        answered = answer(name, sparse=True)
        if "truncated" in answered:
            answered["truncated"] = self.truncated
        if name == "GET /api/tools/search":
            answered["items"][0]["place"] = "/home"
        elif "items" in answered:
            start, limit = (int(request.url.params.get(key, 0)) for key in ("cursor", "limit"))
            end = start + (limit or len(self.paths))
            (item,) = answered["items"]
            answered["items"] = [{**item, "file_path": path} for path in self.paths[start:end]]
            answered["next_cursor"] = str(end) if end < len(self.paths) else None
        return httpx.Response(200, json=answered)


def called(service: Listings, tool_name: str, **given: Any) -> ToolReply:
    tool: AgentTool[Any] = TOOLS[tool_name]

    async def unheard(_: Status) -> None:
        pass

    async def call() -> ToolReply:
        async with AsyncFoldex("http://foldex.invalid", transport=httpx.MockTransport(service)) as foldex:
            access = ServiceAccess(foldex, None, path_for_others, as_it_is, None, str, has_key=False)
            return await tool.run(access, tool.arguments.model_validate(given), unheard)

    return coroutines.run(call())


@pytest.mark.parametrize(("number", "total"), [(MOST, f"of {MOST} shown"), (MOST + 1, f"of {MOST}+ shown")])
@pytest.mark.parametrize(
    ("name", "asked"),
    [("list_files", {}), ("find_symbol", {"name": "f"}), ("find_references", {"name": "f"})],
)
def test_a_tool_that_stops_early_says_so(
    monkeypatch: pytest.MonkeyPatch, name: str, asked: dict[str, str], number: int, total: str
) -> None:
    monkeypatch.setattr(code, "MAX_RESULTS", MOST)
    service = Listings([f"{place}.md" for place in range(number)])
    reply = called(service, name, folder=VALUES["uuid"], max_tokens=MOST, **asked)
    assert total in reply.text
    assert reply.data.model_dump()["cut"]


@pytest.mark.parametrize("truncated", [False, True])
@pytest.mark.parametrize(("name", "asked"), [("grep", {"pattern": "f"}), ("callers", {"name": "f"})])
def test_a_tool_passes_on_that_the_service_stopped_early(name: str, asked: dict[str, str], truncated: bool) -> None:
    reply = called(Listings(["a.md"], truncated=truncated), name, folder=VALUES["uuid"], **asked)
    assert ("1 of 1+ " in reply.text) is truncated
    assert reply.data.model_dump()["cut"] is truncated


@pytest.mark.parametrize(
    ("name", "asked"),
    [("list_files", {}), ("find_symbol", {"name": "f"}), ("find_references", {"name": "f"})],
)
def test_a_part_of_a_folder_is_looked_for_on_all_pages(name: str, asked: dict[str, str]) -> None:
    others = [f"notes-old/{place}.md" for place in range(1000)]
    reply = called(Listings([*others, "notes/a.md"]), name, folder="/home/notes", **asked)
    assert "notes/a.md" in reply.text
    assert "notes-old" not in reply.text
    assert not reply.data.model_dump()["cut"]


@pytest.mark.parametrize(
    ("name", "asked", "field"),
    [
        ("list_files", {}, "files"),
        ("find_symbol", {"name": "f"}, "definitions"),
        ("find_references", {"name": "f"}, "files"),
    ],
)
def test_more_goes_on_until_all_is_shown_once(name: str, asked: dict[str, Any], field: str) -> None:
    paths = [f"notes/{place:03}.md" for place in range(200)]
    service, shown, more = Listings(paths), list[str](), 0
    while True:
        reply = called(service, name, folder="/home/notes", max_tokens=MOST, more=more, **asked)
        data = reply.data.model_dump()
        shown += [item["file"] for item in data[field]]
        assert data["cut"] is (data["more"] is not None)
        if not data["cut"]:
            break
        assert f"more={data['more']} goes on" in reply.text
        assert data["more"] > more
        more = data["more"]
    assert shown == paths
    assert "200 were shown before" in called(service, name, folder="/home/notes", more=200, **asked).text


class Matches(Listings):
    """A service whose grep finds two lines in each of its paths. `known` are the paths that it has."""

    def __init__(self, paths: Sequence[str], known: Sequence[str] = ()) -> None:
        super().__init__(paths)
        self.known = known
        self.asked: list[dict[str, Any]] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        if not operation_of(request)[0].endswith("/grep"):
            return super().__call__(request)
        asked = json.loads(request.read())
        self.asked.append(asked)
        if asked.get("path") and asked["path"] not in self.known:
            problem = {"code": "no_such_files", "detail": "There is no file.", "status": 422, "title": "x", "type": "x"}
            return httpx.Response(422, json=problem)
        answered = answer(operation_of(request)[0], sparse=True)
        (hit,) = answered["hits"]
        hit |= {"before": [], "after": [], "preview": "1:word"}
        hits = [{**hit, "file_path": path, "line": line} for path in self.paths for line in (1, 2)]
        return httpx.Response(200, json={**answered, "hits": hits, "truncated": False})


def test_grep_counts_what_it_does_not_show() -> None:
    service = Matches([f"{number}.py" for number in range(12)])
    ask = {"folder": VALUES["uuid"], "pattern": "word"}
    assert "24 of 24 lines in 12 files." in called(service, "grep", **ask).text
    reply = called(service, "grep", limit=3, **ask)
    assert "Cut: 3 of 24 lines in 12 files shown" in reply.text
    data = reply.data.model_dump()
    assert (data["lines"], data["matching_files"], data["cut"]) == (24, 12, True)
    reply = called(service, "grep", output="files", **ask)
    assert reply.text.splitlines()[:3] == ["0.py", "1.py", "2.py"]
    assert "24 of 24 lines in 12 files." in reply.text
    assert called(service, "grep", output="counts", **ask).text.startswith("0.py: 2\n1.py: 2\n")
    first = called(service, "grep", output="files", max_tokens=300, **ask)
    assert first.data.model_dump()["more"] is None


@pytest.mark.parametrize(
    ("path", "known", "sent"),
    [
        ("app/[slug]/page.tsx", ["app/[slug]/page.tsx"], [("app/[slug]/page.tsx", None)]),
        ("src/", ["src"], [("src", None)]),
        ("*.py", [], [("*.py", None), (None, "*.py")]),
        ("!tests/**", [], [("!tests/**", None), (None, "!tests/**")]),
    ],
)
def test_grep_takes_a_path_as_it_is_before_it_is_a_pattern(
    path: str, known: list[str], sent: list[tuple[str | None, str | None]]
) -> None:
    service = Matches(["a.py"], known)
    called(service, "grep", folder=VALUES["uuid"], pattern="x", path=path)
    assert [(asked.get("path"), asked.get("glob")) for asked in service.asked] == sent


@pytest.mark.parametrize(
    "asked",
    [
        {"file": "x.md", "first_line": 2, "last_line": 3},
        {"path": "x.md", "start_line": 2, "end_line": 3},
        {"file_path": "x.md", "start_line": 2, "last_line": 3},
    ],
)
def test_a_file_and_its_lines_have_the_names_that_agents_try(asked: dict[str, Any]) -> None:
    given = find.ReadFileArguments.model_validate(asked)
    assert (given.file, given.first_line, given.last_line) == ("x.md", 2, 3)


@pytest.mark.parametrize(
    ("paths", "read"),
    [
        (["a/x.md", "ax.md"], 1),
        (["x.md"], 1),
        (["a/x.md", "x.md", "y/x.md"], 1),
        (["a/x.md", "x.md", "x.md", "y/x.md"], 2),
        (["a/x.md", "b/x.md"], "2 files end with 'x.md'"),
        (["ax.md", "x.md.bak"], "has no file 'x.md'"),
        ([], "has no file 'x.md'"),
    ],
)
def test_a_file_is_named_by_its_path_or_the_only_end_of_one(paths: list[str], read: int | str) -> None:
    service = Listings(paths)
    if isinstance(read, str):
        with pytest.raises(CallRefused, match=read):
            called(service, "read_file", folder=VALUES["uuid"], file="x.md")
        return
    notes = called(service, "read_file", folder=VALUES["uuid"], file="x.md").data.model_dump()["notes"]
    assert any("2 files have this path" in note for note in notes) is (read == 2)


class ManyFolders(Listings):
    """A service with this many tools, of which the first is the oldest. `asked` are those that a search was over."""

    def __init__(self, number: int) -> None:
        super().__init__([])
        self.ids = [str(UUID(int=place)) for place in range(number)]
        self.asked: list[str] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        page = super().__call__(request).json()
        if operation_of(request)[0] != "GET /api/tools/search":
            self.asked += json.loads(request.read())["tool_ids"]
            return httpx.Response(200, json={**page, "results": []})
        (item,) = page["items"]
        tools = [
            {**item, "tool_id": id_, "index": {**item["index"], "index_id": id_}, "created_at": f"20{place:02}-01-01"}
            for place, id_ in enumerate(self.ids, 10)
        ]
        return httpx.Response(200, json={**page, "items": tools[::-1]})


@pytest.mark.parametrize(("number", "left_out"), [(MAX_FOLDERS, 0), (MAX_FOLDERS + 2, 2)])
def test_a_search_of_everything_is_over_the_newest_folders(number: int, left_out: int) -> None:
    service = ManyFolders(number)
    reply = called(service, "search", query="f", folder=[])
    assert sorted(service.asked) == service.ids[left_out:]
    assert (f"{left_out} older folders were left out" in reply.text) is bool(left_out)
