"""The files of a local folder that rg finds something in: all that the rules may leave in, in the folder's order.

Of those that are not UTF-8 rg sees other bytes than the text has: they may all have a match, unless that is ASCII. Of
UTF-16 and UTF-32 without a byte order mark not even so many are found.
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

#: Names that rg is given at first, which is answered soon, and later; their bytes in one command line.
_FIRST, _MOST, _MOST_BYTES = 2_000, 10_000, 500_000
#: Files that are told of at a time.
_TOGETHER = 20
#: Names of all folders together that are kept; a folder with more is walked each time.
_KEPT = 300_000

_kept: LRUCache[UUID, Names] = LRUCache(_KEPT, getsizeof=lambda names: len(names.files) + len(names.stamps))
_keeping = Lock()


def matching_keys(folder: Folder, source: LocalFolder, program: str) -> Iterator[Sequence[bytes]]:
    """Keys of files that may have a match, some at a time; those that rules leave out are among them."""
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
    """The path of a file on disk, as it is shown."""
    return key.decode("utf-8", "backslashreplace")


def _chosen(folder: Folder, source: LocalFolder, root: bytes) -> Iterator[bytes]:
    for key, size in _names(folder, source, root):
        path = printable(key)
        # what rules leave out is not told of, even by its name
        if path == folder.place.path and source.leaves_out(key):
            continue
        # one that was too large at the last look may have shrunk
        if folder.place.takes(path) and (size <= folder.limit or _size(root, key) <= folder.limit):
            yield key


def _size(root: bytes, key: bytes) -> int:
    try:
        return os.lstat(b"/".join((root, key))).st_size
    except OSError:
        # gone meanwhile, as reading it will tell
        return 0


def _names(folder: Folder, source: LocalFolder, root: bytes) -> Iterator[tuple[bytes, int]]:
    """Keys and sizes of the folder's files, at the place or all: from the last look, where that still holds."""
    with _keeping:
        kept = _kept.get(folder.index.id)
    if kept is not None and kept.folder == root and kept.is_current():
        yield from kept.files
        return
    names, path = Names(root), folder.place.path
    # a backslash may stand for a byte that is no text: only the names themselves tell
    top = tuple(path.encode().split(b"/")) if path and "\\" not in path else ()
    for found in walk(source, rules_of(folder.index.settings), names, top):
        folder.check()
        yield found
    if not top and names.is_settled and len(names.files) + len(names.stamps) < _KEPT:
        with _keeping:
            _kept[folder.index.id] = names


def _some(names: Iterator[bytes], most: int) -> Iterator[bytes]:
    """The next names, as many as a command line takes."""
    room = _MOST_BYTES
    for name in islice(names, most):
        yield name
        room -= len(name) + 1
        if room < 0:
            return
