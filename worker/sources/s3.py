"""The objects of a bucket below a prefix, treated as a folder."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cached_property, partial

from pydantic import ValidationError

from schemas.content.document import FileContent, ListingPage
from schemas.content.source import PLAIN, S3, S3Source
from schemas.errors import FileError, SourceError, SourceRefused
from schemas.reason import Reason
from worker.ignore import EVERYTHING, IGNORE_FILES, Rules
from worker.sources.flat_listing import topmost
from worker.sources.key_ranges import KeyRange, ListingPosition, position_of
from worker.sources.kind import (
    ContentAccess,
    IndexedTarget,
    SourceLocation,
    WatchAccess,
    not_granted,
    outside_target,
    raise_if_temporary,
)
from worker.sources.s3_nearby import nearby
from worker.sources.s3_reader import BucketPrefix, RangeReader
from worker.sources.watching.bucket import BucketWatch
from worker.state.access import grants
from worker.state.index.changes import WatchedIndex

#: Maximum number of keys in one S3 listing request.
PAGE_SIZE = 1000
#: Maximum number of key ranges that are listed at once. Each holds one page.
MAX_RANGES = 8

#: Bucket names, and the suffixes of access point aliases.
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_ALIASES = ("-s3alias", "--ol-s3")


class S3Kind:
    """Prefixes of buckets that a project was granted. The address of an object is its URL."""

    def open(self, access: ContentAccess, source: S3Source, rules: Rules) -> S3Prefix:
        """See `SourceKind`."""
        options = access.options

        def may_read(place: str) -> bool:
            return options.auth == "off" or grants.may_read_below(access.pool(), access.project_id, place)

        if not may_read(source.place):
            raise not_granted(access, source.place)
        if source.prefix.startswith("/"):
            without = source.prefix.lstrip("/")
            raise SourceRefused(f"The prefix of a bucket {PLAIN}; write {without!r}, without a slash at its beginning.")
        if not source.has_plain_prefix:
            raise SourceRefused(f"The prefix of a bucket {PLAIN}; choose another folder of the bucket.")
        if source.bucket == options.s3_bucket:
            raise SourceRefused(
                "S3_BUCKET contains the content of every project and cannot be indexed; choose another bucket."
            )
        if not _BUCKET.fullmatch(source.bucket) or source.bucket.endswith(_ALIASES):
            raise SourceRefused("Use the bucket's own name; an access point could be an alias of S3_BUCKET.")
        return S3Prefix(source.bucket, source.prefix, options.s3_endpoint_url, rules, may_read=may_read)

    def target(self, access: ContentAccess, source: S3Source) -> IndexedTarget:
        """See `SourceKind`."""
        place = f"{source.bucket}/{source.prefix}"
        return outside_target(source, place, lambda: self.open(access, source, EVERYTHING))

    def address_prefix(self, address: str | None) -> str:
        """See `SourceKind`."""
        return address or ""

    def addresses(self, _access: ContentAccess, sources: Sequence[S3Source]) -> list[str | None]:
        """See `SourceKind`."""
        return [source.place.rstrip("/") for source in sources]

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

    def watch(self, access: WatchAccess, source: S3Source, _index: WatchedIndex) -> BucketWatch | None:
        """See `SourceKind`."""
        return BucketWatch(access.bucket_events, source) if access.bucket_events else None

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
    """A source over a bucket's prefix. `docs` and `docs/` mean the same; neither matches `docs-old`.

    `may_read` returns whether another place may be named if nothing is here.
    """

    def __init__(
        self,
        bucket: str,
        prefix: str,
        endpoint_url: str | None,
        rules: Rules = EVERYTHING,
        *,
        page_size: int = PAGE_SIZE,
        max_ranges: int = MAX_RANGES,
        may_read: Callable[[str], bool] = lambda _: True,
    ) -> None:
        prefix = prefix if not prefix or prefix.endswith("/") else prefix + "/"
        self._place, self._rules = BucketPrefix(bucket, prefix, endpoint_url), rules
        self._page_size, self._max_ranges, self._may_read = page_size, max_ranges, may_read
        #: The scope of the listing: one key, or all keys that begin with a folder's name and "/", or all.
        self._parts = [""]
        self._readers: dict[KeyRange, RangeReader] = {}

    def check(self) -> None:
        """See `Source`. A prefix without objects is an empty folder."""
        self._place.objects("", 1)

    def list(self, cursor: str | None) -> ListingPage:
        """List a page, as `Source` says. Long key ranges are split, take turns, and send their requests concurrently.

        If only some keys are listed, no page spans two of their parts.
        """
        number, ranges = position_of(cursor or "")
        part = self._parts[number]
        if part and not part.endswith("/"):
            # other keys may have the wanted key as a prefix, and sort after it
            ranges = [KeyRange(until=part)]
        if cursor is None:
            self._readers = {}
        readers = [self._readers.get(range_) or self._reader(part, range_) for range_ in ranges]
        if len(readers) > 1:
            for reader in readers:
                reader.ask(self._threads)
        first, *others = readers
        # if a request fails, the caller requests this page again
        self._readers = dict(zip(ranges[1:], others, strict=True))
        page = first.page()
        divided = first.divide(self._max_ranges - len(others))
        if divided:
            self._readers[divided[0]] = first
        left = [*ranges[1:], *divided]
        if not left and number + 1 == len(self._parts):
            return page
        following = ListingPosition(number, left) if left else ListingPosition(number + 1, [KeyRange()])
        return replace(page, cursor=following.cursor())

    def narrow(self, keys: Sequence[bytes]) -> Sequence[bytes] | None:
        """Narrow by keys, as `Source` says. A path may be both a key and a folder."""
        tops = topmost((tuple(key.decode().split("/")) for key in keys), IGNORE_FILES)
        if tops is None:
            return None
        paths = ["/".join(top) for top in tops]
        self._parts = [part for path in paths for part in (path, path + "/")]
        return [path.encode() for path in paths]

    def leaves_out(self, key: bytes) -> bool:
        """See `Source`."""
        return self._judge.leaves_out(key.decode())

    def near(self) -> str:
        """See `Source`."""
        return nearby(self._place, self._may_read)

    def read(self, key: bytes, limit: int, _listed: str = "", /) -> FileContent:
        """See `Source`."""
        return self._place.read(key.decode(), limit)

    def _reader(self, part: str, range_: KeyRange) -> RangeReader:
        return RangeReader(self._place, self._rules, part, range_, self._page_size)

    @cached_property
    def _judge(self) -> RangeReader:
        """Applies the rules to any key."""
        return self._reader("", KeyRange())

    @cached_property
    def _threads(self) -> ThreadPoolExecutor:
        """Create threads for requests ahead. They end with this source."""
        return ThreadPoolExecutor(self._max_ranges, thread_name_prefix="foldex-s3-listing")
