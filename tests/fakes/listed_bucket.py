"""A bucket in memory that answers listings as S3 documents them, each after a delay, and counts requests."""

from __future__ import annotations

import time
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from threading import Lock, Thread
from urllib.parse import parse_qsl, quote, unquote, urlsplit
from xml.sax.saxutils import escape

from tests.fakes.server import Handler, Server

#: Maximum keys of an answer, of S3.
MAX_KEYS = 1000


class ListedBucket(Server):
    """Serves `ListObjectsV2` and `GetObject` of any bucket's name. `contents` are the objects by key."""

    daemon_threads = True

    def __init__(
        self, contents: Mapping[str, bytes], *, delay_seconds: float = 0.0, lists_folders: bool = True
    ) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.contents, self.keys = contents, sorted(contents)
        self.delay_seconds, self.lists_folders = delay_seconds, lists_folders
        self.modified = "2026-01-01T00:00:00.000Z"
        self.listings = self.at_once = self._running = 0
        self._lock = Lock()

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    @contextmanager
    def listing(self) -> Iterator[None]:
        """Count a listing, and how many run at once."""
        with self._lock:
            self.listings += 1
            self._running += 1
            self.at_once = max(self.at_once, self._running)
        time.sleep(self.delay_seconds)
        try:
            yield
        finally:
            with self._lock:
                self._running -= 1

    def items(self, prefix: str, after: str, delimiter: str, count: int) -> tuple[list[tuple[str, bool]], bool]:
        """Keys and (True) common prefixes that sort after `after`, and whether more follow."""
        found: list[tuple[str, bool]] = []
        place = max(bisect_right(self.keys, after), bisect_left(self.keys, prefix))
        while place < len(self.keys) and (key := self.keys[place]).startswith(prefix):
            end = key.find(delimiter, len(prefix)) if delimiter else -1
            item = (key, False) if end < 0 else (key[: end + 1], True)
            if len(found) == count:
                return found, True
            found.append(item)
            place = place + 1 if end < 0 else bisect_left(self.keys, key[:end] + chr(ord(delimiter) + 1))
        return found, False


class _Handler(Handler):
    server: ListedBucket

    def do_GET(self) -> None:  # noqa: N802 - the base class names it so
        url = urlsplit(self.path)
        asked = dict(parse_qsl(url.query, keep_blank_values=True))
        key = unquote(url.path).removeprefix("/").partition("/")[2]
        if asked.get("list-type") == "2":
            self._list(asked)
        elif key in self.server.contents:
            self.send(200, self.server.contents[key], {"ETag": '"0"', "Content-Type": "binary/octet-stream"})
        else:
            self._refuse(404, "NoSuchKey")

    def _list(self, asked: dict[str, str]) -> None:
        delimiter, count = asked.get("delimiter", ""), min(int(asked.get("max-keys", MAX_KEYS)), MAX_KEYS)
        if delimiter and not self.server.lists_folders:
            self._refuse(403, "AccessDenied")
            return
        with self.server.listing():
            after = asked.get("continuation-token") or asked.get("start-after", "")
            items, is_more = self.server.items(asked.get("prefix", ""), after, delimiter, count)
            rows = [self._row(key, is_folder=is_folder) for key, is_folder in items]
            token = f"<NextContinuationToken>{escape(items[-1][0])}</NextContinuationToken>" if is_more else ""
            head = f"<IsTruncated>{str(is_more).lower()}</IsTruncated><EncodingType>url</EncodingType>{token}"
            body = f'<?xml version="1.0"?><ListBucketResult>{head}{"".join(rows)}</ListBucketResult>'
            self.send(200, body.encode(), {"Content-Type": "application/xml"})

    def _row(self, key: str, *, is_folder: bool) -> str:
        if is_folder:
            return f"<CommonPrefixes><Prefix>{quote(key)}</Prefix></CommonPrefixes>"
        size = len(self.server.contents[key])
        return (
            f"<Contents><Key>{quote(key)}</Key><LastModified>{self.server.modified}</LastModified>"
            f"<ETag>&quot;0&quot;</ETag><Size>{size}</Size></Contents>"
        )

    def _refuse(self, status: int, code: str) -> None:
        self.send(status, f"<Error><Code>{code}</Code></Error>".encode(), {"Content-Type": "application/xml"})


@contextmanager
def listed_bucket(
    contents: Mapping[str, bytes], *, delay_seconds: float = 0.0, lists_folders: bool = True
) -> Iterator[ListedBucket]:
    """Run the server inside the block. Requests need keys, of which it checks nothing."""
    with ListedBucket(contents, delay_seconds=delay_seconds, lists_folders=lists_folders) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        yield server
        server.shutdown()
