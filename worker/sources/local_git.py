"""What git keeps beside a folder's files: linked worktrees, and patterns of what it ignores outside of .gitignore.

What a repository names is not followed. The path in a `.git` file is compared, and opened only if it lies in the folder
itself. A repository's own config names no file to read.
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

#: A repository's directory, or the file that names it elsewhere.
GIT = ".git"
#: The patterns of one clone of a repository.
EXCLUDE = ".git/info/exclude"
#: The kind of default that leaves linked worktrees out.
WORKTREES = "worktrees"

#: Bytes of a `.git` file, which holds one path, and of a config.
_MAX_POINTER = 1 << 13
_MAX_CONFIG = 1 << 18
_POINTER = b"gitdir:"


@dataclass(frozen=True, slots=True)
class GitReach:
    """What of git's patterns may be read outside of a folder: at paths that `may_read` allows, and the `user`'s own."""

    may_read: Callable[[str], bool]
    user: Callable[[], bytes | None]

    def above(self, folder: bytes) -> Above:
        """The ignore files above a folder, from the root of the repository that it is in.

        A folder that is such a root has none above it. Where the root may not be read, none apply.
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
    """No patterns of a user apply."""


NOTHING_ABOVE = GitReach(lambda _: False, no_patterns)


def user_patterns() -> bytes | None:
    """The patterns of `core.excludesFile` in git's config of this process's user; None if there are none."""
    home = os.path.expanduser("~")  # noqa: PTH111 - as git does it
    config = os.environ.get("XDG_CONFIG_HOME") or f"{home}/.config"
    named = f"{config}/git/ignore"
    # the later one takes precedence
    for path in (f"{config}/git/config", f"{home}/.gitconfig"):
        named = _excludes_file(_contents(path, _MAX_CONFIG) or b"", home) or named
    return _contents(named, MAX_IGNORE_FILE + 1)


def git_patterns(handle: int, user: Callable[[], bytes | None]) -> Iterator[IgnoreFile]:
    """What a repository at an opened directory ignores beside its .gitignore: the user's patterns, then its own.

    Raises `OSError` if nothing more can be opened.
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
    """`worktrees` for a linked worktree of a repository whose own files are in the folder too; None for the rest.

    A repository without a checkout of its own has only worktrees, so none of them is left out. Raises `OSError` if
    nothing more can be opened.
    """
    if not parts or (repository := _repository(_pointed(directories, root, parts))) is None:
        return None
    below = repository.removeprefix(root + b"/")
    if below != repository:
        return WORKTREES if _has_checkout(directories, tuple(below.split(b"/"))) else None
    # the folder may be a linked worktree itself
    return WORKTREES if repository == _repository(_pointed(directories, root, ())) else None


def _pointed(directories: OpenDirectories, root: bytes, parts: Parts) -> bytes | None:
    """The absolute path that the `.git` file of a directory names; None if it has no such file."""
    data = None
    with _tolerant():
        data = _regular(directories.handle(parts), GIT.encode(), _MAX_POINTER)
    if data is None or not data.startswith(_POINTER):
        return None
    # an absolute path takes the place of those before it
    return posixpath.normpath(posixpath.join(root or b"/", *parts, data.removeprefix(_POINTER).strip()))


def _repository(pointed: bytes | None) -> bytes | None:
    """The repository of a linked worktree, by what its `.git` file names; None if it is none."""
    worktrees = posixpath.dirname(pointed or b"")
    return posixpath.dirname(worktrees) if posixpath.basename(worktrees) == WORKTREES.encode() else None


def _has_checkout(directories: OpenDirectories, repository: Parts) -> bool:
    """Whether a repository in the folder has files beside those of its worktrees."""
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
    """The ignore files of a directory above the folder that is read."""
    with _tolerant(), closing(open_real(folder)) as handle:
        yield from git_patterns(handle, user)
        for name in IGNORE_FILES:
            with _tolerant():
                if (data := _regular(handle, name.encode(), MAX_IGNORE_FILE + 1)) is not None:
                    yield name, data


def _regular(folder: int, name: bytes, limit: int) -> bytes | None:
    """The beginning of a regular file in an opened directory, without following a link; None for anything else."""
    # its type is checked first, because opening a device can have side effects
    if not stat.S_ISREG(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
        return None
    with closing(open_beneath(folder, (name,), REGULAR_FILE)) as file:
        return read_up_to(file, limit) if stat.S_ISREG(os.fstat(file).st_mode) else None


@contextmanager
def _tolerant() -> Iterator[None]:
    """Pass over what is not there or cannot be read. Raises `OSError` if nothing more can be opened."""
    try:
        yield
    except OSError as error:
        if error.errno in OUT_OF_HANDLES:
            raise


def _contents(path: str, limit: int) -> bytes | None:
    """The beginning of a file of the user's own, which may be a link to where it is kept."""
    with suppress(OSError, ValueError), closing(os.open(path, os.O_RDONLY | os.O_NONBLOCK)) as file:
        return read_up_to(file, limit) if stat.S_ISREG(os.fstat(file).st_mode) else None
    return None


def _excludes_file(config: bytes, home: str) -> str | None:
    """The path of `core.excludesFile` in a config of git; None if it is not there, or is not absolute."""
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
    """A value of git's config without its quotes, or without the comment after it."""
    if value.startswith('"'):
        return value[1:].partition('"')[0]
    return value.partition(" #")[0].partition(" ;")[0].strip()
