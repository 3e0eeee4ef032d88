"""Starts and stops the embedded stack as a whole."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from api.stack import flower, postgres, programs, redis
from api.stack.forks import ForkServer
from api.stack.page_link import page_address
from api.stack.processes import (
    NEEDED_BYTES,
    Program,
    ServerProgram,
    StackError,
    end_orphan,
    free_port,
    running,
    wait_until,
    write_private,
)
from api.stack.record import lock_file, record_file, try_lock, url_of
from api.stack.supervisor import Supervisor
from worker.machine.disk_space import DiskSpace, full_message, means_full, usual_reserve
from worker.machine.page_links import forget_links, page_links_file
from worker.machine.privacy import close_home
from worker.settings import BY_LANGUAGE, LOCAL_LLM, Settings
from worker.stores import store_directories

#: Seconds until all processes must be ready. A first start with cold disk caches takes about 20 s.
START_SECONDS = 120.0

#: Seconds for which the stack's lock may be taken by processes that only look whether a stack runs.
PROBE_SECONDS = 1.0

#: All processes, in start order.
PROGRAM_NAMES = ("postgres", "redis", "fork-server", "api", "worker-fast", "worker-bulk", "beat", "watch", "flower")

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class ServerUrls:
    """The addresses of the servers."""

    database_url: str
    celery_broker_url: str
    redis_url: str

    def env(self) -> dict[str, str]:
        """The addresses as environment variables."""
        return {
            "DATABASE_URL": self.database_url,
            "CELERY_BROKER_URL": self.celery_broker_url,
            "REDIS_URL": self.redis_url,
        }


@contextmanager
def services(settings: Settings, say: Say = print) -> Iterator[ServerUrls]:
    """Run the servers without Foldex's own processes; skips those that the settings give. Raises `StackError`."""
    home = settings.foldex_home.resolve()
    servers, urls = _servers(settings, home, say)
    with ExitStack() as started:
        for server in servers:
            started.enter_context(running(server.program, home, START_SECONDS))
        yield urls


@dataclass(frozen=True, slots=True)
class RunningStack:
    """A running stack. `env` is what its processes get on top of the caller's environment."""

    env: dict[str, str]
    supervisor: Supervisor
    flower_login: str

    @property
    def api_url(self) -> str:
        """Address of the API, without a trailing slash."""
        return url_of(self.env)

    @property
    def flower_url(self) -> str:
        """Address of Flower, without a trailing slash."""
        return f"http://127.0.0.1:{self.env['FLOWER_PORT']}"

    def page_address(self) -> str:
        """A new address of the page, which may permit folders. Raises `OSError`."""
        return page_address(Path(self.env["FOLDEX_HOME"]), self.env)

    @property
    def flower_note(self) -> str:
        """Flower's address, with its user and password if it has any."""
        user, _, password = self.flower_login.partition(":")
        return f"{self.flower_url}  user {user}, password {password}" if user else self.flower_url


@contextmanager
def stack(settings: Settings, say: Say = print) -> Iterator[RunningStack]:
    """Run everything: ready inside the block, stopped after it. Raises `StackError` if it cannot start or already runs.

    SIGTERM and SIGHUP raise KeyboardInterrupt, so they end the block as Ctrl-C does. Main thread only.
    """
    home = settings.foldex_home.resolve()
    with _full_disk(home), _exclusive(home), _as_interrupt(signal.SIGTERM, signal.SIGHUP):
        say(f"Starting Foldex; its data and logs are in {home}")
        for name in PROGRAM_NAMES:
            end_orphan(home, name)
        with _forking(home) as forks:
            servers, urls = _servers(settings, home, say)
            env = _environment(settings, home, urls)
            login = flower.login(home, env)
            forget_links(page_links_file(home))
            write_private(record_file(home), json.dumps(env))
            stages = [[server.program for server in servers], *_own_programs(settings, env, login)]
            supervisor = Supervisor(stages, home, say, forks)
            try:
                supervisor.start(START_SECONDS)
                yield RunningStack(env, supervisor, login)
            finally:
                say("Stopping (press Ctrl-C again to force) …")
                supervisor.stop()
                record_file(home).unlink(missing_ok=True)


@contextmanager
def _forking(home: Path) -> Iterator[ForkServer]:
    """A fork server. It imports what programs share from now on, while a new database is created and servers start."""
    forks = ForkServer(programs.fork_server({"FOLDEX_HOME": str(home)}), home)
    try:
        # without it, each program starts by itself
        with suppress(StackError, OSError):
            forks.start()
        yield forks
    finally:
        forks.stop()


def up(settings: Settings, say: Say = print) -> None:
    """Run everything until Ctrl-C or SIGTERM. Raises `StackError`."""
    with suppress(KeyboardInterrupt), stack(settings, say) as running:
        say(f"\nFoldex  {running.api_url}\nFlower  {running.flower_note}\nPage    {running.page_address()}")
        say("Press Ctrl-C to stop everything.\n")
        home, is_reported = settings.foldex_home.resolve(), False
        space = DiskSpace(home, usual_reserve(home))
        while running.supervisor.alive():
            warning = space.warning()
            if warning and not is_reported:
                say(f"  Warning: {warning}")
            is_reported = warning is not None
            time.sleep(1)
        raise StackError("The supervisor ended; please report the lines above.")


