"""Lists the files of a local folder in which rg finds a match, in folder order. Some may turn out to be ignored.

In files that are not UTF-8, rg sees other bytes than the decoded text, so all of them are candidates unless the pattern
is ASCII. UTF-16 and UTF-32 files without a byte order mark may be missed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import islice
from threading import Lock
from uuid import UUID

from cachetools import LRUCache

from api.search.grep import ripgrep
from api.search.grep.scope import Folder
from worker.ignore import rules_of
from worker.sources.local import LocalFolder
from worker.sources.local_walk import Names, walk

#: Names in rg's first command line, few for a quick answer; in later ones; and maximum bytes of one.
_FIRST, _MOST, _MOST_BYTES = 2_000, 10_000, 500_000
#: Files yielded at a time.
_TOGETHER = 20
#: Maximum cached names of all folders together. A folder with more is walked each time.
_KEPT = 300_000

_kept: LRUCache[UUID, Names] = LRUCache(_KEPT, getsizeof=lambda names: len(names.files) + len(names.stamps))
_keeping = Lock()


def matching_keys(folder: Folder, source: LocalFolder, program: str) -> Iterator[Sequence[bytes]]:
    """Yield batches of keys of files that may have a match. Ignored files may be among them."""
    root, most = source.real_path, _FIRST
    chosen = _chosen(folder, source, root)
    while names := list(_some(chosen, most)):
        folder.check()
        found = _matching(folder, program, root, names)
        for start in range(0, len(found), _TOGETHER):
            yield found[start : start + _TOGETHER]
        most = _MOST


def _matching(folder: Folder, program: str, root: bytes, names: Sequence[bytes]) -> Sequence[bytes]:
    pattern, check = folder.pattern, folder.check
    if pattern.ripgrep is None:
        return names
    found = ripgrep.matching_files(program, pattern.ripgrep, root, names, check)
    if pattern.is_ascii:
        return found
    chosen = set(found)
    chosen.update(ripgrep.oddly_encoded_files(program, root, [name for name in names if name not in chosen], check))
    return [name for name in names if name in chosen]


def printable(key: bytes) -> str:
    """The displayed path of a file on disk."""
    return key.decode("utf-8", "backslashreplace")


def _chosen(folder: Folder, source: LocalFolder, root: bytes) -> Iterator[bytes]:
    for key, size in _names(folder, source, root):
        path = printable(key)
        # do not reveal an ignored file, even if it is asked for by name
        if path == folder.place.path and source.leaves_out(key):
            continue
        # a file that was too large when it was cached may have shrunk
        if folder.place.takes(path) and (size <= folder.limit or _size(root, key) <= folder.limit):
            yield key


def _size(root: bytes, key: bytes) -> int:
    try:
        return os.lstat(b"/".join((root, key))).st_size
    except OSError:
        # deleted meanwhile; reading it will report that
        return 0


def _names(folder: Folder, source: LocalFolder, root: bytes) -> Iterator[tuple[bytes, int]]:
    """Keys and sizes of the files at the place, or of the whole folder from the cache while that is current."""
    with _keeping:
        kept = _kept.get(folder.index.id)
    if kept is not None and kept.folder == root and kept.is_current():
        yield from kept.files
        return
    names, path = Names(root), folder.place.path
    # a backslash may stand for an undecodable byte, so the path cannot be turned into a key
    top = tuple(path.encode().split(b"/")) if path and "\\" not in path else ()
    for found in walk(source, rules_of(folder.index.settings), names, top):
        folder.check()
        yield found
    if not top and names.is_settled and len(names.files) + len(names.stamps) < _KEPT:
        with _keeping:
            _kept[folder.index.id] = names


def _some(names: Iterator[bytes], most: int) -> Iterator[bytes]:
    """The next names, as many as fit into a command line."""
    room = _MOST_BYTES
    for name in islice(names, most):
        yield name
        room -= len(name) + 1
        if room < 0:
            return
