"""What follows from the end of a task."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest
from structlog.testing import capture_logs

from worker import app as queue
from worker import dispatch
from worker.state.index import tasks
from worker.state.tree import trees


def test_a_task_that_the_sweep_closes_is_logged_with_its_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    task, tool, index = uuid4(), uuid4(), uuid4()
    pool: Any = object()
    monkeypatch.setattr(tasks, "refresh", lambda *_, **__: tasks.ClosedTask(tool, None, "request-1", None))
    followed: list[object] = []
    monkeypatch.setattr(trees, "start_after_run", lambda _, index_id: followed.append(index_id))
    sent: list[dict[str, Any]] = []
    monkeypatch.setattr(queue.app, "send_task", lambda name, **options: sent.append({"name": name, **options}))
    with capture_logs() as logged:
        assert dispatch.close_if_done(pool, task, index)
    assert followed == [index]
    ids = {"task_id": str(task), "tool_id": str(tool), "request_id": "request-1"}
    assert logged == [{"event": "task closed", "log_level": "info", **ids}]
    assert [(message["name"], message["headers"]) for message in sent] == [
        ("foldex.optimize", {queue.REQUEST_ID: "request-1"})
    ]
