"""A wall clock of a server that a test sets: a preloaded library adds the seconds that a mapped file holds."""

from __future__ import annotations

import shutil
import struct
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path

from api.stack.processes import Program

SOURCE = Path(__file__).with_suffix(".c")


@dataclass(frozen=True, slots=True)
class ServerClock:
    """The clock of every program that was prepared with it."""

    library: Path
    #: Holds the shift in seconds.
    shift: Path

    def preloaded(self, program: Program) -> Program:
        """The same program, with this clock."""
        return replace(program, env={**program.env, "LD_PRELOAD": str(self.library), "SERVER_CLOCK": str(self.shift)})

    def set_ahead(self, seconds: int) -> None:
        """Let the clock show this many seconds more than the machine's."""
        with self.shift.open("r+b") as file:
            file.write(struct.pack("q", seconds))


def build(place: Path) -> ServerClock | None:
    """Compile the library. Returns None on a machine without a C compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        return None
    clock = ServerClock(place / "server_clock.so", place / "server_clock.shift")
    place.mkdir(parents=True, exist_ok=True)
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", clock.library, SOURCE, "-ldl"], check=True)
    clock.shift.write_bytes(struct.pack("q", 0))
    for path in (clock.library, clock.shift):
        path.chmod(0o644)
    return clock
