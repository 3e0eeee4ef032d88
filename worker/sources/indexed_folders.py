"""Local folders of indexes: all machines that share a folder work on it, and other machines leave it to them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from schemas.content.source import AnySource, LocalSource
from schemas.errors import FolderElsewhere, FolderGone, FoldexError, SourceRefused
from worker.machine.host import Host
from worker.sources import Source
from worker.sources.local import LocalFolder
from worker.sources.local_identity import is_same, view_of
from worker.state.index import local_folders
from worker.state.index.local_folders import FolderView, IndexedFolder
from worker.state.index.tools import Index
from worker.state.pool import Pool

#: Seconds between two heartbeats of this machine's workers from one process.
NOTE_SECONDS = 60.0
#: Maximum number of folders that a process remembers to have compared.
MAX_COMPARED = 1000
#: Errors that another machine may not have.
_OF_A_MACHINE = (FolderGone, FolderElsewhere, SourceRefused)


@dataclass
class IndexedFolders:
    """The folders of the machine `host`. `open` opens a project's source."""

    host: Host
    pool: Callable[[], Pool]
    open: Callable[[str, AnySource], Source]
    #: The last comparison that found the same folder, by index.
    _compared: dict[UUID, tuple[IndexedFolder, FolderView]] = field(default_factory=dict)
    _note_due: float = 0.0

    def check(self, index: Index, *, accept: bool = False) -> None:
        """Raise `FolderElsewhere` if another machine that is not gone indexed another folder at this path.

        With `accept`, it accepts this folder unless the workers of that machine run. Raises `SourceError` as opening
        the folder does, if it must be compared.
        """
        if not isinstance(index.source, LocalSource):
            return
        known = local_folders.find(self.pool(), index.id, index.source.path)
        if known is None or known.host_id == self.host.id:
            return
        if not (known.is_running if accept else known.is_known):
            return
        folder = self._folder(index)
        compared = known, view_of(folder)
        if self._compared.get(index.id) == compared:
            return
        if not is_same(folder, known.view, local_folders.sample(self.pool(), known.index_id)):
            raise FolderElsewhere(
                f"{index.source.path} on {self.host.name} is not the folder that {known.host_name} indexed; mount that "
                f"one, start the workers of {known.host_name}, or, if that machine is gone, reindex with "
                '{"allow_removals": true}.'
            )
        if len(self._compared) >= MAX_COMPARED:
            self._compared.clear()
        self._compared[index.id] = compared

    def begin(self, index: Index, *, accept: bool) -> None:
        """Record that this machine lists the folder now. Raises as `check` does."""
        self.check(index, accept=accept)
        if isinstance(index.source, LocalSource):
            view = view_of(self._folder(index))
            local_folders.note_listed(self.pool(), index.id, index.source.path, self.host, view)

    def leave(self, task_id: UUID, index: Index, queues: Sequence[str], error: FoldexError) -> FoldexError | None:
        """Leave a task over a folder that this machine lacks to other machines' workers on the same queues.

        Returns None on success. If all machines looked in vain, or there is none, returns the error that ends the task.
        """
        if not isinstance(index.source, LocalSource) or not isinstance(error, _OF_A_MACHINE):
            return error
        warning = f"Waiting: another machine may have the folder. {error.message}"
        if local_folders.leave(self.pool(), task_id, index.id, self.host, queues, warning):
            return None
        others = set(local_folders.end(self.pool(), index.id)) - {self.host.name}
        if not others:
            return error
        names = ", ".join(sorted({*others, self.host.name}))
        return error.with_message(f"{error.message.removesuffix('.')} (the machines that looked: {names}).")

    def note_host(self) -> None:
        """Record that workers of this machine run."""
        if time.monotonic() >= self._note_due:
            self._note_due = time.monotonic() + NOTE_SECONDS
            local_folders.note_machine(self.pool(), self.host)

    def _folder(self, index: Index) -> LocalFolder:
        folder = self.open(index.project_id, index.source)
        if not isinstance(folder, LocalFolder):
            raise TypeError(f"{index.source} is not a local folder")
        return folder
