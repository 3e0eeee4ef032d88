"""A source whose containers are opened: what they contain is listed and read as files below them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeVar

from schemas.content.document import FileContent, ListingPage, SourceEntry
from schemas.errors import FileError
from schemas.status import Reason
from schemas.tool import ContainerKind
from worker.ignore import Rules, Trail
from worker.sources import Source
from worker.sources.containers import Container, Member, Opener, damaged
from worker.sources.containers.mail import open_mail
from worker.sources.containers.outlook import open_outlook
from worker.sources.containers.tar import open_tar
from worker.sources.containers.zip import open_zip
from worker.sources.flat_listing import filter_files

#: Between the key of a container and the path of its member. No path of a file has it: one part has a NUL and is not
#: UTF-8, and paths have no NUL on disks and are UTF-8 in buckets.
_WITHIN = b"/\xff\0"
#: Entries after which a page ends, once a container's members are complete.
PAGE_ENTRIES = 2_000

Value = TypeVar("Value")


class _OpenableKind(NamedTuple):
    """How files of an extension are opened, and whether such a file is also read itself."""

    name: ContainerKind
    open: Opener
    is_file: bool = False


#: Kinds by the end of a file's name.
_KINDS = {
    ".zip": _OpenableKind("archives", open_zip),
    **dict.fromkeys(
        (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz"), _OpenableKind("archives", open_tar)
    ),
    ".eml": _OpenableKind("attachments", open_mail, is_file=True),
    ".msg": _OpenableKind("attachments", open_outlook, is_file=True),
}


class _PageDraft(NamedTuple):
    """A page that is being made."""

    entries: list[SourceEntry]
    unlisted: list[bytes]
    ignored: Counter[str]

    def page(self, cursor: str | None) -> ListingPage:
        return ListingPage(self.entries, cursor, tuple(self.unlisted), self.ignored)


class OpeningSource:
    """A source that lists members of containers of the `wanted` kinds.

    A container is opened each time it is listed, and read once for members that are read one after the other. Its
    members have its stamp. So they are read again when it changes, and embedded only if their own text did. An archive
    takes the place of its members only if it cannot be opened; then its entry has the reason. `limit` is the most bytes
    of a container.
    """

    def __init__(self, source: Source, rules: Rules, wanted: Collection[ContainerKind], limit: int) -> None:
        self._source, self._wanted, self._limit = source, wanted, limit
        self._trail: Trail[str] = Trail(rules, str, lambda _: ())
        self._last: tuple[bytes, str | None, Container] | None = None

    def check(self) -> None:
        """See `Source`."""
        self._source.check()

    def list(self, cursor: str | None) -> ListingPage:
        """See `Source`. The cursor also names the last entry that was listed of a page that became too long."""
        inner, done = json.loads(cursor) if cursor else (None, None)
        page = self._source.list(inner)
        listed = _PageDraft([], [*page.unlisted], Counter(page.ignored if done is None else {}))
        rest = _after(page.entries, done)
        for number, entry in enumerate(rest, 1):
            self._list(entry, listed)
            if len(listed.entries) >= PAGE_ENTRIES and number < len(rest):
                return listed.page(json.dumps([inner, entry.key.hex()]))
        return listed.page(None if page.cursor is None else json.dumps([page.cursor, None]))

    def narrow(self, keys: Sequence[bytes]) -> Sequence[bytes] | None:
        """See `Source`. A container is listed whole."""
        return self._source.narrow([_container(key, self._wanted) for key in keys])

    def leaves_out(self, key: bytes) -> bool:
        """See `Source`."""
        container, _, within = key.partition(_WITHIN)
        return self._source.leaves_out(container) or bool(within and self._ignores(container, within))

    def read(self, key: bytes, limit: int, listed: str = "", /) -> FileContent:
        """See `Source`."""
        container, _, within = key.partition(_WITHIN)
        if not within:
            return self._source.read(key, limit, listed)
        ending, _, path = within.decode().partition("/")
        if listed and self._last and self._last[:2] == (container, listed):
            stamp, opened = self._last[1:]
        else:
            content = self._source.read(container, self._limit)
            stamp, opened = content.stamp, self._opened(container, ending, content)
        return FileContent(_guarded(lambda: opened.read(path, limit)), stamp)

    def _ignores(self, container: bytes, within: bytes) -> bool:
        *folders, name = within.decode().split("/")[1:]
        way = (*container.decode("utf-8", "backslashreplace").split("/"), *folders)
        return bool(self._trail.pruned(way) or self._trail.ignored(name))

    def _list(self, entry: SourceEntry, listed: _PageDraft) -> None:
        """Add an entry, or what stands in its place."""
        ending = _ending(entry.name, self._wanted) if entry.reason is None else None
        if ending is None:
            listed.entries.append(entry)
            return
        is_file = _KINDS[ending].is_file
        try:
            opened = self._opened(entry.key, ending, self._source.read(entry.key, self._limit))
            members = _guarded(lambda: [*opened.members()])
        except FileError as error:
            listed.entries.append(entry if is_file else replace(entry, reason=error.reason))
            if error.reason is Reason.UNREADABLE:
                # perhaps only now: what is known of its members has not vanished
                listed.unlisted.append(entry.key + _WITHIN)
            return
        files = ((_folders(entry.path, member), member.path.rpartition("/")[2], member) for member in members)
        kept, ignored = filter_files(self._trail, files, None)
        listed.entries.extend([*([entry] if is_file else []), *(_entry(entry, ending, member) for member in kept)])
        listed.ignored.update(ignored)

    def _opened(self, key: bytes, ending: str, content: FileContent) -> Container:
        """The container, which stays open until another one is: members are mostly read one after the other."""
        if not self._last or not content.stamp or self._last[:2] != (key, content.stamp):
            self._last = key, content.stamp, _guarded(lambda: _KINDS[ending].open(content.data))
        return self._last[2]


def _ending(name: str, wanted: Collection[ContainerKind]) -> str | None:
    """The end of a container's name; None if it names no container of the wanted kinds."""
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
    """The entries after the one with this key, or all if it is gone: an entry may be listed twice."""
    keys = [entry.key.hex() for entry in entries]
    return entries[keys.index(done) + 1 :] if done in keys else entries


def _container(key: bytes, wanted: Collection[ContainerKind]) -> bytes:
    """The outermost container on a path, or the path itself."""
    parts = key.split(b"/")
    for depth, part in enumerate(parts[:-1], 1):
        if _ending(part.decode("utf-8", "replace"), wanted):
            return b"/".join(parts[:depth])
    return key


def _guarded(act: Callable[[], Value]) -> Value:
    """What `act` returns. Whatever a library makes of strange bytes is an outcome of the container."""
    try:
        return act()
    except (FileError, MemoryError):
        raise
    except Exception as error:  # libraries raise all kinds of exceptions on damaged containers
        raise damaged(type(error).__name__) from error
