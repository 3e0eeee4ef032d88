"""Defines Foldex's own processes: command, environment and readiness check."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from signal import SIGTERM

from api.stack.processes import Program, which
from api.stack.record import ROOT
from worker.machine.host import this_host

#: Seconds for a worker to stop, as in production. A slice ends within 20 s of the request.
WORKER_GRACE = 75.0
#: Seconds for a worker to answer a ping, and for the broker to answer anything.
PING_SECONDS, ANSWER_SECONDS = 0.5, 2.0
#: Otherwise numeric libraries start a thread per core in every process, which spin while they wait for each other.
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def api(env: Mapping[str, str]) -> Program:
    """The HTTP API. It migrates the database before it answers."""
    host, port = env["API_HOST"], int(env["API_PORT"])
    env = {**env, **ONE_THREAD}
    return _python("api", ("-m", "api", "serve"), env, lambda: answers(host, port, "/healthz"))


def worker(queue: str, concurrency: int, env: Mapping[str, str]) -> Program:
    """A Celery worker for one queue with `concurrency` processes."""
    # to Flower, two workers of one name are one
    node = f"{queue}@{this_host()}"
    # only Flower listens to the heartbeats
    quiet = ("--without-gossip", "--without-mingle", "--heartbeat-interval", "10")
    options = ("-P", "prefork", "-c", str(concurrency), *quiet, "-E")
    command = (*_celery("worker"), *options, "-n", node, "-Q", queue)
    # otherwise malloc keeps many heaps
    env = {**env, **ONE_THREAD, "MALLOC_ARENA_MAX": "2"}
    name, broker = f"worker-{queue}", env["CELERY_BROKER_URL"]
    # all share one machine: requests take priority over indexing
    return _python(name, command, env, lambda: _listens(broker, node), grace=WORKER_GRACE, rank=1, nice=5)


def fast_worker(env: Mapping[str, str]) -> Program:
    """The worker for small tasks, planning and the sweep. At most one of its two processes indexes."""
    return worker("fast", 2, env)


def beat(env: Mapping[str, str]) -> Program:
    """Celery's scheduler."""
    return _python("beat", ("-m", "worker.upkeep.clock"), env, lambda: True)


def watch(env: Mapping[str, str]) -> Program:
    """The folder watcher. Like beat, it only enqueues work."""
    return _python("watch", ("-m", "api", "watch"), env, lambda: True)


def flower(port: int, env: Mapping[str, str]) -> Program:
    """Celery's web page, on this machine only. It asks for the FLOWER_BASIC_AUTH login, if there is one."""
    # the arguments show files done, tool and task; the result shows the files a slice claimed, or the exception why it
    # failed
    columns = "--tasks_columns=name,state,args,result,exception,received,runtime,worker,uuid"
    # a task takes about 14 kB; Flower's default is ten times as many
    bounds = ("--purge_offline_workers=300", "--max_tasks=10000")
    options = ("--address=127.0.0.1", f"--port={port}", *bounds, columns)
    return _python(
        "flower",
        ("-c", "from api.stack.flower import main; main()", *options),
        env,
        lambda: answers("127.0.0.1", port, "/healthcheck"),
    )


def fork_server(env: Mapping[str, str]) -> Program:
    """Imports what the programs share, and forks them."""
    program = _python("fork-server", ("-m", "api.stack.fork_server"), {**env, **ONE_THREAD}, lambda: True)
    # it has nothing to finish, and may be frozen
    return replace(program, stop=())


def _celery(command: str) -> tuple[str, ...]:
    return ("-m", "celery", "-A", "worker.app", command)


def _python(
    name: str,
    arguments: tuple[str, ...],
    env: Mapping[str, str],
    ready: Callable[[], bool],
    *,
    grace: float = 10.0,
    rank: int = 0,
    nice: int = 0,
) -> Program:
    # without -u a crash loses the last lines of the log
    program = which("nice") if nice else None
    command = (*((program, "-n", str(nice)) if program else ()), sys.executable, "-u", *arguments)
    return Program(name, command, ready, ROOT, {**os.environ, **env}, stop=((SIGTERM, grace),), rank=rank)


def answers(host: str, port: int, path: str) -> bool:
    """Whether a GET of the path returns 200. Proxies are ignored."""
    connection = HTTPConnection("127.0.0.1" if host in {"0.0.0.0", "::"} else host, port, timeout=1)  # noqa: S104 - compared, not bound
    try:
        connection.request("GET", path)
        return connection.getresponse().status == HTTPStatus.OK
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()


def _listens(broker: str, node: str) -> bool:
    """Whether the worker answers a ping over the broker. Celery, whose command sends the same, takes long to import."""
    from kombu import Connection
    from kombu.exceptions import OperationalError
    from kombu.pidbox import Mailbox

    limits = ("socket_timeout", "socket_connect_timeout") if broker.startswith("redis") else ("read_timeout",)
    options = dict.fromkeys(limits, ANSWER_SECONDS)
    with Connection(broker, connect_timeout=ANSWER_SECONDS, transport_options=options) as connection:
        try:
            mailbox = Mailbox("celery", type="fanout")(connection)
            return bool(mailbox.call([node], "ping", timeout=PING_SECONDS))
        except (OperationalError, *connection.connection_errors):
            return False
