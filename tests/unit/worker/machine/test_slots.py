"""No more things are done at a time than there are slots, and owners take turns."""

from __future__ import annotations

import asyncio
import time
from contextlib import ExitStack
from threading import Event, Thread

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.errors import EstimateBusy, SearchBusy
from tests import coroutines
from worker.machine.sharing.slots import MAX_REST_SECONDS, QueueFull, RecentOwners, Slots


def never() -> None:
    """Wait on."""


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


def test_an_owner_holds_no_more_than_its_share() -> None:
    slots, busy = Slots(3, per_owner=2), EstimateBusy("Too many.")
    with slots.within(0.01, busy, "a"), slots.within(0.01, busy, "a"):
        with pytest.raises(EstimateBusy), slots.within(0.01, busy, "a"):
            pass
        with slots.within(0.01, busy, "b"):
            pass


@settings(max_examples=50, deadline=None)
@given(st.lists(st.sampled_from("abc"), min_size=2, max_size=12), st.integers(1, 3), st.integers(1, 3))
def test_a_free_slot_goes_to_the_owner_that_holds_least_and_waits_longest(
    owners: list[str], number: int, per_owner: int
) -> None:
    slots, held, waiting = Slots(number, per_owner), list[str](), list[str]()
    events: dict[str, list[Event]] = {owner: [] for owner in owners}
    order, got = list[str](), Event()

    def hold(owner: str) -> None:
        with slots.waiting(lambda: None, owner):
            order.append(owner)
            end = Event()
            events[owner].append(end)
            got.set()
            end.wait(30)

    threads = []
    for owner in owners:
        got.clear()
        threads.append(Thread(target=hold, args=(owner,)))
        is_granted = len(held) < number and held.count(owner) < per_owner
        threads[-1].start()
        if is_granted:
            assert got.wait(30)
            held.append(owner)
        else:
            waiting.append(owner)
            deadline = time.monotonic() + 30
            while sum(map(len, slots._waiting.values())) < len(waiting):
                assert time.monotonic() < deadline
                time.sleep(0.001)
    turns = sorted(set(waiting), key=waiting.index)
    while held:
        got.clear()
        ending = held.pop(0)
        events[ending].pop(0).set()
        eligible = [owner for owner in turns if owner in waiting and held.count(owner) < per_owner]
        if not eligible:
            continue
        following = min(eligible, key=held.count)
        assert got.wait(30)
        assert order[-1] == following
        held.append(following)
        waiting.remove(following)
        turns.remove(following)
        turns += [following] if following in waiting else []
    for thread in threads:
        thread.join(30)
    assert not waiting


def test_an_owner_has_less_while_another_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    slots, busy = Slots(4, 3, beside=1), EstimateBusy("Too many.")
    with slots.within(0.01, busy, "a"), slots.within(0.01, busy, "a"):
        with slots.within(0.01, busy, "b"), pytest.raises(EstimateBusy), slots.within(0.01, busy, "a"):
            pass
        with pytest.raises(EstimateBusy), slots.within(0.01, busy, "a"):
            pass
        monkeypatch.setattr("worker.machine.sharing.slots.RECENT_SECONDS", 0)
        with slots.within(0.01, busy, "a"):
            pass


@pytest.mark.parametrize("is_beside", [True, False])
def test_a_slot_rests_as_long_as_it_was_held_if_others_come(is_beside: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("worker.machine.sharing.slots.time.monotonic", lambda: now[0])
    slots, recent = Slots(2, 2, beside=1, rest=2.0, recent=(seen := RecentOwners())), seen
    with slots.waiting(never, "a"):
        now[0] += 3
        if is_beside:
            recent.note("b")
    turn = Event()
    slots.join(turn, "a")
    assert turn.is_set() is not is_beside
    other = Event()
    slots.join(other, "b")
    assert other.is_set()
    for seconds in (MAX_REST_SECONDS - 0.1, 0.2):
        assert turn.is_set() is not is_beside
        now[0] += seconds
        recent.note("b")
        slots._grant_rested()
    assert turn.is_set()


def test_the_end_of_a_rest_is_noticed_in_threads_and_coroutines() -> None:
    slots = Slots(2, 1, rest=1.0)

    async def run() -> None:
        async with slots.of_call(60, "a"):
            await asyncio.sleep(0.3)

    for _ in range(2):
        with slots.waiting(never, "b"):
            pass
        coroutines.run(run())
        with slots.waiting(never, "a"):
            pass


def test_an_owner_without_a_name_is_no_other() -> None:
    slots, busy = Slots(3, 2, beside=1), EstimateBusy("Too many.")
    with slots.within(0.01, busy, ""):
        pass
    with slots.within(0.01, busy, "a"), slots.within(0.01, busy, "a"):
        pass
    with slots.within(0.01, busy, ""), pytest.raises(EstimateBusy), slots.within(0.01, busy, ""):
        pass


def test_a_slot_that_is_lent_is_taken_again() -> None:
    slots, busy = Slots(1), EstimateBusy("Too many.")
    with slots.within(0.01, busy, "a"):
        with slots.lend("a"), slots.within(0.01, busy, "b"):
            pass
        with pytest.raises(EstimateBusy), slots.within(0.01, busy, "b"):
            pass
    with slots.within(0.01, busy, "b"):
        pass


def test_so_many_wait_but_each_owner_may_have_one() -> None:
    async def run() -> None:
        slots = Slots(1, queue=2, queue_of_all=2)
        async with slots.of_call(60, "a"):
            waiting = [asyncio.create_task(held(slots, owner)) for owner in "aabc"]
            await asyncio.sleep(0)
            for owner in "ab":
                with pytest.raises(QueueFull):
                    await held(slots, owner)
        await asyncio.wait_for(asyncio.gather(*waiting), 20)

    async def held(slots: Slots, owner: str) -> None:
        async with slots.of_call(60, owner):
            pass

    coroutines.run(run())
