"""Our own PgBouncer in front of a database, if the program is installed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from api.stack.processes import Program, running, server_port, which

CONFIGURATION = """\
[databases]
{dbname} = host={host} port={port} dbname={dbname} user={user} password={password}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {listen}
unix_socket_dir =
auth_type = any
pool_mode = {mode}
default_pool_size = {size}
max_client_conn = 1000
{more}
"""


@contextmanager
def pgbouncer(home: Path, database_url: str, mode: str, *, size: int, more: str = "") -> Iterator[str]:
    """Run PgBouncer, and yield the URL of the database behind it. At most `size` connections reach the server."""
    binary = which("pgbouncer")
    if binary is None:
        pytest.skip("install PgBouncer to run this test")
    listen, to = server_port(), conninfo_to_dict(database_url)
    file = home / "pgbouncer.ini"
    file.write_text(CONFIGURATION.format(**to, listen=listen, mode=mode, size=size, more=more))
    url = f"postgresql://{to['user']}@127.0.0.1:{listen}/{to['dbname']}"
    # it refuses to run as root
    account = ("-u", "nobody") if os.geteuid() == 0 else ()
    program = Program(
        name="pgbouncer", command=(binary, *account, str(file)), ready=lambda: _answers(url), cwd=home, env={}
    )
    with running(program, home):
        yield url


def _answers(url: str) -> bool:
    try:
        psycopg.connect(url, connect_timeout=2).close()
    except psycopg.OperationalError:
        return False
    return True
