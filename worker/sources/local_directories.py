"""Handles of directories, each opened from its parent's handle without following links."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

from worker.sources.local_keys import Parts

#: Directories that a listing has open at a time.
MAX_OPEN = 32

#: Flags to open a directory.
DIRECTORY = os.O_RDONLY | os.O_DIRECTORY


class OpenDirectories:
    """The directories on the way to the one that was requested last, so that a walk opens each once.

    `root` opens the folder in which all are.
    """

    def __init__(self, root: Callable[[], AbstractContextManager[int]]) -> None:
        self._root = root
        #: Each is below the one before.
        self._opened: list[tuple[Parts, int]] = []

    def handle(self, parts: Parts) -> int:
        """A handle of a directory, open until another one is requested. Raises what opening it does."""
        opened = self._opened
        while opened and parts[: len(opened[-1][0])] != opened[-1][0]:
            os.close(opened.pop()[1])
        if not opened:
            with self._root() as root:
                opened.append(((), os.dup(root)))
        for depth in range(len(opened[-1][0]), len(parts)):
            opened.append((parts[: depth + 1], _below(opened[-1][1], parts[depth])))
            if len(opened) > MAX_OPEN:
                os.close(opened.pop(0)[1])
        return opened[-1][1]

    def close(self) -> None:
        """Close all of them. They may be requested again."""
        while self._opened:
            os.close(self._opened.pop()[1])


def descend(start: int, parts: Sequence[bytes]) -> int:
    """A handle of the directory `parts` below `start`. The caller closes it."""
    handle = os.dup(start)
    for part in parts:
        with closing(handle):
            handle = _below(handle, part)
    return handle


@contextmanager
def closing(handle: int) -> Iterator[int]:
    """Close the handle at the end."""
    try:
        yield handle
    finally:
        os.close(handle)


def _below(parent: int, name: bytes) -> int:
    return os.open(name, DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)
