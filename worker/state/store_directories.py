"""Identifies the directories of this installation, and whether this process sees them.

A directory of vectors or contents has a mark, and Postgres records the mark of the registered one. A process that sees
another directory there would write data that no other process finds, and miss the data of others. So it refuses. Host
names and paths decide nothing: containers share a volume, and a path leads elsewhere when a mount is gone.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import structlog
from psycopg import Connection

from schemas.errors import ContentsElsewhere, VectorsElsewhere
from worker.machine.directory_mark import MarkReader, add_mark, new_mark, read_mark, replace_mark
from worker.machine.host import this_host
from worker.state.pool import Pool, autocommit
from worker.state.queries import load

#: Seconds for which a process caches its reading from Postgres.
TRUSTED_SECONDS = 10.0
#: Seconds for which a directory of vectors must be missing before a new one replaces it: it may just be moved.
MISSING_SECONDS = 60.0
#: Time without a check after which the wait for a missing directory starts again.
LOOK_PAUSE = timedelta(minutes=5)
#: Seconds between two notes that a process refuses a directory, and the time for which a note counts.
NOTE_SECONDS = 5.0
NOTE_COUNTS = timedelta(seconds=30)
#: Maximum number of tables or objects that are looked for in a directory without a mark.
SAMPLE = 1000

Connect = Callable[[], AbstractContextManager[Connection[Any]]]

_SQL = load("store_directories")

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class DirectoryKind:
    """A kind of directory. `holds` returns whether a directory has a table or an object that Postgres names."""

    name: str
    what: str
    #: The query for names of tables or objects that must be in the directory.
    expected: str
    holds: Callable[[Path, str], bool]
    error: type[VectorsElsewhere | ContentsElsewhere]
    #: The alternative to a directory that all machines share.
    instead: str
    #: Whether Foldex can rebuild the contents of a lost directory.
    is_rebuilt: bool


class _Registered(NamedTuple):
    """The mark of the registered directory, and of the FOLDEX_HOME in which it was first seen."""

    id: UUID
    home: UUID | None


class StoreDirectory:
    """A directory in which this process expects the vectors or the contents of the installation.

    Threads may share it. A check that finds the known mark asks Postgres only once in a while.
    """

    def __init__(self, kind: DirectoryKind, path: Path, home: Path, connect: Connect) -> None:
        self.kind, self.path, self._home, self._connect = kind, path, home, connect
        self._marks = MarkReader(path)
        self._known: UUID | None = None
        self._is_refused = False
        self._trusted_until = self._noted = float("-inf")

    def check(self) -> None:
        """Raise the error of the kind unless this is the registered directory. The first one becomes that."""
        with self._disk_errors():
            mark = self._marks.read()
            if mark is None or mark.id != self._known or time.monotonic() > self._trusted_until:
                self._look()

    @contextmanager
    def using(self) -> Iterator[None]:
        """Work in the directory. Raises if another directory took its place during the work."""
        self._check_for_use()
        try:
            yield
        except Exception:
            self._check_for_use()
            raise
        self._check_for_use()

    def note(self, refusal: str) -> None:
        """Let the installation's operator know why this process refuses work, at most once in a while."""
        if time.monotonic() - self._noted > NOTE_SECONDS:
            self._noted = time.monotonic()
            with self._connect() as connection:
                connection.execute(_SQL["refuse"], {"kind": self.kind.name, "refusal": refusal})

    def refusal(self) -> str | None:
        """Return the reason why this process must leave work in the directory to others; None if it need not."""
        try:
            if self._known is None:
                with self._connect() as connection:
                    if _find(connection, self.kind) is None:
                        # the first process that works there registers its directory
                        return None
            self.check()
        except self.kind.error as error:
            return error.message
        return None

    def adopt(self, *, accept_loss: bool) -> None:
        """Register this directory from now on, and no other. Raises `ContentsElsewhere` for a loss not accepted."""
        with self._disk_errors(), self._connect() as connection:
            installation = _installation(connection)
            if not (self.kind.is_rebuilt or accept_loss or self._fits(connection)):
                raise self._refusal(
                    f"lacks {self.kind.what} that Postgres knows; bring them back, or accept their loss with "
                    "--accept-loss."
                )
            mark = read_mark(self.path)
            if mark is None or mark.installation != installation:
                mark = new_mark(installation)
                replace_mark(self.path, mark)
            values = {"kind": self.kind.name, "id": mark.id, "home": self._home_id(installation)}
            connection.execute(_SQL["adopt"], values)

    @contextmanager
    def _disk_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            name = errno.errorcode.get(error.errno or 0, "?")
            raise self._refusal(f"cannot be used ({name}); check its disk, its mount and its permissions.") from error

    def _check_for_use(self) -> None:
        try:
            self.check()
        except self.kind.error as error:
            self.note(error.message)
            raise

    def _look(self) -> None:
        with self._connect() as connection:
            registered = _find(connection, self.kind) or self._claim(connection)
            if read_mark(self.path) is None and self._is_lost(registered):
                registered = self._renew(connection, registered)
            mark = read_mark(self.path)
            if mark is None or mark.id != registered.id:
                raise self._refusal(self._advice())
        self._known, self._is_refused = mark.id, False
        self._trusted_until = time.monotonic() + TRUSTED_SECONDS

    def _claim(self, connection: Connection[Any]) -> _Registered:
        """Register this directory, unless another process is faster."""
        installation = _installation(connection)
        if read_mark(self.path) is None:
            if not self._fits(connection):
                raise self._refusal(
                    f"lacks {self.kind.what} that Postgres knows; start Foldex first where they are, or run "
                    f"`foldex adopt {self.kind.name}` if they are lost."
                )
            add_mark(self.path, new_mark(installation))
        mark = read_mark(self.path)
        if mark is None or mark.installation != installation:
            raise self._refusal(
                f"belongs to another installation of Foldex; set another FOLDEX_HOME, or run "
                f"`foldex adopt {self.kind.name}` if that installation is gone."
            )
        values = {"kind": self.kind.name, "id": mark.id, "home": self._home_id(installation)}
        connection.execute(_SQL["claim"], values)
        return _find(connection, self.kind) or _Registered(mark.id, None)

    def _fits(self, connection: Connection[Any]) -> bool:
        """Return whether at least half of the names from Postgres are here."""
        rows = connection.execute(_SQL[self.kind.expected], {"kind": self.kind.name, "limit": SAMPLE}).fetchall()
        return 2 * sum(self.kind.holds(self.path, name) for (name,) in rows) >= len(rows)

    def _home_id(self, installation: UUID) -> UUID | None:
        # an unwritable home around a writable directory has none
        with suppress(OSError):
            add_mark(self._home, new_mark(installation))
        mark = read_mark(self._home)
        return None if mark is None else mark.id

    def _is_lost(self, registered: _Registered) -> bool:
        """Return whether somebody deleted the directory. A lost mount leaves an empty one, or a dangling link."""
        if not self.kind.is_rebuilt or registered.home is None or os.path.lexists(self.path):
            return False
        home = read_mark(self._home)
        return home is not None and home.id == registered.home

    def _renew(self, connection: Connection[Any], registered: _Registered) -> _Registered:
        """Replace a directory that has been missing for long enough with a new one."""
        values: dict[str, object] = {"kind": self.kind.name, "id": registered.id, "pause": LOOK_PAUSE}
        row = connection.execute(_SQL["miss"], values).fetchone()
        left = MISSING_SECONDS - row[0] if row else 0.0
        if left > 0:
            raise self._refusal(f"is missing; put it back, or wait {left:.0f} s until Foldex makes a new one.", left)
        mark = new_mark(_installation(connection))
        # the mark comes last: if this process dies before it, the directory is still missing
        if row and connection.execute(_SQL["replace"], {**values, "new": mark.id}).rowcount:
            log.warning("a directory is lost; a new one takes its place", directory=str(self.path), kind=self.kind.name)
            add_mark(self.path, mark)
        return _find(connection, self.kind) or registered

    def _advice(self) -> str:
        adopt = f"run `foldex adopt {self.kind.name}` if that one is lost"
        return (
            f"is not the directory that holds this installation's {self.kind.what}; share that one with this machine, "
            f"or {self.kind.instead}, or {adopt}."
        )

    def _refusal(self, said: str, retry_after: float | None = None) -> VectorsElsewhere | ContentsElsewhere:
        error = self.kind.error(f"{self.path} on {this_host().name} {said}")
        error.retry_after = retry_after
        if not self._is_refused:
            log.warning("a directory is refused", code=error.code, reason=error.message)
        self._known, self._is_refused = None, True
        return error


def refusals(pool: Pool) -> Sequence[str]:
    """Return the current reasons of processes that refuse directories."""
    with autocommit(pool) as connection:
        return [text for (text,) in connection.execute(_SQL["refusals"], {"recent": NOTE_COUNTS}).fetchall()]


def _find(connection: Connection[Any], kind: DirectoryKind) -> _Registered | None:
    row = connection.execute(_SQL["find"], {"kind": kind.name}).fetchone()
    return None if row is None else _Registered(*row)


def _installation(connection: Connection[Any]) -> UUID:
    row = connection.execute(_SQL["installation"]).fetchone()
    if row is None:
        raise LookupError("the table installation has no row")
    id_: UUID = row[0]
    return id_
