"""Concurrent clients that query one tool, as a process of their own that leaves the measured one its interpreter.

Reads a `Load` from its input as JSON, and prints a `Measured`. Each client keeps its connection, and sends its next
query once it has the answer. It reads no JSON: it competes with the service for the machine's cores.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterator
from http import HTTPStatus
from itertools import cycle
from typing import NamedTuple

import orjson

#: Bytes of the largest answer.
MAX_ANSWER_BYTES = 1 << 22
_END = b"\r\n\r\n"
_LENGTH = b"content-length: "


class Load(NamedTuple):
    """What is asked, by how many clients, for how long. Texts that are `repeated` are asked again and again."""

    port: int
    path: str
    texts: list[str]
    clients: int
    seconds: float
    repeated: bool


class Measured(NamedTuple):
    """The milliseconds of each query, and the seconds that all took together."""

    milliseconds: list[float]
    seconds: float


def main() -> None:
    measured = asyncio.run(_measured(Load(*orjson.loads(sys.stdin.buffer.read()))))
    sys.stdout.buffer.write(orjson.dumps([*measured]))


async def _measured(load: Load) -> Measured:
    texts = cycle(load.texts) if load.repeated else iter(load.texts)
    began = time.perf_counter()
    took = await asyncio.gather(*(_client(load, texts, began + load.seconds) for _ in range(load.clients)))
    return Measured([each for client in took for each in client], time.perf_counter() - began)


async def _client(load: Load, texts: Iterator[str], deadline: float) -> list[float]:
    reader, writer = await asyncio.open_connection("127.0.0.1", load.port, limit=MAX_ANSWER_BYTES)
    took = []
    while (began := time.perf_counter()) < deadline:
        body = orjson.dumps({"query": next(texts), "top_k": 10})
        head = f"POST {load.path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        answer_head = (await reader.readuntil(_END)).lower()
        length = answer_head.partition(_LENGTH)[2].partition(b"\r\n")[0]
        answer = await reader.readexactly(int(length))
        took.append(1000 * (time.perf_counter() - began))
        if int(answer_head.split(maxsplit=2)[1]) != HTTPStatus.OK or b'"results":[{' not in answer:
            sys.exit(answer.decode())
    writer.close()
    return took


if __name__ == "__main__":
    main()
