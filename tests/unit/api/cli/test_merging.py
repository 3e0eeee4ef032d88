"""`foldex search` over several tools orders their hits."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from api.cli.verbs.ask import NOTHING_FITS, PlacedAnswer, _best, _notes


def answer(*scores: float, calibrated: bool) -> PlacedAnswer:
    hits = [SimpleNamespace(score=score) for score in scores]
    return PlacedAnswer(cast("Any", None), cast("Any", SimpleNamespace(results=hits, calibrated=calibrated)))


@pytest.mark.parametrize(
    ("is_other_calibrated", "order"), [(True, [0.9, 0.8, 0.7, 0.2]), (False, [0.9, 0.7, 0.8, 0.2])]
)
def test_scores_of_different_kinds_are_not_compared(is_other_calibrated: bool, order: list[float]) -> None:
    answers = [answer(0.9, 0.8, calibrated=True), answer(0.7, 0.2, calibrated=is_other_calibrated)]
    found = _best(answers, 10)
    assert [each.hit.score for each in found] == order
    assert [each.hit.score for each in _best(answers, 1)] == [0.9]
    assert all(each.is_calibrated for each in found) is is_other_calibrated


@pytest.mark.parametrize(("others", "told"), [((NOTHING_FITS,), 1), ((), 0)])
def test_nothing_fits_only_if_it_fits_in_no_tool(others: tuple[str, ...], told: int) -> None:
    def noted(*codes: str) -> PlacedAnswer:
        notes = [SimpleNamespace(code=code, detail="Probably none.") for code in codes]
        return PlacedAnswer(cast("Any", None), cast("Any", SimpleNamespace(results=[object()], notes=notes)))

    assert len(_notes([noted(NOTHING_FITS), noted(*others)])) == told
