"""Asks before a place is indexed that holds more than somebody may have meant: a machine, home, drive or share."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from api.agents.folders import BUCKET
from api.cli.invocation import confirm, has_terminal
from api.cli.service.connection import Connection
from api.cli.terminal.output import clean, note
from schemas.wording import amount

if TYPE_CHECKING:
    from collections.abc import Callable

    from foldex_client.estimate import Estimate

#: Files that are indexed without a question.
MAX_UNASKED_FILES = 100_000
#: Seconds in which names are counted, before the service lists the folder by its rules.
COUNT_SECONDS = 3.0
#: Kinds of file systems of another machine, as the system calls them. A server that a program mounts is of `fuse.`.
NETWORKS = frozenset({
    *("9p", "afpfs", "afs", "beegfs", "ceph", "cifs", "davfs", "glusterfs", "lustre", "ncpfs", "nfs", "nfs4", "smb3"),
    *("smbfs", "webdav", "fuse.ceph", "fuse.davfs2", "fuse.gcsfuse", "fuse.glusterfs", "fuse.rclone", "fuse.s3fs"),
    "fuse.sshfs",
})  # fmt: skip # a line each says nothing


def ask_about(service: Connection, word: str, place: str, estimate: Callable[[], Estimate], *, is_sure: bool) -> None:
    """Ask before a new tool over a place that is very large, unless `is_sure`. Raises `VerbFailed` without a yes."""
    if is_sure:
        return
    is_listed_here = service.is_here and not place.startswith(BUCKET)
    what = unusual(place) if is_listed_here else None
    if what is None and is_listed_here and _has_few_files(place):
        return
    if has_terminal():
        note(f"Looking how much {word} holds …")
    found = estimate()
    if what is None and found.complete and found.total_files <= MAX_UNASKED_FILES:
        return
    size = f"{amount(found.total_files, 'file')}, {found.total_bytes / 1e9:.1f} GB"
    listed = size if found.complete else f"more than {size}, and the listing goes on"
    about = clean(f"{word} is {what}" if what else f"{word} is large")
    confirm(
        f"{about}: {listed}. Index it?",
        f"{about} ({listed}); give --yes to index it, or name a folder below it.",
        is_sure=False,
        default=False,
    )


def unusual(place: str) -> str | None:
    """Describe a folder that hardly anybody means to index as a whole; None for any other."""
    home = os.path.realpath(os.path.expanduser("~"))  # noqa: PTH111 - strings as they are
    if place == os.sep:
        return "the root of this machine"
    if place == home:
        return "your home directory"
    if home.startswith(f"{place}/"):
        return "a folder above your home directory"
    if os.path.ismount(place):
        return "a network mount" if _file_system(place) in NETWORKS else "a drive"
    return None


def _file_system(place: str) -> str:
    """The kind of file system that is mounted at a place."""
    import psutil

    # what is mounted last hides what was there before
    kinds = [each.fstype for each in psutil.disk_partitions(all=True) if each.mountpoint == place]
    return kinds[-1].lower() if kinds else ""


def _has_few_files(place: str) -> bool:
    """Whether a folder certainly holds no more files than need a question, whatever the rules exclude."""
    deadline, count, folders = time.monotonic() + COUNT_SECONDS, 0, [place]
    while folders:
        # the service says what cannot be listed
        with suppress(OSError), os.scandir(folders.pop()) as entries:
            for entry in entries:
                count += 1
                if count > MAX_UNASKED_FILES or time.monotonic() > deadline:
                    return False
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
    return True
