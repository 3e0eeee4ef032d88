"""A helper that acts as each request says: in one way as the first of its process, and in another as a later one."""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
from typing import Any

from worker.sandbox.protocol import ANSWER, REQUEST


def main() -> None:
    """Serve until the parent closes the pipe."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    place = 0
    while lengths := sys.stdin.buffer.read(REQUEST.size):
        head_bytes, data_bytes = REQUEST.unpack(lengths)
        head = json.loads(sys.stdin.buffer.read(head_bytes))
        sys.stdin.buffer.read(data_bytes)
        _act(head["used" if place else "fresh"], place)
        place += 1


def _act(how: str, place: int) -> None:
    if how == "dies":
        os._exit(1)
    if how in {"SIGABRT", "SIGXCPU", "SIGKILL"}:
        os.kill(os.getpid(), signal.Signals[how])
    answers: dict[str, dict[str, Any]] = {
        "memory": {"memory": True, "last": True},
        "refuses": {"reason": "parse_failed", "message": "It is damaged."},
        "answers": {"place": place},
    }
    head = json.dumps(answers[how]).encode()
    sys.stdout.buffer.write(ANSWER.pack(len(head), 0) + head)
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
