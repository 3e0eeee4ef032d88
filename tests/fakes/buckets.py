"""A server that speaks the S3 protocol."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

KEYS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": "us-east-1"}


@contextmanager
def buckets(host: str = "127.0.0.1") -> Iterator[dict[str, str]]:
    """Run the server inside the block. Yields the settings that a service needs; this process gets the keys."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address=host, port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in KEYS.items():
            patch.setenv(name, value)
        yield {"S3_ENDPOINT_URL": f"http://{host}:{port}", **KEYS}
    server.stop()
