"""The objects of a bucket below a prefix, treated as a folder."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from schemas.document import Content, Entry, Page
from schemas.errors import FileError
from schemas.status import Reason
from worker.ignore import EVERYTHING, IGNORE_FILES, MAX_IGNORE_FILE, IgnoreFile, Rules, Trail
from worker.objects.object_store import s3_client, s3_errors, s3_fetch
from worker.sources.flat_listing import LAST, sift

if TYPE_CHECKING:
    from mypy_boto3_s3.type_defs import ListObjectsV2OutputTypeDef, ObjectTypeDef

#: Maximum number of keys in one S3 listing request.
PAGE_SIZE = 1000

#: S3 keys may contain this character, Postgres text may not.
_NUL, _NUL_SHOWN = "\0", "\N{SYMBOL FOR NULL}"


class S3Prefix:
    """A source over a bucket's prefix. `docs` and `docs/` mean the same; neither matches `docs-old`."""

    def __init__(
        self,
        bucket: str,
        prefix: str,
        endpoint_url: str | None,
        rules: Rules = EVERYTHING,
        *,
        page_size: int = PAGE_SIZE,
    ) -> None:
        self._bucket = bucket
        self._prefix = prefix if not prefix or prefix.endswith("/") else prefix + "/"
        self._endpoint_url = endpoint_url
        self._page_size = page_size
        self._trail: Trail[str] = Trail(rules, str, self._ignore_files)
        self._seen = _Seen("", "", frozenset())

    def check(self) -> None:
        """See `Source`. A prefix without objects is an empty folder."""
        self._listed("", 1)

    def list(self, cursor: str | None) -> Page:
        """See `Source`. A cursor is a key below the prefix: the last one listed, or one past an excluded directory."""
        after = _key_of(cursor)
        if cursor is None:
            self._trail.forget()
        answer = self._listed(after, self._page_size)
        found = answer.get("Contents", [])
        keys = [item["Key"].removeprefix(self._prefix) for item in found]
        more = answer["IsTruncated"]
        self._seen = _Seen(after, keys[-1] if more else LAST, frozenset(keys))
        # Consoles represent an empty folder by a key that ends with "/".
        files = ((*_way(key), item) for key, item in zip(keys, found, strict=True) if not key.endswith("/"))
        kept, ignored = sift(self._trail, files, _way(after)[0] if after else None)
        entries = [self._entry(item) for item in kept]
        return Page(entries, self._next(keys[-1]) if more else None, ignored=ignored)

    def leaves_out(self, key: bytes) -> bool:
        """See `Source`."""
        way, name = _way(key.decode())
        return bool(self._trail.pruned(way) or self._trail.ignored(name))

    def read(self, key: bytes, limit: int) -> Content:
        """See `Source`."""
        with s3_errors(self._bucket):
            data, etag = s3_fetch(self._endpoint_url, self._bucket, self._prefix + key.decode(), limit)
        return Content(data, _stamp(etag, len(data)))

    def _listed(self, after: str, count: int) -> ListObjectsV2OutputTypeDef:
        client = s3_client(self._endpoint_url)
        page = partial(client.list_objects_v2, Bucket=self._bucket, Prefix=self._prefix, MaxKeys=count)
        with s3_errors(self._bucket):
            answer = page(StartAfter=self._prefix + after)
            while answer["IsTruncated"] and not answer.get("Contents"):
                # Some services answer with an empty page where many objects were deleted; it is not the end.
                answer = page(ContinuationToken=answer["NextContinuationToken"])
            return answer

    def _next(self, last: str) -> str:
        pruned = self._trail.pruned(_way(last)[0])
        return _cursor_of("/".join((*pruned[0], LAST)) if pruned else last)

    def _ignore_files(self, way: tuple[str, ...]) -> Iterator[IgnoreFile]:
        """Read the ignore files that the last page shows; try those outside the page, which may exist."""
        for name in IGNORE_FILES:
            key = "/".join((*way, name))
            if key in self._seen.keys or not self._seen.after < key <= self._seen.until:
                try:
                    yield name, self.read(key.encode(), MAX_IGNORE_FILE).data
                except FileError as failure:
                    # Most files that were not listed do not exist.
                    if key in self._seen.keys or failure.reason is Reason.TOO_LARGE:
                        yield name, None

    def _entry(self, item: ObjectTypeDef) -> Entry:
        key = item["Key"].removeprefix(self._prefix)
        path = key.replace(_NUL, _NUL_SHOWN)
        return Entry(
            key.encode(),
            path,
            f"/{path}",
            node_id=None,
            size=item["Size"],
            stamp=_stamp(item["ETag"], item["Size"]),
            mtime_ms=int(item["LastModified"].timestamp() * 1000),
        )


class _Seen(NamedTuple):
    """The keys of one answer: all that exist after `after` and up to `until`."""

    after: str
    until: str
    keys: frozenset[str]


def _way(key: str) -> tuple[tuple[str, ...], str]:
    *folders, name = key.split("/")
    return tuple(folders), name


def _stamp(etag: str, size: int) -> str:
    etag = etag.strip('"')
    return f"{etag}-{size}"


def _cursor_of(key: str) -> str:
    return key.encode().hex()


def _key_of(cursor: str | None) -> str:
    return bytes.fromhex(cursor or "").decode()
