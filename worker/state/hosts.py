"""The registry of hosts (`host_process`): the processes on all machines, and work that they leave to others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal
from uuid import UUID

from psycopg import Connection
from psycopg.rows import class_row
from psycopg.types.json import Jsonb

from worker.machine.host import Host, plain, plain_name
from worker.state.pool import Pool, autocommit
from worker.state.queries import load

#: The role of a process.
Role = Literal["api", "worker", "beat", "watch"]
#: Maximum number of processes that a view shows.
MAX_SHOWN = 2000
#: Time after which a process without a heartbeat is not shown. A heartbeat is due every 20 s.
ALIVE = timedelta(seconds=60)
#: Time for which the rows of a process without a heartbeat are kept, and the work that a worker left to others.
KEPT = timedelta(minutes=10)
#: Time for which work waits for a worker without a heartbeat, because it may be restarting.
PATIENCE = timedelta(minutes=2)

_SQL = load("hosts")


@dataclass(frozen=True, slots=True)
class Registration:
    """The data that a process registers when it starts."""

    id: UUID
    host: Host
    role: Role
    node: str
    queues: Sequence[str]
    release: str
    needed_schema: str
    #: Hashes of settings by name; None for one that is not set.
    settings: Mapping[str, str | None]
    settings_digest: str
    #: Settings in plain text that help to distinguish hosts.
    shown: Mapping[str, Sequence[str]]


@dataclass(frozen=True, slots=True)
class ClockOffset:
    """The seconds by which a clock is ahead of Postgres', and the uncertainty of that."""

    seconds: float
    doubt: float


@dataclass(frozen=True, slots=True)
class HostProcess:
    """A process with a recent heartbeat."""

    id: UUID
    host_id: str
    host_name: str
    role: Role
    node: str
    queues: list[str]
    release: str
    needed_schema: str
    settings_digest: str
    shown: dict[str, list[str]]
    #: Services that it tried to reach, each with the error, or None if there was none.
    reached: dict[str, str | None]
    clock_seconds: float
    clock_doubt_seconds: float
    unseen_seconds: float

    @property
    def host(self) -> Host:
        """The machine that it runs on. Another machine wrote its name."""
        return Host(plain_name(self.host_name), plain(self.host_id))

    @property
    def name(self) -> str:
        """The name of the process in messages."""
        return plain(self.node)


@dataclass(frozen=True, slots=True)
class Obstacle:
    """The setting that makes a worker leave work to another one."""

    node: str
    setting: str


@dataclass(frozen=True, slots=True)
class Need:
    """The requirements of work: a worker on one of these queues, with these settings."""

    work_id: UUID
    queues: Sequence[str]
    settings: Sequence[str]


def salt(connection: Connection[Any]) -> str:
    """Return the salt of the hashes of settings."""
    row = connection.execute(_SQL["salt"]).fetchone()
    return str(row[0]) if row else ""


def server_clock(connection: Connection[Any]) -> float:
    """Return the seconds since 1970 by Postgres' clock."""
    row = connection.execute(_SQL["clock"]).fetchone()
    return float(row[0]) if row else 0.0


def note(
    connection: Connection[Any], process: Registration, clock: ClockOffset, reached: Mapping[str, str | None]
) -> None:
    """Record the heartbeat of a process, and delete processes without one."""
    values = {
        "id": process.id,
        "host_id": process.host.id,
        "host_name": process.host.name,
        "role": process.role,
        "node": process.node,
        "queues": list(process.queues),
        "release": process.release,
        "needed_schema": process.needed_schema,
        "settings": Jsonb(process.settings),
        "settings_digest": process.settings_digest,
        "shown": Jsonb(process.shown),
        "reached": Jsonb(reached),
        "clock_seconds": clock.seconds,
        "clock_doubt_seconds": clock.doubt,
    }
    connection.execute(_SQL["note"], values)
    for query in ("forget_old", "forget_declined"):
        connection.execute(_SQL[query], {"kept": KEPT})


def end(connection: Connection[Any], id_: UUID) -> None:
    """Record that a process ends normally."""
    connection.execute(_SQL["end"], {"id": id_, "alive": ALIVE})


def alive(pool: Pool) -> list[HostProcess]:
    """Return the processes with a recent heartbeat, by host."""
    with autocommit(pool) as connection:
        cursor = connection.cursor(row_factory=class_row(HostProcess))
        return cursor.execute(_SQL["alive"], {"limit": MAX_SHOWN, "patience": ALIVE}).fetchall()


def settings_of(pool: Pool, digests: Sequence[str]) -> dict[str, dict[str, str | None]]:
    """Return the hashes of settings by their common digest."""
    with autocommit(pool) as connection:
        return dict(connection.execute(_SQL["settings"], {"digests": list(digests)}).fetchall())


def obstacle(pool: Pool, me: UUID, need: Need, *, unset: bool) -> Obstacle | None:
    """Return the setting with which another worker may do work that this one cannot; None if none may.

    With `unset`, only a setting counts that this worker lacks and the other one has.
    """
    values = {"me": me, "work_id": need.work_id, "queues": list(need.queues), "names": list(need.settings)}
    with autocommit(pool) as connection:
        cursor = connection.cursor(row_factory=class_row(Obstacle))
        return cursor.execute(_SQL["others"], {**values, "unset": unset, "patience": PATIENCE}).fetchone()


def decline(pool: Pool, me: UUID, work_id: UUID) -> None:
    """Leave work to other workers for a while."""
    with autocommit(pool) as connection:
        connection.execute(_SQL["decline"], {"me": me, "work_id": work_id})


def is_declined(pool: Pool, me: UUID, work_id: UUID) -> bool:
    """Return whether this worker has just left work to others."""
    with autocommit(pool) as connection:
        row = connection.execute(_SQL["is_declined"], {"me": me, "work_id": work_id}).fetchone()
        return bool(row and row[0])
