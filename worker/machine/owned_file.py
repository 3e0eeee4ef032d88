"""A small file that only the owner of this process can read or write.

Contents that others could have written are ignored.
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from worker.machine.privacy import OTHERS

#: Maximum bytes of such a file.
MAX_BYTES = 1 << 20


def read_owned(file: Path) -> bytes:
    """Return the content of a file; empty if it is missing, or if another user can read it or could have written it."""
    try:
        handle = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return b""
    with os.fdopen(handle, "rb") as opened:
        info = os.fstat(handle)
        if not stat.S_ISREG(info.st_mode) or info.st_uid != os.geteuid() or info.st_mode & OTHERS:
            return b""
        return opened.read(MAX_BYTES)


def rewrite_owned(file: Path, change: Callable[[bytes], bytes]) -> bool:
    """Replace the content of a file, one process at a time. Returns whether it changed. Raises `OSError`."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _lock(file.with_suffix(".lock")):
        try:
            before = file.read_bytes()
        except FileNotFoundError:
            before = b""
        after = change(before)
        if after != before:
            write_owned(file, after)
        return after != before


def write_owned(file: Path, content: bytes) -> None:
    """Write a whole file, or leave the old one. Raises `OSError`."""
    if len(content) > MAX_BYTES:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), file)
    temporary = file.with_name(f"{file.name}.{secrets.token_hex(4)}")
    try:
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as opened:
            opened.write(content)
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
