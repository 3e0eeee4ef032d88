"""`foldex logs`: the end of what the stack's processes have written, and what they go on to write."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import cycle
from pathlib import Path

import click

from api.cli.invocation import VerbFailed
from api.cli.terminal.output import clean

#: Seconds between two looks at logs that are followed.
LOOK_SECONDS = 0.3
#: Bytes that are read at a time.
BLOCK = 1 << 16
#: Bytes before a log's end among which its last lines are looked for.
TAIL_BYTES = 4 << 20
#: Bytes of a line after which it is shown in parts.
MAX_LINE = 1 << 16
COLOURS = ("cyan", "yellow", "green", "magenta", "blue", "red")


def names_of(home: Path) -> list[str]:
    """The names of all logs in `home`."""
    return sorted(path.stem for path in (home / "log").glob("*.log"))


def logs_of(home: Path, names: Sequence[str]) -> list[Log]:
    """The logs in `home`: those that are named, or all. Raises `VerbFailed` for one that does not exist."""
    found = names_of(home)
    for name in names:
        if name not in found:
            remedy = f"name one of {', '.join(found)}" if found else "start it with `foldex up -d`"
            raise VerbFailed(f"Foldex in {home} has no log {name!r}; {remedy}.")
    return [Log(home, name) for name in dict.fromkeys(names or found)]


def show(logs: Sequence[Log], count: int, *, follow: bool) -> None:
    """Print the last lines of each log, and with `follow` those that are written until Ctrl-C."""
    width = max(len(log.name) for log in logs)
    colours = dict(zip([log.name for log in logs], cycle(COLOURS), strict=False))

    def print_lines(log: Log, lines: Iterator[str]) -> None:
        mark = "" if len(logs) == 1 else click.style(f"{log.name:<{width}} | ", fg=colours[log.name])
        for line in lines:
            click.echo(f"{mark}{clean(line)}")

    for log in logs:
        print_lines(log, iter(log.last(count)))
    while follow:
        time.sleep(LOOK_SECONDS)
        for log in logs:
            print_lines(log, log.new())


class Log:
    """A log of a process. It may be moved away or made shorter while it is read."""

    def __init__(self, home: Path, name: str) -> None:
        self.name = name
        self._path = home / "log" / f"{name}.log"
        self._inode = self._position = 0
        self._part = b""

    def last(self, count: int) -> list[str]:
        """The last lines. `new` goes on after them."""
        found = self._path.stat()
        self._inode, self._position = found.st_ino, max(0, found.st_size - TAIL_BYTES)
        is_cut = self._position > 0
        lines = self.new()
        if is_cut:
            next(lines, None)
        return list(deque(lines, maxlen=count))

    def new(self) -> Iterator[str]:
        """The lines that were written since the last look."""
        try:
            file = self._path.open("rb")
        except FileNotFoundError:
            # it was moved away, and a new one begins soon
            return
        with file:
            found = os.fstat(file.fileno())
            if found.st_ino != self._inode or found.st_size < self._position:
                self._inode, self._position, self._part = found.st_ino, 0, b""
            file.seek(self._position)
            while block := file.read(BLOCK):
                self._position += len(block)
                *whole, self._part = (self._part + block).split(b"\n")
                for line in whole:
                    yield line.decode(errors="replace")
                if len(self._part) > MAX_LINE:
                    yield self._part.decode(errors="replace")
                    self._part = b""
