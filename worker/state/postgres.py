"""Postgres, the source of truth: connections and named queries.

A silent process does not make others wait, and no process waits for a silent server. This module opens all connections
and gives each of them these limits (`ConnectionLimits`):

- The client gives up on a server that sends nothing for `answer` seconds, and closes the connection
  (`BoundedConnection`). A stopped process keeps its sockets open, so TCP does not notice. TCP's own limits end
  connections to lost hosts.
- The server ends long statements, long waits for locks, and transactions whose client is idle. It stops computing
  for a client that is gone.
- The server never ends a COPY whose client sends nothing, nor a result that is not read: only `pg_terminate_backend`
  does. So each round of the sweep begins with `silent_backends.reap`, which finds our connections by `APPLICATION`.

Every new transaction must take less than `IDLE_SECONDS` between two statements, and less than `statement` for each
statement. Steps of the sweep skip locked rows (SKIP LOCKED) or take what they can without waiting.
"""

from __future__ import annotations

import functools
import re
import select
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from threading import Lock, Thread
from typing import Any, Self, TypeVar

from psycopg import Connection, OperationalError
from psycopg.abc import PQGen
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import TupleRow
from psycopg.sql import SQL
from psycopg_pool import ConnectionPool, PoolTimeout

from worker.machine.named_texts import named_texts
from worker.state.address import Address, PooledAddress

Pool = ConnectionPool[Connection[TupleRow]]
T = TypeVar("T")

#: Name of our connections in `pg_stat_activity`.
APPLICATION = "foldex"
#: Seconds that a transaction may be idle, about as long as a lease: then other transactions need its locks.
IDLE_SECONDS = 8.0
#: Seconds after which the connections of a lost machine are ended.
_LOST_HOST_SECONDS = 20
#: Seconds to wait for a connection to open, the minimum of libpq.
_CONNECT_SECONDS = 2
#: Share of a client's time limit after which it has the guard probe the server.
_SUSPECT_SHARE = 0.3
#: Seconds between two probes of a silent server.
_PROBE_PAUSE_SECONDS = 0.5
#: How long a pool keeps trying to open one connection, and its pause between two attempts, in seconds.
_RECONNECT_SECONDS, _RECONNECT_PAUSE_SECONDS = 60.0, 0.2
#: The first Postgres release with a time limit for whole transactions.
_TRANSACTION_TIMEOUT_VERSION = 170_000

_COMMENT = re.compile(r"^ *--.*\n", re.MULTILINE)
#: A fragment's name in a query; two colons are a cast.
_INCLUDED = re.compile(r"(?<!:):([a-z_]+)")


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Time limits of a connection's client and server, in seconds.

    `answer`: silence after which the client gives up on the server. `patient`: the same after `be_patient`. `lock`,
    `statement` and `transaction` are limits of the server. `pool`: longest wait for a free connection. `rest`: time
    after which a pool closes a connection that nobody needs. `plans_anew`: whether the server makes a plan for each
    execution, and keeps none.
    """

    answer: float
    patient: float
    lock: float
    statement: float
    pool: float
    transaction: float = 600.0
    rest: float = 600.0
    plans_anew: bool = False


#: Statements over a million files take a minute. The server's limit is shorter than the client's. A worker at rest
#: keeps no connection. A plan for the empty tables of a new installation would read all rows of each later batch.
WORK = ConnectionLimits(answer=130.0, patient=130.0, lock=20.0, statement=120.0, pool=20.0, rest=30.0, plans_anew=True)
#: A caller gets an answer within 5 s. Write requests wait longer: for a lock until a silent process loses it, and for
#: statements over all files of an index.
REQUEST = ConnectionLimits(answer=3.5, patient=130.0, lock=15.0, statement=120.0, pool=4.0)
#: A locked row delays only its own task.
SWEEP = ConnectionLimits(answer=65.0, patient=65.0, lock=1.0, statement=60.0, pool=4.0)
#: For probing whether the server answers at all; with the time to connect, it ends before the first caller gives up.
PROBE = ConnectionLimits(answer=1.0, patient=1.0, lock=1.0, statement=1.0, pool=1.0)
#: For statements that finish at once.
BRIEF = ConnectionLimits(answer=5.0, patient=5.0, lock=4.0, statement=4.0, pool=4.0)


@functools.cache
def load(name: str) -> dict[str, SQL]:
    """Load the queries of `worker/state/{name}.sql`, by the name in the `-- name:` line above each.

    A query includes a fragment of `fragments.sql` as `:name`.
    """
    # psycopg requires literal strings to keep user input out of SQL; a file of this package is as safe
    return {key: SQL(_with_fragments(text)) for key, text in _texts(name).items()}


def _texts(name: str) -> dict[str, str]:
    return named_texts("worker.state", f"{name}.sql")


def _with_fragments(text: str) -> str:
    return _INCLUDED.sub(lambda match: _with_fragments(_COMMENT.sub("", _texts("fragments")[match[1]])), text)


class SilenceGuard:
    """What a pool knows about its server: while the server is silent, users fail at once.

    Otherwise each user would block a thread, and later users would wait for a thread as well. The guard probes the
    server on its own connection, because a slow statement alone proves nothing.
    """

    def __init__(self, database: Address) -> None:
        self._database = database
        self._lock = Lock()
        self._is_probing = False
        self.is_silent = False
        self.is_over = False

    def check(self) -> None:
        """Raise `ServerSilent` while the server is known to be silent."""
        if self.is_silent:
            raise ServerSilent("Postgres is silent")

    def suspect(self) -> None:
        """Probe the server in a separate thread until it answers."""
        with self._lock:
            if not self._is_probing and not self.is_over:
                self._is_probing = True
                Thread(target=self._probe, name="guard", daemon=True).start()

    def _probe(self) -> None:
        while not self.is_over and not self._answers():
            self.is_silent = True
            time.sleep(_PROBE_PAUSE_SECONDS)
        with self._lock:
            self._is_probing = self.is_silent = False

    def _answers(self) -> bool:
        try:
            with BoundedConnection.open(self._database, PROBE) as connection:
                connection.execute("SELECT 1")
        except OperationalError:
            return False
        return True


class BoundedConnection(Connection[TupleRow]):
    """A connection that waits for a silent server no longer than its limits allow."""

    limits: ConnectionLimits = BRIEF
    answer: float = BRIEF.answer
    guard: SilenceGuard | None = None

    @classmethod
    def open(cls, database: Address, limits: ConnectionLimits, *options: str) -> Self:
        """Open a connection in autocommit mode; `options` are further server options."""
        connection = cls.connect(autocommit=True, **parameters(database, limits, *options))
        connection.restrict(limits)
        return connection

    def restrict(self, limits: ConnectionLimits) -> None:
        """Apply the limits that a new connection's parameters could not set; leaves no transaction open."""
        self.limits, self.answer = limits, limits.answer
        has_session = "options" in self.info.get_parameters()
        if has_session and self.info.server_version >= _TRANSACTION_TIMEOUT_VERSION:
            self.execute(SQL("SET transaction_timeout = {}").format(_milliseconds(limits.transaction)))
            self.commit()

    def wait(self, gen: PQGen[T], *args: Any, **kwargs: Any) -> T:
        """See psycopg.

        Raises `OperationalError`, and closes the connection, when the server sent nothing for too long.
        """
        try:
            return super().wait(_heard(gen, self.answer, self.guard), *args, **kwargs)
        except ServerSilent:
            self.close()
            raise


