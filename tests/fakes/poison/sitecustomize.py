"""Parsers that kill, hang and exhaust: on the path of a test's workers, it is imported before anything else.

A file that says KILL-ME ends its process, LOOP-FOR-EVER never returns, and EAT-ALL-MEMORY raises MemoryError.
"""

from __future__ import annotations

import os
import signal

from schemas.document import Document
from worker import lease, parse

_parse = parse.parse
lease.PARSE_SECONDS = 1.5


def poisoned(name: str, data: bytes, limits: parse.Limits, *, binaries: bool = False) -> Document:
    if b"KILL-ME" in data:
        os.kill(os.getpid(), signal.SIGKILL)
    while b"LOOP-FOR-EVER" in data:
        pass
    if b"EAT-ALL-MEMORY" in data:
        raise MemoryError
    return _parse(name, data, limits, binaries=binaries)


parse.parse = poisoned
