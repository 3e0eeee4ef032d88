"""Child processes, whether this process made them or a fork server did."""

from __future__ import annotations

import os
import subprocess
import time

#: Seconds between two looks whether a process has ended.
_LOOK_SECONDS = 0.02


class ForkedChild:
    """A child that a fork server made, with the methods of `subprocess.Popen` that are used here."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """The exit code, or None while the child runs."""
        if self.returncode is None:
            try:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
            except ChildProcessError:  # another one waited for it; Popen says 0 then, too
                pid, status = self.pid, 0
            self.returncode = os.waitstatus_to_exitcode(status) if pid else None
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """The exit code, once the child has ended. Raises `subprocess.TimeoutExpired` after `timeout` seconds."""
        began = time.monotonic()
        while (code := self.poll()) is None:
            if timeout is not None and time.monotonic() - began > timeout:
                raise subprocess.TimeoutExpired(str(self.pid), timeout)
            time.sleep(_LOOK_SECONDS)
        return code

    def send_signal(self, sig: int) -> None:
        """Send a signal, unless the child has ended."""
        if self.poll() is None:
            os.kill(self.pid, sig)


Child = subprocess.Popen[bytes] | ForkedChild
