"""`make bench [ONLY=name]`: prints each figure and how it was measured."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from tests.bench import (
    acl,
    blind,
    command,
    fleet,
    folder,
    formats,
    fuzz,
    grep,
    idle,
    incremental,
    keywords,
    mcp,
    neighbours,
    parallel,
    queries,
    small,
    stages,
    tasks,
    trees,
    vectors,
    words,
)
from tests.bench.size import million, parts
from tests.bench.symbols import measured as symbols

BENCHES = {
    "acl": acl.run,
    "small": small.run,
    "formats": formats.run,
    "fuzz": fuzz.run,
    "folder": folder.run,
    "words": words.run,
    "stages": stages.run,
    "incremental": incremental.run,
    "parallel": parallel.run,
    "keywords": keywords.run,
    "blind": blind.run,
    "queries": queries.run,
    "size": parts.run,
    "million": million.run,
    "grep": grep.run,
    "neighbours": neighbours.run,
    "command": command.run,
    "mcp": mcp.run,
    "tasks": tasks.run,
    "tree": trees.run,
    "vectors": vectors.run,
    "idle": idle.run,
    "fleet": fleet.run,
    "symbols": symbols.run,
}


def main() -> None:
    only = os.environ.get("ONLY")
    if only and only not in BENCHES:
        sys.exit(f"ONLY is one of {', '.join(BENCHES)}.")
    for name in [only] if only else BENCHES:
        print(f"== {name}", flush=True)
        with tempfile.TemporaryDirectory(prefix="foldex-bench-") as place:
            BENCHES[name](Path(place))


if __name__ == "__main__":
    main()
