"""What a client may send before its request is read: each head is bounded, and so are all of them together."""

from __future__ import annotations

import random
import select
import socket
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from typing import Any

import pytest

from api.http import protocol
from api.http.protocol import MAX_FIELDS, MAX_HEAD_BYTES, MAX_PIPELINED, MAX_URL_BYTES, Receiving, TimedProtocol
from tests.bare_server import Place, serving
from tests.service import eventually

LINE = b"GET / HTTP/1.1\r\n"
END = b"\r\n"
CHUNKED = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"


async def counts_headers(scope: Any, receive: Any, send: Any) -> None:
    """Answers the number of header fields, and the body."""
    body = b""
    while (message := await receive())["type"] == "http.request":
        body += message["body"]
        if not message["more_body"]:
            break
    answer = b"%d %b" % (len(scope["headers"]), body)
    headers = [(b"content-length", str(len(answer)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": answer})


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    with serving(counts_headers) as served:
        yield served


def answer_to(place: Place, pieces: list[bytes]) -> bytes:
    """What the server answers to these pieces, until it closes or has answered in full."""
    with socket.create_connection(place, 30) as client:
        with suppress(ConnectionError):
            for piece in pieces:
                client.sendall(piece)
        return answer_of(client)


def answer_of(client: socket.socket) -> bytes:
    data = b""
    with suppress(ConnectionResetError):
        while b"\r\n\r\n" not in data and (got := client.recv(1 << 16)):
            data += got
    return data


def pieces_of(data: bytes, choice: random.Random) -> list[bytes]:
    cuts = sorted(choice.randrange(len(data)) for _ in range(choice.choice([0, 1, 5, 30])))
    return [data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]


def fields(number: int, size: int = 1) -> bytes:
    return b"".join(b"a: %b\r\n" % (b"b" * size) for _ in range(number))


def head(size: int, number: int) -> bytes:
    """A head of `number` fields, whose address and fields have `size` bytes as the server counts them."""
    rest = size - 1 - (number - 1) * len(fields(1))
    return LINE + fields(number - 1) + fields(1, rest - len(fields(1, 0))) + END


@pytest.mark.parametrize("number", [1, 2, MAX_FIELDS])
def test_a_head_is_taken_up_to_its_bytes(place: Place, number: int) -> None:
    choice = random.Random(number)
    for size, status in ((MAX_HEAD_BYTES, b"200"), (MAX_HEAD_BYTES + 1, b"431")) * 3:
        answer = answer_to(place, pieces_of(head(size, number), choice))
        assert answer.startswith(b"HTTP/1.1 " + status), (size, answer[:100])


@pytest.mark.parametrize(("size", "field", "status"), [
    (MAX_URL_BYTES, b"", b"200"),
    (MAX_URL_BYTES, b"a: b\r\n", b"431"),
    (MAX_URL_BYTES + 1, b"", b"400"),
    (MAX_URL_BYTES + 1, b"a: b\r\n", b"400"),
    (3 * MAX_URL_BYTES, b"", b"400"),
])  # fmt: skip # a case a line
@pytest.mark.parametrize("method", [b"GET", b"PROPPATCH"])
def test_a_url_counts_as_headers_do_and_has_an_answer_of_its_own(
    place: Place, size: int, field: bytes, status: bytes, method: bytes
) -> None:
    choice = random.Random(size)
    request = method + b" /" + b"a" * (size - 1) + b" HTTP/1.1\r\n" + field + END
    one_by_one = [*(request[at : at + 1] for at in range(20)), request[20:]]
    for pieces in (one_by_one, *(pieces_of(request, choice) for _ in range(3))):
        answer = answer_to(place, pieces)
        assert answer.startswith(b"HTTP/1.1 " + status), answer[:100]
        assert (b'"url_too_long"' in answer) is (status == b"400")


def test_a_head_is_taken_up_to_its_fields(place: Place) -> None:
    choice = random.Random(1)
    for number, status in ((MAX_FIELDS, b"200"), (MAX_FIELDS + 1, b"431")) * 3:
        answer = answer_to(place, pieces_of(LINE + fields(number) + END, choice))
        assert answer.startswith(b"HTTP/1.1 " + status), (number, answer[:100])


def endless() -> dict[str, tuple[bytes, bytes]]:
    """The beginning of a request, and what repeats without an end."""
    return {
        "small fields": (LINE, fields(3000)),
        "one name": (LINE, b"a" * (1 << 15)),
        "one value": (LINE + b"a: ", b"b" * (1 << 15)),
        "spaces before a value": (LINE + b"a:", b" " * (1 << 15)),
        "an address": (b"GET /", b"a" * (1 << 15)),
        "lines before a request": (b"", b"\r\n" * (1 << 14)),
        "a chunk's extension": (CHUNKED + b"1;a=", b"b" * (1 << 15)),
        "trailers": (CHUNKED + b"1\r\nx\r\n0\r\n", fields(3000)),
        "one trailer": (CHUNKED + b"1\r\nx\r\n0\r\na: ", b"b" * (1 << 15)),
        "a trailer with a name of a header": (CHUNKED + b"1\r\nx\r\n0\r\nAuthorization: ", b"b" * (1 << 15)),
    }


@pytest.mark.parametrize("kind", endless())
def test_what_never_ends_is_answered_soon(place: Place, kind: str) -> None:
    first, more = endless()[kind]
    with socket.create_connection(place, 30) as client:
        client.sendall(first)
        sent = 0
        with suppress(ConnectionError):
            while not select.select([client], [], [], 0.005)[0]:
                client.sendall(more)
                sent += len(more)
                assert sent < 64 * MAX_HEAD_BYTES
        answer = answer_of(client)
    status, code = (b"400", b"url_too_long") if kind == "an address" else (b"431", b"headers_too_large")
    assert answer.startswith(b"HTTP/1.1 " + status), answer[:100]
    assert code in answer


@pytest.mark.parametrize(("field", "status", "code"), [
    (b"Authorization: Bearer ", b"401", b"token_invalid"),
    (b"AUTHORIZATION:", b"401", b"token_invalid"),
    (b"Foldex-Principals: ", b"422", b"invalid_request"),
    (b"X-Authorization: ", b"431", b"headers_too_large"),
    (b"Cookie: ", b"431", b"headers_too_large"),
])  # fmt: skip # a case a line
@pytest.mark.parametrize("size", [100_000, 200_000, 1_000_000])
def test_a_field_that_is_too_long_is_named(place: Place, field: bytes, status: bytes, code: bytes, size: int) -> None:
    """An identity provider may put thousands of groups into a token."""
    choice = random.Random(size)
    for more in (b"", b"\r\n" + fields(3) + END):
        for pieces in ([data := LINE + fields(3) + field + b"b" * size + more], pieces_of(data, choice)):
            answer = answer_to(place, pieces)
            assert answer.startswith(b"HTTP/1.1 " + status), answer[:100]
            assert code in answer


def test_a_field_of_usual_length_is_not_to_blame(place: Place) -> None:
    rest = fields(1, MAX_HEAD_BYTES - 500)
    for sent in (
        rest + b"Authorization: Bearer " + b"b" * 1000,
        b"Authorization: Bearer " + b"b" * 1000 + b"\r\n" + rest,
    ):
        assert answer_to(place, [LINE + sent + b"\r\n" + END]).startswith(b"HTTP/1.1 431 ")


def test_trailers_are_no_headers(place: Place) -> None:
    sent = CHUNKED + b"1\r\nx\r\n0\r\nAuthorization: Bearer other\r\n\r\n"
    assert answer_to(place, [sent]).endswith(b"1 x")


def test_a_client_that_still_sends_reads_why_it_is_refused(place: Place) -> None:
    with socket.create_connection(place, 30) as client:
        client.sendall(LINE + fields(1 << 20))
        assert answer_of(client).startswith(b"HTTP/1.1 431 ")


def test_requests_before_a_refused_one_are_answered(place: Place) -> None:
    with socket.create_connection(place, 30) as client:
        client.sendall(LINE + END + LINE + fields(MAX_FIELDS + 1) + END)
        data = b"".join(iter(lambda: client.recv(1 << 16), b""))
    assert data.startswith(b"HTTP/1.1 200 ")
    assert data.endswith(b"0 ")


def test_requests_in_one_go_are_bounded(place: Place) -> None:
    with socket.create_connection(place, 30) as client:
        client.sendall((LINE + END) * 5000)
        data = b"".join(iter(lambda: client.recv(1 << 16), b""))
    assert data.count(b"HTTP/1.1 200 ") == MAX_PIPELINED + 1


def test_unfinished_heads_share_a_budget(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """The largest are closed; small ones and new requests are served."""
    budget = 10 * (1 << 15)
    monkeypatch.setattr(TimedProtocol, "receiving", Receiving(1000, budget))
    with ExitStack() as stack:
        begun = [stack.enter_context(socket.create_connection(place, 30)) for _ in range(41)]
        small, large = begun[0], begun[1:]
        small.sendall(LINE + b"a: b")
        for client in large:
            with suppress(ConnectionError):
                client.sendall(LINE + b"a: " + b"b" * 30_000)
                client.sendall(b"b" * 20_000)
        eventually(lambda: sum(map(is_closed, large)) >= 20, 30)
        assert answer_to(place, [LINE + END]).startswith(b"HTTP/1.1 200 ")
        assert not is_closed(small)
        small.sendall(b"\r\n\r\n")
        assert answer_of(small).startswith(b"HTTP/1.1 200 ")


def test_connections_are_bounded_and_the_longest_idle_is_closed(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TimedProtocol, "receiving", Receiving(3, 1 << 20))
    with ExitStack() as stack:

        def opened() -> socket.socket:
            client = stack.enter_context(socket.create_connection(place, 30))
            client.sendall(LINE + END)
            assert answer_of(client).startswith(b"HTTP/1.1 200 ")
            return client

        first, second, third = opened(), opened(), opened()
        first.sendall(LINE + END)
        answer_of(first)
        fourth = opened()
        eventually(lambda: is_closed(second), 20)
        assert not any(map(is_closed, [first, third, fourth]))
        # those that are being answered stay, and a new caller learns why it is not served
        for client in (first, third, fourth):
            client.sendall(b"POST / HTTP/1.1\r\nContent-Length: 1\r\n\r\n")
        eventually(lambda: not TimedProtocol.receiving.waiting, 20)
        with socket.create_connection(place, 30) as client:
            answer = answer_of(client)
        assert answer.startswith(b"HTTP/1.1 503 ")
        assert b'"too_many_connections"' in answer
        for client in (first, third, fourth):
            client.sendall(b"x")
            assert answer_of(client).startswith(b"HTTP/1.1 200 ")


def is_closed(client: socket.socket) -> bool:
    if not select.select([client], [], [], 0)[0]:
        return False
    try:
        return client.recv(1, socket.MSG_PEEK) == b""
    except ConnectionError:
        return True


def test_bytes_that_begin_no_request_do_not_keep_a_connection(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "HEADER_SECONDS", 0.3)
    for before in (b"", LINE + END):
        with socket.create_connection(place, 20) as client:
            client.sendall(before)
            if before:
                answer_of(client)
            client.sendall(b"\r\n")
            eventually(lambda: is_closed(client), 20)
