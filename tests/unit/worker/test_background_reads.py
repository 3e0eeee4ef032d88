"""Reads in the background neither end with a panic nor hold up the end of the process."""

from __future__ import annotations

import subprocess
import sys
from unittest.mock import Mock

import structlog

from worker.vectors.lance.background import BackgroundReads

_PROGRAM = """
import time
from threading import Event
from worker.vectors.lance.background import BackgroundReads

reads, begun = BackgroundReads(), Event()
def read():
    begun.set()
    time.sleep(1)
    print("read")
for number in range(5):
    reads.begin(str(number), read)
begun.wait()
"""


class Panic(BaseException):
    """A panic of Lance is no Exception, either."""


def test_reads_that_wait_at_exit_are_left_out() -> None:
    ended = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=True, timeout=60)
    assert (ended.stdout, ended.stderr) == ("read\n", "")


def test_a_panic_is_logged_and_the_next_reads_go_on() -> None:
    reads, read = BackgroundReads(), Mock()
    with structlog.testing.capture_logs() as logs:
        reads.begin("one", Mock(side_effect=Panic))
        reads.begin("other", read)
        reads.wait()
        reads.begin("one", read)
        reads.wait()
    assert [(entry["namespace"], entry["log_level"]) for entry in logs] == [("one", "warning")]
    assert read.call_count == 2
