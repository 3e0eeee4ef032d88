"""Postgres, the truth: connections, migrations and named queries.

No process makes others wait because it fell silent, and none waits for a server that did. This module makes all
connections, and gives each of them these limits (`Limits`):

- The client gives a server up that sends nothing for `answer` seconds, and closes the connection (`Bounded`). A process
  that is stopped keeps its sockets open, so TCP alone never tells. TCP's own limits end connections to lost hosts.
- The server ends statements, waits for locks, and transactions whose client does nothing. It ends what it computes for
  a client that is gone.
- The server ends no COPY whose client sends nothing, nor a result that nobody takes: only `pg_terminate_backend` does.
  So each round of the sweep begins with `backends.reap`. It knows our own connections by `APPLICATION`.

Whoever adds a transaction sees to it that it needs less than `IDLE` between two statements, and less than `statement`
for each. Steps of the sweep skip locked rows (SKIP LOCKED) or take what they can without waiting.
"""

from __future__ import annotations

import functools
import re
import select
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib import resources
from threading import Lock, Thread
from typing import Any, Self, TypeVar

from psycopg import Connection, OperationalError
from psycopg.abc import PQGen
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import TupleRow
from psycopg.sql import SQL
from psycopg_pool import ConnectionPool, PoolTimeout

Pool = ConnectionPool[Connection[TupleRow]]
T = TypeVar("T")

