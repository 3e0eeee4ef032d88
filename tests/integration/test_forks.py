"""Programs that a fork server starts, as one of them sees it, and what its caller can rely on."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from signal import SIGKILL, SIGSTOP, SIGTERM
from typing import Any

import psutil
import pytest

from api.stack import forks, programs
from api.stack.children import ForkedChild
from api.stack.forks import GO, MAX_REQUEST_BYTES, ForkServer, reap_adopted
from api.stack.processes import Process, Program, StackError, SystemAccount, log_file, no_fork, start, stop, wait_until
from api.stack.supervisor import Supervisor

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="run on Linux: other systems start each program anew")

ROOT = Path(__file__).resolve().parents[2]
#: A fork server that imports nothing for its programs.
LIGHT = "import api.stack.fork_server as f; f.SHARED = (); f.import_store_dependencies = lambda _: None; f.main()"
SLEEP = "import time; print('begun', flush=True); time.sleep(600)"
TELL = """
import json, os, resource, sys
print(json.dumps({
    "arguments": sys.argv, "name": __name__, "cwd": os.getcwd(), "variable": os.environ.get("GIVEN"),
    "kept": "HOME" in os.environ, "umask": os.umask(0), "nice": os.nice(0), "parent": os.getppid(),
    "leads": os.getsid(0) == os.getpid(), "celery": "celery.apps.worker" in sys.modules, "input": sys.stdin.read(),
    "comm": open("/proc/self/comm").read().strip(),
}))
sys.exit(3)
"""
#: Starts a program from a fork server, tells the process ids of both, and waits to be killed.
CALLER = """
import sys, time
from pathlib import Path
from tests.integration.test_forks import program, server
from api.stack.processes import start
home = Path(sys.argv[1])
forks = server(home)
process = start(program(home), home, forks.fork)
print(process.child.pid, forks.process.child.pid, flush=True)
time.sleep(600)
"""


def program(home: Path, name: str = "one", code: str = SLEEP, **env: str) -> Program:
    return Program(name, (sys.executable, "-u", "-c", code, "a", "b"), lambda: True, home, env)


def server(home: Path) -> ForkServer:
    env = {"PYTHONPATH": str(ROOT), "FOLDEX_HOME": str(home), "GIVEN": "of the server", "HOME": "/"}
    return ForkServer(replace(programs.fork_server(env), command=(sys.executable, "-u", "-c", LIGHT), env=env), home)


@contextmanager
def serving(home: Path) -> Iterator[ForkServer]:
    forks = server(home)
    try:
        yield forks
    finally:
        forks.stop()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForkServer]:
    with serving(tmp_path_factory.mktemp("server")) as forks:
        yield forks


@pytest.fixture
def started(tmp_path: Path) -> Iterator[list[Process]]:
    """Processes to stop at the end."""
    processes: list[Process] = []
    yield processes
    stop(processes)


def log(home: Path, name: str = "one") -> str:
    return log_file(home, name).read_text()


def begun(home: Path, name: str = "one") -> bool:
    return wait_until(lambda: "begun" in log(home, name), 30)


def gone(*pids: int) -> bool:
    return wait_until(lambda: not any(map(_runs, pids)), 30)


def _runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.mark.parametrize("kind", ["code", "module"])
@pytest.mark.parametrize("nice", [0, 5])
def test_a_forked_program_finds_what_an_executed_one_finds(
    served: ForkServer, tmp_path: Path, kind: str, nice: int
) -> None:
    (tmp_path / "told.py").write_text(TELL)
    told = program(tmp_path, code=TELL, GIVEN="yes", PYTHONPATH=str(tmp_path))
    if kind == "module":
        told = replace(told, command=(sys.executable, "-u", "-m", "told", "a", "b"))
    if nice:
        told = replace(told, command=("/usr/bin/nice", "-n", str(nice), *told.command))
    seen: list[dict[str, Any]] = []
    for fork in (no_fork, served.fork):
        process = start(told, tmp_path, fork)
        assert isinstance(process.child, ForkedChild) == (fork is not no_fork)
        assert process.child.wait(30) == 3
        assert process.ended()
        seen.append(json.loads(log(tmp_path).splitlines()[-1]))
    executed, forked = seen
    assert forked.pop("comm") == "one"
    del executed["comm"]
    if kind == "module":
        assert Path(forked["arguments"].pop(0)) == Path(executed["arguments"].pop(0)) == tmp_path / "told.py"
    assert forked == executed
    assert (forked["variable"], forked["nice"], forked["parent"]) == ("yes", os.nice(0) + nice, os.getpid())


def test_programs_share_what_the_server_imported(tmp_path: Path) -> None:
    forks = ForkServer(programs.fork_server({"FOLDEX_HOME": str(tmp_path)}), tmp_path)
    try:
        process = start(program(tmp_path, code=TELL), tmp_path, forks.fork)
        assert process.child.wait(60) == 3
    finally:
        forks.stop()
    assert json.loads(log(tmp_path))["celery"] is True


def test_a_program_that_fails_says_why_in_its_own_log(served: ForkServer, tmp_path: Path) -> None:
    process = start(program(tmp_path, code="raise ValueError('no such thing')"), tmp_path, served.fork)
    assert isinstance(process.child, ForkedChild)
    assert process.child.wait(30) == 1
    assert log(tmp_path).splitlines()[-1] == "ValueError: no such thing"


@pytest.mark.parametrize("number", [SIGTERM, SIGKILL])
def test_a_signal_ends_a_forked_program_and_is_its_exit_code(served: ForkServer, tmp_path: Path, number: int) -> None:
    process = start(program(tmp_path), tmp_path, served.fork)
    assert begun(tmp_path)
    with pytest.raises(subprocess.TimeoutExpired):
        process.child.wait(0.05)
    process.child.send_signal(number)
    assert process.child.wait(30) == -number
    process.child.send_signal(number)


@pytest.mark.parametrize("kind", ["other program", "python of its own", "other user", "long environment"])
def test_other_programs_start_by_themselves(
    served: ForkServer, tmp_path: Path, started: list[Process], kind: str
) -> None:
    ordinary = program(tmp_path)
    other = {
        "other program": replace(ordinary, command=("/bin/sh", "-c", "echo begun; exec sleep 600")),
        "python of its own": replace(ordinary, command=(sys.executable, "-I", "-c", SLEEP)),
        "other user": replace(ordinary, account=SystemAccount(os.getuid(), os.getgid())),
        "long environment": replace(
            ordinary, env={"LONG": "x" * (MAX_REQUEST_BYTES // 2), "TOO": "x" * (MAX_REQUEST_BYTES // 2)}
        ),
    }[kind]
    if kind == "other user" and os.geteuid() != 0:
        pytest.skip("run as root: it takes another user")
    started.append(start(other, tmp_path, served.fork))
    assert isinstance(started[0].child, subprocess.Popen)
    assert begun(tmp_path)


def test_a_killed_server_ends_no_program_and_the_next_program_gets_a_new_one(
    tmp_path: Path, started: list[Process]
) -> None:
    with serving(tmp_path) as forks:
        started.append(start(program(tmp_path, "one"), tmp_path, forks.fork))
        assert forks.process is not None
        first = forks.process.child.pid
        os.kill(first, SIGKILL)
        assert gone(first)
        started.append(start(program(tmp_path, "two"), tmp_path, forks.fork))
        assert forks.process.child.pid != first
        assert [type(process.child) for process in started] == [ForkedChild, ForkedChild]
        assert begun(tmp_path, "one")
        assert begun(tmp_path, "two")
    assert not any(process.ended() for process in started)


def test_a_program_starts_by_itself_while_the_server_is_frozen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, started: list[Process]
) -> None:
    monkeypatch.setattr(forks, "FORK_SECONDS", 0.5)
    with serving(tmp_path) as frozen:
        started.append(start(program(tmp_path, "one"), tmp_path, frozen.fork))
        assert frozen.process is not None
        first = frozen.process.child.pid
        os.kill(first, SIGSTOP)
        started.append(start(program(tmp_path, "two"), tmp_path, frozen.fork))
        assert [type(process.child) for process in started] == [ForkedChild, subprocess.Popen]
        assert gone(first)
        started.append(start(program(tmp_path, "three"), tmp_path, frozen.fork))
        assert isinstance(started[-1].child, ForkedChild)
        assert all(begun(tmp_path, name) for name in ("one", "two", "three"))


def test_a_program_starts_by_itself_if_the_server_cannot_start(tmp_path: Path, started: list[Process]) -> None:
    broken = replace(programs.fork_server({}), command=(sys.executable, "-u", "-c", "raise SystemExit(1)"))
    forks = ForkServer(broken, tmp_path)
    for name in ("one", "two"):
        started.append(start(program(tmp_path, name), tmp_path, forks.fork))
        assert isinstance(started[-1].child, subprocess.Popen)
        assert begun(tmp_path, name)
    forks.stop()


def test_a_program_begins_only_once_its_caller_knows_it(served: ForkServer, tmp_path: Path) -> None:
    request = forks._request(program(tmp_path))
    assert request is not None
    assert served.process is not None
    assert served._requests is not None
    forks._adopt(1)
    for answer, begins in ((b"", False), (GO, True)):
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with (tmp_path / "log").open("w+") as told, (tmp_path / "lock").open("w") as lock:
            with theirs:
                handles = [told.fileno(), lock.fileno(), theirs.fileno()]
                socket.send_fds(served._requests, [request.encode()], handles)
            with ours:
                child = ForkedChild(int(ours.recv(32)))
                if answer:
                    ours.send(answer)
            if begins:
                assert wait_until(lambda: (tmp_path / "log").read_text() == "begun\n", 30)
                child.send_signal(SIGKILL)
            assert child.wait(30) == (-SIGKILL if begins else 1)
            assert ("begun" in (tmp_path / "log").read_text()) == begins


def test_a_program_ends_with_its_caller(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", CALLER, str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as caller:
        assert caller.stdout is not None
        pids = [int(pid) for pid in caller.stdout.readline().split()]
        assert begun(tmp_path)
        assert all(map(_runs, pids))
        caller.kill()
    assert len(pids) == 2
    assert gone(*pids)


def test_a_program_holds_its_own_lock_and_not_that_of_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, started: list[Process]
) -> None:
    monkeypatch.setattr("api.stack.processes.HANDOVER_SECONDS", 0.1)
    with serving(tmp_path) as forks:
        started.append(start(program(tmp_path), tmp_path, forks.fork))
        assert begun(tmp_path)
        with pytest.raises(StackError, match=f"as pid {started[0].child.pid}"):
            start(program(tmp_path), tmp_path, forks.fork)
        forks.stop()
        started.append(start(program(tmp_path, "two"), tmp_path, forks.fork))
        assert [type(process.child) for process in started] == [ForkedChild, ForkedChild]


def test_a_supervisor_starts_a_killed_program_again_and_reaps_what_it_leaves(tmp_path: Path) -> None:
    leaves = (
        "import os, subprocess, time\n"
        "child = subprocess.Popen(['sleep', '2'], start_new_session=True)\n"
        "print(child.pid, 'begun', flush=True); time.sleep(600)"
    )
    forks = server(tmp_path)
    supervisor = Supervisor([[program(tmp_path, code=leaves)]], tmp_path, lambda _: None, forks)
    supervisor.start(60)
    try:
        assert begun(tmp_path)
        first = int((tmp_path / "run" / "one.pid").read_text())
        left = int(log(tmp_path).split()[0])
        os.kill(first, SIGKILL)
        assert wait_until(lambda: log(tmp_path).count("begun") == 2, 30)
        assert wait_until(lambda: not psutil.pid_exists(left), 30)
        again = int((tmp_path / "run" / "one.pid").read_text())
        assert psutil.Process(again).ppid() == os.getpid()
    finally:
        supervisor.stop()
    assert gone(again)
    assert forks.process is None


def test_what_others_wait_for_is_not_reaped() -> None:
    with subprocess.Popen([sys.executable, "-c", "raise SystemExit(3)"]) as same_session:
        assert wait_until(lambda: not _runs(same_session.pid), 30)
        reap_adopted(set())
        assert same_session.wait() == 3
    with subprocess.Popen([sys.executable, "-c", "raise SystemExit(4)"], start_new_session=True) as own:
        assert wait_until(lambda: not _runs(own.pid), 30)
        reap_adopted({own.pid})
        assert own.wait() == 4
