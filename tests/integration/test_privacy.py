"""What other programs and users of the machine learn about a running installation."""

from __future__ import annotations

import os
import stat
import sys
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from api.stack import programs
from api.stack.processes import SystemAccount, log_file, run_once, running
from tests.contract.samples import ROOT
from tests.contract.test_confined import NOBODY, WITHOUT, needs_reach
from tests.integration.database import do
from tests.service import environment, next_broker
from worker.machine.privacy import close_home, passable
from worker.settings import LOCAL_MODEL
from worker.state.pool import Pool
from worker.stores import store_directories


def _env(home: Path, redis_url: str, database_url: str) -> dict[str, str]:
    # with this model workers import the least
    given = {"DEFAULT_EMBEDDING_MODEL": LOCAL_MODEL, "DEBUGGERS": "off"}
    return environment(home, database_url, next_broker(redis_url), **given)


@pytest.mark.skipif(sys.platform != "linux", reason="run on Linux: other systems tell no environment")
@pytest.mark.parametrize("kind", ["worker", "api"])
def test_a_program_of_the_same_user_cannot_read_the_environment(
    tmp_path: Path, redis_url: str, database_url: str, pool: Pool, kind: str
) -> None:
    if os.geteuid() != 0:
        pytest.skip("run as root: it takes another user")
    # each kind has a home of its own
    do(pool, "DELETE FROM store_directory")
    account = SystemAccount(NOBODY, NOBODY, needs_reach(NOBODY))
    env = _env(tmp_path, redis_url, database_url)
    program = programs.api(env) if kind == "api" else programs.worker("bulk", 1, env)
    with running(replace(program, account=account, stop=()), tmp_path) as up:
        main = psutil.Process(up.child.pid)
        for process in (main, *main.children()):
            assert process.uids().real == NOBODY
            said = run_once(("/bin/cat", f"/proc/{process.pid}/environ"), account, Path("/"))
            assert (said.returncode, said.stdout) == (1, ""), process.cmdline()


@pytest.mark.skipif(sys.platform != "linux", reason="run on Linux: other systems tell no environment")
@pytest.mark.parametrize(("debuggers", "read"), [("on", True), ("off", False)])
def test_debuggers_of_the_same_user_read_the_environment_if_allowed(debuggers: str, read: bool) -> None:
    if os.geteuid() != 0:
        pytest.skip("run as root: it takes another user")
    account = SystemAccount(NOBODY, NOBODY, needs_reach(NOBODY))
    code = (
        "import subprocess, sys, os; from worker.machine.privacy import keep_private; keep_private(sys.argv[1]);"
        "sys.exit(subprocess.run(['/bin/cat', f'/proc/{os.getpid()}/environ'], stdout=subprocess.DEVNULL).returncode)"
    )
    done = run_once((sys.executable, "-c", code, debuggers), account, ROOT)
    assert (done.returncode == 0) is read, done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="run on Linux: other systems confine no process")
def test_what_the_system_refuses_is_said_once_by_each_worker(
    tmp_path: Path, redis_url: str, database_url: str, pool: Pool
) -> None:
    if run_once((sys.executable, "-c", WITHOUT), None, Path("/")).returncode:
        pytest.skip("run where user namespaces may be made: they bound what the kernel gives")
    do(pool, "DELETE FROM store_directory")
    program = programs.worker("bulk", 2, _env(tmp_path, redis_url, database_url))
    command = (sys.executable, "-c", f"{WITHOUT}\nos.execvp(sys.argv[1], sys.argv[1:])", *program.command)
    with running(replace(program, command=command, stop=()), tmp_path):
        said = log_file(tmp_path, "worker-bulk").read_text()
    assert said.count('refused="a network namespace, Landlock"') == 1
    assert said.count("files are parsed with less protection") == 1


def test_a_home_that_others_could_read_is_closed(tmp_path: Path) -> None:
    for name in ("log", "lancedb", "postgres"):
        (tmp_path / name).mkdir()
        (tmp_path / name).chmod(0o755)
    tmp_path.chmod(0o755)
    close_home(tmp_path, store_directories())
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert modes == {"log": 0o700, "lancedb": 0o700, "postgres": passable()}
    assert stat.S_IMODE(tmp_path.stat().st_mode) == passable()


def test_a_home_within_a_folder_of_other_things_leaves_that_open(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir(mode=0o755)
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs").chmod(0o755)
    tmp_path.chmod(0o755)
    close_home(tmp_path, store_directories())
    assert stat.S_IMODE((tmp_path / "log").stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path, tmp_path / "theirs")} == {0o755}
    close_home(tmp_path / "missing", store_directories())