#: What our connections are called in `pg_stat_activity`.
APPLICATION = "foldex"
#: Seconds that a transaction may do nothing, about a lease: then its locks are wanted.
IDLE = 8.0
#: Seconds after which a machine that is gone keeps no connection.
_GONE = 20
#: Seconds to wait for a connection to be made, the least that libpq knows.
_CONNECT = 2
#: The part of its patience after which a client has the server asked whether it answers; seconds between two questions.
_SUSPECT, _AGAIN = 0.3, 0.5
#: The first release of Postgres that bounds whole transactions.
_HAS_TRANSACTION_TIMEOUT = 170_000

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds that a connection's user and its server may take.

    `answer`: silence after which the client gives the server up; `patient`: the same for those who ask for patience.
    `lock` and `statement` are the server's; `pool` is the longest wait for a free connection.
    """

    answer: float
    patient: float
    lock: float
    statement: float
    pool: float
    transaction: float = 600.0


#: Statements over a million files take a minute; the server's own limit comes before the client's.
WORK = Limits(answer=130.0, patient=130.0, lock=20.0, statement=120.0, pool=20.0)
#: A caller gets an answer within 5 s. Verbs wait longer: for a lock until it is taken from a silent process, and for
#: statements over all files of an index.
REQUEST = Limits(answer=3.5, patient=130.0, lock=15.0, statement=120.0, pool=4.0)
#: A row that is held delays only its own task.
SWEEP = Limits(answer=65.0, patient=65.0, lock=1.0, statement=60.0, pool=4.0)
#: The question whether the server answers at all; with the time to connect it ends before the first caller gives up.
PROBE = Limits(answer=1.0, patient=1.0, lock=1.0, statement=1.0, pool=1.0)
#: Statements that take no time at all.
BRIEF = Limits(answer=5.0, patient=5.0, lock=4.0, statement=4.0, pool=4.0)


@functools.cache
def load(name: str) -> dict[str, SQL]:
    """The queries of `worker/state/{name}.sql`, by the name in the `-- name:` line above each."""
    _, *parts = _NAME.split(resources.files("worker.state").joinpath(f"{name}.sql").read_text())
    # psycopg asks for literal strings to keep user input out of SQL; a file of this package is as good
    return {key: SQL(text.strip()) for key, text in zip(parts[::2], parts[1::2], strict=True)}


class Guard:
    """What a pool knows of its server: while that is silent, users fail at once.

    Else each would wait in a thread for the same, and those who came later would wait for a thread as well. Whether the
    server is silent is told by a connection of the guard's own: a statement may be slow by itself.
    """

    def __init__(self, database_url: str) -> None:
        self._database_url = database_url
        self._lock = Lock()
        self._asks = False
        self.is_silent = False
        self.is_over = False

    def check(self) -> None:
        """Raise `Silent` while the server is known to be."""
        if self.is_silent:
            raise Silent("Postgres is silent")

    def suspect(self) -> None:
        """Ask the server until it answers, in a thread of its own."""
        with self._lock:
            if not self._asks and not self.is_over:
                self._asks = True
                Thread(target=self._ask, name="guard", daemon=True).start()

    def _ask(self) -> None:
        while not self.is_over and not self._answers():
            self.is_silent = True
            time.sleep(_AGAIN)
        with self._lock:
            self._asks = self.is_silent = False

    def _answers(self) -> bool:
        try:
            with Bounded.open(self._database_url, PROBE) as connection:
                connection.execute("SELECT 1")
        except OperationalError:
            return False
        return True


class Bounded(Connection[TupleRow]):
    """A connection that waits for a silent server no longer than its limits say."""

    limits: Limits = BRIEF
    answer: float = BRIEF.answer
    guard: Guard | None = None

    @classmethod
    def open(cls, database_url: str, limits: Limits, *options: str) -> Self:
        """A connection in autocommit mode; `options` are further ones of the server."""
        made = cls.connect(autocommit=True, **parameters(database_url, limits, *options))
        made.restrict(limits)
        return made

    def restrict(self, limits: Limits) -> None:
        """Give a new connection the limits that its parameters could not; leaves no transaction open."""
        self.limits, self.answer = limits, limits.answer
        if self.info.server_version >= _HAS_TRANSACTION_TIMEOUT:
            self.execute(SQL("SET transaction_timeout = {}").format(_milliseconds(limits.transaction)))
            self.commit()

    def wait(self, gen: PQGen[T], *args: Any, **kwargs: Any) -> T:
        """See psycopg. Raises `OperationalError`, and is closed, when the server sent nothing for too long."""
        try:
            return super().wait(_heard(gen, self.answer, self.guard), *args, **kwargs)
        except Silent:
            self.close()
            raise


class Silent(OperationalError):
    """The server sent nothing for as long as its client waits."""


def _heard(gen: PQGen[T], seconds: float, guard: Guard | None) -> PQGen[T]:
    """`gen`, ended when nothing came for so many seconds: psycopg resumes it ten times a second without anything."""
    since = time.monotonic()
    try:
        wanted = next(gen)
        while True:
            ready = yield wanted
            if ready:
                since = time.monotonic()
            elif (silence := time.monotonic() - since) > seconds:
                raise Silent(f"Postgres sent nothing for {seconds:g} s")
            elif guard is not None and silence > seconds * _SUSPECT:
                guard.suspect()
                guard = None
            wanted = gen.send(ready)
    except StopIteration as end:
        value: T = end.value
        return value


def be_patient(connection: Connection[Any]) -> None:
    """Wait longer for each answer until the connection goes back to its pool: locks or very many rows are ahead."""
    if isinstance(connection, Bounded):
        connection.answer = connection.limits.patient


def parameters(database_url: str, limits: Limits, *options: str) -> dict[str, Any]:
    """How to connect; what the URL says of itself goes first."""
    theirs = conninfo_to_dict(database_url)
    milliseconds = {
        "statement_timeout": limits.statement,
        "lock_timeout": limits.lock,
        "idle_in_transaction_session_timeout": IDLE,
        "client_connection_check_interval": 2.0,
        "tcp_user_timeout": _GONE,
    }
    ours = [f"{name}={_milliseconds(seconds)}" for name, seconds in milliseconds.items()]
    ours += ["tcp_keepalives_idle=10", "tcp_keepalives_interval=5", "tcp_keepalives_count=2", *options]
    return {
        "connect_timeout": _CONNECT,
        "keepalives_idle": 10,
        "keepalives_interval": 5,
        "keepalives_count": 2,
        "tcp_user_timeout": _milliseconds(_GONE),
        **theirs,
        "application_name": APPLICATION,
        "options": " ".join([*(f"-c {option}" for option in ours), str(theirs.get("options", ""))]).strip(),
    }


def _milliseconds(seconds: float) -> int:
    return round(seconds * 1000)


class GuardedPool(ConnectionPool[Connection[TupleRow]]):
    """A pool whose users do not wait for a server that is known to be silent."""

    def __init__(self, database_url: str, limits: Limits, **options: Any) -> None:
        self._limits, self._guard = limits, Guard(database_url)
        super().__init__(
            connection_class=Bounded,
            kwargs=parameters(database_url, limits),
            configure=self._restrict,
            reset=_be_brief,
            timeout=limits.pool,
            # the next user tries anew; else pauses between attempts grow to a minute
            reconnect_timeout=limits.pool,
            check=_check,
            **options,
        )

    @contextmanager
    def connection(self, timeout: float | None = None) -> Iterator[Connection[TupleRow]]:
        """See psycopg. Raises `Silent` as well."""
        self._guard.check()
        with ExitStack() as stack:
            try:
                connection = stack.enter_context(super().connection(timeout))
            except PoolTimeout:
                # all are in use, or none can be made
                self._guard.suspect()
                raise
            yield connection

    def close(self, timeout: float = 5.0) -> None:
        """See psycopg."""
        self._guard.is_over = True
        super().close(timeout)

    def _restrict(self, connection: Connection[Any]) -> None:
        if isinstance(connection, Bounded):
            connection.guard = self._guard
            connection.restrict(self._limits)


def open_pool(database_url: str, *, max_size: int = 4, limits: Limits = WORK, **options: Any) -> Pool:
    """A pool that checks a connection before it lends it, so that a restart of Postgres is not seen by its users."""
    return GuardedPool(database_url, limits, min_size=0, max_size=max_size, open=True, **options)


def _be_brief(connection: Connection[Any]) -> None:
    if isinstance(connection, Bounded):
        connection.answer = connection.limits.answer


def _check(connection: Connection[Any]) -> None:
    """Ask a server only where something waits to be read: one that ends says goodbye, an idle one says nothing.

    Raises `OperationalError`, for the pool to take another connection.
    """
    heard = select.poll()
    heard.register(connection.fileno(), select.POLLIN)
    if heard.poll(0):
        ConnectionPool.check_connection(connection)


@contextmanager
def reading(pool: Pool) -> Iterator[Connection[TupleRow]]:
    """A connection for single statements that read: each is one round trip, which a transaction would make three."""
    with pool.connection() as connection:
        connection.autocommit = True
        try:
            yield connection
        finally:
            if not connection.closed:
                connection.autocommit = False


#: Any number that no other user of the database takes for the first half of an advisory lock.
_LOCKS = 0x466F6C64


@contextmanager
def alone(database_url: str, work: str, *, seconds: int = 0) -> Iterator[bool]:
    """Whether this process is the only one at some work, until the block ends or the process dies.

    After `seconds`, where they are given, another may begin: a process that is stopped keeps nobody waiting for ever.
    """
    with lone(database_url, work, seconds=seconds) as connection:
        yield connection is not None


@contextmanager
def lone(database_url: str, work: str, *, seconds: int = 0) -> Iterator[Connection[TupleRow] | None]:
    """The connection that makes this process the only one at some work, while it lives; None: another process is."""
    with Bounded.open(database_url, BRIEF, f"idle_session_timeout={seconds}s") as connection:
        row = connection.execute("SELECT pg_try_advisory_lock(%s, hashtext(%s))", (_LOCKS, work)).fetchone()
        yield connection if row is not None and row[0] else None
