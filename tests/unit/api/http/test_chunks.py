"""Bodies that come in chunks: a connection that sends many leaves all others their turn."""

from __future__ import annotations

import asyncio
import random
import re
import socket
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from api.http import protocol
from api.http.protocol import MAX_SMALL_CHUNKS, SMALL_BYTES
from tests.bare_server import Place, serving

HEAD = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"


async def counts_turns(_scope: Any, receive: Any, send: Any) -> None:
    """Answers the bytes of the body, and the turns of the loop since the request began."""
    loop, turns, over = asyncio.get_running_loop(), 0, False

    def turn() -> None:
        nonlocal turns
        turns += 1
        if not over:
            loop.call_soon(turn)

    turn()
    size, more = 0, True
    while more:
        message = await receive()
        size += len(message.get("body", b""))
        more = message.get("more_body", False)
    over = True
    answer = b"%d %d" % (size, turns)
    headers = [(b"content-length", str(len(answer)).encode())]
    with suppress(RuntimeError):
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": answer})


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    with serving(counts_turns) as served:
        yield served


def answer_to(place: Place, *pieces: bytes) -> bytes:
    with socket.create_connection(place, 60) as client:
        with suppress(ConnectionError):
            for piece in pieces:
                client.sendall(piece)
        data = b""
        while not is_whole(data) and (got := client.recv(1 << 16)):
            data += got
        return data


def is_whole(data: bytes) -> bool:
    """Whether an answer has all of its body, which may come behind its head."""
    head, end, body = data.partition(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", head)
    return bool(end) and (length is None or len(body) >= int(length[1]))


def chunks(number: int, size: int = 1) -> bytes:
    return b"%x\r\n%b\r\n" % (size, b"x" * size) * number


@pytest.mark.parametrize("more", [0, 1])
def test_small_chunks_are_taken_up_to_their_number(place: Place, more: int) -> None:
    answer = answer_to(place, HEAD + chunks(MAX_SMALL_CHUNKS - 1) + chunks(1 + more, SMALL_BYTES - 1) + END)
    assert answer.startswith(b"HTTP/1.1 400 " if more else b"HTTP/1.1 200 ")
    assert not more or b"send larger chunks" in answer


def test_other_chunks_are_not_counted(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "MAX_SMALL_CHUNKS", 3)
    body = chunks(3) + chunks(5000, SMALL_BYTES) + END
    # a chunk counts as a whole, in however many pieces it comes
    choice = random.Random(1)
    cuts = sorted(choice.randrange(len(body)) for _ in range(500))
    pieces = [body[start:end] for start, end in zip([0, *cuts], [*cuts, None], strict=True)]
    for _ in range(2):
        assert f"{3 + 5000 * SMALL_BYTES} ".encode() in answer_to(place, HEAD, *pieces)


def test_a_connection_that_takes_long_waits_for_the_others(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "TURN_SECONDS", 0.0)
    monkeypatch.setattr(protocol, "MAX_SMALL_CHUNKS", 10**6)
    body = HEAD + chunks(500_000) + END
    size, turns = map(int, answer_to(place, body).rpartition(b"\r\n")[2].split())
    assert size == 500_000
    # the server reads at most as much at once
    assert turns >= len(body) // 256_000
