"""No more things are done at a time than there are slots."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from schemas.errors import EstimateBusy, SearchBusy
from worker.machine.slots import Slots


def test_one_more_than_there_are_slots_is_told_so() -> None:
    slots, busy = Slots(2), EstimateBusy("Too many.")
    with ExitStack() as held:
        for _ in range(2):
            held.enter_context(slots.within(0.01, busy))
        with pytest.raises(EstimateBusy, match="Too many"), slots.within(0.01, busy):
            pass
    with slots.within(0.01, busy), slots.within(0.01, busy):
        pass


def test_a_caller_waits_until_its_check_ends_the_wait() -> None:
    slots, checks = Slots(1), list[int]()

    def check() -> None:
        checks.append(1)
        if len(checks) == 3:
            raise SearchBusy("It is over.")

    with slots.waiting(check):
        assert checks == []
        with pytest.raises(SearchBusy), slots.waiting(check):
            pass
    assert len(checks) == 3
    with slots.waiting(check):
        assert len(checks) == 3


def test_a_slot_is_free_again_after_an_error() -> None:
    slots, busy = Slots(1), EstimateBusy("Too many.")
    for holding in (slots.within(0.01, busy), slots.waiting(lambda: None), slots.within(0.01, busy)):
        with pytest.raises(KeyError), holding:
            raise KeyError
