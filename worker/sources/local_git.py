"""Git's data beside a folder's files: linked worktrees, and ignore patterns outside of .gitignore.

Paths in a repository's files are not followed. The path in a `.git` file is compared, and opened only if it lies in the
folder itself. A repository's own config never names a file that is read.
"""

from __future__ import annotations

import os
import posixpath
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from worker.ignore import IGNORE_FILES, MAX_IGNORE_FILE, Above, IgnoreFile
from worker.machine.handles import OUT_OF_HANDLES, REGULAR_FILE, closing, open_beneath, open_real, read_up_to
from worker.sources.local_directories import OpenDirectories
from worker.sources.local_keys import Parts

#: A repository's directory, or the file with its path elsewhere.
GIT = ".git"
#: The patterns of one clone of a repository.
EXCLUDE = ".git/info/exclude"
#: The kind of default that excludes linked worktrees.
WORKTREES = "worktrees"

#: Maximum bytes of a `.git` file, which holds one path, and of a config.
_MAX_POINTER = 1 << 13
_MAX_CONFIG = 1 << 18
_POINTER = b"gitdir:"


@dataclass(frozen=True, slots=True)
class GitReach:
    """Access to git's patterns outside of a folder: at paths that `may_read` allows, and the `user`'s own."""

    may_read: Callable[[str], bool]
    user: Callable[[], bytes | None]

    def above(self, folder: bytes) -> Above:
        """Return the ignore files above a folder, from the root of its repository on.

        There are none if the folder is that root, or if the root may not be read.
        """
        names = folder.split(b"/")[1:]
        for depth in reversed(range(len(names))):
            place = b"/" + b"/".join(names[:depth])
            if not self.may_read(os.fsdecode(place)) or _is_repository(b"/" + b"/".join(names[: depth + 1])):
                break
            if _is_repository(place):
                shown = [os.fsdecode(name) for name in names[depth:]]
                places = (b"/" + b"/".join(names[:at]) for at in range(depth, len(names)))
                files = [(at, file) for at, opened in enumerate(places) for file in _ignore_files(opened, self.user)]
                return Above(shown, files)
        return Above()


def no_patterns() -> None:
    """Return None: no patterns of a user apply."""


NOTHING_ABOVE = GitReach(lambda _: False, no_patterns)


def user_patterns() -> bytes | None:
    """Return the patterns of `core.excludesFile` in git's config of this process's user; None if there are none."""
    home = os.path.expanduser("~")  # noqa: PTH111 - as git does it
    config = os.environ.get("XDG_CONFIG_HOME") or f"{home}/.config"
    named = f"{config}/git/ignore"
    # the later one takes precedence
    for path in (f"{config}/git/config", f"{home}/.gitconfig"):
        named = _excludes_file(_contents(path, _MAX_CONFIG) or b"", home) or named
    return _contents(named, MAX_IGNORE_FILE + 1)


def git_patterns(handle: int, user: Callable[[], bytes | None]) -> Iterator[IgnoreFile]:
    """Yield a repository's ignore patterns outside its .gitignore: the user's, then its own.

    Raises `OSError` if no more files can be opened.
    """
    with _tolerant():
        info = os.stat(GIT, dir_fd=handle, follow_symlinks=False)
        if (patterns := user()) is not None:
            yield "core.excludesFile", patterns
        if stat.S_ISDIR(info.st_mode):
            *folders, name = EXCLUDE.encode().split(b"/")
            with closing(open_beneath(handle, folders)) as folder:
                data = _regular(folder, name, MAX_IGNORE_FILE + 1)
            if data is not None:
                yield EXCLUDE, data


def kind_of(directories: OpenDirectories, root: bytes, parts: Parts) -> str | None:
    """Return `worktrees` for a linked worktree of a repository whose own files are in the folder too; otherwise None.

    A repository without a checkout of its own has only worktrees, so none of these is left out. Raises `OSError` if no
    more files can be opened.
    """
    if not parts or (repository := _repository(_pointed(directories, root, parts))) is None:
        return None
    below = repository.removeprefix(root + b"/")
    if below != repository:
        return WORKTREES if _has_checkout(directories, tuple(below.split(b"/"))) else None
    # the folder may be a linked worktree itself
    return WORKTREES if repository == _repository(_pointed(directories, root, ())) else None