class PooledConnection(BoundedConnection):
    """A connection of a pool, which keeps trying to open it: the server may be restarting."""

    @classmethod
    def connect(cls, conninfo: str = "", *, guard: SilenceGuard, **options: Any) -> Self:  # type: ignore[override] # only a pool opens it
        """See psycopg. Retries at a steady pace: a pause that grows would outlast the patience of the pool's users."""
        deadline = time.monotonic() + _RECONNECT_SECONDS
        while True:
            try:
                return super().connect(conninfo, **options)
            except OperationalError:
                if guard.is_over or time.monotonic() > deadline:
                    raise
            time.sleep(_RECONNECT_PAUSE_SECONDS)


class ServerSilent(OperationalError):
    """The server sent nothing for as long as its client waits."""


def _heard(gen: PQGen[T], seconds: float, guard: SilenceGuard | None) -> PQGen[T]:
    """Run `gen` until nothing arrives for `seconds`: psycopg resumes it ten times a second even without data."""
    since = time.monotonic()
    try:
        awaited = next(gen)
        while True:
            ready = yield awaited
            if ready:
                since = time.monotonic()
            elif (silence := time.monotonic() - since) > seconds:
                raise ServerSilent(f"Postgres sent nothing for {seconds:g} s")
            elif guard is not None and silence > seconds * _SUSPECT_SHARE:
                guard.suspect()
                guard = None
            awaited = gen.send(ready)
    except StopIteration as end:
        value: T = end.value
        return value


def be_patient(connection: Connection[Any]) -> None:
    """Wait longer for each answer until the connection returns to its pool: locks or very many rows are ahead."""
    if isinstance(connection, BoundedConnection):
        connection.answer = connection.limits.patient


def parameters(database: Address, limits: ConnectionLimits, *options: str) -> dict[str, Any]:
    """Return connection parameters; the URL's own values take precedence, except for `application_name`."""
    url_parameters = conninfo_to_dict(database.url if isinstance(database, PooledAddress) else database)
    milliseconds = {
        "statement_timeout": limits.statement,
        "lock_timeout": limits.lock,
        "idle_in_transaction_session_timeout": IDLE_SECONDS,
        "client_connection_check_interval": 2.0,
        "tcp_user_timeout": _LOST_HOST_SECONDS,
    }
    server_options = [f"{name}={_milliseconds(seconds)}" for name, seconds in milliseconds.items()]
    server_options += ["tcp_keepalives_idle=10", "tcp_keepalives_interval=5", "tcp_keepalives_count=2", *options]
    is_shared = isinstance(database, PooledAddress)
    return {
        "connect_timeout": _CONNECT_SECONDS,
        "keepalives_idle": 10,
        "keepalives_interval": 5,
        "keepalives_count": 2,
        "tcp_user_timeout": _milliseconds(_LOST_HOST_SECONDS),
        **url_parameters,
        "application_name": APPLICATION,
        # a pooler rejects options, and gives the next transaction a connection that does not know the statement
        **({} if is_shared else {"options": _options(server_options, url_parameters)}),
        **({"prepare_threshold": None} if is_shared or limits.plans_anew else {}),
    }


