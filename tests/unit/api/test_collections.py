"""Garbage collection of a process of the API."""

from __future__ import annotations

import gc
import weakref
from unittest.mock import Mock

import pytest

from api import main
from api.indexers import model_choice
from api.search.rank import rerank


def test_a_query_is_not_scanned_for_garbage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_choice, "warm", Mock())
    monkeypatch.setattr(rerank, "warm", Mock())
    monkeypatch.setattr(gc, "freeze", Mock())
    before = gc.get_threshold()
    try:
        main._warm(Mock(profile=Mock(return_value=(None, False))))
        cycle = type("Cycle", (), {})()
        cycle.itself, seen = cycle, weakref.ref(cycle)
        del cycle
        kept = [[number] for number in range(5_000)]
        assert (seen() is not None, len(kept)) == (True, 5_000)
    finally:
        gc.set_threshold(*before)
