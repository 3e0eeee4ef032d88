"""Our own RabbitMQ node, if the program is installed. It changes nothing of a system-wide node."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from signal import SIGCONT, SIGKILL, SIGSTOP, SIGTERM

import pytest
from kombu import Connection
from kombu.exceptions import OperationalError

from api.stack.processes import Process, Program, ServerProgram, server_port, start, stop, which, write_private
from tests.service import eventually

#: Debian's program on PATH rejects all users but root and rabbitmq; the script behind it accepts anybody.
SCRIPT = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
#: Virtual hosts of a node: one for each service that uses it.
VHOSTS = 4

CONFIGURATION = """\
listeners.tcp.1 = {host}:{port}
load_definitions = {definitions}
"""
#: Erlang's port mapper would outlive the node as a daemon. Started here, it ends with the node's session.
COMMAND = 'epmd -address 127.0.0.1 & exec "$0"'


@dataclass(slots=True)
class Node:
    """A running node, and ways to break it."""

    server: ServerProgram
    home: Path
    process: Process
    _vhosts: Iterator[int] = field(default_factory=count)

    def next_broker(self) -> str:
        """The URL of a virtual host that is not in use yet."""
        return f"{self.server.url.removesuffix('/v0')}/v{next(self._vhosts)}"

    def kill(self) -> None:
        self.process.signal(SIGKILL)
        eventually(self.process.ended, 10)

    def restart(self) -> None:
        self.process = start(self.server.program, self.home)
        eventually(self.server.program.ready, 60)

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Freeze the node inside the block: connections stay open, and nothing answers."""
        os.kill(self.process.child.pid, SIGSTOP)
        try:
            yield
        finally:
            os.kill(self.process.child.pid, SIGCONT)


@contextmanager
def node(home: Path) -> Iterator[Node]:
    """Run our own node inside the block. Skips the test if RabbitMQ is missing, but fails in CI."""
    server = prepare(home)
    process = start(server.program, home)
    running = Node(server, home, process)
    try:
        eventually(server.program.ready, 60, lambda: (home / "log" / "rabbitmq.log").read_text()[-3000:])
        yield running
    finally:
        stop([running.process])


def prepare(home: Path, host: str = "127.0.0.1") -> ServerProgram:
    """How to run RabbitMQ. Its URL names the first virtual host."""
    place = home / "rabbitmq"
    place.mkdir(parents=True, exist_ok=True)
    password, port = secrets.token_hex(8), server_port()
    (place / "definitions.json").write_text(json.dumps(_definitions(password)))
    configuration = CONFIGURATION.format(host=host, port=port, definitions=place / "definitions.json")
    (place / "rabbitmq.conf").write_text(configuration)
    (place / "enabled_plugins").write_text("[].")
    write_private(place / ".erlang.cookie", secrets.token_hex(16))
    url = f"amqp://foldex:{password}@{host}:{port}/v0"
    program = Program(
        name="rabbitmq",
        command=("/bin/sh", "-c", COMMAND, script()),
        ready=lambda: _ready(url),
        cwd=place,
        env=_environment(place),
        stop=((SIGTERM, 20.0),),
        rank=2,
    )
    return ServerProgram(program, url)


def script() -> str:
    """Find the program. Skips the test if it is missing, but fails in CI."""
    found = str(SCRIPT) if SCRIPT.exists() else which("rabbitmq-server")
    if found is None:
        if os.environ.get("CI"):
            pytest.fail("rabbitmq-server is missing; .ci/run installs it")
        pytest.skip("install rabbitmq-server to run over RabbitMQ")
    return found


def _environment(place: Path) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(place),
        "ERL_EPMD_PORT": str(server_port()),
        # not the installation's own configuration
        "RABBITMQ_CONF_ENV_FILE": os.devnull,
        "RABBITMQ_CONFIG_FILE": str(place / "rabbitmq.conf"),
        "RABBITMQ_ADVANCED_CONFIG_FILE": str(place / "advanced.config"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(place / "enabled_plugins"),
        "RABBITMQ_MNESIA_BASE": str(place / "data"),
        "RABBITMQ_LOG_BASE": str(place / "log"),
        "RABBITMQ_LOGS": "-",
        "RABBITMQ_PID_FILE": str(place / "pid"),
        "RABBITMQ_NODENAME": f"foldex-{secrets.token_hex(4)}@localhost",
        "RABBITMQ_DIST_PORT": str(server_port()),
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
        # the script then becomes the node's process instead of waiting for it
        "detached": "true",
    }


def _definitions(password: str) -> dict[str, object]:
    salt = secrets.token_bytes(4)
    hashed = base64.b64encode(salt + hashlib.sha256(salt + password.encode()).digest()).decode()
    names = [f"v{number}" for number in range(VHOSTS)]
    allowed = {"user": "foldex", "configure": ".*", "write": ".*", "read": ".*"}
    return {
        "users": [{"name": "foldex", "password_hash": hashed, "tags": ""}],
        "vhosts": [{"name": name} for name in names],
        "permissions": [{**allowed, "vhost": name} for name in names],
    }


def _ready(url: str) -> bool:
    with Connection(url, connect_timeout=1, transport_options={"read_timeout": 1}) as connection:
        try:
            connection.ensure_connection(max_retries=0)
        except (OperationalError, *connection.connection_errors):
            return False
    return True
