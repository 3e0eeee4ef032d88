"""The provider's fake is fast, and as strict as a provider."""

from __future__ import annotations

import base64
import re
import socket
from collections.abc import Iterator
from http import HTTPStatus

import httpx
import numpy as np
import orjson
import pytest

from tests.fakes.embeddings import CONSTANT, MAX_INPUTS, SPREAD, BagOfStems, EmbeddingsFake, stems

DIMENSIONS = 384


@pytest.fixture
def fake() -> Iterator[EmbeddingsFake]:
    with EmbeddingsFake() as started:
        yield started


def head(fake: EmbeddingsFake, request: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", int(httpx.URL(fake.url).port or 0))) as connection:
        connection.sendall(request)
        connection.shutdown(socket.SHUT_WR)
        return connection.makefile("rb").readline().strip()


@pytest.mark.parametrize(
    "text", ["get_user(getUserName) Running tests, the test_runs 17", "Größe naïve_wörter 日本語 x_1", "", "the"]
)
def test_vectors_are_bags_of_the_stems_of_words(text: str) -> None:
    bag = BagOfStems(DIMENSIONS)
    vector = bag.vectors([text, "another text"])[0]
    expected = np.zeros(DIMENSIONS, dtype=np.float32)
    for stem in {stem for word in re.findall(r"\w+", text) for stem in stems(word)}:
        number = bag._stems[stem]
        for at in range(SPREAD):
            expected[bag._slots[number][at]] += bag._signs[number][at]
    expected /= np.linalg.norm(expected) or 1
    expected[0] += CONSTANT
    assert vector == pytest.approx(expected / np.linalg.norm(expected), abs=1e-6)


def test_a_request_is_answered_over_one_connection_whatever_the_case_of_its_headers(fake: EmbeddingsFake) -> None:
    body = {"model": "m", "input": ["some words"], "encoding_format": "base64"}
    with httpx.Client() as client:
        for name in ("Authorization", "AUTHORIZATION", "authorization"):
            answer = client.post(f"{fake.url}/embeddings", json=body, headers={name: "Bearer k"})
            assert answer.status_code == HTTPStatus.OK
            assert answer.headers["content-type"] == "application/json"
            row = np.frombuffer(base64.b64decode(answer.json()["data"][0]["embedding"]), np.float32)
            assert row.tolist() == BagOfStems(DIMENSIONS).vectors(["some words"])[0].tolist()
    assert {request.key for request in fake.audit.requests} == {"k"}
    assert fake.audit.times("some words") == 3


@pytest.mark.parametrize(
    ("changed", "key", "status"),
    [
        ({}, "wrong", 401),
        ({}, "", 401),
        ({"model": "no-such-model"}, "k", 404),
        ({"input": []}, "k", 400),
        ({"input": ["a"] * (MAX_INPUTS + 1)}, "k", 400),
        ({"input": ["a" * 40_000]}, "k", 400),
        ({"input": ["a" * 30_000] * 60}, "k", 400),
        ({"more": 1}, "k", 400),
    ],
)
def test_what_a_provider_refuses_is_refused(
    fake: EmbeddingsFake, changed: dict[str, object], key: str, status: int
) -> None:
    body = {"model": "m", "input": ["some words"], **changed}
    answer = httpx.post(f"{fake.url}/embeddings", json=body, headers={"Authorization": f"Bearer {key}"} if key else {})
    assert answer.status_code == status
    assert answer.json()["error"]["message"]


def test_a_time_to_wait_and_a_lost_connection(fake: EmbeddingsFake) -> None:
    fake.fail_next(429, retry_after=2.5)
    answer = httpx.post(f"{fake.url}/embeddings", content=orjson.dumps({}))
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "2.5")
    fake.fail_next(0)
    with pytest.raises(httpx.RemoteProtocolError):
        httpx.post(f"{fake.url}/embeddings", content=orjson.dumps({}))


@pytest.mark.parametrize(
    "request_",
    [
        b"GET /_audit HTTP/1.0\r\n\r\n",
        b"GET /_audit\r\n\r\n",
        b"GET /_audit HTTP/1.1\r\nno colon\r\n\r\n",
        b"GET /_audit HTTP/1.1\r\nname: " + b"x:" * 40_000 + b"\r\n\r\n",
    ],
)
def test_a_malformed_head_is_refused(fake: EmbeddingsFake, request_: bytes) -> None:
    assert b"400" in head(fake, request_)
    assert b"200" in head(fake, b"GET /_audit HTTP/1.1\r\nname: x\r\n\r\n")
