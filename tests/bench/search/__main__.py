"""`make bench-search [ONLY=set,…]`: measures search quality, compared with plain BM25 and plain dense retrieval.

`ONLY=tree` compares summary trees with plain search. `BENCH_HOME=folder` keeps the index, so that the next run only
queries. `BENCH_ANSWERS=file` receives each question with its answers, as one line of JSON. Settings in the environment
apply to the service.

`EVAL_DIR=folder` adds the sets `code`, `xquad` and `articles`, which have folds; `FOLDS=name,…` chooses some. Their
first run records what the legs of a search find. Each run compares rankings of that: the service's own, and others
without a part of it.
`ONLY=granularity` compares `config.granularity` over some of both.
`ONLY=regression` fits the weights of ranking to groups of all kinds, and judges the fit by groups left out.
`ONLY=confidence` measures how well scores tell questions with an answer from those of another folder.
`ONLY=partial` measures the recall while a part of the chunks has vectors.

With `BENCH_HOME`, what the legs found is kept too, so that the next run of folds or of the regression needs no service.
Remove `BENCH_HOME` after a change of what the legs find.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from tests.bench.search import granularity, partial_vectors, report, variants
from tests.bench.search.fit import regression
from tests.bench.search.fit.groups import Group, asking, groups, recordings, unanswered
from tests.bench.search.folded import Folds, folded_sets
from tests.bench.search.indexed import indexed
from tests.bench.search.sets import SETS
from tests.bench.search.systems import chunks_of, systems
from tests.bench.search.trees import trees
from tests.bench.search.unanswerable import unanswerable

TREE = "tree"
GRANULARITY = "granularity"
REGRESSION = "regression"
CONFIDENCE = "confidence"
PARTIAL = "partial"
#: What runs keep in `BENCH_HOME`.
KEPT_DIRECTORIES = ("folders", "home", "log", "postgres", "redis", "run")
#: The measures of each set with folds.
FOLDED_MEASURES = {"code": ["nDCG@10"], "xquad": ["recall@10", "MRR"], "articles": ["MRR"]}


def main() -> None:
    folded = folded_sets(Path(eval_dir)) if (eval_dir := os.environ.get("EVAL_DIR")) else {}
    every = [*SETS, TREE, *folded]
    possible = [*every, GRANULARITY, REGRESSION, CONFIDENCE, PARTIAL] if folded else every
    names = os.environ["ONLY"].split(",") if os.environ.get("ONLY") else every
    if unknown := set(names) - set(possible):
        sys.exit(f"ONLY takes {', '.join(possible)}, not {', '.join(sorted(unknown))}.")
    answers_file = Path(path) if (path := os.environ.get("BENCH_ANSWERS")) else None
    with home_of_run() as place:
        if sets := [name for name in names if name in SETS]:
            _compare_systems(place, sets, answers_file)
        if TREE in names:
            trees.run(place, answers_file)
        if GRANULARITY in names:
            prose = Path(os.environ["EVAL_DIR"]) / "xquad" / "xquad.en.json.xz"
            granularity.compare(place, _chosen(folded["code"]), prose)
        if REGRESSION in names:
            every_group = groups(Path(os.environ["EVAL_DIR"]))
            regression.run(every_group, recordings(place, every_group))
        if CONFIDENCE in names:
            _tell_apart(place, groups(Path(os.environ["EVAL_DIR"])))
        if PARTIAL in names:
            partial_vectors.compare(place, {name: _chosen(folds) for name, folds in folded.items()})
        for name in names:
            if name in folded:
                _compare_rankings(place, name, _chosen(folded[name]))


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


def _compare_rankings(place: Path, name: str, folds: Folds) -> None:
    asked = {fold: each.ask() for fold, each in folds.items()}
    # a text in another language answers the same questions
    has_others = name == "code" and len(folds) > 1
    sets = {"asked": asked, "unanswerable": unanswerable(asked)} if has_others else {"asked": asked}
    by_kind = {
        kind: recordings(
            place,
            {
                fold: Group(f"{name}-{fold}", folds[fold].fill, asking(partial(list, questions)))
                for fold, questions in of_kind.items()
            },
            f"{kind}-{name}",
        )
        for kind, of_kind in sets.items()
    }
    print(f"\n== {name}: {sum(len(each.recorded) for each in by_kind['asked'].values())} questions", flush=True)
    variants.compare(by_kind["asked"], FOLDED_MEASURES[name])
    if has_others:
        variants.tell_apart(by_kind["asked"], by_kind["unanswerable"])


def _tell_apart(place: Path, asked: Mapping[str, Group]) -> None:
    without_answer = unanswered(asked)
    with_answer = {name: asked[name] for name in without_answer}
    variants.tell_apart(recordings(place, with_answer), recordings(place, without_answer, "unanswerable"))


def _chosen(folds: Folds) -> Folds:
    names = os.environ["FOLDS"].split(",") if os.environ.get("FOLDS") else list(folds)
    return {name: each for name, each in folds.items() if name in names}


@contextmanager
def home_of_run() -> Iterator[Path]:
    """`BENCH_HOME`, or a directory for this run only. Ends the program if `BENCH_HOME` cannot be used."""
    if kept := os.environ.get("BENCH_HOME"):
        place = Path(kept).resolve()
        for path in (place, *(place / name for name in KEPT_DIRECTORIES)):
            if path.exists() and not path.is_dir():
                sys.exit(f"{path} is no directory; move it away, or set another BENCH_HOME.")
        yield place
    else:
        with tempfile.TemporaryDirectory(prefix="foldex-bench-") as temporary:
            yield Path(temporary)


if __name__ == "__main__":
    main()
