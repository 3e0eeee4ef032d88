"""Faults and limits that only Turbopuffer's store meets."""

from __future__ import annotations

import socket
from itertools import pairwise
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.errors import StoreError, StoreRefused, StoreUnauthorized, StoreUnavailable
from tests.contract.stores import D, axis, near, row
from tests.fakes.turbopuffer import FakeTurbopuffer
from worker.tokens.keywords import Keywords
from worker.vectors import FILTERED, STRING_ATTRIBUTES, Condition, Leg, Patch, Value, VectorRow, turbopuffer
from worker.vectors.turbopuffer import TurbopufferStore
from worker.vectors.turbopuffer_rows import MAX_LIMIT


def puffer(fake: FakeTurbopuffer, key: str | None = None) -> TurbopufferStore:
    return TurbopufferStore(key or fake.api_key, region="nowhere", base_url=fake.url, has_keywords=False)


@pytest.mark.parametrize(
    ("status", "error"),
    [(401, StoreUnauthorized), (403, StoreUnauthorized), (400, StoreRefused), (413, StoreRefused), (422, StoreRefused)]
    + [(status, StoreUnavailable) for status in (0, 408, 409, 429, 500, 502, 503)],
)
def test_faults_are_mapped_and_never_retried(fake: FakeTurbopuffer, status: int, error: type[StoreError]) -> None:
    store = puffer(fake)
    for call in (lambda: store.write("a", D, [row(1, axis(0))]), lambda: store.search("a", [Leg(1, vector=axis(0))])):
        fake.fail_next(status, retry_after=7)
        with pytest.raises(error) as caught:
            call()
        if error is StoreUnavailable and status:
            assert caught.value.retry_after == 7.0
    assert [call.status for call in fake.audit] == [status, status]


@pytest.mark.parametrize(
    ("header", "seconds"),
    [("7", 7.0), ("0.5", 0.5), ("-1", 0), ("inf", None), ("Mon, 01 Jan 2024 00:00:00 GMT", 0), (None, None)],
)
def test_the_time_to_wait_is_told_in_seconds(fake: FakeTurbopuffer, header: str | None, seconds: float | None) -> None:
    fake.fail_next(429, retry_after=header)
    with pytest.raises(StoreUnavailable) as caught:
        puffer(fake).write("a", D, [row(1, axis(0))])
    assert caught.value.retry_after == seconds


def test_no_more_hits_are_requested_than_the_service_gives(fake: FakeTurbopuffer) -> None:
    store = puffer(fake)
    store.write("a", D, [row(1, axis(0))])
    for limit in (MAX_LIMIT, MAX_LIMIT + 1):
        assert near(store, "a", axis(0), limit=limit) == [1]


def test_a_write_whose_answer_was_lost_can_be_repeated(fake: FakeTurbopuffer) -> None:
    store = puffer(fake)
    for status in (0, 500):
        fake.fail_next(status, applied=True)
        with pytest.raises(StoreUnavailable):
            store.write("a", D, [row(1, axis(0))])
        store.write("a", D, [row(1, axis(0))])
    assert store.ids("a", None, 5) == [UUID(int=1)]


def test_a_wrong_key_is_unauthorized(fake: FakeTurbopuffer) -> None:
    with pytest.raises(StoreUnauthorized):
        puffer(fake, "tpuf_wrong").search("a", [Leg(1, vector=axis(0))])


def test_a_silent_address_is_unavailable() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        store = TurbopufferStore(
            "x", region="", base_url=f"http://127.0.0.1:{unused.getsockname()[1]}", has_keywords=False
        )
        with pytest.raises(StoreUnavailable):
            store.ids("a", None, 1)


