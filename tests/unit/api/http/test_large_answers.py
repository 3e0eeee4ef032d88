from __future__ import annotations

from contextlib import ExitStack
from threading import Timer

import pytest

from api.http.large_answers import LARGE_HITS, LargeAnswerSlots
from schemas.errors import SearchBusy


def test_only_so_many_large_answers_are_made_at_once() -> None:
    room = LargeAnswerSlots(slots=2, seconds=0.01)
    with room.answer(LARGE_HITS + 1):
        with room.answer(LARGE_HITS + 1):
            with pytest.raises(SearchBusy), room.answer(LARGE_HITS + 1):
                pass
            with room.answer(LARGE_HITS):
                pass
        with pytest.raises(ValueError, match="failed"), room.answer(LARGE_HITS + 1):
            raise ValueError("failed")
        with room.answer(LARGE_HITS + 1):
            pass


def test_a_large_answer_waits_until_one_before_it_is_made() -> None:
    room, before = LargeAnswerSlots(slots=1, seconds=30), ExitStack()
    before.enter_context(room.answer(LARGE_HITS + 1))
    Timer(0.05, before.close).start()
    with room.answer(LARGE_HITS + 1):
        pass
