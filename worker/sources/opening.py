"""A source that opens containers: it lists and reads their members as files below them."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple
from uuid import uuid4

from schemas.content.document import FileContent, ListingPage, SourceEntry
from schemas.errors import FileError, FileTooSlow
from schemas.reason import Reason
from schemas.tool import ContainerKind
from worker.ignore import Rules, Trail
from worker.sandbox.members import Member, Packing
from worker.sandbox.pool import ProjectHelpers
from worker.sandbox.requests import list_members, read_kept, read_member
from worker.sources import Source
from worker.sources.flat_listing import filter_files

#: Separator between the key of a container and the path of its member. No file's path contains it: one part has a NUL
#: and is not UTF-8. Paths on disks have no NUL, and keys in buckets are UTF-8.
_WITHIN = b"/\xff\0"
#: Number of entries after which a page ends, once a container's members are complete.
PAGE_ENTRIES = 2_000
#: Seconds after which a page ends, once a container's members are complete: each may take seconds to open.
PAGE_SECONDS = 2.0
#: Outcomes of a container that may differ the next time.
_PASSING = frozenset({Reason.UNREADABLE, Reason.CRASHED})


class _OpenableKind(NamedTuple):
    """The way to open files of an extension, and whether such a file is also read itself."""

    name: ContainerKind
    packing: Packing
    is_file: bool = False


#: Kinds by the ending of a file's name.
_KINDS = {
    ".zip": _OpenableKind("archives", "zip"),
    **dict.fromkeys(
        (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz"), _OpenableKind("archives", "tar")
    ),
    ".eml": _OpenableKind("attachments", "mail", is_file=True),
    ".msg": _OpenableKind("attachments", "outlook", is_file=True),
}


@dataclass(slots=True)
class _PageDraft:
    """A page under construction, which ends at `until`. `slow` counts containers that take too long."""

    entries: list[SourceEntry]
    unlisted: list[bytes]
    ignored: Counter[str]
    until: float
    slow: int = 0

    @property
    def is_full(self) -> bool:
        return len(self.entries) >= PAGE_ENTRIES or time.monotonic() > self.until

    def page(self, cursor: str | None) -> ListingPage:
        return ListingPage(self.entries, cursor, tuple(self.unlisted), self.ignored, self.slow)


class OpeningSource:
    """A source that lists members of containers of the `wanted` kinds.

    Helpers open the containers. A container is opened each time it is listed, and read once for members that are read
    consecutively. Its members have its stamp. So they are read again when it changes, and embedded only if their own
    text did. An archive is listed instead of its members only if it cannot be opened; then its entry has the reason.
    `limit` is the maximum bytes of a container.
    """

    def __init__(
        self, source: Source, rules: Rules, wanted: Collection[ContainerKind], limit: int, helpers: ProjectHelpers
    ) -> None:
        self._source, self._wanted, self._limit, self._helpers = source, wanted, limit, helpers
        self._trail: Trail[str] = Trail(rules, str, lambda _: ())
        #: Prefix of the names under which helpers keep containers of this source open.
        self._name = uuid4().hex
        self._last: tuple[bytes, str | None] | None = None

    def check(self) -> None:
        """See `Source`."""
        self._source.check()

    def list(self, cursor: str | None) -> ListingPage:
        """List a page, as `Source` says. The cursor also names the last listed entry of a page that became too long."""
        inner, done = json.loads(cursor) if cursor else (None, None)
        page = self._source.list(inner)
        ignored = Counter(page.ignored if done is None else {})
        listed = _PageDraft([], [*page.unlisted], ignored, time.monotonic() + PAGE_SECONDS)
        rest = _after(page.entries, done)
        for number, entry in enumerate(rest, 1):
            self._list(entry, listed)
            if listed.is_full and number < len(rest):
                return listed.page(json.dumps([inner, entry.key.hex()]))
        return listed.page(None if page.cursor is None else json.dumps([page.cursor, None]))

    def narrow(self, keys: Sequence[bytes]) -> Sequence[bytes] | None:
        """Narrow the inner source. A container is listed whole."""
        return self._source.narrow([_container(key, self._wanted) for key in keys])

    def leaves_out(self, key: bytes) -> bool:
        """See `Source`."""
        container, _, within = key.partition(_WITHIN)
        return self._source.leaves_out(container) or bool(within and self._ignores(container, within))

    def near(self) -> str | None:
        """See `Source`."""
        return self._source.near()

    def read(self, key: bytes, limit: int, listed: str = "", /) -> FileContent:
        """See `Source`."""
        container, _, within = key.partition(_WITHIN)
        if not within:
            return self._source.read(key, limit, listed)
        ending, _, path = within.decode().partition("/")
        if listed and self._last == (container, listed):
            kept = read_kept(self._helpers, self._kept_as(container, listed), path, limit)
            if kept is not None:
                return FileContent(kept, listed)
        content = self._source.read(container, self._limit)
        name = self._kept_as(container, content.stamp)
        data = read_member(self._helpers, name, _KINDS[ending].packing, content.data, path, limit)
        return FileContent(data, content.stamp)

    def _ignores(self, container: bytes, within: bytes) -> bool:
        *folders, name = within.decode().split("/")[1:]
        way = (*container.decode("utf-8", "backslashreplace").split("/"), *folders)
        return bool(self._trail.pruned(way) or self._trail.ignored(name))

    def _list(self, entry: SourceEntry, listed: _PageDraft) -> None:
        """Add an entry, or the members that replace it."""
        ending = _ending(entry.name, self._wanted) if entry.reason is None else None
        if ending is None:
            listed.entries.append(entry)
            return
        is_file = _KINDS[ending].is_file
        try:
            members = self._members(entry.key, ending)
        except FileError as error:
            listed.slow += isinstance(error, FileTooSlow)
            listed.entries.append(entry if is_file else replace(entry, reason=error.reason))
            if error.reason in _PASSING:
                # its known members have not vanished
                listed.unlisted.append(entry.key + _WITHIN)
            return
        files = ((_folders(entry.path, member), member.path.rpartition("/")[2], member) for member in members)
        kept, ignored = filter_files(self._trail, files, None)
        listed.entries.extend([*([entry] if is_file else []), *(_entry(entry, ending, member) for member in kept)])
        listed.ignored.update(ignored)

    def _members(self, key: bytes, ending: str) -> Sequence[Member]:
        content = self._source.read(key, self._limit)
        return list_members(self._helpers, self._kept_as(key, content.stamp), _KINDS[ending].packing, content.data)

    def _kept_as(self, key: bytes, stamp: str | None) -> str:
        """Return the name under which a helper keeps this version of a container open."""
        self._last = key, stamp
        return f"{self._name} {key.hex()} {stamp}"


def _ending(name: str, wanted: Collection[ContainerKind]) -> str | None:
    """Return the ending of a container's name; None if it is not a container of the wanted kinds."""
    return next(
        (ending for ending, kind in _KINDS.items() if kind.name in wanted and name.lower().endswith(ending)), None
    )


def _folders(container: str, member: Member) -> tuple[str, ...]:
    return (*container.split("/"), *member.path.split("/")[:-1])


def _entry(container: SourceEntry, ending: str, member: Member) -> SourceEntry:
    return replace(
        container,
        key=container.key + _WITHIN + f"{ending}/{member.path}".encode(),
        path=f"{container.path}/{member.path}",
        id_path=f"{container.id_path}/{member.path}",
        node_id=None,
        size=member.size,
        reason=member.reason,
        type=None,
    )


def _after(entries: Sequence[SourceEntry], done: str | None) -> Sequence[SourceEntry]:
    """Return the entries after the one with this key, or all if it is gone: an entry may be listed twice."""
    keys = [entry.key.hex() for entry in entries]
    return entries[keys.index(done) + 1 :] if done in keys else entries


def _container(key: bytes, wanted: Collection[ContainerKind]) -> bytes:
    """Return the outermost container on a path, or the path itself."""
    parts = key.split(b"/")
    for depth, part in enumerate(parts[:-1], 1):
        if _ending(part.decode("utf-8", "replace"), wanted):
            return b"/".join(parts[:depth])
    return key
