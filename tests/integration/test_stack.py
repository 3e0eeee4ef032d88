"""The embedded servers and their supervisor: what they guarantee when processes are killed."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from signal import SIG_IGN, SIGKILL, SIGTERM, SIGUSR1, SIGUSR2, getsignal, signal
from socket import AF_INET, AF_INET6, AddressFamily, create_server
from urllib.parse import urlsplit

import psycopg
import pytest
from redis import Redis
from structlog.processors import LogfmtRenderer

from api.stack import postgres, redis, supervisor
from api.stack.embedded import _as_interrupt, services, stack
from api.stack.processes import (
    Program,
    StackError,
    cause,
    free_port,
    log_file,
    running,
    server_port,
    start,
    stop,
    wait_until,
)
from api.stack.record import environment
from api.stack.supervisor import Supervisor
from worker.machine.memory.memory_limit import memory_bytes
from worker.machine.privacy import passable
from worker.settings import Settings

ROOT = Path(__file__).resolve().parents[2]

SLEEP = "import time; print('begun', flush=True); time.sleep(600)"
STUBBORN = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(600)"
)

#: Runs two toy programs under a supervisor until it is killed.
SUPERVISED = f"""
import sys, time
from pathlib import Path
from tests.integration.test_stack import toy
from api.stack.supervisor import Supervisor
home = Path(sys.argv[1])
supervisor = Supervisor([[toy(home, "one"), toy(home, "two", {STUBBORN!r})]], home)
supervisor.start(30)
print("up", flush=True)
time.sleep(600)
"""


def toy(home: Path, name: str, code: str = SLEEP) -> Program:
    log = home / "log" / f"{name}.log"
    ready: Callable[[], bool] = lambda: log.exists() and log.stat().st_size > 0  # noqa: E731 - one expression
    command = (sys.executable, "-I", "-c", code)
    return Program(name, command, ready, home, dict(os.environ), stop=((SIGTERM, 0.3),))


def pid(home: Path, name: str) -> int:
    return int((home / "run" / f"{name}.pid").read_text())


def lives(number: int) -> bool:
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{number}/stat")
    return not state.exists() or state.read_text().rsplit(")", 1)[1].split()[0] != "Z"


def gone(*numbers: int, seconds: float = 10.0) -> bool:
    return wait_until(lambda: not any(lives(number) for number in numbers), seconds)


@contextmanager
def supervised(home: Path, *programs_: Program) -> Iterator[list[str]]:
    said: list[str] = []
    supervisor = Supervisor([programs_], home, said.append)
    try:
        supervisor.start(30)
        yield said
    finally:
        supervisor.stop()


def test_postgres_keeps_its_data_over_a_stop_and_a_kill(tmp_path: Path) -> None:
    with postgres.postgres(tmp_path) as url, psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 1 AS n")

    server = postgres.prepare(tmp_path)
    assert stat.S_IMODE((tmp_path / "postgres").stat().st_mode) == passable()
    with running(server.program, tmp_path) as process, psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute("INSERT INTO kept VALUES (2)")
        os.kill(process.child.pid, SIGKILL)
        process.child.wait()

    with postgres.postgres(tmp_path) as url, psycopg.connect(url) as connection:
        assert connection.execute("SELECT n FROM kept ORDER BY n").fetchall() == [(1,), (2,)]


@pytest.mark.parametrize(
    ("gigabytes", "megabytes"), [(1, 128), (2, 128), (2.0625, 132), (8, 512), (15.99, 1023), (16, 1024), (64, 1024)]
)
def test_postgres_cache_is_a_share_of_the_memory_within_limits(gigabytes: float, megabytes: int) -> None:
    assert postgres.cache_megabytes(int(gigabytes * 2**30)) == megabytes


def test_postgres_runs_with_that_cache(tmp_path: Path) -> None:
    with postgres.postgres(tmp_path) as url, psycopg.connect(url) as connection:
        ((size,),) = connection.execute("SELECT pg_size_bytes(current_setting('shared_buffers'))").fetchall()
    assert size == postgres.cache_megabytes(memory_bytes()) * 2**20


def test_postgres_asks_for_its_password(tmp_path: Path) -> None:
    with postgres.postgres(tmp_path) as url, pytest.raises(psycopg.OperationalError, match="password"):
        psycopg.connect(url.replace(url.split(":")[2].split("@")[0], "guess"))


def test_postgres_without_its_password_file_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "postgres" / "data").mkdir(parents=True)
    with pytest.raises(StackError, match="put it back, or remove"):
        postgres.prepare(tmp_path)


@pytest.mark.skipif(os.geteuid() != 0 or sys.platform != "linux", reason="run as root on Linux: it takes another user")
def test_postgres_runs_as_another_user_in_a_directory_closed_to_that_user(tmp_path: Path) -> None:
    closed = tmp_path / "closed to others"
    closed.mkdir(mode=0o700)
    with postgres.postgres(closed) as url, psycopg.connect(url) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
        assert Path(f"/proc/{pid(closed, 'postgres')}").stat().st_uid != 0


@pytest.mark.parametrize("kind", ["found", "fake"])
def test_redis_answers_and_keeps_what_it_can(tmp_path: Path, kind: str) -> None:
    server = redis.prepare(tmp_path, needs_password=True) if kind == "found" else redis._fake(tmp_path, server_port())
    with running(server.program, tmp_path), Redis.from_url(server.url) as connection:
        connection.set("kept", "yes")
        assert connection.get("kept") == b"yes"
    if kind == "fake":
        assert "substitute" in server.note
        return
    with redis.redis(tmp_path) as url, Redis.from_url(url) as connection:
        assert connection.get("kept") == b"yes"
        assert connection.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}


def test_services_use_the_servers_that_the_environment_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOLDEX_HOME", str(tmp_path))
    monkeypatch.setenv("DATABASE_URL", "postgresql://db/theirs")
    monkeypatch.setenv("CELERY_BROKER_URL", "redis://broker/3")
    monkeypatch.delenv("REDIS_URL", raising=False)
    with services(Settings()) as urls:
        assert urls.env() == {
            "DATABASE_URL": "postgresql://db/theirs",
            "CELERY_BROKER_URL": "redis://broker/3",
            "REDIS_URL": "redis://broker/3",
        }
    assert not (tmp_path / "run").exists()


def test_a_program_of_an_earlier_run_is_not_started_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("api.stack.processes.HANDOVER_SECONDS", 0.1)
    first = start(toy(tmp_path, "one"), tmp_path)
    with pytest.raises(StackError, match=f"as pid {first.child.pid}"):
        start(toy(tmp_path, "one"), tmp_path)
    stop([first])
    assert not lives(first.child.pid)


def test_a_killed_program_is_started_again(tmp_path: Path) -> None:
    with supervised(tmp_path, toy(tmp_path, "one"), toy(tmp_path, "two")) as said:
        first, other = pid(tmp_path, "one"), pid(tmp_path, "two")
        os.kill(first, SIGKILL)
        path = tmp_path / "run" / "one.pid"
        assert wait_until(lambda: path.exists() and path.read_text() not in {"", f"{first}\n"}, 10)
        second = pid(tmp_path, "one")
        assert lives(second)
        assert pid(tmp_path, "two") == other
    assert gone(second, other)
    assert "  one exited with -9; restarting it" in said
    assert list((tmp_path / "run").glob("*.pid")) == []


def test_a_program_that_never_gets_ready_is_reported_with_its_log(tmp_path: Path) -> None:
    said: list[str] = []
    broken = toy(tmp_path, "one", "raise SystemExit('no such colour')")
    never = Program(broken.name, broken.command, lambda: False, broken.cwd, broken.env)
    supervisor = Supervisor([[never]], tmp_path, said.append)
    with pytest.raises(StackError, match=r"one failed to start: no such colour\."):
        supervisor.start(2)
    assert f"  one keeps exiting: no such colour. Its log is {log_file(tmp_path, 'one')}" in said


def test_a_program_that_is_late_is_reported_while_it_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(supervisor, "LATE_SECONDS", 1.0)
    said: list[str] = []
    late = toy(tmp_path, "one", "import time; print('no broker', flush=True); time.sleep(600)")
    began = time.monotonic()
    slow = Program(late.name, late.command, lambda: time.monotonic() > began + 3, late.cwd, late.env, stop=late.stop)
    starting = Supervisor([[toy(tmp_path, "two")], [slow]], tmp_path, said.append)
    try:
        starting.start(30)
    finally:
        starting.stop()
    told = f"  one is not ready yet: no broker. Its log is {log_file(tmp_path, 'one')}"
    assert [line for line in said if "not ready" in line] == [told]


def test_a_program_is_asked_only_once_those_before_it_are_ready(tmp_path: Path) -> None:
    began, asked = time.monotonic(), list[float]()

    def answers() -> bool:
        asked.append(time.monotonic() - began)
        return True

    first = replace(toy(tmp_path, "one"), ready=lambda: time.monotonic() > began + 1)
    then = replace(toy(tmp_path, "two"), ready=answers)
    starting = Supervisor([[first, then]], tmp_path, lambda _: None)
    try:
        starting.start(30)
    finally:
        starting.stop()
    # both were started together
    assert asked[0] >= 1


@pytest.mark.skipif(sys.platform != "linux", reason="run on Linux: programs are forked nowhere else")
def test_programs_are_imported_while_a_database_is_created(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = list[int]()

    def servers(*_: object) -> None:
        seen.append(pid(tmp_path, "fork-server"))
        assert lives(seen[0])
        raise StackError("no database")

    monkeypatch.setenv("FOLDEX_HOME", str(tmp_path))
    monkeypatch.setattr("api.stack.embedded._servers", servers)
    with pytest.raises(StackError, match="no database"), stack(Settings(), say=lambda _: None):
        pass
    assert gone(*seen)


#: A line of the log of a worker that Celery ended.
CRITICAL = LogfmtRenderer(key_order=["level", "event"])(
    None,
    "",
    {
        "level": "critical",
        "event": "Unrecoverable error",
        "exception": 'Traceback:\n  File "a.py", line 1\nOSError: [Errno 30] Read-only "file" system',
    },
)


@pytest.mark.parametrize(
    ("code", "cause"),
    [
        ("raise SystemExit('There is no such colour.')", "There is no such colour"),
        ("raise ValueError('no such colour')", "ValueError: no such colour"),
        (f"print({CRITICAL!r}); raise SystemExit(1)", 'OSError: [Errno 30] Read-only "file" system'),
        ("import os; os.kill(os.getpid(), 9)", "SIGKILL ended it"),
        ("raise SystemExit(3)", "it ended with 3"),
        ("raise SystemExit('x' * 5000)", f"{'x' * 300}…"),
    ],
)
def test_why_a_program_does_not_start_is_told_in_one_line(tmp_path: Path, code: str, cause: str) -> None:
    broken = toy(tmp_path, "one", code)
    never = Program(broken.name, broken.command, lambda: False, broken.cwd, broken.env)
    with pytest.raises(StackError) as caught, running(never, tmp_path):
        pass
    assert str(caught.value) == f"one failed to start: {cause}. Its log is {log_file(tmp_path, 'one')}"


def test_a_worker_that_can_make_no_semaphore_says_so(tmp_path: Path) -> None:
    closed = "mount -t tmpfs -o ro tmpfs /dev/shm"
    if shutil.which("unshare") is None or subprocess.run(["unshare", "-m", "sh", "-c", closed], check=False).returncode:
        pytest.skip("run as root on Linux, with the right to mount: it closes /dev/shm")
    command = f"{closed} && exec {sys.executable} -m celery -A worker.app worker -P prefork -c 1 -Q fast"
    env = {**os.environ, "CELERY_BROKER_URL": "memory://", "FOLDEX_HOME": str(tmp_path)}
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", command], cwd=ROOT, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    said = done.stderr.strip().splitlines()[-1]
    assert said == "/dev/shm is not writable (Read-only file system); worker processes need it"
    assert "Traceback" not in done.stderr


def test_a_program_that_ignores_the_signal_is_killed_with_all_of_its_session(tmp_path: Path) -> None:
    code = f"import subprocess, sys; print(subprocess.Popen([sys.executable, '-c', {STUBBORN!r}]).pid, flush=True)"
    with supervised(tmp_path, toy(tmp_path, "one", f"{code}\n{STUBBORN}")):
        log = tmp_path / "log" / "one.log"
        assert wait_until(lambda: log.read_text().count("deaf") == 2, 10)
        grandchild = next(int(line) for line in log.read_text().split() if line.isdigit())
    assert gone(grandchild)


@pytest.mark.skipif(sys.platform != "linux", reason="run on Linux: other systems do not tie a process to its parent")
def test_a_killed_supervisor_leaves_nothing_behind(tmp_path: Path) -> None:
    command = [sys.executable, "-c", SUPERVISED, str(tmp_path)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as supervisor:
        assert supervisor.stdout is not None
        assert any(line == "up\n" for line in supervisor.stdout)
        children = pid(tmp_path, "one"), pid(tmp_path, "two")
        assert all(lives(child) for child in children)
        supervisor.kill()
    assert gone(*children)


def test_only_one_stack_runs_in_a_home_and_tells_others_where_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FOLDEX_HOME", str(tmp_path))
    monkeypatch.setattr(
        "api.stack.embedded._own_programs",
        lambda settings, env, login: [[toy(tmp_path, "api")], [toy(tmp_path, "beat")]],
    )
    settings = Settings()
    assert environment(tmp_path) == {}
    (tmp_path / "log").mkdir()
    for place in (tmp_path, tmp_path / "log"):
        place.chmod(0o755)
    with stack(settings, say=lambda _: None) as up:
        told = f"already running in {tmp_path} with pid {os.getpid()}; stop it with `foldex down`"
        with pytest.raises(StackError, match=told), stack(settings):
            pass
        assert environment(tmp_path) == up.env
        # Postgres traverses the first two when it runs as another user
        passed = {tmp_path: passable(), tmp_path / "postgres": passable()}
        for path in (tmp_path, *tmp_path.rglob("*")):
            if path.is_dir() or path.suffix == ".log":
                mode = stat.S_IMODE(path.stat().st_mode)
                assert mode == passed[path] if path in passed else not mode & 0o077, path
        with psycopg.connect(up.env["DATABASE_URL"]) as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)
    assert environment(tmp_path) == {}
    assert list((tmp_path / "run").glob("*.pid")) == []


def test_a_signal_ends_a_block_unless_it_is_ignored() -> None:
    heard: list[int] = []

    def signalled() -> None:
        with _as_interrupt(SIGUSR1, SIGUSR2):
            os.kill(os.getpid(), SIGUSR2)
            heard.append(0)
            os.kill(os.getpid(), SIGUSR1)

    previous = signal(SIGUSR1, lambda number, _: heard.append(number)), signal(SIGUSR2, SIG_IGN)
    try:
        with pytest.raises(KeyboardInterrupt):
            signalled()
        os.kill(os.getpid(), SIGUSR1)
        assert heard == [0, SIGUSR1]
        assert getsignal(SIGUSR2) is SIG_IGN
    finally:
        signal(SIGUSR1, previous[0])
        signal(SIGUSR2, previous[1])


@pytest.mark.parametrize(("host", "family"), [("127.0.0.1", AF_INET), ("::1", AF_INET6)])
def test_a_taken_port_gives_way_to_the_next(host: str, family: AddressFamily) -> None:
    try:
        taken = create_server((host, 0), family=family)
    except OSError:
        pytest.skip("run where the machine has an address of IPv6")
    with taken:
        port: int = taken.getsockname()[1]
        assert free_port(port, host) > port


def test_stacks_at_once_have_a_redis_each(tmp_path: Path) -> None:
    urls = [urlsplit(redis.prepare(tmp_path / name, needs_password=True).url) for name in ("one", "two")]
    assert len({url.port for url in urls}) == 2


@pytest.mark.parametrize(
    ("code", "written", "told"),
    [
        (-9, "ValueError: no such place.", "SIGKILL ended it"),
        (0, "a line\nValueError: no such place.\n\n", "ValueError: no such place"),
        (1, "ValueError: no such place", "ValueError: no such place"),
        (None, "ValueError: no such place", "ValueError: no such place"),
        (0, "", "it ended with 0"),
    ],
)
def test_why_a_program_ended_is_its_signal_or_the_last_line_of_its_log(
    tmp_path: Path, code: int | None, written: str, told: str
) -> None:
    log_file(tmp_path, "api").parent.mkdir(parents=True, exist_ok=True)
    log_file(tmp_path, "api").write_text(written)
    assert cause(tmp_path, "api", code) == told
