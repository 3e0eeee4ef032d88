"""The objects of a bucket below a prefix, taken as a folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

from schemas.document import Content, Entry, Page
from worker.objects import s3_client, s3_errors, s3_fetch

if TYPE_CHECKING:
    from mypy_boto3_s3.type_defs import ListObjectsV2OutputTypeDef, ObjectTypeDef

#: The most that one request of S3 lists.
PAGE_SIZE = 1000

#: S3 keys may hold it and Postgres text may not.
_NUL, _NUL_SHOWN = "\0", "\N{SYMBOL FOR NULL}"


class S3Prefix:
    """A source over a bucket's prefix: `docs` and `docs/` mean the same, and never `docs-old`."""

    def __init__(self, bucket: str, prefix: str, endpoint_url: str | None, *, page_size: int = PAGE_SIZE) -> None:
        self._bucket = bucket
        self._prefix = prefix if not prefix or prefix.endswith("/") else prefix + "/"
        self._endpoint_url = endpoint_url
        self._page_size = page_size

    def check(self) -> None:
        """See `Source`; a prefix without objects is an empty folder."""
        self._listed("", 1)

    def list(self, cursor: str | None) -> Page:
        """See `Source`. A cursor is the last key below the prefix."""
        answer = self._listed(_key_of(cursor), self._page_size)
        found = answer.get("Contents", [])
        # a key that ends with "/" is how consoles keep an empty folder
        entries = [self._entry(item) for item in found if not item["Key"].endswith("/")]
        more = answer["IsTruncated"] and found
        return Page(entries, _cursor_of(found[-1]["Key"].removeprefix(self._prefix)) if more else None)

    def read(self, key: bytes, limit: int) -> Content:
        """See `Source`."""
        with s3_errors(self._bucket):
            data, etag = s3_fetch(self._endpoint_url, self._bucket, self._prefix + key.decode(), limit)
        return Content(data, _stamp(etag, len(data)))

    def _listed(self, after: str, count: int) -> ListObjectsV2OutputTypeDef:
        with s3_errors(self._bucket):
            return s3_client(self._endpoint_url).list_objects_v2(
                Bucket=self._bucket, Prefix=self._prefix, StartAfter=self._prefix + after, MaxKeys=count
            )

    def _entry(self, item: ObjectTypeDef) -> Entry:
        key = item["Key"].removeprefix(self._prefix)
        path = key.replace(_NUL, _NUL_SHOWN)
        stamp = _stamp(item["ETag"], item["Size"])
        return Entry(key.encode(), path, f"/{path}", node_id=None, size=item["Size"], stamp=stamp)


def _stamp(etag: str, size: int) -> str:
    etag = etag.strip('"')
    return f"{etag}-{size}"


def _cursor_of(key: str) -> str:
    return key.encode().hex()


def _key_of(cursor: str | None) -> str:
    return bytes.fromhex(cursor or "").decode()
