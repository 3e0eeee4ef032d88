"""Reads the keys of a bucket below a prefix. Each reader reads one range of keys."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, NamedTuple

from schemas.content.document import FileContent, ListingPage, SourceEntry
from schemas.content.source import leads_out
from schemas.content.stated import named_values
from schemas.errors import FileError, SourceRefused
from schemas.reason import Reason
from worker.ignore import IGNORE_FILES, MAX_IGNORE_FILE, IgnoreFile, Rules, Trail
from worker.objects.object_store import s3_client, s3_errors, s3_fetch
from worker.sources.flat_listing import LAST, filter_files
from worker.sources.key_ranges import KeyRange

if TYPE_CHECKING:
    from mypy_boto3_s3.type_defs import ListObjectsV2OutputTypeDef, ObjectTypeDef

#: Number of pages of a range before it is divided. Dividing takes a request for each level of folders.
DIVIDE_AFTER_PAGES = 2
#: Number of pages of a range before it is divided within a folder, which takes some ten requests.
DIVIDE_FOLDER_AFTER_PAGES = 16

#: S3 keys may contain this character, Postgres text may not.
_NUL = "\0"
#: Replaces it in paths.
_NUL_SHOWN = "\N{SYMBOL FOR NULL}"


@dataclass(frozen=True, slots=True)
class BucketPrefix:
    """Requests for the objects below a prefix. Keys are relative to it. Each request may raise `SourceError`."""

    bucket: str
    prefix: str
    endpoint_url: str | None

    def objects(self, after: str, count: int, part: str = "") -> ListObjectsV2OutputTypeDef:
        """Return at most `count` objects after a key whose keys begin with `part`."""
        client = s3_client(self.endpoint_url)
        page = partial(client.list_objects_v2, Bucket=self.bucket, Prefix=self.prefix + part, MaxKeys=count)
        with s3_errors(self.bucket):
            answer = page(StartAfter=self.prefix + after)
            while answer["IsTruncated"] and not answer.get("Contents"):
                # Some services answer with an empty page where many objects were deleted, which is not the end.
                answer = page(ContinuationToken=answer["NextContinuationToken"])
            return answer

    def first_key(self, after: str, part: str) -> str | None:
        """Return the first key after another one that begins with `part`."""
        found = self.objects(after, 1, part).get("Contents", [])
        return self.key(found[0]) if found else None

    def folders(self, above: str, after: str) -> list[str]:
        """Return the next folders directly in `above`, which is empty or ends with "/", after its folder `after`."""
        client, place = s3_client(self.endpoint_url), self.prefix + above
        with s3_errors(self.bucket):
            answer = client.list_objects_v2(
                Bucket=self.bucket, Prefix=place, Delimiter="/", StartAfter=f"{place}{after}/{LAST}"
            )
        found = [folder["Prefix"] for folder in answer.get("CommonPrefixes", [])]
        # without the slash they sort differently: "a-b/" comes before "a/"
        return sorted(folder.removeprefix(self.prefix).removesuffix("/") for folder in found)

    def read(self, key: str, limit: int) -> FileContent:
        """Return the content of one object. Also raises `FileError`.

        An object whose key would leave the prefix on a server that resolves dots is not read.
        """
        if leads_out(key):
            raise FileError(Reason.UNREADABLE)
        with s3_errors(self.bucket):
            data, etag, stated = s3_fetch(self.endpoint_url, self.bucket, self.prefix + key, limit)
        return FileContent(data, _stamp(etag, len(data)), metadata=named_values(stated.items()))

    def key(self, item: ObjectTypeDef) -> str:
        """Return the key of a listed object."""
        return item["Key"].removeprefix(self.prefix)


class RangeReader:
    """Lists a range of the keys that begin with `part`, page by page, by rules.

    `left` are the keys that no page has shown yet, or None after the last page.
    """

    def __init__(self, place: BucketPrefix, rules: Rules, part: str, left: KeyRange, page_size: int) -> None:
        self.left: KeyRange | None = left
        self._place, self._part, self._page_size = place, part, page_size
        self._trail: Trail[str] = Trail(rules, str, self._ignore_files)
        self._listed_keys = _ListedKeys("", "", frozenset())
        self._pages, self._divide_after = 0, DIVIDE_AFTER_PAGES
        self._asked: Future[ListObjectsV2OutputTypeDef] | None = None

    def ask(self, threads: ThreadPoolExecutor) -> None:
        """Request the next page in a thread, unless it is requested already."""
        if self._asked is None and self.left is not None:
            self._asked = threads.submit(self._place.objects, self.left.after, self._page_size, self._part)

    def page(self) -> ListingPage:
        """Return the next page, without a cursor. Raises `SourceError`."""
        left = self.left or KeyRange()
        answer = self._asked.result() if self._asked else self._place.objects(left.after, self._page_size, self._part)
        self._asked = None
        shown = [(key, item) for item in answer.get("Contents", []) if left.holds(key := self._place.key(item))]
        keys = [key for key, _ in shown]
        is_more = answer["IsTruncated"] and len(shown) == len(answer["Contents"])
        end = self._part + LAST if left.until is None else left.until
        self._listed_keys = _ListedKeys(max(left.after, self._part), keys[-1] if is_more else end, frozenset(keys))
        # Consoles represent an empty folder by a key that ends with "/".
        files = ((*_split(key), (key, item)) for key, item in shown)
        kept, ignored = filter_files(self._trail, files, _split(left.after)[0] if left.after else None)
        self.left = left.from_key(self._past(keys[-1])) if is_more else None
        self._pages += 1
        return ListingPage([_entry(key, item) for key, item in kept], None, ignored=ignored)

    def divide(self, parts: int) -> list[KeyRange]:
        """Split the remaining keys into at most `parts` ranges, if they are many. This reader keeps the first range."""
        if self.left is None:
            return []
        if parts == 1 or self._pages < self._divide_after:
            return [self.left]
        ranges = next((ranges for ranges in self._divisions(self.left, parts) if len(ranges) > 1), [self.left])
        # a range that cannot be divided is tried again when it is twice as long
        self._pages, self._divide_after = (0, DIVIDE_AFTER_PAGES) if len(ranges) > 1 else (self._pages, 2 * self._pages)
        self.left = ranges[0]
        return ranges

    def leaves_out(self, key: str) -> bool:
        """Return whether the rules leave out a key."""
        folders, name = _split(key)
        return bool(self._trail.pruned(folders) or self._trail.ignored(name))

    def _divisions(self, left: KeyRange, parts: int) -> Iterator[list[KeyRange]]:
        """Divide a range at the folders of each level, within folders that pages have shown; then within a folder."""
        above = self._part
        for folder in _split(left.after.removeprefix(self._part))[0]:
            try:
                yield left.divide(self._place.folders(above, folder), parts)
            except SourceRefused:  # the credentials may list keys, but not folders
                return
            above += f"{folder}/"
        if self._pages >= DIVIDE_FOLDER_AFTER_PAGES:
            yield left.divide(self._characters(left), parts)

    def _characters(self, left: KeyRange) -> list[str]:
        """Return boundaries within a folder: the common prefix of its keys with each character that may come next."""

        @cache
        def follows(beginning: str) -> str | None:
            """Return the first remaining key after all keys with a prefix."""
            key = self._place.first_key(beginning + LAST, self._part)
            return key if key is not None and left.holds(key) else None

        lengths = range(len(self._part) + 1, len(left.after) + 1)
        # a key that sorts after a short common prefix also sorts after longer ones
        place = bisect_left(lengths, 1, key=lambda length: follows(left.after[:length]) is not None)
        if place == len(lengths) or (following := follows(left.after[: lengths[place]])) is None:
            return []
        shared, last = left.after[: lengths[place] - 1], left.after[lengths[place] - 1]
        seen = set(following[len(shared) :]).union(*self._listed_keys.keys)
        boundaries = [shared + character for character in sorted(seen) if character > last]
        return boundaries[: bisect_left(boundaries, 1, key=lambda beginning: follows(beginning) is None) + 1]

    def _past(self, key: str) -> str:
        """Return the key, or the end of the excluded folder that contains it."""
        pruned = self._trail.pruned(_split(key)[0])
        return "/".join((*pruned[0], LAST)) if pruned else key

    def _ignore_files(self, folders: tuple[str, ...]) -> Iterator[IgnoreFile]:
        """Read the ignore files that the last page shows; try others outside the page, which may exist."""
        for name in IGNORE_FILES:
            key = "/".join((*folders, name))
            if key in self._listed_keys.keys or not self._listed_keys.after < key <= self._listed_keys.until:
                try:
                    yield name, self._place.read(key, MAX_IGNORE_FILE).data
                except FileError as failure:
                    # Most files that were not listed do not exist.
                    if key in self._listed_keys.keys or failure.reason is Reason.TOO_LARGE:
                        yield name, None


class _ListedKeys(NamedTuple):
    """The keys of one answer: all that exist after `after` and up to `until`."""

    after: str
    until: str
    keys: frozenset[str]


def _entry(key: str, item: ObjectTypeDef) -> SourceEntry:
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


def _split(key: str) -> tuple[tuple[str, ...], str]:
    *folders, name = key.split("/")
    return tuple(folders), name


def _stamp(etag: str, size: int) -> str:
    etag = etag.strip('"')
    return f"{etag}-{size}"
