"""The documented limits of Turbopuffer, as its fake enforces them: searches of one folder wait for their turn."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from uuid import UUID

import numpy as np
import pytest

from schemas.errors import StoreRefused, StoreUnavailable
from tests.fakes.turbopuffer import ACCEPTED, MAX_SUBQUERIES, FakeTurbopuffer
from worker.tokens.keywords import Keywords
from worker.vectors import Leg, VectorRow
from worker.vectors.turbopuffer import MAX_LEGS, TurbopufferStore

D = 4
VECTOR = np.array([1, 0, 0, 0], dtype=np.float32)
#: The legs of a hybrid search.
HYBRID = [Leg(1, vector=VECTOR), Leg(1, keywords="tide"), Leg(1, keywords="tide", field="code")]


MakeStore = Callable[..., TurbopufferStore]


@pytest.fixture
def puffer(fake: FakeTurbopuffer) -> Iterator[MakeStore]:
    """Opens stores, as processes of the API do."""
    opened: list[TurbopufferStore] = []

    def make(*, timeout: float = 15.0, processes: int = 1) -> TurbopufferStore:
        made = TurbopufferStore(
            fake.api_key, region="", base_url=fake.url, has_keywords=True, timeout=timeout, processes=processes
        )
        opened.append(made)
        return made

    yield make
    for store in opened:
        if store._client is not None:
            store._client[1].close()


def row(number: int) -> VectorRow:
    return VectorRow(UUID(int=number), VECTOR, {"file_name": "a"}, Keywords("tide", "tide"))


def statuses(fake: FakeTurbopuffer) -> set[int]:
    return {call.status for call in fake.audit if call.path.endswith("/query")}


def test_many_searches_of_a_folder_take_turns_and_none_is_refused(fake: FakeTurbopuffer, puffer: MakeStore) -> None:
    store = puffer()
    store.write("n", D, [row(1)])
    fake.query_seconds = 0.5
    with ThreadPoolExecutor(20) as pool:
        found = list(pool.map(lambda _: store.search("n", HYBRID), range(20)))
    assert all([each.ids for each in rankings] == [[str(UUID(int=1))]] * 3 for rankings in found)
    assert statuses(fake) == {200}
    assert fake.most_running == MAX_SUBQUERIES // 3 * 3


def test_folders_do_not_wait_for_each_other(fake: FakeTurbopuffer, puffer: MakeStore) -> None:
    store = puffer(timeout=4.0)
    for name in ("n", "m"):
        store.write(name, D, [row(1)])
    fake.query_seconds = 2.0
    with ThreadPoolExecutor(12) as pool:
        searches = [pool.submit(store.search, "n", HYBRID) for _ in range(5)]
        time.sleep(0.1)
        began = time.monotonic()
        assert len(store.search("m", HYBRID)) == 3
        assert time.monotonic() - began < 3.5
        assert all(each.result(30) for each in searches)


def test_a_wait_ends_with_the_time_of_a_search(fake: FakeTurbopuffer, puffer: MakeStore) -> None:
    store = puffer(timeout=1.5)
    store.write("n", D, [row(1)])
    fake.query_seconds = 1.0
    with ThreadPoolExecutor(20) as pool:
        began = time.monotonic()
        searches = [pool.submit(store.search, "n", HYBRID) for _ in range(20)]
        errors = [error for each in searches if (error := each.exception(30)) is not None]
    assert time.monotonic() - began < 10
    assert errors
    assert all(isinstance(error, StoreUnavailable) for error in errors)
    assert statuses(fake) <= {200}


def test_processes_share_what_a_folder_runs_at_once(fake: FakeTurbopuffer, puffer: MakeStore) -> None:
    stores = [puffer(processes=4) for _ in range(4)]
    stores[0].write("n", D, [row(1)])
    fake.query_seconds = 0.2
    with ThreadPoolExecutor(16) as pool:
        found = list(pool.map(lambda number: stores[number % 4].search("n", HYBRID), range(16)))
    assert all(len(rankings) == 3 for rankings in found)
    assert statuses(fake) == {200}


def test_a_folder_that_others_keep_busy_is_asked_again(fake: FakeTurbopuffer, puffer: MakeStore) -> None:
    store = puffer()
    store.write("n", D, [row(1)])
    fake.fail_next(429, count=2)
    assert [each.ids for each in store.search("n", HYBRID)] == [[str(UUID(int=1))]] * 3
    assert [call.status for call in fake.audit][-3:] == [429, 429, 200]


def test_one_search_leaves_room_for_others(fake: FakeTurbopuffer, puffer: MakeStore) -> None:
    store = puffer()
    store.write("n", D, [row(1)])
    assert len(store.search("n", HYBRID * 6)) == 18
    assert [call.legs for call in fake.audit if call.path.endswith("/query")] == [MAX_LEGS, MAX_LEGS, 2]


def test_an_index_that_is_being_built_is_no_empty_folder(fake: FakeTurbopuffer, puffer: MakeStore) -> None:
    store = puffer()
    store.write("n", D, [row(1)])
    calls = (
        lambda: store.search("n", HYBRID),
        lambda: store.ids("n", None, 5),
        lambda: store.attributes("n", None, 5),
        lambda: store.vectors("n", [UUID(int=1)]),
    )
    for call in calls:
        fake.fail_next(ACCEPTED)
        with pytest.raises(StoreUnavailable, match="building an index"):
            call()


def test_back_pressure_is_passed_on_until_the_store_has_indexed(fake: FakeTurbopuffer, puffer: MakeStore) -> None:
    store = puffer()
    store.write("n", D, [row(1)])
    fake.max_unindexed = fake.unindexed["n"] + 10
    with pytest.raises(StoreUnavailable):
        store.write("n", D, [row(2)])
    fake.indexed("n")
    store.write("n", D, [row(2)])
    assert store.ids("n", None, 5) == [UUID(int=1), UUID(int=2)]


@pytest.mark.parametrize("limit", ["max_shard_rows", "max_shard_bytes"])
def test_a_full_shard_takes_no_more_rows_but_lets_go_of_some(
    fake: FakeTurbopuffer, puffer: MakeStore, limit: str
) -> None:
    store = puffer()
    store.write("n", D, [row(1)])
    setattr(fake, limit, 1)
    with pytest.raises(StoreRefused, match="full"):
        store.write("n", D, [row(2)])
    store.write("n", D, deletes=[UUID(int=1)])
    assert store.ids("n", None, 5) == []
