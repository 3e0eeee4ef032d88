"""The objects of a bucket below a prefix, treated as a folder."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from pydantic import ValidationError

from schemas.content.document import FileContent, ListingPage, SourceEntry
from schemas.content.source import S3, S3Source
from schemas.errors import FileError, SourceError, SourceRefused
from schemas.status import Reason
from worker.ignore import EVERYTHING, IGNORE_FILES, MAX_IGNORE_FILE, IgnoreFile, Rules, Trail
from worker.objects.object_store import s3_client, s3_errors, s3_fetch
from worker.sources.flat_listing import LAST, filter_files, topmost
from worker.sources.kind import (
    ContentAccess,
    IndexedTarget,
    SourceLocation,
    not_granted,
    outside_target,
    raise_if_temporary,
)
from worker.state.access import grants

if TYPE_CHECKING:
    from mypy_boto3_s3.type_defs import ListObjectsV2OutputTypeDef, ObjectTypeDef

#: Maximum number of keys in one S3 listing request.
PAGE_SIZE = 1000

#: S3 keys may contain this character, Postgres text may not.
_NUL = "\0"
#: Stands for it in paths.
_NUL_SHOWN = "\N{SYMBOL FOR NULL}"


#: Bucket names, and the suffixes of access point aliases.
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_ALIASES = ("-s3alias", "--ol-s3")


class S3Kind:
    """Prefixes of buckets that a project was granted. The address of an object is its URL."""

    def open(self, access: ContentAccess, source: S3Source, rules: Rules) -> S3Prefix:
        """See `SourceKind`."""
        options = access.options
        if options.auth == "on" and not grants.may_read_below(access.pool(), access.project_id, source.place):
            raise not_granted(access, source.place)
        if source.bucket == options.s3_bucket:
            raise SourceRefused(
                "S3_BUCKET contains the content of every project and cannot be indexed; choose another bucket."
            )
        if not _BUCKET.fullmatch(source.bucket) or source.bucket.endswith(_ALIASES):
            raise SourceRefused("Use the bucket's own name; an access point could be an alias of S3_BUCKET.")
        return S3Prefix(source.bucket, source.prefix, options.s3_endpoint_url, rules)

    def target(self, access: ContentAccess, source: S3Source) -> IndexedTarget:
        """See `SourceKind`."""
        place = f"{source.bucket}/{source.prefix}"
        return outside_target(source, place, lambda: self.open(access, source, EVERYTHING))

    def address_prefix(self, source: S3Source) -> str:
        """See `SourceKind`."""
        return source.place.rstrip("/")

    def addresses(self, _access: ContentAccess, sources: Sequence[S3Source]) -> list[str | None]:
        """See `SourceKind`."""
        return [self.address_prefix(source) for source in sources]

    def locate(self, access: ContentAccess, path: str) -> list[SourceLocation] | None:
        """See `SourceKind`."""
        if not path.startswith(S3):
            return None
        bucket, _, prefix = path.removeprefix(S3).rstrip("/").partition("/")
        try:
            source = S3Source(kind="s3", bucket=bucket, prefix=prefix)
        except ValidationError:
            return []
        folder = SourceLocation(path.rstrip("/"), source, None)
        return [replace(folder, resolve=partial(self._resolve, access, source, folder))]

    def _resolve(self, access: ContentAccess, source: S3Source, folder: SourceLocation) -> SourceLocation | None:
        """Find out whether a path is a folder or an object."""
        above, _, name = source.prefix.rstrip("/").rpartition("/")
        parent = S3Source(kind="s3", bucket=source.bucket, prefix=above)
        file = replace(folder, source=parent, key=name.encode())
        try:
            if self.open(access, source, EVERYTHING).list(None).entries:
                return folder
            self.open(access, parent, EVERYTHING).read(name.encode(), 0)
        except SourceError as error:
            raise_if_temporary(error)
            return None
        except FileError as error:
            return file if error.reason is Reason.TOO_LARGE else None
        return file


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
        self._listed_keys = _ListedKeys("", "", frozenset())
        #: What is listed: one key, or all that begin with a folder's name and "/", or all.
        self._parts = [""]

    def check(self) -> None:
        """See `Source`. A prefix without objects is an empty folder."""
        self._list_objects("", 1)

    def list(self, cursor: str | None) -> ListingPage:
        """See `Source`. A cursor is a key below the prefix: the last one listed, or one past an excluded directory.

        The number of the part comes before it, if only parts are listed. No page shows more than one of them.
        """
        number, after = _place_of(cursor)
        part = self._parts[number]
        if cursor is None:
            self._trail.forget()
        is_key = bool(part) and not part.endswith("/")
        answer = self._list_objects(after, 1 if is_key else self._page_size, part)
        # other keys may begin with the one that is wanted, which sorts before them
        objects = [item for item in answer.get("Contents", []) if not is_key or item["Key"] == self._prefix + part]
        keys = [item["Key"].removeprefix(self._prefix) for item in objects]
        is_more = answer["IsTruncated"] and not is_key
        self._listed_keys = _ListedKeys(max(after, part), keys[-1] if is_more else part + LAST, frozenset(keys))
        if is_key:
            self._listed_keys = _ListedKeys("", "", frozenset(keys))
        # Consoles represent an empty folder by a key that ends with "/".
        files = ((*_split(key), item) for key, item in zip(keys, objects, strict=True) if not key.endswith("/"))
        kept, ignored = filter_files(self._trail, files, _split(after)[0] if after else None)
        entries = [self._entry(item) for item in kept]
        if is_more:
            return ListingPage(entries, _cursor_of(number, self._next(keys[-1])), ignored=ignored)
        is_last = number == len(self._parts) - 1
        return ListingPage(entries, None if is_last else _cursor_of(number + 1, ""), ignored=ignored)

    def narrow(self, keys: Sequence[bytes]) -> Sequence[bytes] | None:
        """See `Source`. A path may be a key, and a folder too."""
        tops = topmost((tuple(key.decode().split("/")) for key in keys), IGNORE_FILES)
        if tops is None:
            return None
        paths = ["/".join(top) for top in tops]
        self._parts = [part for path in paths for part in (path, path + "/")]
        return [path.encode() for path in paths]

    def leaves_out(self, key: bytes) -> bool:
        """See `Source`."""
        folders, name = _split(key.decode())
        return bool(self._trail.pruned(folders) or self._trail.ignored(name))

    def read(self, key: bytes, limit: int) -> FileContent:
        """See `Source`."""
        with s3_errors(self._bucket):
            data, etag = s3_fetch(self._endpoint_url, self._bucket, self._prefix + key.decode(), limit)
        return FileContent(data, _stamp(etag, len(data)))

    def _list_objects(self, after: str, count: int, part: str = "") -> ListObjectsV2OutputTypeDef:
        client = s3_client(self._endpoint_url)
        page = partial(client.list_objects_v2, Bucket=self._bucket, Prefix=self._prefix + part, MaxKeys=count)
        with s3_errors(self._bucket):
            answer = page(StartAfter=self._prefix + after)
            while answer["IsTruncated"] and not answer.get("Contents"):
                # Some services answer with an empty page where many objects were deleted; it is not the end.
                answer = page(ContinuationToken=answer["NextContinuationToken"])
            return answer

    def _next(self, last: str) -> str:
        pruned = self._trail.pruned(_split(last)[0])
        return "/".join((*pruned[0], LAST)) if pruned else last

    def _ignore_files(self, folders: tuple[str, ...]) -> Iterator[IgnoreFile]:
        """Read the ignore files that the last page shows; try those outside the page, which may exist."""
        for name in IGNORE_FILES:
            key = "/".join((*folders, name))
            if key in self._listed_keys.keys or not self._listed_keys.after < key <= self._listed_keys.until:
                try:
                    yield name, self.read(key.encode(), MAX_IGNORE_FILE).data
                except FileError as failure:
                    # Most files that were not listed do not exist.
                    if key in self._listed_keys.keys or failure.reason is Reason.TOO_LARGE:
                        yield name, None

    def _entry(self, item: ObjectTypeDef) -> SourceEntry:
        key = item["Key"].removeprefix(self._prefix)
        path = key.replace(_NUL, _NUL_SHOWN)
        return SourceEntry(
            key.encode(),
            path,
            f"/{path}",
            node_id=None,
            size=item["Size"],
            stamp=_stamp(item["ETag"], item["Size"]),
            mtime_ms=int(item["LastModified"].timestamp() * 1000),
        )


class _ListedKeys(NamedTuple):
    """The keys of one answer: all that exist after `after` and up to `until`."""

    after: str
    until: str
    keys: frozenset[str]


def _split(key: str) -> tuple[tuple[str, ...], str]:
    *folders, name = key.split("/")
    return tuple(folders), name


def _stamp(etag: str, size: int) -> str:
    etag = etag.strip('"')
    return f"{etag}-{size}"


def _cursor_of(number: int, key: str) -> str:
    return f"{number}:{key.encode().hex()}" if number else key.encode().hex()


def _place_of(cursor: str | None) -> tuple[int, str]:
    number, _, key = (cursor or "").rpartition(":")
    return int(number or 0), bytes.fromhex(key).decode()
