"""What operators see: logs, metrics, health, and the description of the API."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any
from uuid import UUID

import pytest
import structlog
from prometheus_client.parser import text_string_to_metric_families
from pydantic import BaseModel
from starlette.testclient import TestClient

from api.main import create_app
from api.stack.processes import log_file
from schemas.content.node import NewNode, NodePatch
from schemas.queries.search import Query
from schemas.tool import NewTool
from tests.service import TOOLS, NewService, Service, eventually, service
from worker.app import make_app
from worker.settings import LOCAL_MODEL, Settings
from worker.state.index import tool_actions
from worker.state.pool import open_pool

FILES = 60


@pytest.fixture(scope="module")
def running(new_service: NewService, root: Path) -> Iterator[Service]:
    """A service that logs everything, to distinguish what INFO omits from what is never logged."""
    env = {"DEFAULT_EMBEDDING_MODEL": LOCAL_MODEL, "LOCAL_SOURCE_ROOTS": str(root), "LOG_LEVEL": "DEBUG"}
    env["EMBEDDING_CONCURENCY"] = "2"
    with new_service(partial(service, bulk=1), **env) as started:
        yield started


@pytest.fixture(scope="module")
def tool(running: Service, root: Path) -> str:
    for number in range(FILES):
        (root / f"file-{number:03}.txt").write_text("x" if number else "\0")
    made = running.local_tool(root)
    running.wait(made)
    return made


def lines(running: Service, level: str) -> list[str]:
    """Lines of all logs at a level."""
    names = ("worker-fast", "worker-bulk", "beat", "api")
    texts = [log_file(running.home, name).read_text(errors="replace") for name in names]
    return [line for text in texts for line in text.splitlines() if f" level={level} " in line]


def test_a_misspelt_setting_is_told_once_by_the_api_and_each_worker(running: Service) -> None:
    for name in ("api", "worker-fast", "worker-bulk"):
        text = log_file(running.home, name).read_text(errors="replace")
        told = [line for line in text.splitlines() if "EMBEDDING_CONCURENCY" in line]
        assert len(told) == 1, text
        assert " level=warning " in told[0]
        assert "did you mean EMBEDDING_CONCURRENCY?" in told[0]


def test_the_flow_is_logged_with_ids_and_no_file_at_info(running: Service, tool: str) -> None:
    task = running.status(tool)["task_id"]
    ours = [line for line in lines(running, "info") if f"task_id={task}" in line]
    events = re.findall(r' event=(?:"([^"]*)"|(\S+))', "\n".join(ours))
    assert {quoted or plain for quoted, plain in events} >= {"planning", "indexed", "task closed"}
    assert all(f"tool_id={tool}" in line for line in ours)
    assert not [line for line in lines(running, "info") if "file-0" in line]
    assert len([line for line in lines(running, "info") if " event=request " not in line]) < FILES


def logged(running: Service, request_id: str) -> set[str]:
    """What was logged for a request."""
    ours = [line for line in lines(running, "info") if f"request_id={request_id}" in line]
    return {quoted or plain for quoted, plain in re.findall(r' event=(?:"([^"]*)"|(\S+))', "\n".join(ours))}


def test_the_id_of_a_request_is_in_the_lines_of_its_task(running: Service, tool: str, root: Path) -> None:
    (root / "file-001.txt").write_text("changed")
    answer = running.client.post(f"{TOOLS}/{tool}/reindex", headers={"X-Request-Id": "reindex-1"})
    assert (answer.status_code, answer.headers["X-Request-Id"]) == (202, "reindex-1")
    running.wait(tool)
    told = {"request", "planning", "indexed", "task closed"}
    eventually(lambda: logged(running, "reindex-1") == told, 10, running.logs)


def test_the_id_of_a_request_outlives_its_message_and_reaches_the_run_that_follows(
    running: Service, tool: str, root: Path
) -> None:
    (root / "file-001.txt").write_text("changed again")
    with open_pool(running.database_url) as pool:
        # no message is sent, as if the broker had lost it
        for request_id in ("lost-message", "meanwhile"):
            with structlog.contextvars.bound_contextvars(request_id=request_id):
                tool_actions.reindex(pool, UUID(tool), full=False, allow_removals=False)
    eventually(lambda: "task closed" in logged(running, "meanwhile"), 60, running.logs)
    assert logged(running, "lost-message") == {"planning", "indexed", "task closed"}
    assert logged(running, "meanwhile") == {"planning", "task closed"}


def test_each_request_is_logged_once_with_its_project(running: Service, tool: str) -> None:
    for path in (f"{TOOLS}/{tool}", "/healthz"):
        running.client.get(path, params={"secret": "secret"}, headers={"X-Request-Id": "only-one"})

    def of(level: str) -> list[str]:
        return [line for line in lines(running, level) if "only-one" in line]

    # a line is written after its answer
    eventually(lambda: bool(of("info") and of("debug")), 30, running.logs)
    info, debug = of("info"), of("debug")
    assert len(info) == 1
    assert re.search(r' event=request method=GET route="?/api/tools/search/\{tool_id\}"? status=200 ms=', info[0])
    assert " project=project-1" in info[0]
    assert [" route=/healthz " in line for line in debug] == [True]
    assert not [line for line in (*info, *debug) if "secret" in line or tool in line]
    assert not [line for line in lines(running, "info") if "HTTP/1.1" in line]


def test_every_file_is_logged_at_debug(running: Service, tool: str) -> None:
    files = [line for line in lines(running, "debug") if " event=file " in line]
    assert {re.findall(r" path=(\S+)", line)[0] for line in files} == {f"file-{n:03}.txt" for n in range(FILES)}
    assert all(" file_id=" in line and f"tool_id={tool}" in line for line in files)
    (binary,) = [line for line in files if "file-000" in line]
    assert "reason=binary" in binary


def test_what_comes_every_two_seconds_is_not_logged_at_info(running: Service, tool: str) -> None:
    with make_app(running.env["CELERY_BROKER_URL"]) as app:
        workers = app.control.inspect(timeout=5, limit=2)

        def both_swept() -> bool:
            told = (workers.stats() or {}).values()
            return [bool(worker["total"].get("foldex.sweep")) for worker in told] == [True, True]

        eventually(both_swept, 60, running.logs)
    assert not [line for line in lines(running, "info") if "foldex.sweep" in line]


def metrics(running: Service) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    text = running.client.get("/metrics").text
    families = text_string_to_metric_families(text)
    return {(s.name, frozenset(s.labels.items())): s.value for family in families for s in family.samples}


def test_metrics_count_requests_by_route_and_show_the_backlog(running: Service, tool: str) -> None:
    running.query(tool, "x")
    running.client.get(f"{TOOLS}/no-id")
    running.client.get("/no/such/place")
    seen = metrics(running)

    def requests(method: str, route: str, status: int) -> float:
        labels = {"method": method, "route": route, "status": str(status)}
        return seen.get(("foldex_requests_total", frozenset(labels.items())), 0)

    assert requests("POST", f"{TOOLS}/{{tool_id}}/query", 200) >= 1
    assert requests("GET", f"{TOOLS}/{{tool_id}}", 404) == 1
    assert requests("GET", "unknown", 404) == 1
    assert seen["foldex_files_pending", frozenset()] == 0
    assert seen["foldex_oldest_task_seconds", frozenset()] == 0
    assert not [labels for _, labels in seen if any(tool in value for _, value in labels)]


def test_metrics_count_requests_while_postgres_is_away() -> None:
    app = create_app(Settings(database_url="postgresql://127.0.0.1:1/none"))
    client = TestClient(app)
    assert client.get("/healthz").is_success
    answer = client.get("/metrics")
    assert answer.is_success
    assert 'foldex_requests_total{method="GET",route="/healthz",status="200"} 1.0' in answer.text
    assert "foldex_files_pending" not in answer.text


def test_an_exception_that_nobody_expected_is_counted() -> None:
    app = create_app(Settings(database_url="postgresql://127.0.0.1:1/none"))

    @app.get("/breaks")
    def breaks() -> None:
        raise RuntimeError("a mistake of ours")

    client = TestClient(app, raise_server_exceptions=False)
    assert client.get("/breaks").status_code == 500
    text = client.get("/metrics").text
    assert 'foldex_requests_total{method="GET",route="/breaks",status="500"} 1.0' in text
    assert 'foldex_request_seconds_count{method="GET",route="/breaks"} 1.0' in text


@contextmanager
def events(running: Service) -> Iterator[list[dict[str, Any]]]:
    """What Flower is told meanwhile."""
    seen: list[dict[str, Any]] = []
    with make_app(running.env["CELERY_BROKER_URL"]) as app, app.connection() as connection:
        receiver = app.events.Receiver(connection, handlers={"*": seen.append})
        thread = Thread(target=receiver.capture)
        thread.start()
        try:
            # workers send heartbeats
            eventually(lambda: bool(seen), 30)
            yield seen
        finally:
            receiver.should_stop = True
            thread.join(30)


def test_flower_is_told_of_tasks_and_of_no_sweep(running: Service, tool: str) -> None:
    def swept() -> list[tuple[Any, ...]]:
        return running.rows("SELECT ran_at FROM upkeep WHERE name = 'sweep'")

    with events(running) as seen:
        before = swept()
        running.post(f"{TOOLS}/{tool}/reindex", {})
        eventually(lambda: bool(_tasks(seen)) and swept() != before, 90, running.logs)
        # what comes after it shows that the sweep's events would have come
        heard = len(seen)
        eventually(lambda: len(seen) > heard, 60, running.logs)
    assert "foldex.sweep" not in _tasks(seen)


def test_flower_is_told_once_of_a_failed_run_that_the_sweep_closed(running: Service, root: Path) -> None:
    (root / "broken.pdf").write_text("%PDF-1.7")
    broken = running.local_tool(root, config={"include": ["broken.pdf"]})
    task = running.wait(broken, "error")["task_id"]
    with events(running) as seen:
        # as if the slice that finished its last file had died before it closed the run
        running.rows(
            "UPDATE search_index_task SET status = 'indexing', finished_at = NULL WHERE id = %s RETURNING id", task
        )
        running.wait(broken, "error")
        eventually(lambda: any("closed by the sweep" in event.get("args", "") for event in seen), 30, running.logs)
        swept = runs(running, "foldex.sweep")
        # at rest there are few
        eventually(lambda: runs(running, "foldex.sweep") > swept + 1, 60, running.logs)
        eventually(lambda: hosts(seen, "task-failed") <= hosts(seen, "worker-heartbeat"), 30, running.logs)
    (received,) = [event for event in seen if "closed by the sweep" in event.get("args", "")]
    assert (received["name"], task in received["args"]) == ("foldex.index", True)
    (failed,) = [event for event in seen if event["type"] == "task-failed" and event["uuid"] == received["uuid"]]
    assert failed["exception"].startswith("no_file_indexed: No file could be indexed: 1 failed. broken.pdf")
    # by a worker that runs
    assert failed["hostname"] in hosts(seen, "worker-heartbeat")


def hosts(seen: list[dict[str, Any]], kind: str) -> set[str]:
    """The names of workers that sent events of a kind."""
    return {event["hostname"] for event in seen if event["type"] == kind}


def test_flower_is_told_of_upkeep_that_did_something(running: Service, tool: str) -> None:
    evictions = runs(running, "foldex.evict")
    with events(running) as seen:
        # the intervals are over; nothing is to be evicted, and one object is to be deleted
        running.rows("INSERT INTO content_stray (key, due_at) VALUES ('no-such-object', now()) RETURNING key")
        running.rows("UPDATE upkeep SET ran_at = now() - interval '1 day' RETURNING name")
        eventually(lambda: runs(running, "foldex.evict") > evictions, 60, running.logs)
        eventually(lambda: any(event["type"] == "task-succeeded" for event in seen), 60, running.logs)
    (received,) = [event for event in seen if event.get("name") == "foldex.strays"]
    ends = [event for event in seen if event.get("uuid") == received["uuid"] and event["type"] == "task-succeeded"]
    assert [event["result"] for event in ends] == ["{'deleted': 1, 'more': False}"]
    assert "foldex.evict" not in _tasks(seen)


def runs(running: Service, name: str) -> int:
    """How often the workers have run a task."""
    with make_app(running.env["CELERY_BROKER_URL"]) as app:
        told = (app.control.inspect(timeout=5, limit=2).stats() or {}).values()
    return sum(worker["total"].get(name, 0) for worker in told)


def _tasks(events: list[dict[str, Any]]) -> set[str]:
    return {event["name"] for event in events if event["type"].startswith("task-") and event.get("name")}


def test_a_running_service_is_alive_and_ready(running: Service) -> None:
    assert running.get("/healthz") == {"status": "ok"}
    assert running.get("/readyz") == {"status": "ready"}


@pytest.fixture(scope="module")
def openapi(running: Service) -> dict[str, Any]:
    return running.get("/openapi.json")


OPERATIONS = {
    "/api/tools/search": {"get", "post"},
    "/api/tools/search/{tool_id}": {"get", "delete"},
    "/api/tools/search/{tool_id}/status": {"get"},
    "/api/tools/search/{tool_id}/tasks": {"get"},
    "/api/tools/search/{tool_id}/files": {"get"},
    "/api/tools/search/{tool_id}/files/{file_id}": {"get"},
    "/api/tools/search/{tool_id}/query": {"post"},
    "/api/projects/{project_id}/nodes": {"post"},
    "/api/projects/{project_id}/nodes/{node_id}": {"get", "patch", "delete"},
    "/api/projects/{project_id}": {"delete"},
    "/api/projects/{project_id}/reindex": {"post"},
    "/healthz": {"get"},
    "/readyz": {"get"},
    "/metrics": {"get"},
}


def test_every_call_is_described(openapi: dict[str, Any]) -> None:
    for path, operations in OPERATIONS.items():
        assert operations <= openapi["paths"][path].keys()
    for path, operations in openapi["paths"].items():
        for method, operation in operations.items():
            assert operation["description"].endswith("."), (method, path)
            assert operation["tags"], (method, path)


def test_errors_are_described_as_problems(openapi: dict[str, Any]) -> None:
    for path, operations in openapi["paths"].items():
        for method, operation in operations.items():
            answers = {int(status): answer for status, answer in operation["responses"].items()}
            assert not path.startswith("/api/") or {401, 403, 500, 503} <= answers.keys(), (method, path)
            for status, answer in answers.items():
                if status >= 400:
                    assert set(answer["content"]) == {"application/problem+json"}
                    schema = answer["content"]["application/problem+json"]["schema"]
                    assert schema == {"$ref": "#/components/schemas/Problem"}


def test_lists_tell_what_they_hold(openapi: dict[str, Any]) -> None:
    for part, held in (("", "Tool"), ("/{tool_id}/tasks", "Status"), ("/{tool_id}/files", "File")):
        answer = openapi["paths"][f"{TOOLS}{part}"]["get"]["responses"]["200"]["content"]["application/json"]
        schema = openapi["components"]["schemas"][answer["schema"]["$ref"].rsplit("/", 1)[1]]
        assert schema["properties"]["items"]["items"] == {"$ref": f"#/components/schemas/{held}"}


@pytest.mark.parametrize("model", [NewTool, Query, NewNode, NodePatch])
def test_bodies_have_examples_that_hold(openapi: dict[str, Any], model: type[BaseModel]) -> None:
    examples = openapi["components"]["schemas"][model.__name__]["examples"]
    assert examples
    for example in examples:
        model.model_validate(example)


def test_without_keys_only_this_machine_by_its_own_name_is_answered(running: Service) -> None:
    own = running.client.get("/api/tools/search", headers={"host": "localhost:80"})
    assert own.status_code == 200
    foreign = running.client.get("/api/tools/search", headers={"host": "rebound.example"})
    assert (foreign.status_code, foreign.json()["code"]) == (403, "auth_required")
