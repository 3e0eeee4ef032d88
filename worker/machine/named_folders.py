"""Folders that the owner of an embedded stack named on the command line, and that it may therefore read.

They are kept in a file that only its owner can write. A file that others could have written is not obeyed.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

#: Bits of a mode with which others could read or write a file.
_OTHERS = 0o077
#: Maximum bytes of the file.
_MAX_BYTES = 1 << 20


def named_folders_file(home: Path) -> Path:
    """Where an installation keeps the folders that were named."""
    return home / "run" / "folders.json"


def named_folders(file: Path | None) -> list[Path]:
    """The real paths in a file; none if the file is missing, or if another user could have written it.

    A folder on whose path a symbolic link has appeared since is left out. Later ones are not followed either.
    """
    if file is None:
        return []
    try:
        handle = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return []
    with os.fdopen(handle, "rb") as opened:
        info = os.fstat(handle)
        if not stat.S_ISREG(info.st_mode) or info.st_uid != os.geteuid() or info.st_mode & _OTHERS:
            return []
        paths = _parsed(opened.read(_MAX_BYTES))
    return [Path(path) for path in paths if _is_real(path)]


def name_folder(file: Path, path: str) -> bool:
    """Add a folder, whose path has no links. Returns whether it is new. Raises OSError if it cannot be written."""
    return _rewrite(file, lambda paths: [*paths, path] if path not in paths else paths)


def forget_folder(file: Path, path: str) -> None:
    """Remove a folder. Raises OSError if the file cannot be written."""
    _rewrite(file, lambda paths: [each for each in paths if each != path])


def _rewrite(file: Path, change: Callable[[list[str]], list[str]]) -> bool:
    """Whether the change changes anything."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _lock(file.with_suffix(".lock")):
        try:
            before = _parsed(file.read_bytes())
        except FileNotFoundError:
            before = []
        after = change(before)
        if after != before:
            _write(file, json.dumps(after))
        return after != before


def _write(file: Path, text: str) -> None:
    temporary = file.with_name(f"{file.name}.{secrets.token_hex(4)}")
    try:
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as opened:
            opened.write(text)
        temporary.replace(file)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


@contextmanager
def _lock(file: Path) -> Iterator[None]:
    handle = os.open(file, os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _parsed(data: bytes) -> list[str]:
    with suppress(ValueError, RecursionError):
        paths = json.loads(data)
        if isinstance(paths, list):
            return [path for path in paths if isinstance(path, str) and path.startswith("/") and "\0" not in path]
    return []


def _is_real(path: str) -> bool:
    try:
        return os.path.realpath(path) == path
    except OSError:
        return False
