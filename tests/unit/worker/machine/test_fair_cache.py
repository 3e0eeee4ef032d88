"""A cache that one owner cannot take from another."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.machine.sharing.fair_cache import FairCache

#: An owner, the number of its entry, and the entry's size.
Entry = tuple[str, int, int]


def cache_of(size: int) -> FairCache[tuple[str, int], int]:
    return FairCache(size, lambda key: key[0], lambda value: value)


def test_an_owner_of_many_entries_evicts_its_own() -> None:
    cache = cache_of(10)
    for number in range(3):
        cache["quiet", number] = 1
    for number in range(1000):
        cache["noisy", number] = 1
    assert sorted(cache) == [*(("noisy", number) for number in range(993, 1000)), *(("quiet", n) for n in range(3))]


def test_what_was_used_least_recently_goes_first() -> None:
    cache = cache_of(3)
    for number in range(3):
        cache["a", number] = 1
    assert (cache["a", 0], cache.get(("a", 1)), cache.get(("a", 9))) == (1, 1, None)
    cache["a", 3] = 1
    assert sorted(number for _, number in cache) == [0, 1, 3]
    with pytest.raises(ValueError, match="too large"):
        cache["a", 4] = 4
    assert cache.pop(("a", 0)) == 1
    assert ("a", 0) not in cache


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 5), st.integers(1, 4)), max_size=60))
def test_no_owner_loses_an_entry_while_another_has_more(entries: list[Entry]) -> None:
    cache = cache_of(12)
    for owner, number, size in entries:
        before = dict(cache.items())
        cache[owner, number] = size
        kept = dict(cache.items())
        assert sum(kept.values()) == cache.currsize <= 12
        assert kept[owner, number] == size
        had = Counter[str]()
        for (each, _), value in before.items():
            had[each] += value
        lost = {key[0] for key in before.keys() - kept.keys()}
        assert all(had[each] + size >= max(had.values()) for each in lost)
