"""Tasks of the Model Context Protocol of 2025-11-25: a call that indexes answers at once, and is asked for later."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import pytest

from api.agents import manage, tasks
from api.agents.access import CallRefused, ServiceAccess
from foldex_client import AsyncFoldex, Status
from tests import coroutines
from tests.agents import frozen
from tests.integration.test_keys import foldex, new_key
from tests.service import TOOLS, Service, another_api, eventually

NO_TASK = "There is no task with this id; tasks/list shows those that there are."


class Caller:
    """Sends single requests as the protocol of a version has them."""

    def __init__(self, service: Service, key: str | None = None, version: str = "2025-11-25") -> None:
        self.service = service
        self.headers = {"MCP-Protocol-Version": version, "Accept": "application/json, text/event-stream"}
        self.headers |= {} if key is None else {"Authorization": f"Bearer {key}"}

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        """The response to a request, a result or an error."""
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        answer = self.service.client.post("/mcp", json=body, headers=self.headers, timeout=120)
        lines = [line[6:] for line in answer.text.splitlines() if line.startswith("data: ")] or [answer.text]
        found: dict[str, Any] = json.loads(lines[-1])
        return found

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        answer = self.send(method, **params)
        result: dict[str, Any] = answer["result"]
        return result

    def refused(self, method: str, **params: Any) -> tuple[int, str]:
        error = self.send(method, **params)["error"]
        return error["code"], error["message"]

    def index(self, folder: Path) -> dict[str, Any]:
        task: dict[str, Any] = self.ask(
            "tools/call", name="index_folder", arguments={"path": str(folder)}, task={"ttl": 60_000}
        )["task"]
        return task

    def status(self, task_id: str) -> str:
        return str(self.ask("tasks/get", taskId=task_id)["status"])


def made(folder: Path, files: int = 3) -> Path:
    folder.mkdir(parents=True)
    for number in range(files):
        (folder / f"{number}.md").write_text(f"# Note {number}\n\nA heron stands in pond {number}.\n")
    return folder


@pytest.fixture
def caller(running: Service) -> Caller:
    return Caller(running)


def test_a_call_runs_as_a_task_to_its_end(caller: Caller, root: Path) -> None:
    task = caller.index(made(root / "task-runs"))
    assert {"taskId", "status", "createdAt", "lastUpdatedAt", "ttl", "pollInterval"} <= task.keys()
    assert (task["status"], task["ttl"]) == ("working", None)
    result = caller.ask("tasks/result", taskId=task["taskId"])
    assert result["_meta"]["io.modelcontextprotocol/related-task"] == {"taskId": task["taskId"]}
    assert "3 of 3 files indexed" in result["content"][0]["text"]
    assert not result["isError"]
    assert caller.status(task["taskId"]) == "completed"
    listed = caller.ask("tasks/list")
    assert task["taskId"] in [each["taskId"] for each in listed["tasks"]]
    again = caller.ask("tools/call", name="refresh", arguments={"folder": "task-runs"}, task={})["task"]
    assert again["taskId"] != task["taskId"]
    assert caller.status(task["taskId"]) == "completed", "an earlier run keeps its outcome"
    caller.ask("tasks/result", taskId=again["taskId"])


def test_a_task_of_null_is_a_plain_call(caller: Caller, root: Path) -> None:
    arguments = {"path": str(made(root / "task-null"))}
    answer = caller.ask("tools/call", name="index_folder", arguments=arguments, task=None)
    assert "3 of 3 files indexed" in answer["content"][0]["text"]


def test_a_result_that_does_not_come_is_refused(running: Service, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request that waits for ever would be cut without a word by whatever stands between."""
    monkeypatch.setattr(manage, "MAX_WAIT_SECONDS", 1)

    async def result(task_id: str) -> object:
        async with AsyncFoldex(str(running.client.base_url)) as foldex:
            access = ServiceAccess(foldex, None, str, str, None, str, has_key=False)
            return await tasks._result(access, task_id)

    caller = Caller(running)
    with frozen(running):
        task = caller.index(made(root / "task-open"))["taskId"]
        with pytest.raises(CallRefused, match="ask for its result again"):
            coroutines.run(asyncio.wait_for(result(task), 20))
    caller.ask("tasks/result", taskId=task)


def test_a_task_is_cancelled(running: Service, caller: Caller, root: Path) -> None:
    with frozen(running):
        task = caller.index(made(root / "task-cancelled", 20))
        assert caller.status(task["taskId"]) == "working"
        cancelled = caller.ask("tasks/cancel", taskId=task["taskId"])
        assert cancelled["status"] == "cancelled"
    eventually(lambda: caller.status(task["taskId"]) == "cancelled", 20)
    code, said = caller.refused("tasks/cancel", taskId=task["taskId"])
    assert (code, "cancelled" in said) == (-32602, True)
    assert caller.ask("tasks/result", taskId=task["taskId"])["isError"]


