"""`make bench-search [ONLY=set,…]`: measures search quality, compared with plain BM25 and plain dense retrieval.

`BENCH_HOME=folder` keeps the index, so that the next run only queries. `BENCH_ANSWERS=file` receives each question with
its answers, as one line of JSON. Settings in the environment apply to the service.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.bench.search import report
from tests.bench.search.indexed import indexed
from tests.bench.search.sets import SETS
from tests.bench.search.systems import chunks_of, systems


def main() -> None:
    names = os.environ["ONLY"].split(",") if os.environ.get("ONLY") else list(SETS)
    if unknown := set(names) - SETS.keys():
        sys.exit(f"ONLY takes {', '.join(SETS)}, not {', '.join(sorted(unknown))}.")
    with _home() as place, indexed(place, names) as (service, tools):
        for name in names:
            questions, chunks = SETS[name].ask(), chunks_of(service, tools[name])
            print(f"\n== {name}: {len(questions)} questions, {len(chunks.passages)} chunks", flush=True)
            every = systems(service, tools[name], chunks)
            answers = {system: [ask(question.query) for question in questions] for system, ask in every.items()}
            report.show(questions, answers)
            if path := os.environ.get("BENCH_ANSWERS"):
                report.write(Path(path), name, questions, answers)


@contextmanager
def _home() -> Iterator[Path]:
    if kept := os.environ.get("BENCH_HOME"):
        yield Path(kept).resolve()
    else:
        with tempfile.TemporaryDirectory(prefix="foldex-bench-") as place:
            yield Path(place)


if __name__ == "__main__":
    main()
