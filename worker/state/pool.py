"""Pools of connections to Postgres."""

from __future__ import annotations

import functools
import select
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from psycopg import Connection, OperationalError
from psycopg.errors import LockNotAvailable
from psycopg.rows import TupleRow
from psycopg_pool import ConnectionPool, PoolTimeout

from schemas.errors import Locked, ProjectBusy
from worker.machine.sharing import owner
from worker.machine.sharing.slots import Slots
from worker.state.address import Address
from worker.state.connections import WORK, BoundedConnection, ConnectionLimits, SilenceGuard, be_brief, parameters
from worker.state.schema_version import SchemaGate

Pool = ConnectionPool[Connection[TupleRow]]
P = ParamSpec("P")
T = TypeVar("T")

#: Seconds for which a pool keeps trying to open one connection, and its pause between two attempts.
_RECONNECT_SECONDS, _RECONNECT_PAUSE_SECONDS = 60.0, 0.2
#: Seconds between two attempts at a transaction that met a lock.
_AGAIN_PAUSE_SECONDS = 0.1


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


class GuardedPool(ConnectionPool[Connection[TupleRow]]):
    """A pool whose users do not wait for a server that is known to be silent.

    Where calls of many projects share it, one project gets at most two thirds of it, or half while others use it.
    """

    def __init__(
        self, database: Address, limits: ConnectionLimits, *, max_size: int, gate: SchemaGate | None, **options: Any
    ) -> None:
        self.limits, self._guard, self._gate = limits, SilenceGuard(database), gate
        #: Limits the transactions that may wait for locks.
        self.waiting = Slots(max(1, max_size // 2), per_owner=max(1, max_size // 6))
        self._shares = Slots(max_size, max(1, max_size * 2 // 3), beside=max(1, max_size // 2))
        super().__init__(
            connection_class=PooledConnection,
            kwargs={**parameters(database, limits), "guard": self._guard},
            configure=self._restrict,
            timeout=limits.pool,
            max_idle=limits.rest,
            # the connection itself retries, and so does the next user after it
            reconnect_timeout=0.0,
            check=_check,
            max_size=max_size,
            # one thread maintains the pool while the others open connections
            num_workers=max_size + 1,
            **options,
        )

    @contextmanager
    def connection(self, timeout: float | None = None) -> Iterator[Connection[TupleRow]]:
        """See psycopg. Also raises `ServerSilent`, and `SchemaBehind` if there is a gate."""
        self._guard.check()
        patience = self.timeout if timeout is None else timeout
        until = time.monotonic() + patience
        with ExitStack() as stack:
            try:
                self._take_share(stack, patience)
                connection = stack.enter_context(super().connection(max(0.0, until - time.monotonic())))
            except PoolTimeout:
                # all connections are in use, or none can be opened
                self._guard.suspect()
                raise
            # not in the pool's `reset`, which passes each connection to another thread and back
            be_brief(connection)
            if self._gate is not None:
                self._gate.check(connection)
            yield connection

    def _take_share(self, stack: ExitStack, patience: float) -> None:
        """Hold one of the connections that the current owner may have. Raises `PoolTimeout` and `ProjectBusy`."""
        whose = owner.current.get()
        if whose is None:
            return
        until = time.monotonic() + patience

        def wait_on() -> None:
            self._guard.check()
            if time.monotonic() < until:
                return
            if self._shares.holds_share(whose):
                self._guard.suspect()
                raise ProjectBusy(
                    "This project already uses its share of the connections to Postgres; try again shortly."
                )
            raise PoolTimeout(f"no connection became free within {patience:g} s")

        stack.enter_context(self._shares.waiting(wait_on, whose))

    def close(self, timeout: float = 5.0) -> None:
        """See psycopg."""
        self._guard.is_over = True
        super().close(timeout)

    def _restrict(self, connection: Connection[Any]) -> None:
        if isinstance(connection, BoundedConnection):
            connection.guard = self._guard
            connection.restrict(self.limits)


def open_pool(
    database: Address,
    *,
    max_size: int = 4,
    limits: ConnectionLimits = WORK,
    gate: SchemaGate | None = None,
    **options: Any,
) -> Pool:
    """Open a pool that checks connections before lending them, so that a restart of Postgres goes unnoticed.

    A process that did not wait for its schema has a `gate`.
    """
    return GuardedPool(database, limits, max_size=max_size, gate=gate, min_size=0, open=True, **options)


def _check(connection: Connection[Any]) -> None:
    """Probe the server only if data waits to be read: a server sends a message when it shuts down, but none when idle.

    Raises `OperationalError`, so that the pool takes another connection.
    """
    heard = select.poll()
    heard.register(connection.fileno(), select.POLLIN)
    if heard.poll(0):
        ConnectionPool.check_connection(connection)


def again_if_locked(work: Callable[Concatenate[Pool, P], T]) -> Callable[Concatenate[Pool, P], T]:
    """Repeat a transaction that met a lock for as long as its pool allows. It holds nothing in between.

    So a caller gets rows that another transaction locks for some seconds, and nobody waits for rows that this one
    locked. Such transactions together use at most half of the connections, and only a few of them may concern the same
    object.
    """

    def repeated(pool: Pool, /, *args: P.args, **kwargs: P.kwargs) -> T:
        if not isinstance(pool, GuardedPool) or not pool.limits.again:
            return work(pool, *args, **kwargs)
        until = time.monotonic() + pool.limits.again
        # the object that the caller changes: a project, a tool, or a dependency of a tool
        owner = str(getattr(args[0], "project_id", args[0])) if args else ""
        told = Locked(Locked.example)
        while True:
            try:
                with pool.waiting.within(max(until - time.monotonic(), _AGAIN_PAUSE_SECONDS), told, owner):
                    return work(pool, *args, **kwargs)
            except LockNotAvailable:
                if time.monotonic() >= until:
                    raise
            time.sleep(_AGAIN_PAUSE_SECONDS)

    return functools.wraps(work)(repeated)


@contextmanager
def autocommit(pool: Pool) -> Iterator[Connection[TupleRow]]:
    """Yield a connection for single statements: each takes one round trip instead of three in a transaction."""
    with pool.connection() as connection:
        connection.autocommit = True
        try:
            yield connection
        finally:
            if not connection.closed:
                connection.autocommit = False
