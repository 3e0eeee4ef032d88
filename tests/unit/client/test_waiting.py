"""Waits, events and pages, and that both clients share them."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Coroutine, Iterator
from typing import Any, assert_type

import httpx
import pytest

from foldex_client import AsyncFoldex, Foldex, IndexingFailed, NotFound, Status, Tool, WaitTimedOut
from foldex_client.calls import FIRST_POLL_SECONDS, MAX_POLL_SECONDS, MIN_POLL_SECONDS
from foldex_client.errors import ConnectionFailed, IndexingCancelled
from tests import coroutines
from tests.unit.client.conftest import NewClient, Script, problem
from tests.unit.client.test_contract import Recorder, sample

BROKEN = httpx.ReadError("reset")


def status(word: str, progress: float = 0.5, **fields: Any) -> dict[str, Any]:
    ended = "2026-01-01T00:00:00Z" if word in {"ready", "error", "cancelled"} else None
    common = {**sample({"$ref": "/Status"}, sparse=True), "finished_at": ended}
    return {**common, "status": word, "progress": progress, **fields}


def told(word: str, progress: float = 0.5, **fields: Any) -> httpx.Response:
    return httpx.Response(200, json=status(word, progress, **fields))


def stream(*statuses: dict[str, Any]) -> httpx.Response:
    events = [f"event: status\ndata: {json.dumps(each)}\n\n: nothing new\n\n" for each in statuses]
    return httpx.Response(200, text="".join(events))


def tools(*names: str, cursor: str | None) -> httpx.Response:
    items = [{**sample({"$ref": "/Tool"}, sparse=True), "name": name} for name in names]
    return httpx.Response(200, json={"items": items, "next_cursor": cursor})


def test_a_wait_polls_with_growing_pauses_and_tells_each_status(new_client: NewClient, pauses: list[float]) -> None:
    client, _ = new_client(*[told("indexing", n / 60) for n in range(60)], told("ready", 1))
    seen: list[float | None] = []
    ended = client.tools.wait("id", on_progress=lambda status: seen.append(status.progress))
    assert ended.status == "ready"
    assert seen == [*(n / 60 for n in range(60)), 1]
    assert pauses == sorted(pauses)
    assert pauses[0] == FIRST_POLL_SECONDS < pauses[-1] == MAX_POLL_SECONDS
    # what is there is known soon: within a tenth of the wait
    waits = [sum(pauses[:number]) for number in range(len(pauses))]
    assert all(pause < max(FIRST_POLL_SECONDS, wait / 10) + 1e-9 for wait, pause in zip(waits, pauses, strict=True))


def test_a_wait_for_words_ends_before_the_vectors_are_there(new_client: NewClient, pauses: list[float]) -> None:
    time = "2026-11-20T09:30:09Z"
    replies = [told("indexing", 0.1, searchable_at=None), told("indexing", 0.2, searchable_at=time), told("ready", 1)]
    client, script = new_client(*replies)
    assert client.tools.wait("id", until="words").progress == 0.2
    assert len(script.requests) == len(pauses) + 1 == 2
    assert client.tools.wait("id", until="words").status == "ready"


def test_a_wait_for_words_raises_what_ended_the_task(new_client: NewClient) -> None:
    client, _ = new_client(told("error", error="The key is wrong.", searchable_at="2026-11-20T09:30:09Z"))
    with pytest.raises(IndexingFailed, match="key is wrong"):
        client.tools.wait("id", until="words")


def test_a_wait_has_a_limit(new_client: NewClient, pauses: list[float]) -> None:
    client, script = new_client(told("indexing", 0.25))
    with pytest.raises(WaitTimedOut, match="25% done"):
        client.tools.wait("id", timeout=0)
    assert len(script.requests) == 1


@pytest.mark.parametrize(("limit", "seconds"), [(0, MIN_POLL_SECONDS), (5, 5), (None, 30)])
def test_a_poll_lasts_no_longer_than_its_wait(new_client: NewClient, limit: float | None, seconds: float) -> None:
    client, script = new_client(told("ready"), timeout=30)
    client.tools.wait("id", timeout=limit)
    assert script.requests[0].extensions["timeout"]["read"] == pytest.approx(seconds, abs=0.5)


def test_a_task_that_fails_raises_its_error(new_client: NewClient) -> None:
    client, _ = new_client(told("error", error="The folder is gone.", error_code="folder_gone"))
    with pytest.raises(IndexingFailed, match="folder is gone") as raised:
        client.tools.wait("id")
    assert (raised.value.code, raised.value.task.status) == ("folder_gone", "error")


def test_a_task_that_is_cancelled_raises(new_client: NewClient) -> None:
    client, _ = new_client(told("cancelled"))
    with pytest.raises(IndexingCancelled):
        client.tools.wait("id")


def test_a_wait_outlives_a_restart_of_the_service(new_client: NewClient, pauses: list[float]) -> None:
    client, _ = new_client(told("indexing"), httpx.ConnectError("refused"), httpx.Response(502), told("ready"))
    assert client.tools.wait("id").status == "ready"


def test_a_wait_that_was_answered_outlives_more_failures_than_other_calls(
    new_client: NewClient, pauses: list[float]
) -> None:
    refused = [httpx.ConnectError("refused")] * 4
    client, _ = new_client(told("indexing"), *refused, told("ready"), retries=3)
    assert client.tools.wait("id").status == "ready"
    client, _ = new_client(stream(status("indexing")), *refused, stream(status("ready")), retries=3)
    assert [each.status for each in client.tools.events("id")] == ["indexing", "ready"]
    client, _ = new_client(*refused, told("ready"), retries=3)
    with pytest.raises(ConnectionFailed):
        client.tools.wait("id")
    client, _ = new_client(told("indexing"), *refused, told("ready"), retries=0)
    with pytest.raises(ConnectionFailed):
        client.tools.wait("id")


def test_a_wait_gives_up_a_service_that_is_away_for_longer_than_a_call_may_take(new_client: NewClient) -> None:
    client, script = new_client(told("indexing"), httpx.ConnectError("refused"), retries=1, deadline=0.5)
    with pytest.raises(ConnectionFailed):
        client.tools.wait("id")
    assert len(script.requests) > 2


def test_events_end_with_the_task_and_outlive_broken_streams(new_client: NewClient, pauses: list[float]) -> None:
    first, second, last = status("indexing", 0.2), status("indexing", 0.6), status("ready", 1)
    client, script = new_client(stream(first), stream(second), BROKEN, stream(last), retries=1)
    assert [each.progress for each in client.tools.events("id")] == [0.2, 0.6, 1]
    assert len(script.requests) == 4


def test_events_of_a_stream_that_says_nothing_end(new_client: NewClient, pauses: list[float]) -> None:
    client, script = new_client(httpx.Response(200, text=""), retries=2)
    with pytest.raises(ConnectionFailed, match="stream ended"):
        list(client.tools.events("id"))
    assert len(script.requests) == 3


def test_events_of_a_deleted_tool_end(new_client: NewClient, pauses: list[float]) -> None:
    client, _ = new_client(stream(status("indexing")), problem(404, "not_found"))
    events = client.tools.events("id")
    assert next(events).status == "indexing"
    with pytest.raises(NotFound):
        next(events)


def test_an_error_instead_of_events_is_read_to_its_end() -> None:
    def arriving(_: httpx.Request) -> httpx.Response:
        return httpx.Response(404, content=iter([problem(404, "not_found").content]))

    transport = httpx.MockTransport(arriving)
    with Foldex("http://foldex.invalid", transport=transport) as client, pytest.raises(NotFound):
        next(client.tools.events("id"))


def test_a_page_is_fetched_when_it_is_needed(new_client: NewClient) -> None:
    client, script = new_client(tools("a", "b", cursor="c1"), tools(cursor="c2"), tools("c", cursor=None))
    listed = client.tools.list("p", page_size=2)
    assert script.requests == []
    assert [next(listed).name, next(listed).name] == ["a", "b"]
    assert len(script.requests) == 1
    assert [tool.name for tool in listed] == ["c"]
    queries = [dict(request.url.params) for request in script.requests]
    first = {"project_id": "p", "limit": "2"}
    assert queries == [first, {**first, "cursor": "c1"}, {**first, "cursor": "c2"}]


def test_an_iterator_that_is_left_closes_its_stream(new_client: NewClient) -> None:
    client, _ = new_client(stream(status("indexing"), status("ready")))
    for each in client.tools.events("id"):
        assert each.status == "indexing"
        break


def test_both_clients_have_the_same_calls() -> None:
    async def run() -> None:
        replies = (told("indexing"), told("ready"), tools("a", cursor="c1"), tools("b", cursor=None))
        script = Script(*replies, stream(status("ready")), problem(404, "not_found"))
        async with AsyncFoldex("http://foldex.invalid", transport=httpx.MockTransport(script)) as client:
            assert (await client.tools.wait("id")).status == "ready"
            assert [tool.name async for tool in client.tools.list()] == ["a", "b"]
            assert [each.status async for each in client.tools.events("id")] == ["ready"]
            with pytest.raises(NotFound):
                await client.tools.get("id")

    coroutines.run(run())


def test_types_tell_which_client_it_is() -> None:
    async def run() -> None:
        async with AsyncFoldex("http://foldex.invalid", transport=httpx.MockTransport(Recorder())) as client:
            assert isinstance(await assert_type(client.tools.get("id"), Coroutine[Any, Any, Tool]), Tool)
            assert_type(client.tools.list(), AsyncGenerator[Tool, None])

    coroutines.run(run())
    with Foldex("http://foldex.invalid", transport=httpx.MockTransport(Recorder())) as client:
        assert isinstance(assert_type(client.tools.get("id"), Tool), Tool)
        assert_type(client.tools.list(), Iterator[Tool])
        assert_type(client.tools.status("id"), Status)
        assert_type(client.tools.delete("id"), None)
