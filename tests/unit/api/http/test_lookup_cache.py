"""Short-lived cached lookups: not repeated, never older than allowed, and gone when forgotten."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Event, Thread
from typing import Any
from uuid import uuid4

import pytest

from api.http import lookup_cache
from api.http.lookup_cache import LookupCache, LookupCaches
from worker.state.access import keys
from worker.state.access.keys import ValidKey
from worker.state.index import tools


class Truth:
    """A lookup that counts its calls."""

    def __init__(self, **values: str) -> None:
        self.values = values
        self.looks = 0
        self.meanwhile: Callable[[], None] = lambda: None

    def read(self, key: str) -> str | None:
        self.looks += 1
        found = self.values.get(key)
        self.meanwhile()
        return found


def test_what_is_kept_is_not_looked_up_again() -> None:
    truth = Truth(a="1")
    cache = LookupCache(truth.read, seconds=1000)
    assert [cache.get("a") for _ in range(3)] == ["1"] * 3
    assert truth.looks == 1


def test_what_is_cached_is_told_without_a_lookup() -> None:
    truth = Truth(a="1")
    cache = LookupCache(truth.read, seconds=1000)
    assert cache.cached("a") is None
    cache.get("a")
    assert (cache.cached("a"), truth.looks) == ("1", 1)


def test_what_is_asked_for_fresh_is_looked_up_and_kept() -> None:
    truth = Truth(a="1")
    cache = LookupCache(truth.read, seconds=1000)
    cache.get("a")
    truth.values["a"] = "2"
    assert [cache.get("a"), cache.fresh("a"), cache.get("a")] == ["1", "2", "2"]


def test_what_is_not_there_is_looked_for_each_time() -> None:
    truth = Truth()
    cache = LookupCache(truth.read, seconds=1000)
    assert cache.get("a") is None
    truth.values["a"] = "1"
    assert cache.get("a") == "1"


def test_it_is_looked_up_again_once_it_is_too_old() -> None:
    truth = Truth(a="1")
    cache = LookupCache(truth.read, seconds=0)
    cache.get("a")
    truth.values["a"] = "2"
    assert cache.get("a") == "2"


def test_the_key_decides_how_long_it_is_kept() -> None:
    truth = Truth(a="1", b="1")
    cache = LookupCache(truth.read, seconds=lambda key: 1000 if key == "a" else 0)
    assert [cache.get(key) for key in "abab"] == ["1"] * 4
    assert truth.looks == 3


@pytest.mark.parametrize(("rest", "most", "looks"), [(0, 1000, 2), (100_000, 1000, 1), (100_000, 0, 2)])
def test_what_takes_long_is_kept_longer_up_to_a_maximum(
    monkeypatch: pytest.MonkeyPatch, rest: float, most: float, looks: int
) -> None:
    monkeypatch.setattr(lookup_cache, "MAX_REST_SECONDS", most)
    truth = Truth(a="1")
    truth.meanwhile = lambda: time.sleep(0.01)
    cache = LookupCache(truth.read, seconds=0, rest=rest)
    assert [cache.get("a") for _ in range(2)] == ["1"] * 2
    assert truth.looks == looks


def test_what_is_forgotten_is_looked_up_again() -> None:
    truth = Truth(a="1")
    cache = LookupCache(truth.read, seconds=1000)
    cache.get("a")
    del truth.values["a"]
    cache.forget()
    assert cache.get("a") is None


def test_what_was_read_before_it_was_forgotten_is_not_kept() -> None:
    truth = Truth(a="1")
    cache = LookupCache(truth.read, seconds=1000)
    reading, go_on = Event(), Event()

    def wait() -> None:
        reading.set()
        go_on.wait(10)

    truth.meanwhile = wait
    slow = Thread(target=cache.get, args=("a",))
    slow.start()
    assert reading.wait(10)
    del truth.values["a"]
    cache.forget()
    go_on.set()
    slow.join()
    assert cache.get("a") is None


def test_a_change_forgets_tools_and_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[object] = []

    def look(_pool: object, key: object) -> object:
        looked.append(key)
        return ValidKey(uuid4(), "found", frozenset())

    monkeypatch.setattr(tools, "index_of_tool", look)
    monkeypatch.setattr(keys, "valid", look)
    monkeypatch.setattr(keys, "note_use", lambda *_: None)
    no_pool: Any = None
    caches, tool_id = LookupCaches(lambda: no_pool), uuid4()
    caches.indexes.get(tool_id)
    caches.keys.get(b"hash")
    caches.forget()
    assert (caches.indexes.cached(tool_id), caches.keys.cached(b"hash")) == (None, None)
    assert looked == [tool_id, b"hash"]


def test_large_values_are_kept_up_to_a_size() -> None:
    read: list[int] = []

    def value(key: int) -> str:
        read.append(key)
        return "x" * key

    cache: LookupCache[int, str] = LookupCache(value, 60, 10, lambda _, text: len(text))
    for key in (4, 5, 11, 4, 5, 11):
        assert cache.get(key) == "x" * key
    assert read == [4, 5, 11, 11]
