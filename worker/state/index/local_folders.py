"""The machine whose local folder an index is of, and the machines that cannot see that folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import NamedTuple
from uuid import UUID

from psycopg.rows import class_row

from worker.machine.host import Host
from worker.state.hosts import PATIENCE
from worker.state.pool import Pool, autocommit
from worker.state.queries import load

#: Time for which a machine leaves the work on a folder to others. Then it looks again.
REFUSED = timedelta(minutes=1)
#: Time after which a machine that listed a folder no longer reserves it, because the machine is gone.
UNSEEN = timedelta(days=1)
#: Time for which machines are remembered.
KEPT = timedelta(days=7)
#: Number of files among which the newest ones are compared.
MAX_FILES = 5000

_SQL = load("index/local_folders")


class FolderView(NamedTuple):
    """Identity of a folder on a machine: its inode, its device with the kernel's id, and its change time."""

    inode: str
    place: str | None
    changed_ns: int


@dataclass(frozen=True, slots=True)
class IndexedFolder:
    """A folder as it was last listed: the machine, and the folder's identity there."""

    index_id: UUID
    host_id: str
    host_name: str
    inode: str
    place: str | None
    changed_ns: int
    #: Whether that machine's workers run now, and whether they ran recently.
    is_running: bool
    is_known: bool

    @property
    def view(self) -> FolderView:
        """The folder's identity on that machine."""
        return FolderView(self.inode, self.place, self.changed_ns)


def note_machine(pool: Pool, host: Host) -> None:
    """Record that workers of a machine run, and delete machines that are long gone."""
    values = {"host_id": host.id, "kept": KEPT}
    with autocommit(pool) as connection:
        for name in ("seen", "forget_hosts"):
            connection.execute(_SQL[name], values)


def find(pool: Pool, index_id: UUID, path: str) -> IndexedFolder | None:
    """Return the folder that was last listed at a path, for this index or else for another one."""
    values = {"index_id": index_id, "path": path, "unseen": UNSEEN, "patience": PATIENCE}
    with autocommit(pool) as connection:
        return connection.cursor(row_factory=class_row(IndexedFolder)).execute(_SQL["find"], values).fetchone()


def sample(pool: Pool, index_id: UUID) -> Sequence[tuple[bytes, str]]:
    """Return keys and stamps of files of an index."""
    with autocommit(pool) as connection:
        return connection.execute(_SQL["sample"], {"index_id": index_id, "limit": MAX_FILES}).fetchall()


def note_listed(pool: Pool, index_id: UUID, path: str, host: Host, view: FolderView) -> None:
    """Record the machine that lists a folder now, and the folder's identity there."""
    values = {"index_id": index_id, "path": path, "host_id": host.id, "host_name": host.name}
    with autocommit(pool) as connection:
        connection.execute(_SQL["listed"], {**values, **view._asdict()})


def leave(pool: Pool, task_id: UUID, index_id: UUID, host: Host, queues: Sequence[str], warning: str) -> bool:
    """Leave a task to other machines for a while. Returns False if all machines have looked already."""
    values = {"index_id": index_id, "host_id": host.id, "host_name": host.name, "task_id": task_id}
    values |= {"queues": list(queues), "patience": PATIENCE, "refused": REFUSED, "warning": warning}
    with autocommit(pool) as connection:
        if connection.execute(_SQL["others"], values).fetchone() is None:
            return False
        connection.execute(_SQL["refuse"], values)
        connection.execute(_SQL["release"], values)
    return True


def end(pool: Pool, index_id: UUID) -> list[str]:
    """Return the names of the machines that looked in vain, and let all machines look again."""
    with autocommit(pool) as connection:
        return sorted({name for (name,) in connection.execute(_SQL["end"], {"index_id": index_id})})
