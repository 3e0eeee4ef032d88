from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from structlog.testing import capture_logs

from worker import tasks
from worker.state.index import tasks as state

LOG = """
import structlog
from worker import logs
logs.configure("INFO")
structlog.get_logger().info("read", path="a\\x1b[31m\\rb\\x9b.md", files=3)
structlog.get_logger().info("two\\nlines")
"""


def test_control_characters_of_foreign_text_are_escaped() -> None:
    root = Path(__file__).parents[3]
    run = subprocess.run([sys.executable, "-c", LOG], cwd=root, capture_output=True, check=True)
    first, second = run.stderr.splitlines()
    assert b"\\x1b[31m\\x0db\\x9b.md" in first
    assert b"files=3" in first
    assert b"two\\nlines" in second


def test_a_task_that_the_sweep_closes_is_logged_with_its_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    task, tool = uuid4(), uuid4()
    pool: Any = object()
    monkeypatch.setattr(state, "refresh", lambda *_, **__: state.Closed(tool, None))
    monkeypatch.setattr(tasks, "send", lambda *_, **__: None)
    with capture_logs() as logged:
        assert tasks._refresh(task, uuid4(), pool=pool)
    assert logged == [{"event": "task closed", "log_level": "info", "task_id": str(task), "tool_id": str(tool)}]