@contextmanager
def _full_disk(home: Path) -> Iterator[None]:
    """Turn errors of a full disk into a `StackError` that names the directory and the bytes needed."""
    try:
        yield
    except (OSError, StackError) as error:
        if not means_full(error):
            raise
        raise StackError(full_message(home, NEEDED_BYTES)) from error


@contextmanager
def _exclusive(home: Path) -> Iterator[None]:
    """Hold the lock of the stack in `home`. Raises `StackError` if another stack runs there."""
    path = lock_file(home)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        close_home(home, store_directories())
        lock = path.open("a+")
    except OSError as error:
        raise StackError(f"{home} cannot be used ({error.strerror}): run as its owner, or set FOLDEX_HOME.") from error
    with lock:
        if not wait_until(lambda: try_lock(lock.fileno()), PROBE_SECONDS):
            lock.seek(0)
            raise StackError(
                f"Foldex is already running in {home} with pid {lock.read().strip()}; stop it with "
                "`foldex down`, or set FOLDEX_HOME."
            )
        lock.truncate(0)
        lock.write(f"{os.getpid()}\n")
        lock.flush()
        yield


@contextmanager
def _as_interrupt(*numbers: signal.Signals) -> Iterator[None]:
    """Turn these signals into KeyboardInterrupt inside the block, unless they are ignored."""
    previous = {number: signal.getsignal(number) for number in numbers}
    for number, handler in previous.items():
        if handler is not signal.SIG_IGN:  # set by nohup
            signal.signal(number, signal.default_int_handler)
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _servers(settings: Settings, home: Path, say: Say) -> tuple[list[ServerProgram], ServerUrls]:
    """The servers that must be started, and the addresses of all servers."""
    configured = settings.model_fields_set
    database, broker, budgets = settings.database_url, settings.celery_broker_url, settings.redis_url
    servers = []
    if "database_url" not in configured:
        servers.append(postgres.prepare(home))
        database = servers[-1].url
    if "redis_url" not in configured and "celery_broker_url" in configured and broker.startswith("redis"):
        budgets = broker
    elif not {"redis_url", "celery_broker_url"} <= configured:
        servers.append(redis.prepare(home, needs_password=_auth(settings) == "on"))
        broker = broker if "celery_broker_url" in configured else servers[-1].url
        budgets = budgets if "redis_url" in configured else f"{servers[-1].url.removesuffix('/0')}/1"
    for server in servers:
        if server.note:
            say(f"Note: {server.note}")
    return servers, ServerUrls(database, broker, budgets)


def _auth(settings: Settings) -> str:
    """The embedded stack is for its user alone, unless AUTH says something else."""
    return settings.auth if "auth" in settings.model_fields_set else "off"


def _port(settings: Settings, name: Literal["api_port", "flower_port"], host: str = "127.0.0.1") -> int:
    """The port of a setting, or the next free one if nobody set it. Raises `StackError` if what was set is taken."""
    port = settings.api_port if name == "api_port" else settings.flower_port
    free = free_port(port, host)
    if free != port and name in settings.model_fields_set:
        raise StackError(
            f"{name.upper()} is {port}, and another program uses that port; end it, set another port, or unset "
            f"{name.upper()} for the next free one."
        )
    return free


def _environment(settings: Settings, home: Path, urls: ServerUrls) -> dict[str, str]:
    """Environment variables for the processes beside the caller's: addresses, and defaults that need no account."""
    configured = settings.model_fields_set
    env = urls.env() | {
        "FOLDEX_HOME": str(home),
        "API_HOST": settings.api_host,
        "API_PORT": str(_port(settings, "api_port", settings.api_host)),
        "FLOWER_PORT": str(_port(settings, "flower_port")),
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # otherwise importing it accesses the network
        "AUTH": _auth(settings),
    }
    if "flower_url" not in configured:
        env["FLOWER_URL"] = f"http://127.0.0.1:{env['FLOWER_PORT']}"
    if "default_embedding_model" not in configured:
        env["DEFAULT_EMBEDDING_MODEL"] = BY_LANGUAGE
    if "default_llm_model" not in configured:
        env["DEFAULT_LLM_MODEL"] = LOCAL_LLM
    return env


def _own_programs(settings: Settings, env: dict[str, str], login: str = "") -> list[list[Program]]:
    """Foldex's own processes in start stages. The API migrates the database, and the others wait for that.

    What no first answer needs comes last: two cores have enough to import before it.
    """
    workers = [
        programs.fast_worker(env),
        programs.worker("bulk", settings.worker_concurrency, env),
    ]
    flower_page = programs.flower(int(env["FLOWER_PORT"]), {**env, **({flower.VARIABLE: login} if login else {})})
    return [[programs.beat(env), programs.api(env), *workers], [programs.watch(env), flower_page]]
