"""Requests with several subqueries take turns in their namespace."""

from __future__ import annotations

import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from schemas.errors import StoreUnavailable
from worker.vectors.subquery_turns import SubqueryTurns


def soon() -> float:
    return time.monotonic() + 30


def test_no_more_subqueries_run_at_once_than_may() -> None:
    turns, lock, running, most = SubqueryTurns(16), threading.Lock(), 0, 0

    def work(size: int) -> None:
        nonlocal running, most
        with turns.hold("n", size, soon()):
            with lock:
                running += size
                most = max(most, running)
            time.sleep(0.002)
            with lock:
                running -= size

    with ThreadPoolExecutor(24) as pool:
        list(pool.map(work, [random.Random(1).randint(1, 8) for _ in range(200)]))
    assert 8 <= most <= 16
    assert not turns._namespaces


def test_a_large_request_is_not_overtaken() -> None:
    turns, order = SubqueryTurns(4), list[str]()

    def work(name: str, size: int) -> None:
        with turns.hold("n", size, soon()):
            order.append(name)

    with ThreadPoolExecutor(2) as pool:
        with turns.hold("n", 1, soon()):
            large = pool.submit(work, "large", 4)
            while not turns._namespaces["n"].waiting:
                time.sleep(0.001)
            small = pool.submit(work, "small", 1)
            while len(turns._namespaces["n"].waiting) < 2:
                time.sleep(0.001)
        large.result(30)
        small.result(30)
    assert order == ["large", "small"]


def test_who_waits_too_long_gives_up_and_holds_nobody_up() -> None:
    turns = SubqueryTurns(4)
    with turns.hold("n", 3, soon()):
        with pytest.raises(StoreUnavailable) as caught, turns.hold("n", 2, time.monotonic() + 0.01):
            pass
        assert caught.value.retry_after
        with turns.hold("n", 1, soon()), turns.hold("another", 4, soon()):
            pass
    assert not turns._namespaces


def test_an_error_gives_the_turn_back() -> None:
    turns = SubqueryTurns(1)
    with pytest.raises(ValueError, match="no"), turns.hold("n", 1, soon()):
        raise ValueError("no")
    with turns.hold("n", 1, soon()):
        pass
