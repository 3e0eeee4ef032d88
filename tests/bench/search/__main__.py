"""`make bench-search [ONLY=set,…]`: measures search quality, compared with plain BM25 and plain dense retrieval.

`ONLY=tree` compares summary trees with plain search. `BENCH_HOME=folder` keeps the index, so that the next run only
queries. `BENCH_ANSWERS=file` receives each question with its answers, as one line of JSON. Settings in the environment
apply to the service.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.bench.search import report
from tests.bench.search.indexed import indexed
from tests.bench.search.sets import SETS
from tests.bench.search.systems import chunks_of, systems
from tests.bench.search.trees import trees

TREE = "tree"


def main() -> None:
    every = [*SETS, TREE]
    names = os.environ["ONLY"].split(",") if os.environ.get("ONLY") else every
    if unknown := set(names) - set(every):
        sys.exit(f"ONLY takes {', '.join(every)}, not {', '.join(sorted(unknown))}.")
    answers_file = Path(path) if (path := os.environ.get("BENCH_ANSWERS")) else None
    with _home() as place:
        if sets := [name for name in names if name != TREE]:
            _compare_systems(place, sets, answers_file)
        if TREE in names:
            trees.run(place, answers_file)


def _compare_systems(place: Path, names: Sequence[str], answers_file: Path | None) -> None:
    with indexed(place, {name: SETS[name].fill for name in names}) as (service, tools):
        for name in names:
            questions, chunks = SETS[name].ask(), chunks_of(service, tools[name])
            print(f"\n== {name}: {len(questions)} questions, {len(chunks.passages)} chunks", flush=True)
            every = systems(service, tools[name], chunks)
            answers = {system: [ask(question.query) for question in questions] for system, ask in every.items()}
            report.show(questions, answers)
            if answers_file:
                report.write(answers_file, name, questions, answers)


@contextmanager
def _home() -> Iterator[Path]:
    if kept := os.environ.get("BENCH_HOME"):
        yield Path(kept).resolve()
    else:
        with tempfile.TemporaryDirectory(prefix="foldex-bench-") as place:
            yield Path(place)


if __name__ == "__main__":
    main()
