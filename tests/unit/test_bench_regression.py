"""The fit of ranking weights: its ranking against the service's own, and its choice against planted gains."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path
from random import Random
from uuid import UUID

import numpy as np
import pytest

from api.search.chunks.legs import MIN_LEGIBILITY, Kind, Ranking
from api.search.rank.weights import LEG_WEIGHTS, RANKING_WEIGHTS, Weights
from schemas.queries.search import Query
from tests.bench.search.fit import sections
from tests.bench.search.fit.groups import Group, recordings
from tests.bench.search.fit.prepared import order, own_weights, prepared
from tests.bench.search.fit.regression import Measured, fitted
from tests.bench.search.questions import Label, Question
from tests.bench.search.recorded import Recorded, Recording, passages, ranked
from tests.hit_rows import hit_row
from worker.state.search.found_chunks import HitRow
from worker.vectors import RankedRow

WORDS = ["parse", "the", "header", "of", "a", "request", "and", "send", "token", "to", "retry_limit", "Bucket"]
KINDS: tuple[Kind, ...] = ("vector", "text", "code")


def text_of(chance: Random, count: int) -> str:
    return " ".join(chance.choice(WORDS) for _ in range(count))


def random_recording(seed: int, chunks: int = 90) -> Recording:
    """Questions and chunks of random words in a few files; some chunks are near-duplicates."""
    chance = Random(seed)
    rows: dict[str, HitRow] = {}
    for n in range(chunks):
        file = chance.randrange(chunks // 4)
        id_ = str(UUID(int=n))
        code = chance.random() < 0.7
        rows[id_] = hit_row(
            id_,
            file_id=UUID(int=file),
            file_path=f"{chance.choice(['src', 'tests', 'examples'])}/{chance.choice(WORDS)}/{file}.py",
            file_id_path=str(file),
            chunk_index=n,
            file_type="code" if code else "markdown",
            chunk_text=text_of(chance, 30 if n % 7 else 2),
            symbol=chance.choice([None, *WORDS]),
            scope=chance.choice([None, *WORDS]),
            start_line=n,
        )
    recorded = []
    for _ in range(8):
        query = text_of(chance, chance.randrange(1, 9))
        legs = [
            Ranking(query, kind, sorted((RankedRow(id_, chance.random()) for id_ in found), key=lambda row: row.value))
            for kind in KINDS
            for found in [chance.sample(list(rows), chance.choice([0, 60]))]
        ]
        read = chance.choice([MIN_LEGIBILITY, 0.5, 1.0])
        legs = [
            replace(each, legibility=read) if each.kind == "vector" else Ranking(query, each.kind, each.results[::-1])
            for each in legs
        ]
        question = Question(query=query, kind="", relevant=(Label(path=chance.choice(list(rows.values())).file_path),))
        recorded.append(Recorded(question, np.ones(3, dtype=np.float32), legs, chance.sample(list(rows), 2)))
    return Recording(recorded, rows, {})


@pytest.mark.parametrize("seed", range(12))
def test_prepared_questions_are_ranked_as_the_service_ranks_them(seed: int) -> None:
    recording, chance = random_recording(seed), Random(seed)
    weights = {name: value * chance.uniform(0.2, 2) for name, value in own_weights().items()}
    injected = Weights({name: weights[name] for name in LEG_WEIGHTS}, {name: weights[name] for name in RANKING_WEIGHTS})
    for each, question in zip(recording.recorded, prepared(recording), strict=True):
        own = passages(ranked(Query(query=each.question.query), injected, each, recording.rows), 10)
        assert [question.passages[n] for n in order(question, weights)[:10]] == own


def planted(answers: str) -> Measured:
    """Questions whose answer is the chunk with a feature, which the legs put behind another one."""
    first, second = ("src/other.py", answers) if answers != "src/other.py" else ("header/parts.py", answers)
    rows = {
        str(UUID(int=n)): hit_row(str(UUID(int=n)), path, file_id=UUID(int=n), file_path=path)
        for n, path in enumerate((first, second))
    }
    legs = [Ranking("header of file", "vector", [RankedRow(id_, 0.1 + 0.06 * n) for n, id_ in enumerate(rows)])]
    question = Question(query="header of file", kind="", relevant=(Label(path=answers),))
    recorded = Recorded(question, np.ones(3, dtype=np.float32), legs, ())
    return Measured({"a:one": prepared(Recording([recorded], rows, {}))}, {"a:one": "MRR"})


def test_a_weight_that_ranks_the_answer_first_is_raised_and_no_other() -> None:
    measured = planted("header/parts.py")
    assert measured.values("a:one", {}) == [0.5]
    changes = fitted(measured, ["a:one"])
    assert list(changes) == ["path"]
    assert changes["path"] > 0
    assert measured.values("a:one", changes) == [1]


def test_weights_stay_where_nothing_gains() -> None:
    measured = planted("src/none.py")
    measured.questions["a:one"][0].features[:] = 0
    assert fitted(measured, ["a:one"]) == {}


def test_a_recording_on_disk_needs_no_service(tmp_path: Path) -> None:
    recording = random_recording(1)
    questions = [each.question for each in recording.recorded]
    (tmp_path / "asked-a-one.pickle").write_bytes(pickle.dumps(recording))
    group = Group("one", lambda _: pytest.fail("indexed"), lambda _: questions)
    found = recordings(tmp_path, {"a:one": group})
    assert [each.question for each in found["a:one"].recorded] == questions


@pytest.mark.skipif(not sections.MANUALS.is_dir(), reason="install nodejs-doc to run")
def test_a_section_does_not_hold_the_sentence_that_asks_for_it(tmp_path: Path) -> None:
    sections.fill(tmp_path / "filled")
    asked = sections.ask()
    assert len({question.query for question in asked}) == len(asked) >= 100
    for question in asked:
        (label,) = question.relevant
        first, last = label.lines or (0, 0)
        lines = (tmp_path / "filled" / label.path).read_text().splitlines()[first - 1 : last]
        assert lines[0].startswith("#")
        assert question.query not in " ".join(" ".join(lines).split())
