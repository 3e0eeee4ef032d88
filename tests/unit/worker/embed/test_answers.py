"""What statuses, headers and rows of a provider mean, by values alone."""

from __future__ import annotations

import base64
import math
from typing import Any

import numpy as np
import pytest

from schemas.errors import (
    EmbeddingError,
    EmbeddingRefused,
    EmbeddingUnauthorized,
    EmbeddingUnavailable,
    EmbeddingUnreadable,
)
from worker.embed.answers import decode, status_error, unit
from worker.embed.retry import QUOTA_SECONDS


@pytest.mark.parametrize(
    ("statuses", "kind"),
    [
        ([400, 413, 422], EmbeddingRefused),
        ([401, 403, 404, 405, 499], EmbeddingUnauthorized),
        ([402, 408, 409, 425, 429, 500, 502, 503, 504, 529], EmbeddingUnavailable),
    ],
)
def test_a_status_says_whom_to_blame_and_whether_to_wait(statuses: list[int], kind: type[EmbeddingError]) -> None:
    for status in statuses:
        error = status_error("m", status, {"retry-after": "7"}, "secret words")
        assert type(error) is kind, status
        assert "secret words" not in error.message
        if isinstance(error, EmbeddingUnavailable):
            wait = QUOTA_SECONDS if error.has_no_quota else 7.0
            assert (error.provider_status, error.retry_after) == (status, wait)


@pytest.mark.parametrize(("status", "remedy"), [(401, "EMBEDDING_API_KEY"), (402, "credit"), (404, "model's name")])
def test_an_account_that_cannot_be_used_has_a_remedy(status: int, remedy: str) -> None:
    assert remedy in status_error("m", status, {}, "").message


@pytest.mark.parametrize(
    ("status", "seconds", "message"),
    [
        (429, None, "m is busy (HTTP 429)."),
        (429, 0.0, "m is busy (HTTP 429)."),
        (429, 90.0, "m is busy (HTTP 429) and asks to wait 90 s."),
        (500, None, "m has a fault (HTTP 500)."),
        (503, None, "m is busy (HTTP 503)."),
        (504, None, "m has a fault (HTTP 504)."),
    ],
)
def test_a_model_that_cannot_be_used_now_says_why(status: int, seconds: float | None, message: str) -> None:
    headers = {} if seconds is None else {"retry-after": str(seconds)}
    assert status_error("m", status, headers, "").message == message


def row(index: int, *values: float, in_base64: bool = False) -> dict[str, Any]:
    packed = base64.b64encode(np.array(values, dtype="<f4").tobytes()).decode()
    return {"index": index, "embedding": packed if in_base64 else list(values)}


@pytest.mark.parametrize("in_base64", [set(), {0, 1, 2}, {1}])
def test_rows_are_put_in_the_order_of_the_texts(in_base64: set[int]) -> None:
    rows = [row(index, index, 1, in_base64=index in in_base64) for index in (2, 0, 1)]
    assert decode(rows, 3).tolist() == [[0, 1], [1, 1], [2, 1]]


@pytest.mark.parametrize(
    "rows",
    [
        [row(0, 1)],
        [row(0, 1), row(0, 2), row(1, 3)],
        [row(1, 1), row(1, 2)],
        [row(1, 1), row(2, 2), row(3, 3)],
        [row(0, 1), row(5, 2)],
        [row(0, 1), row(1, 1, 2)],
        [row(0, 1, 2, 3, in_base64=True), row(1, 1, in_base64=True)],
        [row(0, 1, 2, in_base64=True), row(1, 1)],
        [{"index": 0}, {"index": 1}],
        [],
        [None, None],
        [row(0), row(1)],
        [row(0, 1), row(1, 1), row(2, 1)],
    ],
)
def test_rows_that_may_belong_to_other_texts_are_refused(rows: list[Any]) -> None:
    with pytest.raises(EmbeddingRefused) as caught:
        decode(rows, 2)
    assert not caught.value.indices


@pytest.mark.parametrize("vectors", [0, 1, 3])
def test_another_number_of_vectors_than_texts_is_told(vectors: int) -> None:
    with pytest.raises(EmbeddingUnreadable) as caught:
        decode([row(index, 1) for index in range(vectors)], 2)
    assert caught.value.vectors == vectors


def test_vectors_get_the_length_one_and_those_without_a_direction_are_named() -> None:
    assert unit(np.array([[3, 4], [0, 2]], dtype=np.float32)) == pytest.approx(np.array([[0.6, 0.8], [0, 1]]))
    bad = np.array([[1, 0], [0, 0], [np.inf, 1], [0, np.nan], [0, 1]], dtype=np.float32)
    with pytest.raises(EmbeddingUnreadable) as caught:
        unit(bad)
    assert caught.value.indices == [1, 2, 3]
    assert {index: list(vector) for index, vector in caught.value.answered.items()} == {0: [1, 0], 4: [0, 1]}


@pytest.mark.parametrize(
    "indices",
    [
        [0, 1, 2],
        [None, None, None],
        ["absent", "absent", "absent"],
        [0, 0, 0],
        [0, None, 2],
        [None, 1, None],
        [1, 2, 3],
        [0.0, 1.0, 2.0],
    ],
)
def test_the_order_counts_where_rows_have_no_numbers(indices: list[Any]) -> None:
    rows = [{"index": index, "embedding": [place, 1]} for place, index in enumerate(indices)]
    rows = [{name: value for name, value in each.items() if value != "absent"} for each in rows]
    assert decode(rows, 3).tolist() == [[0, 1], [1, 1], [2, 1]]


UNUSABLE: list[Any] = [None, {}, "row", 7, {"index": 1}]
NO_VECTORS: list[Any] = [None, [], "AAA", "", [1], [1, 2, 3], ["x", "y"], [[1, 2]], {}, [math.nan, 1]]
UNUSABLE += [{"index": 1, "embedding": value} for value in NO_VECTORS]


@pytest.mark.parametrize("middle", UNUSABLE)
def test_a_row_that_cannot_be_used_names_its_text_and_costs_no_other(middle: Any) -> None:
    with pytest.raises(EmbeddingUnreadable) as caught:
        unit(decode([row(0, 3, 4), middle, row(2, 0, 2)], 3))
    assert caught.value.indices == [1]
    assert {index: vector.tolist() for index, vector in caught.value.answered.items()} == {
        0: pytest.approx([0.6, 0.8]),
        2: [0, 1],
    }


def test_missing_rows_are_those_of_the_numbers_that_are_missing() -> None:
    with pytest.raises(EmbeddingUnreadable) as caught:
        unit(decode([row(3, 1), row(0, 1), row(2, 1)], 5))
    assert (caught.value.indices, sorted(caught.value.answered)) == ([1, 4], [0, 2, 3])


@pytest.mark.parametrize("indices", [[0, 1], [0, 0], [None, None], [5, 6]])
def test_too_few_rows_that_may_be_of_a_shorter_request_belong_to_no_text(indices: list[Any]) -> None:
    with pytest.raises(EmbeddingUnreadable) as caught:
        decode([{"index": index, "embedding": [1.0]} for index in indices], 5)
    assert (caught.value.indices, caught.value.vectors) == ((), 2)
