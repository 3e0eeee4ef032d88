"""What one project, or someone without a key, asks for at once delays no other project. With real keys over HTTP."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import httpx
import psycopg
import pytest

from api.http.shares import STREAMS
from tests.integration.test_keys import new_key
from tests.service import TOOLS, Service, checked, eventually
from worker.machine.sharing.slots import RECENT_SECONDS

#: Seconds within which a call of the other project answers, however busy the machine is: refused ones wait for longer.
SOON = 8.0
#: Connections of the API that wait for a lock.
WAITING = """SELECT count(*) FROM pg_stat_activity
WHERE wait_event_type = 'Lock' AND application_name = 'foldex api' AND datname = current_database()"""


@pytest.fixture(scope="module")
def running(behind_keys: Service) -> Service:
    return behind_keys


@pytest.fixture(scope="module")
def projects(running: Service) -> Iterator[tuple[httpx.Client, httpx.Client]]:
    """Clients of two projects."""
    with ExitStack() as stack:
        first, second = (
            stack.enter_context(client(running, {"Authorization": f"Bearer {new_key(running, project)}"}))
            for project in ("share-a", "share-b")
        )
        yield first, second


def client(running: Service, headers: dict[str, str]) -> httpx.Client:
    limits = httpx.Limits(max_connections=None)
    return httpx.Client(base_url=running.client.base_url, headers=headers, timeout=30, trust_env=False, limits=limits)


def made_tool(caller: httpx.Client, project: str) -> str:
    node: dict[str, Any] = {"id": f"folder-{project}", "name": "folder", "type": "folder"}
    checked(caller.post(f"/api/projects/{project}/nodes", json=node), 201)
    tool = checked(caller.post(TOOLS, json={"project_id": project, "node_id": node["id"]}), 202)
    return str(tool["tool_id"])


def test_streams_of_one_project_leave_room_for_another(projects: tuple[httpx.Client, httpx.Client]) -> None:
    first, second = projects
    # no worker ends their tasks, so that the streams go on
    own, other = made_tool(first, "share-a"), made_tool(second, "share-b")
    with ExitStack() as stack:
        for _ in range(STREAMS.each):
            stream = stack.enter_context(first.stream("GET", f"{TOOLS}/{own}/events"))
            assert stream.status_code == 200
        refused = first.get(f"{TOOLS}/{own}/events")
        assert (refused.status_code, refused.json()["code"]) == (429, "project_busy")
        assert int(refused.headers["retry-after"]) > 0
        for caller, tool in (projects[0], own), (second, other):
            assert caller.get(f"{TOOLS}/{tool}/status", timeout=SOON).status_code == 200
        with second.stream("GET", f"{TOOLS}/{other}/events", timeout=SOON) as stream:
            assert stream.status_code == 200

    def is_free() -> bool:
        with first.stream("GET", f"{TOOLS}/{own}/events") as stream:
            return stream.status_code == 200

    eventually(is_free, 20)


def test_calls_that_wait_for_a_lock_leave_connections_to_another_project(
    running: Service, projects: tuple[httpx.Client, httpx.Client]
) -> None:
    first, second = projects
    nodes, others = "/api/projects/share-a/nodes", list[Future[httpx.Response]]()
    checked(second.get(TOOLS), 200)

    def ask(number: int) -> int:
        if number % 3 == 0:
            return first.post(nodes, json={"name": "new", "type": "folder"}).status_code
        return first.get(f"{nodes}/none" if number % 3 == 1 else f"{nodes}/none/content").status_code

    time.sleep(RECENT_SECONDS)  # a project that is alone has the larger share
    with psycopg.connect(running.database_url) as holder, ThreadPoolExecutor(41) as threads:
        holder.execute("LOCK TABLE content_node IN ACCESS EXCLUSIVE MODE")
        calls, most = [threads.submit(ask, number) for number in range(40)], 0
        while not any(call.done() for call in calls):
            ((waiting,),) = running.rows(WAITING)
            most = max(most, waiting)
            if most > 10 and not others:
                # a list of tools looks for access lists of nodes, which are locked
                others.append(threads.submit(second.get, "/api/access", timeout=SOON))
        holder.rollback()
    assert 10 < most <= 13
    assert [each.result().status_code for each in others] == [200]
    assert {call.result() for call in calls} <= {201, 404, 429, 503}


def test_wrong_keys_delay_no_right_one(running: Service, projects: tuple[httpx.Client, httpx.Client]) -> None:
    checked(projects[0].get(TOOLS), 200)

    def guess(number: int) -> int:
        return strangers.get(TOOLS, headers={"Authorization": f"Bearer wrong-{number}"}).status_code

    with client(running, {}) as strangers, ThreadPoolExecutor(40) as threads:
        guesses = [threads.submit(guess, number) for number in range(400)]
        while not all(guess.done() for guess in guesses):
            assert projects[0].get(TOOLS, timeout=SOON).status_code == 200
            assert running.client.get("/healthz", timeout=SOON).status_code == 200
    statuses = Counter(guess.result() for guess in guesses)
    assert statuses[401]
    assert set(statuses) <= {401, 429, 503}
