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

#: What a process does.
Role = Literal["api", "worker", "beat", "watch"]
#: Processes that a view shows.
MAX_SHOWN = 2000
#: Time after which a process that no longer notes that it runs is not shown. It does so every 20 s.
ALIVE = timedelta(seconds=60)
#: Time for which a process that no longer notes that it runs is kept, and work that a worker left to others.
KEPT = timedelta(minutes=10)
#: Time for which work waits for a worker that no longer notes that it runs: it may be starting again.
PATIENCE = timedelta(minutes=2)

_SQL = load("hosts")


@dataclass(frozen=True, slots=True)
class Registration:
    """What a process says of itself when it starts."""

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
    #: Settings that help to tell hosts apart, as they are.
    shown: Mapping[str, Sequence[str]]


@dataclass(frozen=True, slots=True)
class ClockOffset:
    """By how many seconds a clock is ahead of Postgres', and how wrong that may be."""

    seconds: float
    doubt: float


@dataclass(frozen=True, slots=True)
class HostProcess:
    """A process that noted lately that it runs."""

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
    #: Services that it tried to reach, each with what failed, or None if nothing did.
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
        """What a message calls it."""
        return plain(self.node)


@dataclass(frozen=True, slots=True)
class Obstacle:
    """The setting for which a worker leaves work to another one."""

    node: str
    setting: str
    is_unset: bool


@dataclass(frozen=True, slots=True)
class Need:
    """What work needs of a worker: one of these queues, and these settings."""

    work_id: UUID
    queues: Sequence[str]
    settings: Sequence[str]


def salt(connection: Connection[Any]) -> str:
    """Return what is mixed into the hashes of settings."""
    row = connection.execute(_SQL["salt"]).fetchone()
    return str(row[0]) if row else ""


def server_clock(connection: Connection[Any]) -> float:
    """Return the seconds since 1970 by Postgres' clock."""
    row = connection.execute(_SQL["clock"]).fetchone()
    return float(row[0]) if row else 0.0


def note(
    connection: Connection[Any], process: Registration, clock: ClockOffset, reached: Mapping[str, str | None]
) -> None:
    """Note that a process runs, and forget those that do not."""
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
    """Note that a process ends by itself."""
    connection.execute(_SQL["end"], {"id": id_, "alive": ALIVE})


def alive(pool: Pool) -> list[HostProcess]:
    """Return the processes that noted lately that they run, by host."""
    with autocommit(pool) as connection:
        cursor = connection.cursor(row_factory=class_row(HostProcess))
        return cursor.execute(_SQL["alive"], {"limit": MAX_SHOWN, "patience": ALIVE}).fetchall()


def settings_of(pool: Pool, digests: Sequence[str]) -> dict[str, dict[str, str | None]]:
    """Return the hashes of settings by their common digest."""
    with autocommit(pool) as connection:
        return dict(connection.execute(_SQL["settings"], {"digests": list(digests)}).fetchall())


def obstacle(pool: Pool, me: UUID, need: Need, *, unset: bool) -> Obstacle | None:
    """Return the setting for which another worker may do what this one cannot; None if no other one may.

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
    """Whether this worker has just left work to others."""
    with autocommit(pool) as connection:
        row = connection.execute(_SQL["is_declined"], {"me": me, "work_id": work_id}).fetchone()
        return bool(row and row[0])