def test_the_region_variable_does_not_disturb(fake: FakeTurbopuffer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TURBOPUFFER_REGION", "gcp-us-central1")
    monkeypatch.setenv("TURBOPUFFER_BASE_URL", "http://127.0.0.1:1")
    assert puffer(fake).ids("a", None, 1) == []


@pytest.mark.parametrize("lost", ["generation", "chunk_words", None])
def test_a_namespace_of_before_the_first_release_is_dropped(fake: FakeTurbopuffer, lost: str | None) -> None:
    store = TurbopufferStore(fake.api_key, region="nowhere", base_url=fake.url, has_keywords=True)
    store.verify("a")
    store.write("a", D, [row(1, axis(0), "word")])
    if lost:
        del fake.namespaces["a"].schema[lost]
    store.verify("a")
    assert store.ids("a", None, 5) == ([] if lost else [UUID(int=1)])


def test_only_attributes_that_searches_filter_are_filterable(fake: FakeTurbopuffer) -> None:
    store = puffer(fake)
    store.write("a", D, [row(1, axis(0), chunk_id="x")])
    store.write("a", D, [row(2, axis(0), chunk_id="y")])
    filterable = {name for name, kind in fake.namespaces["a"].schema.items() if kind.get("filterable") is True}
    assert filterable & set(STRING_ATTRIBUTES) == set(FILTERED)
    with pytest.raises(StoreRefused):
        store.search("a", [Leg(1, vector=axis(0), conditions=[Condition("chunk_id", "in", ["x"])])])
    assert [row["chunk_id"] for row in store.attributes("a", None, 5).values()] == ["x", "y"]


@given(st.lists(st.integers(1, 12), max_size=30), st.integers(1, 20), st.integers(1, 5))
def test_a_request_is_as_large_as_both_limits_allow(sizes: list[int], most_bytes: int, most_rows: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(turbopuffer, "MAX_ROWS", most_rows)
        batches = [[*batch] for batch in turbopuffer._batches(sizes, int, most_bytes)]
    assert [size for batch in batches for size in batch] == sizes
    # a row that is too large goes alone
    assert all(len(batch) == 1 or (sum(batch) <= most_bytes and len(batch) <= most_rows) for batch in batches)
    assert all(
        sum(batch) + following[0] > most_bytes or len(batch) == most_rows for batch, following in pairwise(batches)
    )


def test_big_writes_are_split(fake: FakeTurbopuffer) -> None:
    store = puffer(fake)
    store.write("a", D, [row(n, axis(0)) for n in range(9_000)])
    store.write("b", 4096, [row(n, np.ones(4096, dtype=np.float32)) for n in range(2_000)])
    assert [len(call.upserts) for call in fake.audit][:3] == [4_000, 4_000, 1_000]
    assert len(fake.audit) == 5
    assert len(store.ids("a", None, 20_000)) == 9_000


LONG = "word " * 100


@pytest.mark.parametrize(
    ("dimensions", "text", "attributes"),
    [(D, "", {"symbol": "é" * 500, "scope": "s" * 500}), (D, LONG, {}), (D, "é" * 1000, {}), (512, "", {})],
)
def test_no_request_is_larger_than_the_service_accepts(
    fake: FakeTurbopuffer, monkeypatch: pytest.MonkeyPatch, dimensions: int, text: str, attributes: dict[str, Value]
) -> None:
    monkeypatch.setattr(turbopuffer, "MAX_BYTES", 100_000)
    fake.max_body = 100_000
    store = TurbopufferStore(fake.api_key, region="", base_url=fake.url, has_keywords=True)
    words, vector = Keywords(text, text), np.ones(dimensions, dtype=np.float32)
    store.write("a", dimensions, [VectorRow(UUID(int=n), vector, attributes, words) for n in range(200)])
    store.write("a", dimensions, patches=[Patch(UUID(int=n), attributes, words) for n in range(200)])
    # nor much smaller than that
    assert len(fake.audit) <= 20
    assert len(store.ids("a", None, 300)) == 200


def impatient(fake: FakeTurbopuffer) -> TurbopufferStore:
    """A store that waits for a second."""
    return TurbopufferStore(fake.api_key, region="", base_url=fake.url, has_keywords=False, timeout=1.0)


def attempts(store: TurbopufferStore, rows: list[VectorRow]) -> int:
    """Repeat a write until it succeeds, as a task does. Returns the number of tries."""
    for number in range(1, 20):
        try:
            store.write("a", 4096, rows)
        except StoreUnavailable as error:
            assert error.timed_out  # noqa: PT017 - it may succeed as well
        else:
            return number
    raise AssertionError("it never succeeds")


def test_a_write_that_always_takes_too_long_is_repeated_in_smaller_requests(fake: FakeTurbopuffer) -> None:
    rows = [row(number, np.ones(4096, dtype=np.float32)) for number in range(90)]
    store = impatient(fake)
    # of 2 MB, then 1 MB, then half of that
    fake.seconds_per_byte = 1.2e-6
    assert attempts(store, rows) == 3
    assert len(store.ids("a", None, 100)) == 90
    # the process remembers it, and forgets it after a while
    assert attempts(store, rows) == 1
    assert max(len(call.upserts) for call in fake.audit[-4:]) < 30
    fake.seconds_per_byte = 0.0
    store._small_until = 0.0
    assert attempts(store, rows) == 1
    assert len(fake.audit[-1].upserts) == 90


def test_answers_that_ask_for_patience_make_no_request_smaller(fake: FakeTurbopuffer) -> None:
    rows = [row(number, np.ones(4096, dtype=np.float32)) for number in range(90)]
    store = puffer(fake)
    for status in (429, 503, 0):
        fake.fail_next(status)
        with pytest.raises(StoreUnavailable):
            store.write("a", 4096, rows)
    store.write("a", 4096, rows)
    assert len(fake.audit[-1].upserts) == 90


def test_a_store_that_hangs_is_asked_in_requests_that_are_worth_sending(fake: FakeTurbopuffer) -> None:
    store = impatient(fake)
    for _ in range(20):
        store._shrink(store._max_request_bytes)
    store.write("a", D, [row(n, axis(0)) for n in range(1_000)])
    assert len(fake.audit[0].upserts) > 300
