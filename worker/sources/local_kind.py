"""Directories of this machine that a project may read, and the files at paths that it names."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from functools import partial

from schemas.content.source import LocalSource
from schemas.errors import FolderGone, SourceError
from worker.ignore import EVERYTHING, Rules, rules_of
from worker.machine.paths import is_below, real_path
from worker.sources.kind import (
    ContentAccess,
    IndexedTarget,
    SourceLocation,
    WatchAccess,
    not_granted,
    outside_target,
    raise_if_temporary,
)
from worker.sources.local import LocalFolder, outside_roots
from worker.sources.local_git import GitReach, no_patterns, user_patterns
from worker.sources.watching.local import LocalWatch
from worker.state.access import grants
from worker.state.access.grants import FolderGrant
from worker.state.index.changes import WatchedIndex

#: Maximum number of links on a path that a message follows.
_MAX_LINKS = 40


class LocalKind:
    """Directories that a project was granted. The address of a file is its path with links resolved."""

    def open(self, access: ContentAccess, source: LocalSource, rules: Rules) -> LocalFolder:
        """See `SourceKind`."""
        granted = _read_grants(access)
        refuse = outside_roots if granted is None else partial(_refusal, access, granted)
        roots = _readable(access, granted)
        git = GitReach(lambda _: True, user_patterns) if granted is None else _granted_reach(roots)
        folder = LocalFolder(source.path, roots, rules, closed=access.options.home, refuse=refuse, git=git)
        folder.resolve()
        return folder

    def target(self, access: ContentAccess, source: LocalSource) -> IndexedTarget:
        """See `SourceKind`."""
        return outside_target(source, source.path, lambda: self.open(access, source, EVERYTHING))

    def address_prefix(self, address: str | None) -> str:
        """See `SourceKind`."""
        return address or ""

    def addresses(self, access: ContentAccess, sources: Sequence[LocalSource]) -> list[str | None]:
        """Return addresses, as `SourceKind` says. A folder that may not be read now keeps its path when granted."""
        granted = _read_grants(access)
        roots = _readable(access, granted)
        return [_address(source.path, roots, granted or ()) for source in sources]

    def locate(self, access: ContentAccess, path: str) -> list[SourceLocation] | None:
        """See `SourceKind`."""
        if not path.startswith("/"):
            return None
        try:
            real = real_path(path)
            return [self._folder_at(access, real) or self._file_at(access, real)]
        except (OSError, ValueError):
            return None
        except SourceError as error:
            raise_if_temporary(error)
            return None

    def watch(self, access: WatchAccess, source: LocalSource, index: WatchedIndex) -> LocalWatch:
        """See `SourceKind`."""
        open_folder = partial(self.open, access.content, source, EVERYTHING)
        return LocalWatch(open_folder, rules_of(index.settings), access.content.options.home, access.wake)

    def _folder_at(self, access: ContentAccess, real: str) -> SourceLocation | None:
        source = LocalSource(kind="local", path=real)
        try:
            self.open(access, source, EVERYTHING).check()
        except FolderGone:
            return None
        return SourceLocation(real.rstrip("/"), source, None)

    def _file_at(self, access: ContentAccess, real: str) -> SourceLocation:
        """Return a single file. Raises `SourceError` if its folder may not be read, or does not contain it."""
        above, name = os.path.split(real)
        source, key = LocalSource(kind="local", path=above), os.fsencode(name)
        if self.open(access, source, EVERYTHING).size_of(key) is None:
            raise FolderGone(f"{real} does not exist; check the path.")
        return SourceLocation(real, source, key)


def readable_roots(access: ContentAccess) -> list[str]:
    """Return the real paths below which the project may read now."""
    return _readable(access, _read_grants(access))


def _granted_reach(roots: Sequence[str]) -> GitReach:
    return GitReach(lambda path: any(is_below(path, root) for root in roots), no_patterns)


def _read_grants(access: ContentAccess) -> list[FolderGrant] | None:
    """Return the folders that the project was granted; None if no grant is needed."""
    return grants.folders(access.pool(), access.project_id) if access.options.auth == "on" else None


def _readable(access: ContentAccess, granted: Sequence[FolderGrant] | None) -> list[str]:
    """Return the real paths below which the project may read."""
    roots = access.options.local_roots
    return roots if granted is None else grants.readable(granted, roots)


def _address(path: str, roots: Sequence[str], granted: Sequence[FolderGrant]) -> str:
    with suppress(FolderGone):
        real = real_path(path)
        if any(is_below(real, root) for root in roots):
            return real.rstrip("/")
    return (_path_when_granted(path, granted) or os.path.normpath(path)).rstrip("/")


def _path_when_granted(path: str, granted: Sequence[FolderGrant]) -> str | None:
    """Return the real path of a path at the time of its grant; None if no grant contains it."""
    return next((known for grant in granted if (known := grant.real_path_of(path)) is not None), None)


def _refusal(access: ContentAccess, granted: Sequence[FolderGrant], path: str, real: str) -> SourceError:
    """Return the error for a path that the project may not read. It names a granted place that leads elsewhere now."""
    was = _path_when_granted(path, granted)
    if was is None or was == real:
        return not_granted(access, path)
    return FolderGone(
        f"{path!r} leads to {_shown_target(path, granted)!r} now, and led to {was!r} when it was granted; change it "
        "back, or ask the operator to grant the new place with `foldex grants add`."
    )


def _shown_target(path: str, granted: Sequence[FolderGrant]) -> str:
    """Return the target of a granted path at the first link that leaves the granted places.

    The project may know the target of that link, but of no link behind it.
    """
    with suppress(OSError):
        for _ in range(_MAX_LINKS):
            link = next((above for above in _ways_to(path) if os.path.islink(above)), None)  # noqa: PTH114 - a string
            if link is None:
                break
            target = os.path.join(os.path.dirname(link), os.readlink(link))  # noqa: PTH118, PTH120, PTH115 - strings
            path = os.path.normpath(target + path[len(link) :])
            if _path_when_granted(path, granted) is None:
                break
    return path


def _ways_to(path: str) -> list[str]:
    """Return the directories above a path, from the outermost on, and the path."""
    parts = path.split("/")
    return ["/".join(parts[:end]) for end in range(2, len(parts) + 1)]