def _options(ours: Sequence[str], url_parameters: Mapping[str, Any]) -> str:
    return " ".join([*(f"-c {option}" for option in ours), str(url_parameters.get("options", ""))]).strip()


def _milliseconds(seconds: float) -> int:
    return round(seconds * 1000)


class GuardedPool(ConnectionPool[Connection[TupleRow]]):
    """A pool whose users do not wait for a server that is known to be silent."""

    def __init__(self, database: Address, limits: ConnectionLimits, *, max_size: int, **options: Any) -> None:
        self._limits, self._guard = limits, SilenceGuard(database)
        super().__init__(
            connection_class=PooledConnection,
            kwargs={**parameters(database, limits), "guard": self._guard},
            configure=self._restrict,
            timeout=limits.pool,
            max_idle=limits.rest,
            # the connection itself tries again, and the next user after that
            reconnect_timeout=0.0,
            check=_check,
            max_size=max_size,
            # one thread keeps up the pool while the others open connections
            num_workers=max_size + 1,
            **options,
        )

    @contextmanager
    def connection(self, timeout: float | None = None) -> Iterator[Connection[TupleRow]]:
        """See psycopg. Also raises `ServerSilent`."""
        self._guard.check()
        with ExitStack() as stack:
            try:
                connection = stack.enter_context(super().connection(timeout))
            except PoolTimeout:
                # all connections are in use, or none can be opened
                self._guard.suspect()
                raise
            # not as the pool's `reset`, for which each connection passes to another thread and back
            _be_brief(connection)
            yield connection

    def close(self, timeout: float = 5.0) -> None:
        """See psycopg."""
        self._guard.is_over = True
        super().close(timeout)

    def _restrict(self, connection: Connection[Any]) -> None:
        if isinstance(connection, BoundedConnection):
            connection.guard = self._guard
            connection.restrict(self._limits)


def open_pool(database: Address, *, max_size: int = 4, limits: ConnectionLimits = WORK, **options: Any) -> Pool:
    """Open a pool that checks connections before lending them, so that a restart of Postgres goes unnoticed."""
    return GuardedPool(database, limits, max_size=max_size, min_size=0, open=True, **options)


def _be_brief(connection: Connection[Any]) -> None:
    if isinstance(connection, BoundedConnection):
        connection.answer = connection.limits.answer


def _check(connection: Connection[Any]) -> None:
    """Probe the server only if data waits to be read: a server that shuts down sends a message, an idle one none.

    Raises `OperationalError`, so that the pool takes another connection.
    """
    heard = select.poll()
    heard.register(connection.fileno(), select.POLLIN)
    if heard.poll(0):
        ConnectionPool.check_connection(connection)


@contextmanager
def autocommit(pool: Pool) -> Iterator[Connection[TupleRow]]:
    """A connection for single statements: each takes one round trip, in a transaction it would take three."""
    with pool.connection() as connection:
        connection.autocommit = True
        try:
            yield connection
        finally:
            if not connection.closed:
                connection.autocommit = False


def storable(text: str) -> str:
    """A text as Postgres accepts it: with neither NUL nor lone surrogates."""
    return text.replace("\0", " ").encode(errors="replace").decode()


def is_true(connection: Connection[Any], query: SQL, values: Mapping[str, Any] | None = None) -> bool:
    """The answer to a query that asks whether something is so."""
    row = connection.execute(query, values).fetchone()
    return row is not None and bool(row[0])


#: A first half of advisory locks that no other user of the database uses.
_LOCK_CLASS = 0x466F6C64


@contextmanager
def try_exclusive(database_url: str, work: str, *, seconds: int = 0) -> Iterator[bool]:
    """Yield whether this process is the only one that does `work`, until the block ends or the process dies.

    If `seconds` is given, another process may begin after that time: a stopped process does not block others forever.
    """
    with exclusive_connection(database_url, work, seconds=seconds) as connection:
        yield connection is not None


@contextmanager
def exclusive_connection(database_url: str, work: str, *, seconds: int = 0) -> Iterator[Connection[TupleRow] | None]:
    """Yield the connection whose lock makes this process the only one that does `work`; None if another does it.

    The lock lasts as long as the connection. The server ends it after `seconds` without a statement, unless that is 0.
    """
    with BoundedConnection.open(database_url, BRIEF, f"idle_session_timeout={seconds}s") as connection:
        row = connection.execute("SELECT pg_try_advisory_lock(%s, hashtext(%s))", (_LOCK_CLASS, work)).fetchone()
        yield connection if row is not None and row[0] else None
