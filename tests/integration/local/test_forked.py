"""Services of tests start as forks, and programs that change their interpreter start by themselves."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from api.stack.children import ForkedChild
from api.stack.processes import Program, log_file, start
from api.stack.record import ROOT
from tests.forked import SHARED_FORKS
from tests.service import Service

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="run on Linux: other systems start each program anew")


def test_the_programs_of_a_service_are_forks(running: Service) -> None:
    assert {type(process.child) for process in running.processes.values()} == {ForkedChild}


@pytest.mark.parametrize(
    ("variable", "kind"),
    [("PYTHONPATH", subprocess.Popen), ("LD_PRELOAD", subprocess.Popen), ("FOLDEX_A", ForkedChild)],
)
def test_what_an_interpreter_reads_at_its_start_reaches_it(tmp_path: Path, variable: str, kind: type) -> None:
    command = (sys.executable, "-u", "-c", f"import os; print(os.environ[{variable!r}])")
    program = Program("one", command, lambda: True, ROOT, {**os.environ, variable: ""})
    process = start(program, tmp_path, SHARED_FORKS.fork)
    assert type(process.child) is kind
    assert process.child.wait(30) == 0
    assert process.ended()
    assert log_file(tmp_path, "one").read_text() == "\n"


def test_the_niceness_of_workers_counts_among_all_programs(running: Service) -> None:
    """Each program leads a session of its own, and some kernels share the processors between sessions."""
    pids = [process.child.pid for process in running.processes.values()]
    groups = [Path(f"/proc/{pid}/autogroup") for pid in pids]
    if not all(group.exists() for group in groups):
        pytest.skip("run on a Linux kernel with automatic groups of processes")
    own = [os.getpriority(os.PRIO_PROCESS, pid) for pid in pids]
    assert [int(group.read_text().split()[-1]) for group in groups] == own
    assert max(own) > min(own)
