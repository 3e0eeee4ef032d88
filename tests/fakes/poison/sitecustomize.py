"""Parsers that kill, hang and exhaust a worker. Python imports this module first if a test puts it on a worker's path.

A file that contains KILL-ME kills its process, LOOP-FOR-EVER never returns, and EAT-ALL-MEMORY raises MemoryError. A
file that contains KILL-LATER kills the process that embeds it.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence

from schemas.content.document import Document
from worker import parse
from worker.embed import Vectors
from worker.embed.local.minilm import LocalEmbedder
from worker.formats.detect import Detected
from worker.index import lease
from worker.state.index import files

_parse = parse.parse
_embed = LocalEmbedder.embed
lease.KILL_FACTOR = 1.5 / 60
files.MAX_DEATHS = 1


def poisoned(file: Detected, data: bytes, limits: parse.Limits, *, binaries: bool = False) -> Document:
    if b"KILL-ME" in data:
        os.kill(os.getpid(), signal.SIGKILL)
    while b"LOOP-FOR-EVER" in data:
        pass
    if b"EAT-ALL-MEMORY" in data:
        raise MemoryError
    return _parse(file, data, limits, binaries=binaries)


def fatal(self: LocalEmbedder, texts: Sequence[str]) -> Vectors:
    if any("KILL-LATER" in text for text in texts):
        os.kill(os.getpid(), signal.SIGKILL)
    return _embed(self, texts)


LocalEmbedder.embed = fatal  # type: ignore[method-assign] # so that every caller gets it
parse.parse = poisoned
