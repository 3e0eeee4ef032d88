"""Swaps links, directories, files and mounts of a project for its neighbour's, as a hostile tenant does."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from random import Random
from threading import Event, Thread

from worker.machine.handles import closing, open_real

LIBC = ctypes.CDLL(None, use_errno=True)
RENAME_EXCHANGE = 2
CLONE_NEWNS, MS_REC, MS_PRIVATE, MS_BIND, MNT_DETACH = 0x20000, 0x4000, 1 << 18, 0x1000, 2


def in_mount_namespace(act: Callable[[], None]) -> None:
    """Run in a thread with mounts of its own, if this process may have them. What the thread starts has them too."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            LIBC.unshare(CLONE_NEWNS)
            LIBC.mount(None, b"/", None, MS_REC | MS_PRIVATE, None)
            act()
        except BaseException as error:  # noqa: BLE001 - it is raised again
            raised.append(error)

    thread = Thread(target=run)
    thread.start()
    thread.join()
    for error in raised:
        raise error


class Swapper:
    """Swaps `names` of a folder and the folder itself, shows `closed` directories in it, and then puts all back.

    It works by handles: through a link of its own it would move what is the neighbour's.
    """

    def __init__(
        self,
        docs: Path,
        secret: Path,
        names: Sequence[str],
        closed: Sequence[Path],
        rng: Random,
        handles: ExitStack,
    ) -> None:
        self._rng, self.rounds, self.mounts, self._closed = rng, 0, 0, closed
        (docs / "mounted").mkdir()
        away = docs.parent / "away"
        away.mkdir()
        mine, self._docs, self._away = (
            handles.enter_context(closing(open_real(bytes(path)))) for path in (docs.parent, docs, away)
        )
        self._pairs = [(mine, docs.name.encode()), *((self._docs, name.encode()) for name in names)]
        self._is_swapped = [False] * len(self._pairs)
        for (_, name), target in zip(self._pairs, ("", *names), strict=True):
            (away / name.decode()).symlink_to(secret / target)

    def run(self, stop: Event) -> None:
        while not stop.is_set():
            self._exchange(self._rng.randrange(len(self._pairs)))
            if self._rng.random() < 0.2:
                self._mount()
            if self._rng.random() < 0.3:
                stop.wait(self._rng.random() / 200)
            self.rounds += 1
        for number, is_swapped in enumerate(self._is_swapped):
            if is_swapped:
                self._exchange(number)

    def _exchange(self, number: int) -> None:
        """Swap a thing of the project and the link that takes its place, at once."""
        folder, name = self._pairs[number]
        assert LIBC.renameat2(folder, name, self._away, name, RENAME_EXCHANGE) == 0
        self._is_swapped[number] = not self._is_swapped[number]

    def _mount(self) -> None:
        """Show a closed directory in the folder for a moment."""
        place = f"/proc/self/fd/{self._docs}/mounted".encode()
        if LIBC.mount(bytes(self._rng.choice(self._closed)), place, None, MS_BIND, None) == 0:
            self.mounts += 1
            assert LIBC.umount2(place, MNT_DETACH) == 0
