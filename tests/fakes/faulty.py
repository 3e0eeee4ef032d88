"""A proxy that answers with errors where a test wants them, and forwards everything else."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from urllib.parse import urlsplit

from tests.fakes.server import Server
from worker.objects.object_store import s3_client

#: In place of a status: half of the server's answer, then the connection is dropped.
CUT = -1


class Faulty(Server):
    """Answers `status` to requests of `method` whose address contains `containing`.

    The status 0 drops the connection, and so does `CUT`.
    """

    def __init__(self, behind: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.behind = urlsplit(behind).netloc
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.failed = 0
        self._fault: tuple[str, str, int] | None = None

    @contextmanager
    def fail(self, method: str, containing: str, status: int) -> Iterator[None]:
        """Fail matching requests inside the block."""
        self._fault, self.failed = (method, containing, status), 0
        try:
            yield
        finally:
            self._fault = None

    def fault(self, method: str, address: str) -> int | None:
        """The status to answer instead of the server's, or None."""
        if self._fault is None or method != self._fault[0] or self._fault[1] not in address:
            return None
        self.failed += 1
        return self._fault[2]


class _Handler(BaseHTTPRequestHandler):
    server: Faulty
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if self.headers.get("Expect"):
            self.send_response_only(100)
            self.end_headers()
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        status = self.server.fault(self.command, self.path)
        if status == 0:
            self.close_connection = True
        elif status is not None and status != CUT:
            self._reply(status, {}, b"<Error><Code>InternalError</Code></Error>")
        else:
            behind = http.client.HTTPConnection(self.server.behind, timeout=30)
            behind.request(self.command, self.path, body, dict(self.headers))
            answer = behind.getresponse()
            self._reply(answer.status, dict(answer.getheaders()), answer.read(), cut=status == CUT)

    do_POST = do_PUT = do_DELETE = do_HEAD = do_GET  # noqa: N815 - the names that http.server calls

    def _reply(self, status: int, headers: dict[str, str], body: bytes, *, cut: bool = False) -> None:
        self.send_response_only(status)
        for name, value in headers.items():
            if name.lower() not in {"content-length", "transfer-encoding", "connection"}:
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: len(body) // 2] if cut else body)
        self.close_connection = self.close_connection or cut

    def log_message(self, *_: object) -> None:
        """Keep test output clean."""


@contextmanager
def faulty(behind: str) -> Iterator[Faulty]:
    """A proxy of the server at a URL, which runs inside the block."""
    with Faulty(behind) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        yield server
        server.shutdown()


@contextmanager
def faulty_bucket(s3: Mapping[str, str], bucket: str) -> Iterator[Faulty]:
    """A proxy, inside the block, of the S3 server that `buckets` runs. Creates a bucket there first."""
    s3_client(s3["S3_ENDPOINT_URL"]).create_bucket(Bucket=bucket)
    with faulty(s3["S3_ENDPOINT_URL"]) as server:
        yield server
