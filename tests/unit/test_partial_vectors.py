"""An index of which a part has vectors answers no worse than one with words alone, in the ranking of the service."""

from __future__ import annotations

import random
from collections.abc import Sequence
from statistics import fmean
from uuid import uuid4

import numpy as np
import pytest

from api.search.chunks.legs import Kind, Ranking
from tests.bench.search import partial_vectors
from tests.bench.search.partial_vectors import SHARES, by_chunk, by_file, losses, recalls, smallest_first, with_share
from tests.bench.search.questions import Label, Question
from tests.bench.search.recorded import Recorded, Recording
from tests.hit_rows import hit_row
from worker.state.search.found_chunks import HitRow
from worker.vectors import Ranked

#: Each leg with the share of questions that it answers early, and its scores.
LEGS: Sequence[tuple[Kind, float, Sequence[float]]] = (
    ("text", 0.6, np.linspace(20, 5, 100).tolist()),
    ("code", 0.6, np.linspace(20, 5, 100).tolist()),
    ("vector", 0.8, np.linspace(0.3, 0.9, 100).tolist()),
)
#: Questions, and chunks that each leg finds for one.
QUESTIONS, FOUND = 60, 100


def made(seed: int) -> Recording:
    """Questions that words answer among their first ten results in three of five cases, and vectors in four."""
    chance = random.Random(seed)
    rows: dict[str, HitRow] = {}
    recorded = []
    for number in range(QUESTIONS):
        ids = [f"{number:02}-{chunk:03}" for chunk in range(FOUND)]
        rows |= {id_: hit_row(id_, f"text {id_}", file_path=f"{id_}.txt", file_id=uuid4()) for id_ in ids}
        answer, others = ids[0], ids[1:]
        rankings = []
        for kind, share, scores in LEGS:
            order = chance.sample(others, len(others))
            order.insert(chance.randrange(5) if chance.random() < share else chance.randrange(30, 90), answer)
            rankings.append(Ranking("how is it", kind, Ranked(order, list(scores))))
        question = Question(query="how is it", kind="made", relevant=(Label(path=f"{answer}.txt"),))
        recorded.append(Recorded(question, np.zeros(1, dtype=np.float32), rankings, ()))
    return Recording(recorded, rows, {})


@pytest.mark.parametrize("order", ["by_chunk", "by_file", "smallest_first"])
def test_a_part_of_the_vectors_is_never_worse_than_a_smaller_one(order: str) -> None:
    recording = made(7)
    orders = {"by_chunk": by_chunk, "by_file": by_file, "smallest_first": smallest_first(recording.rows)}
    found = {share: recalls(recording, orders[order], share) for share in SHARES}
    assert all(lost.value <= 2 * lost.error for lost in losses(found).values())
    assert fmean(found[1.0]) > fmean(found[0.0])


def test_vectors_of_a_few_chunks_would_outvote_words_if_they_counted_fully(monkeypatch: pytest.MonkeyPatch) -> None:
    """The measure notices what the share is for."""
    recording = made(7)

    def fully(each: Recorded, *given: object) -> Recorded:
        less = with_share(each, *given)  # type: ignore[arg-type] # the same arguments
        rankings = [Ranking(ranking.query, ranking.kind, ranking.results) for ranking in less.rankings]
        return Recorded(less.question, less.vector, rankings, less.defining)

    monkeypatch.setattr(partial_vectors, "with_share", fully)
    found = {share: recalls(recording, by_chunk, share) for share in SHARES}
    assert any(lost.value > 2 * lost.error for lost in losses(found).values())
