"""What statuses, headers and rows of a provider mean, by values alone."""

from __future__ import annotations

import base64
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


@pytest.mark.parametrize(
    ("statuses", "kind"),
    [
        ([400, 413, 422], EmbeddingRefused),
        ([401, 402, 403, 404, 405, 499], EmbeddingUnauthorized),
        ([408, 409, 425, 429, 500, 502, 503, 504, 529], EmbeddingUnavailable),
    ],
)
def test_a_status_says_whom_to_blame_and_whether_to_wait(statuses: list[int], kind: type[EmbeddingError]) -> None:
    for status in statuses:
        error = status_error("m", status, "secret words", 7.0)
        assert type(error) is kind, status
        assert "secret words" not in error.message
        if isinstance(error, EmbeddingUnavailable):
            assert (error.provider_status, error.retry_after) == (status, 7.0)


@pytest.mark.parametrize(("status", "remedy"), [(401, "EMBEDDING_API_KEY"), (402, "credit"), (404, "model's name")])
def test_an_account_that_cannot_be_used_has_a_remedy(status: int, remedy: str) -> None:
    assert remedy in status_error("m", status, "", None).message


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
    assert status_error("m", status, "", seconds).message == message


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
        [row(0, 1), row(0, 2)],
        [row(1, 1), row(2, 2)],
        [row(0, 1), row(1, 1, 2)],
        [row(0, 1, 2, 3, in_base64=True), row(1, 1, in_base64=True)],
        [row(0, 1, 2, in_base64=True), row(1, 1)],
        [row(0, 1, in_base64=True), {"index": 1, "embedding": "AAA"}],
        [row(0, 1), {"index": 1}],
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
    with pytest.raises(EmbeddingRefused) as caught:
        unit(bad)
    assert caught.value.indices == [1, 2, 3]
