"""The parts, each of which is measured by itself."""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path

import structlog

from tests.bench.size import bucket, chunks, endings, files, listing, processes, tasks

PARTS = {
    "tasks": tasks.run,
    "bucket": bucket.run,
    "files": files.run,
    "chunks": chunks.run,
    "endings": endings.run,
    "listing": listing.run,
    "processes": processes.run,
}


def run(place: Path) -> None:
    only = os.environ.get("PART")
    if only and only not in PARTS:
        sys.exit(f"PART is one of {', '.join(PARTS)}.")
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    for name in [only] if only else PARTS:
        print(f"-- {name}", flush=True)
        PARTS[name](place)
