"""Clients of a project that load the service, as a process of their own. They stop once their input ends.

Reads a `Load` from the first line of its input as JSON. Prints the number of answers by status. Each client sends its
next request `PAUSE_SECONDS` after the answer, which it reads but does not parse: it competes with the service for the
machine.
"""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import cycle
from typing import NamedTuple

import orjson

_END = b"\r\n\r\n"
_PIECE = 1 << 16
#: Seconds between two requests of a client, as of the one beside which they are measured.
PAUSE_SECONDS = 0.05


class Load(NamedTuple):
    """Requests that clients send in turn: method, path, content type and body of each.

    Those that are `repeated` are sent again and again.
    """

    port: int
    clients: int
    requests: list[tuple[str, str, str, str]]
    repeated: bool


def main() -> None:
    load = Load(*orjson.loads(sys.stdin.buffer.readline()))
    statuses = asyncio.run(_loaded(load))
    sys.stdout.buffer.write(orjson.dumps(statuses))


async def _loaded(load: Load) -> dict[str, int]:
    statuses = Counter[str]()
    made = [_request(*each) for each in load.requests]
    requests = cycle(made) if load.repeated else iter(made)
    clients = [asyncio.create_task(_client(load.port, requests, statuses)) for _ in range(load.clients)]
    await asyncio.to_thread(sys.stdin.buffer.read)
    for client in clients:
        client.cancel()
    await asyncio.wait(clients)
    return statuses


def _request(method: str, path: str, content_type: str, body: str) -> bytes:
    head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n"
    content = body.encode()
    return f"{head}Content-Type: {content_type}\r\nContent-Length: {len(content)}\r\n\r\n".encode() + content


async def _client(port: int, requests: Iterator[bytes], statuses: Counter[str]) -> None:
    for request in requests:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            writer.write(request)
            head = await reader.readuntil(_END)
            while await reader.read(_PIECE):
                pass
            statuses[head.split(maxsplit=2)[1].decode()] += 1
        except (ConnectionError, asyncio.IncompleteReadError):
            statuses["broken off"] += 1
        finally:
            writer.close()
        await asyncio.sleep(PAUSE_SECONDS)


if __name__ == "__main__":
    main()
