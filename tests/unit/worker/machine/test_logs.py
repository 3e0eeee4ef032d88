"""What the logs show, and of what."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from structlog.contextvars import bind_contextvars, get_contextvars

LOG = """
import structlog
from worker.machine import logs
logs.configure("INFO")
structlog.get_logger().info("read", path="a\\x1b[31m\\rb\\x9b.md", files=3)
structlog.get_logger().info("two\\nlines")
"""


def test_control_characters_of_foreign_text_are_escaped() -> None:
    root = Path(__file__).parents[4]
    run = subprocess.run([sys.executable, "-c", LOG], cwd=root, capture_output=True, check=True)
    first, second = run.stderr.splitlines()
    assert b"\\x1b[31m\\x0db\\x9b.md" in first
    assert b"files=3" in first
    assert b"two\\nlines" in second


LITELLM = """
import logging
from worker.machine import logs
from worker.embed.litellm import warm
warm()
logs.configure("DEBUG")
from litellm.litellm_core_utils.thread_pool_executor import executor
executor._record_drop()
logging.getLogger("LiteLLM Router").warning("anything")
logging.getLogger("worker").warning("ours")
"""


def test_litellms_warnings_are_not_logged() -> None:
    root = Path(__file__).parents[4]
    run = subprocess.run([sys.executable, "-c", LITELLM], cwd=root, capture_output=True, check=True)
    lines = [line for line in (run.stdout + run.stderr).splitlines() if b"level=warning" in line or b"LiteLLM" in line]
    assert [b"event=ours" in line for line in lines] == [True]


@pytest.mark.parametrize("task_id", ["one", "other"])
def test_a_test_finds_no_ids_that_an_earlier_one_bound(task_id: str) -> None:
    assert get_contextvars() == {}
    bind_contextvars(task_id=task_id)
