from __future__ import annotations

import pytest

from api.http.large_answers import LARGE, Room
from schemas.errors import SearchBusy


def test_only_so_many_large_answers_are_made_at_once() -> None:
    room = Room(at_once=2, patience=0.01)
    with room.answer(LARGE + 1):
        with room.answer(LARGE + 1):
            with pytest.raises(SearchBusy), room.answer(LARGE + 1):
                pass
            with room.answer(LARGE):
                pass
        with pytest.raises(ValueError, match="failed"), room.answer(LARGE + 1):
            raise ValueError("failed")
        with room.answer(LARGE + 1):
            pass
