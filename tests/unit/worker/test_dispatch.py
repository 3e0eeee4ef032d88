"""What follows from the end of a task."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest
from structlog.testing import capture_logs

from worker import dispatch
from worker.state.index import tasks


def test_a_task_that_the_sweep_closes_is_logged_with_its_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    task, tool = uuid4(), uuid4()
    pool: Any = object()
    monkeypatch.setattr(tasks, "refresh", lambda *_, **__: tasks.Closed(tool, None))
    monkeypatch.setattr(dispatch, "send", lambda *_, **__: None)
    with capture_logs() as logged:
        assert dispatch.close_if_done(pool, task, uuid4())
    assert logged == [{"event": "task closed", "log_level": "info", "task_id": str(task), "tool_id": str(tool)}]