def _pointed(directories: OpenDirectories, root: bytes, parts: Parts) -> bytes | None:
    """Return the absolute path in the `.git` file of a directory; None if it has no such file."""
    data = None
    with _tolerant():
        data = _regular(directories.handle(parts), GIT.encode(), _MAX_POINTER)
    if data is None or not data.startswith(_POINTER):
        return None
    # an absolute path replaces the parts before it
    return posixpath.normpath(posixpath.join(root or b"/", *parts, data.removeprefix(_POINTER).strip()))


def _repository(pointed: bytes | None) -> bytes | None:
    """Return the repository of a linked worktree, from the path in its `.git` file; None if it is not one."""
    worktrees = posixpath.dirname(pointed or b"")
    return posixpath.dirname(worktrees) if posixpath.basename(worktrees) == WORKTREES.encode() else None


def _has_checkout(directories: OpenDirectories, repository: Parts) -> bool:
    """Return whether a repository in the folder has files outside its worktrees."""
    with _tolerant():
        handle, config = directories.handle(repository), None
        with suppress(FileNotFoundError):
            config = _regular(handle, b"config", _MAX_CONFIG)
        if any(_is_bare(line) for line in (config or b"").splitlines()):
            return False
        if repository[-1] != GIT.encode():
            os.stat("index", dir_fd=handle, follow_symlinks=False)
        return True
    return False


def _is_bare(line: bytes) -> bool:
    name, _, value = line.partition(b"=")
    return name.strip().lower() == b"bare" and value.strip().lower() in {b"", b"true", b"yes", b"on", b"1"}


def _is_repository(folder: bytes) -> bool:
    try:
        with closing(open_real(folder)) as handle:
            os.stat(GIT, dir_fd=handle, follow_symlinks=False)
    except OSError:
        return False
    return True


def _ignore_files(folder: bytes, user: Callable[[], bytes | None]) -> Iterator[IgnoreFile]:
    """Yield the ignore files of a directory above the folder."""
    with _tolerant(), closing(open_real(folder)) as handle:
        yield from git_patterns(handle, user)
        for name in IGNORE_FILES:
            with _tolerant():
                if (data := _regular(handle, name.encode(), MAX_IGNORE_FILE + 1)) is not None:
                    yield name, data


def _regular(folder: int, name: bytes, limit: int) -> bytes | None:
    """Read the beginning of a regular file in an opened directory, without following a link; None for anything else."""
    # its type is checked first, because opening a device can have side effects
    if not stat.S_ISREG(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
        return None
    with closing(open_beneath(folder, (name,), REGULAR_FILE)) as file:
        return read_up_to(file, limit) if stat.S_ISREG(os.fstat(file).st_mode) else None


@contextmanager
def _tolerant() -> Iterator[None]:
    """Ignore missing and unreadable files. Raises `OSError` if no more files can be opened."""
    try:
        yield
    except OSError as error:
        if error.errno in OUT_OF_HANDLES:
            raise


def _contents(path: str, limit: int) -> bytes | None:
    """Read the beginning of a file of the user's own, which may be a link."""
    with suppress(OSError, ValueError), closing(os.open(path, os.O_RDONLY | os.O_NONBLOCK)) as file:
        return read_up_to(file, limit) if stat.S_ISREG(os.fstat(file).st_mode) else None
    return None


def _excludes_file(config: bytes, home: str) -> str | None:
    """Return the path of `core.excludesFile` in a config of git; None if it is missing or not absolute."""
    section, found = "", ""
    for line in config.decode("utf-8", "surrogateescape").splitlines():
        text = line.strip()
        if text.startswith("["):
            section, _, text = text[1:].partition("]")
        name, _, value = text.partition("=")
        if section.strip().lower() == "core" and name.strip().lower() == "excludesfile":
            found = _unquoted(value.strip())
    path = home + found[1:] if found.startswith("~/") else found
    return path if path.startswith("/") else None


def _unquoted(value: str) -> str:
    """Return a value of git's config without its quotes, or without the comment after it."""
    if value.startswith('"'):
        return value[1:].partition('"')[0]
    return value.partition(" #")[0].partition(" ;")[0].strip()
