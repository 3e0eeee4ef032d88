"""What is sent again and what is not, what errors say, and where the key goes."""

from __future__ import annotations

import io
import logging
import pickle
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import TypeAdapter

from foldex_client import ConnectionFailed, Foldex, FoldexError, NotFound, sending
from foldex_client.bodies import Content
from foldex_client.errors import DatabaseUnavailable, DiskFull, SearchBusy, TimedOut, Unauthorized, UnexpectedAnswer
from foldex_client.sending import MAX_PAUSE_SECONDS, MIN_TIMEOUT_SECONDS
from tests.unit.client.conftest import NewClient, problem

ALIVE = httpx.Response(200, json={"status": "ok"})
NODE = httpx.Response(
    201,
    json={
        **dict.fromkeys(("id", "project_id", "parent_id", "id_path", "name", "type"), "x"),
        **dict.fromkeys(("size", "version"), 1),
        **dict.fromkeys(("created_at", "updated_at"), "2026-01-01T00:00:00Z"),
    },
)
UPLOAD = httpx.Response(200, json={"items": []})
#: The connection was never made; the connection broke when the request was under way.
REFUSED, BROKEN = httpx.ConnectError("refused"), httpx.ReadError("reset")


def test_what_reads_an_answer_is_made_once(new_client: NewClient, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []

    def making(kind: Any) -> TypeAdapter[Any]:
        made.append(kind)
        return TypeAdapter(kind)

    monkeypatch.setattr(sending, "TypeAdapter", making)
    sending._reader.cache_clear()
    client, _ = new_client(ALIVE, ALIVE)
    assert client.health() == client.ready()
    assert len(made) == 1


def test_retry_after_is_obeyed(new_client: NewClient, pauses: list[float]) -> None:
    client, script = new_client(problem(503, "search_busy", **{"Retry-After": "7"}), ALIVE)
    assert client.health() == {"status": "ok"}
    assert pauses == [7]
    assert len(script.requests) == 2


def test_a_short_retry_after_does_not_shorten_the_pauses(new_client: NewClient, pauses: list[float]) -> None:
    busy = problem(503, "search_busy", **{"Retry-After": "1"})
    client, _ = new_client(*[busy] * 6, ALIVE, retries=6)
    client.health()
    assert pauses[0] == 1
    assert pauses[-1] > 2


def test_retry_after_may_be_a_date(new_client: NewClient, pauses: list[float]) -> None:
    past = problem(503, "search_busy", **{"Retry-After": "Mon, 01 Jan 2024 00:00:00 GMT"})
    client, _ = new_client(past, ALIVE)
    client.health()
    assert len(pauses) == 1
    assert pauses[0] > 0
    client, _ = new_client(past, retries=0)
    with pytest.raises(SearchBusy) as raised:
        client.health()
    assert raised.value.retry_after == 0
    assert pauses[0] < 1


@pytest.mark.parametrize(
    "failure",
    [REFUSED, BROKEN, httpx.ReadTimeout("silent"), *(httpx.Response(each, text="<p>") for each in (502, 504))],
)
def test_a_repeatable_call_is_sent_again_with_growing_pauses(
    new_client: NewClient, pauses: list[float], failure: Any
) -> None:
    client, script = new_client(*[failure] * 4, ALIVE)
    client.health()
    assert len(script.requests) == 5
    assert pauses == sorted(pauses)
    assert pauses[-1] > 2 * pauses[0]


def test_pauses_differ_and_have_a_bound(new_client: NewClient, pauses: list[float]) -> None:
    client, _ = new_client(REFUSED, retries=40, deadline=10**6)
    with pytest.raises(ConnectionFailed):
        client.health()
    assert len(set(pauses)) == 40
    assert MAX_PAUSE_SECONDS / 2 <= pauses[-1] <= MAX_PAUSE_SECONDS


def test_retries_have_a_maximum(new_client: NewClient, pauses: list[float]) -> None:
    client, script = new_client(problem(503, "search_busy", **{"Retry-After": "1"}), retries=3)
    with pytest.raises(SearchBusy) as raised:
        client.health()
    assert len(script.requests) == 4
    assert (raised.value.retryable, raised.value.retry_after) == (True, 1)


def test_no_retry_begins_after_the_deadline(new_client: NewClient, pauses: list[float]) -> None:
    client, script = new_client(problem(503, "search_busy", **{"Retry-After": "20"}), ALIVE, deadline=10)
    with pytest.raises(SearchBusy):
        client.health()
    assert len(script.requests) == 1
    assert pauses == []


@pytest.mark.parametrize(
    "failure",
    [
        *(REFUSED, httpx.ConnectTimeout("silent"), httpx.PoolTimeout("all in use")),
        *(problem(429, "slow_down"), problem(503, "search_busy")),
    ],
)
def test_a_call_that_was_not_carried_out_is_sent_again(
    new_client: NewClient, pauses: list[float], failure: Any
) -> None:
    client, script = new_client(failure, NODE)
    client.nodes.create("p", "a.md", content="text")
    assert len(script.requests) == 2
    assert script.requests[0].content == script.requests[1].content


@pytest.mark.parametrize(
    "failure", [BROKEN, httpx.ReadTimeout("silent"), problem(503, "database_unavailable"), httpx.Response(504)]
)
def test_a_call_that_may_have_been_carried_out_is_not(new_client: NewClient, pauses: list[float], failure: Any) -> None:
    client, script = new_client(failure, NODE)
    with pytest.raises((ConnectionFailed, DatabaseUnavailable, UnexpectedAnswer)):
        client.nodes.create("p", "a.md", content="text")
    assert len(script.requests) == 1


@pytest.mark.parametrize("status", [400, 401, 404, 409, 422, 500, 502])
def test_what_no_retry_can_help_is_not_sent_again(new_client: NewClient, pauses: list[float], status: int) -> None:
    client, script = new_client(problem(status, "some_code"), ALIVE)
    with pytest.raises(FoldexError):
        client.health()
    assert len(script.requests) == 1


def test_a_full_disk_is_said_at_once_as_no_pause_of_seconds_frees_space(
    new_client: NewClient, pauses: list[float]
) -> None:
    client, script = new_client(problem(503, "disk_full", **{"Retry-After": "5"}), NODE)
    with pytest.raises(DiskFull) as raised:
        client.nodes.create("p", "a.md", content="text")
    assert (len(script.requests), pauses) == (1, [])
    assert (raised.value.retryable, raised.value.retry_after) == (True, 5)


def test_a_delete_whose_answer_was_lost_has_succeeded(new_client: NewClient, pauses: list[float]) -> None:
    client, _ = new_client(BROKEN, problem(404, "not_found"))
    client.tools.delete("id")
    client, _ = new_client(problem(404, "not_found"))
    with pytest.raises(NotFound):
        client.tools.delete("id")


@pytest.mark.parametrize(
    ("replies", "has_succeeded"),
    [
        ([httpx.ReadTimeout("silent")], True),
        ([httpx.Response(502)], True),
        # Postgres may have committed before it fell silent
        ([problem(503, "database_unavailable")], True),
        ([BROKEN, problem(503, "search_busy")], True),
        ([problem(503, "search_busy")], False),
    ],
)
def test_a_delete_that_may_have_been_carried_out_before_succeeds_if_the_thing_is_gone(
    new_client: NewClient, pauses: list[float], replies: list[Any], has_succeeded: bool
) -> None:
    client, script = new_client(*replies, problem(404, "not_found"))
    with nullcontext() if has_succeeded else pytest.raises(NotFound):
        client.tools.delete("id")
    assert len(script.requests) == len(replies) + 1


def test_only_a_delete_succeeds_if_the_thing_is_gone(new_client: NewClient, pauses: list[float]) -> None:
    client, _ = new_client(BROKEN, problem(404, "not_found"))
    with pytest.raises(NotFound):
        client.tools.get("id")


@pytest.mark.parametrize(("deadline", "seconds"), [(60, 30), (5, 5), (0, MIN_TIMEOUT_SECONDS)])
def test_a_request_lasts_no_longer_than_its_deadline(new_client: NewClient, deadline: float, seconds: float) -> None:
    client, script = new_client(ALIVE, timeout=30, deadline=deadline)
    client.health()
    read = script.requests[0].extensions["timeout"]["read"]
    assert read == pytest.approx(seconds, abs=1)
    assert read >= MIN_TIMEOUT_SECONDS


class Pipe(io.BytesIO):
    """A stream that can be read once."""

    def seekable(self) -> bool:
        return False

    def seek(self, *_: object) -> int:
        raise io.UnsupportedOperation


def test_an_upload_is_sent_whole_each_time(new_client: NewClient, pauses: list[float], tmp_path: Path) -> None:
    (tmp_path / "c.md").write_bytes(b"from a path")
    files: dict[str, Content] = {
        "a.md": b"from bytes",
        "b.md": io.BytesIO(b"from a file"),
        "guide/c.md": tmp_path / "c.md",
        "d.md": Pipe(b"from a pipe"),
    }
    client, script = new_client(problem(503, "search_busy"), UPLOAD)
    client.nodes.upload("p", files, parent_id="folder")
    for request in script.requests:
        for said in (b"from bytes", b"from a file", b"from a path", b"from a pipe", b'filename="guide/c.md"'):
            assert said in request.content
        assert request.url.params["parent_id"] == "folder"
    assert len(script.requests) == 2


def test_an_error_tells_all_that_the_answer_told(new_client: NewClient) -> None:
    client, _ = new_client(problem(401, "unauthorized", **{"X-Request-ID": "r-1"}))
    with pytest.raises(Unauthorized, match=r"unauthorized happened\. \(unauthorized\)") as raised:
        client.health()
    told = raised.value
    assert (told.code, told.status, told.detail) == ("unauthorized", 401, "unauthorized happened.")
    assert (told.retryable, told.retry_after, told.request_id) == (False, None, "r-1")
    copy = pickle.loads(pickle.dumps(told))
    assert (type(copy), vars(copy)) == (Unauthorized, vars(told))


@pytest.mark.parametrize(("status", "retryable"), [(429, True), (503, True), (500, False), (409, False)])
def test_a_status_tells_whether_a_retry_can_help(new_client: NewClient, status: int, retryable: bool) -> None:
    client, _ = new_client(problem(status, "some_code"), retries=0)
    with pytest.raises(FoldexError) as raised:
        client.health()
    assert raised.value.retryable is retryable


def test_an_unknown_code_is_the_base_class(new_client: NewClient) -> None:
    client, _ = new_client(problem(418, "brand_new"))
    with pytest.raises(FoldexError) as raised:
        client.health()
    assert (type(raised.value), raised.value.code) == (FoldexError, "brand_new")


@pytest.mark.parametrize(
    "reply",
    [
        httpx.Response(404, text="<html>Not here</html>"),
        httpx.Response(500, json=["no", "problem"]),
        httpx.Response(200, text="<html>Welcome</html>"),
        httpx.Response(200, json=["no", "object"]),
    ],
)
def test_another_program_at_the_address_is_told_apart(new_client: NewClient, reply: httpx.Response) -> None:
    client, _ = new_client(reply)
    with pytest.raises(UnexpectedAnswer, match=r"GET http://foldex\.invalid/healthz .*base_url"):
        client.health()


@pytest.mark.parametrize(
    ("failure", "kind"),
    [(REFUSED, ConnectionFailed), (httpx.ConnectTimeout("x"), ConnectionFailed), (httpx.ReadTimeout("x"), TimedOut)],
)
def test_a_failed_connection_names_the_address_and_a_remedy(new_client: NewClient, failure: Any, kind: Any) -> None:
    client, _ = new_client(failure, retries=0)
    with pytest.raises(kind, match=r"GET http://foldex\.invalid/healthz .*(check base_url|larger timeout)") as raised:
        client.health()
    assert type(raised.value) is kind
    assert raised.value.retryable
    assert raised.value.__cause__ is failure


def test_fields_of_a_newer_service_are_kept(new_client: NewClient) -> None:
    client, _ = new_client(httpx.Response(201, json={**NODE.json(), "colour": "red", "type": "hologram"}))
    node = client.nodes.create("p", "n")
    assert (node.type, node.model_extra) == ("hologram", {"colour": "red"})


KEY = "fx-very-secret"


def test_the_key_is_sent_to_the_address_and_a_redirect_is_not_followed(new_client: NewClient) -> None:
    client, script = new_client(httpx.Response(307, headers={"Location": "http://evil.invalid/"}), ALIVE, api_key=KEY)
    with pytest.raises(UnexpectedAnswer):
        client.health()
    [request] = script.requests
    assert (request.url.host, request.headers["Authorization"]) == ("foldex.invalid", f"Bearer {KEY}")


def test_the_key_is_in_no_text(new_client: NewClient, pauses: list[float], caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    client, _ = new_client(problem(503, "search_busy"), BROKEN, problem(404, "not_found"), api_key=KEY)
    with pytest.raises(NotFound) as raised:
        client.health()
    texts = [repr(client), repr(client.tools), repr(vars(client)), repr(raised.value), str(raised.value), caplog.text]
    assert [text for text in texts if KEY in text] == []


@pytest.mark.parametrize("key", ["", f"{KEY}\n", f"{KEY} x", f"{KEY}\0", f"{KEY}é"])
def test_a_key_that_no_header_can_hold_is_refused_and_not_shown(key: str) -> None:
    with pytest.raises(ValueError, match="api_key") as raised:
        Foldex("http://foldex.invalid", key)
    assert KEY not in str(raised.value)


@pytest.mark.parametrize("base_url", ["http://foldex.invalid/a/b", "http://foldex.invalid/a/b/"])
def test_an_address_may_have_a_path(new_client: NewClient, base_url: str) -> None:
    client, script = new_client(ALIVE, base_url=base_url)
    client.health()
    assert str(script.requests[0].url) == "http://foldex.invalid/a/b/healthz"


@pytest.mark.parametrize(
    "base_url",
    [
        "ftp://foldex.invalid",
        "foldex.invalid:8000",
        "http://",
        "/api",
        "",
        "http://a/?b",
        "http://a/#b",
        "file:///a",
        "http://a:b",
    ],
)
def test_what_is_no_address_is_refused(base_url: str) -> None:
    with pytest.raises(ValueError, match="base_url"):
        Foldex(base_url)


@pytest.mark.parametrize("scheme", ["http", "ftp"])
def test_an_address_holds_no_password(scheme: str) -> None:
    with pytest.raises(ValueError, match="api_key") as raised:
        Foldex(f"{scheme}://user:{KEY}@foldex.invalid")
    assert KEY not in str(raised.value)


@pytest.mark.parametrize("node_id", ["..", ".", "a/../../b", "//evil.invalid/", "?a=b", "#", "%2e", "é ü"])
def test_an_id_is_one_segment_of_the_path(new_client: NewClient, node_id: str) -> None:
    client, script = new_client(NODE)
    client.nodes.get("p", node_id)
    url = script.requests[0].url
    assert url.host == "foldex.invalid"
    assert url.path == f"/api/projects/p/nodes/{node_id}"
    assert url.raw_path.count(b"/") == 5
    assert url.query == b""


def test_an_empty_id_is_refused() -> None:
    with pytest.raises(ValueError, match="id is empty"):
        Foldex("http://foldex.invalid").projects.delete("")


def test_null_is_sent_where_it_means_something(new_client: NewClient) -> None:
    client, script = new_client(NODE)
    client.nodes.update("p", "n", parent_id=None, content=None)
    client.nodes.update("p", "n", name="m")
    client.nodes.create("p", "n", "json", content=None)
    assert [request.content for request in script.requests] == [
        b'{"parent_id":null,"content":null}',
        b'{"name":"m"}',
        b'{"name":"n","type":"json","content":null}',
    ]