class Overtaken:
    """Lets a task end, and a newer one of its folder begin, once somebody has looked at it."""

    def __init__(self, caller: Caller, running: Service, folder: str) -> None:
        self.caller, self.running, self.folder = caller, running, folder
        self.newer, self._look, self._opened = "", tasks._run, ExitStack()

    async def look(self, opened: ServiceAccess, task_id: str) -> Status:
        """The task as it was before, the first time."""
        run = await self._look(opened, task_id)
        if not self.newer:
            self._opened.close()
            eventually(lambda: self.caller.status(task_id) == "completed", 60)
            self.freeze()
            arguments = {"folder": self.folder}
            self.newer = self.caller.ask("tools/call", name="refresh", arguments=arguments, task={})["task"]["taskId"]
        return run

    def freeze(self) -> None:
        """Keep tasks from coming to an end."""
        self._opened.enter_context(frozen(self.running))

    def __enter__(self) -> Self:
        self.freeze()
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()


@pytest.mark.parametrize("action", ["_cancel", "_result"])
def test_a_task_that_is_overtaken_is_asked_about_itself(
    running: Service, caller: Caller, root: Path, monkeypatch: pytest.MonkeyPatch, action: str
) -> None:
    """What is asked of one task holds for no newer one of its folder, whenever that begins."""

    async def act(task_id: str) -> dict[str, Any]:
        async with AsyncFoldex(str(running.client.base_url)) as foldex:
            access = ServiceAccess(foldex, None, str, str, None, str, has_key=False)
            found: dict[str, Any] = await getattr(tasks, action)(access, task_id)
            return found

    folder = f"task-overtaken{action}"
    with Overtaken(caller, running, folder) as overtaken:
        monkeypatch.setattr(tasks, "_run", overtaken.look)
        task = caller.index(made(root / folder))["taskId"]
        if action == "_cancel":
            with pytest.raises(CallRefused, match="ended as completed; nothing is left to cancel"):
                coroutines.run(act(task))
        else:
            answer = coroutines.run(asyncio.wait_for(act(task), 20))
            assert answer["_meta"]["io.modelcontextprotocol/related-task"] == {"taskId": task}
            assert not answer["isError"]
        tool_id, _, task_id = task.partition(".")
        running.client.post(f"{TOOLS}/{tool_id}/cancel", params={"task_id": task_id}).raise_for_status()
        assert caller.status(overtaken.newer) == "working"
    assert not caller.ask("tasks/result", taskId=overtaken.newer)["isError"]
    assert caller.status(overtaken.newer) == "completed"


@pytest.mark.parametrize(
    "task_id", ["", ".", "x", "1" * 5000, "00000000-0000-0000-0000-000000000000.x", "../../health.x"]
)
@pytest.mark.parametrize("method", ["tasks/get", "tasks/result", "tasks/cancel"])
def test_what_is_no_task_is_refused(caller: Caller, method: str, task_id: str) -> None:
    assert caller.refused(method, taskId=task_id) == (-32602, NO_TASK)


def test_bad_requests_are_refused(caller: Caller) -> None:
    assert caller.refused("tasks/list", cursor="-1")[0] == -32602
    assert caller.refused("tasks/list", cursor="9" * 50)[0] == -32602
    assert caller.ask("tasks/list", cursor="999999")["tasks"] == []
    assert caller.refused("tools/call", name="search", arguments={"query": "x"}, task={})[0] == -32601
    assert caller.refused("tools/call", name="index_folder", arguments={"path": 5}, task={})[0] == -32602
    assert caller.refused("tools/call", name="index_folder", arguments={"path": "/a"}, task=7)[0] == -32602
    assert caller.refused("tools/call", name="index_folder", arguments={"path": "/no/such"}, task={})[0] == -32602


def test_only_the_protocol_that_has_tasks_offers_them(running: Service, caller: Caller) -> None:
    def initialized(version: str) -> dict[str, Any]:
        client = {"name": "test", "version": "1"}
        asked = {"protocolVersion": version, "capabilities": {}, "clientInfo": client}
        found: dict[str, Any] = caller.ask("initialize", **asked)["capabilities"]
        return found

    assert initialized("2025-11-25")["tasks"] == {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
    assert "tasks" not in initialized("2025-06-18")
    old = Caller(running, version="2025-06-18")
    assert old.refused("tasks/list")[0] == -32601
    supported = {tool["name"]: tool.get("execution") for tool in caller.ask("tools/list")["tools"]}
    assert {name for name, each in supported.items() if each == {"taskSupport": "optional"}} == {
        "index_folder",
        "refresh",
    }
    for version in ("2024-11-05", "2025-03-26", "2025-06-18"):
        assert not any("execution" in tool for tool in Caller(running, version=version).ask("tools/list")["tools"])


@pytest.fixture(scope="module")
def guarded(running: Service) -> Iterator[Service]:
    with another_api(running, AUTH="on") as started:
        yield started


def test_a_task_is_of_the_project_of_a_key(guarded: Service, running: Service, caller: Caller, root: Path) -> None:
    task = caller.index(made(root / "task-hidden"))["taskId"]
    other = Caller(guarded, new_key(running, "other-tasks"))
    for method in ("tasks/get", "tasks/result", "tasks/cancel"):
        assert other.refused(method, taskId=task) == (-32602, NO_TASK)
    assert other.ask("tasks/list")["tasks"] == []
    made_key = foldex(running, "keys", "create", "default", "--scope", "search")
    reader = Caller(guarded, made_key.stdout.split()[0])
    assert reader.status(task) in {"working", "completed"}
    code, said = reader.refused("tools/call", name="refresh", arguments={"folder": "task-hidden"}, task={})
    assert (code, "write" in said) == (-32602, True)
    caller.ask("tasks/result", taskId=task)
