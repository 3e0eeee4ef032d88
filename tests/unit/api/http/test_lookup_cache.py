"""Short-lived cached lookups: not repeated, never older than allowed, and gone when forgotten."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event, Thread

from api.http.lookup_cache import LookupCache


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
