"""Connections to Postgres, and their time limits.

A silent process does not make others wait, and no process waits for a silent server. All connections have these limits
(`ConnectionLimits`):

- The client gives up on a server that sends nothing for `answer` seconds, and closes the connection
  (`BoundedConnection`). A stopped process keeps its sockets open, so TCP does not notice. TCP's own limits end
  connections to lost hosts.
- The server ends long statements, long waits for locks, and transactions whose client is idle. It stops computing
  for a client that is gone.
- The server never ends a COPY whose client sends nothing, nor a result that is not read: only `pg_terminate_backend`
  does. So each round of the sweep begins with `silent_backends.reap`, which finds our connections by `EXPENDABLE`.

Every new transaction must take less than `IDLE_SECONDS` between two statements, and less than `statement` for each
statement. Steps of the sweep skip locked rows (SKIP LOCKED) or take what they can without waiting.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from threading import Lock, Thread
from typing import Any, Self, TypeVar

from psycopg import Connection, Cursor, Error, OperationalError
from psycopg.abc import Params, PQGen
from psycopg.conninfo import conninfo_to_dict
from psycopg.errors import FeatureNotSupported, IdleInTransactionSessionTimeout, TransactionTimeout
from psycopg.pq import TransactionStatus
from psycopg.rows import Row, TupleRow
from psycopg.sql import SQL

from worker.state.address import Address, PooledAddress

T = TypeVar("T")


class Application(StrEnum):
    """Names of our connections in `pg_stat_activity`, by the role of their process."""

    API = "foldex api"
    WORKER = "foldex worker"
    BEAT = "foldex beat"
    WATCH = "foldex watch"
    CLI = "foldex cli"
    MIGRATE = "foldex migrate"


#: The connections that the sweep may end: their processes open others, and repeat uncommitted work.
EXPENDABLE = (Application.API, Application.WORKER)
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
#: The first Postgres release with a time limit for whole transactions.
_TRANSACTION_TIMEOUT_VERSION = 170_000


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Time limits of a connection's client and server, in seconds.

    `answer`: silence after which the client gives up on the server. `patient`: the same after `be_patient`. `lock`,
    `statement` and `transaction` are limits of the server. `pool`: longest wait for a free connection. `rest`: time
    after which a pool closes an unused connection. `again`: time for which a transaction that met a lock is retried.
    `plan_each_time`: whether the server plans each execution, and keeps no plan.
    """

    answer: float
    patient: float
    lock: float
    statement: float
    pool: float
    transaction: float = 600.0
    rest: float = 600.0
    again: float = 0.0
    plan_each_time: bool = False


#: Statements over a million files take a minute. The server's limit is shorter than the client's. An idle worker keeps
#: no connection. A worker that meets a lock postpones the task and serves another. A plan for the empty tables of a new
#: installation would read all rows of each later batch.
WORK = ConnectionLimits(
    answer=130.0, patient=130.0, lock=5.0, statement=120.0, pool=20.0, rest=30.0, plan_each_time=True
)
#: A caller gets an answer within 5 s. Write requests wait longer for statements over all files of an index. A locked
#: row is reported within 10 s: reads give up before they take the server for silent.
REQUEST = ConnectionLimits(answer=3.5, patient=130.0, lock=3.0, statement=120.0, pool=3.0, again=3.5)
#: A locked row delays only its own task.
SWEEP = ConnectionLimits(answer=65.0, patient=65.0, lock=1.0, statement=60.0, pool=4.0)
#: For probing whether the server answers at all. With the time to connect, a probe ends before the first caller gives
#: up.
PROBE = ConnectionLimits(answer=1.0, patient=1.0, lock=1.0, statement=1.0, pool=1.0)
#: For statements that finish at once.
BRIEF = ConnectionLimits(answer=5.0, patient=5.0, lock=4.0, statement=4.0, pool=4.0)


class RepeatingCursor(Cursor[Row]):
    """A cursor whose statements survive migrations.

    A prepared statement fails once a migration changed its result columns. So only statements that begin a transaction,
    or are one, are prepared: nothing precedes them, so they can be repeated.
    """

    def execute(
        self, query: Any, params: Params | None = None, *, prepare: bool | None = None, binary: bool | None = None
    ) -> Self:
        """See psycopg."""
        connection = self.connection
        if connection.prepare_threshold is None:
            return super().execute(query, params, binary=binary)
        if connection.info.transaction_status != TransactionStatus.IDLE:
            return super().execute(query, params, prepare=False, binary=binary)
        try:
            return super().execute(query, params, prepare=prepare, binary=binary)
        except FeatureNotSupported:
            connection.rollback()
            super().execute("DEALLOCATE ALL", prepare=False)
            return super().execute(query, params, prepare=False, binary=binary)


class SilenceGuard:
    """A pool's knowledge about its server: while the server is silent, users fail at once.

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
        """Wait, as psycopg does.

        Raises `OperationalError`, and closes the connection, if the server sends nothing for too long. Raises it also
        if the server has ended the connection because its transaction took too long, as of a process that was frozen.
        """
        try:
            return super().wait(_listen(gen, self.answer, self.guard), *args, **kwargs)
        except ServerSilent:
            self.close()
            raise
        except (IdleInTransactionSessionTimeout, TransactionTimeout) as error:
            raise TransactionEnded(error) from error


class ServerSilent(OperationalError):
    """Raised when the server sent nothing for as long as its client waits."""


class TransactionEnded(OperationalError):
    """Raised when the server ended a transaction that took too long. Psycopg reports a fault of the program."""

    def __init__(self, error: Error) -> None:
        super().__init__(str(error))
        self.sqlstate = error.sqlstate


def _listen(gen: PQGen[T], seconds: float, guard: SilenceGuard | None) -> PQGen[T]:
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
    """Wait longer for each answer until the pool lends the connection again, for locks or very many rows."""
    if isinstance(connection, BoundedConnection):
        connection.answer = connection.limits.patient


def be_brief(connection: Connection[Any]) -> None:
    """Wait the usual time for each answer: the opposite of `be_patient`, for a connection that leaves its pool."""
    if isinstance(connection, BoundedConnection):
        connection.answer = connection.limits.answer


class _Process:
    """The role of this process."""

    application = Application.CLI


_process = _Process()


def name_process(application: Application) -> None:
    """Name the connections that this process opens from now on."""
    _process.application = application


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
        "application_name": _process.application,
        "cursor_factory": RepeatingCursor,
        # a pooler rejects options, and gives the next transaction a connection without the prepared statement
        **({} if is_shared else {"options": _options(server_options, url_parameters)}),
        **({"prepare_threshold": None} if is_shared or limits.plan_each_time else {}),
    }


def _options(ours: Sequence[str], url_parameters: Mapping[str, Any]) -> str:
    return " ".join([*(f"-c {option}" for option in ours), str(url_parameters.get("options", ""))]).strip()


def _milliseconds(seconds: float) -> int:
    return round(seconds * 1000)
