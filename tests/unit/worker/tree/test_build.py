"""When a slice of a build is over."""

from __future__ import annotations

from unittest.mock import Mock

import pytest

from worker.tree import build
from worker.tree.build import SliceTime


@pytest.mark.parametrize(
    ("waits", "least", "most", "is_over"),
    [(True, 100, 100, False), (True, -1, 100, True), (False, -1, 100, False), (False, 100, -1, True)],
)
def test_a_slice_ends_after_its_time_or_after_a_moment_if_other_work_waits(
    monkeypatch: pytest.MonkeyPatch, waits: bool, least: float, most: float, is_over: bool
) -> None:
    monkeypatch.setattr(build, "MIN_SECONDS", least)
    assert SliceTime(Mock(yields=lambda: waits), most).is_over() == is_over
