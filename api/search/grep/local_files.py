"""Lists the files of a local folder in which rg finds a match, in folder order. Some may turn out to be ignored.

In files that are not UTF-8, rg sees other bytes than the decoded text, so all of them are candidates unless the pattern
is ASCII. UTF-16 and UTF-32 files without a byte order mark may be missed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from threading import Lock
from uuid import UUID

from cachetools import LRUCache

from api.search.grep import ripgrep
from api.search.grep.read_forms import ripgrep_pattern
from api.search.grep.scope import TextSearch
from worker.formats import by_name
from worker.ignore import rules_of
from worker.reading import Way, way_of
from worker.sources.local import LocalFolder
from worker.sources.local_directories import OpenDirectories
from worker.sources.local_keys import printable
from worker.sources.local_walk import WalkedFolder, walk
from worker.state.index.files import file_id

#: Maximum names in rg's first command line, few for a quick answer.
_FIRST_NAMES = 2_000
#: Maximum names in each later command line.
_MAX_NAMES = 10_000
#: Maximum bytes of the names in one command line.
_MAX_NAME_BYTES = 500_000
#: Files yielded at a time.
_BATCH_FILES = 20
#: Maximum cached names of all folders together. A folder with more is walked each time.
_MAX_CACHED_NAMES = 300_000

_cache: LRUCache[UUID, WalkedFolder] = LRUCache(
    _MAX_CACHED_NAMES, getsizeof=lambda names: len(names.files) + len(names.stamps)
)
_cache_lock = Lock()


#: Finds those of some names, relative to the opened folder, that may have a match.
_Finder = Callable[[TextSearch, str, int, Sequence[bytes]], Sequence[bytes]]


def matching_keys(search: TextSearch, source: LocalFolder, program: str) -> Iterator[Sequence[bytes]]:
    """Yield batches of keys of files that may have a match, first of those that match as they are written.

    Ignored files may be among them.
    """
    found: set[bytes] = set()
    with source.open_directories().closing() as directories:
        for finder in (_matching, _matching_as_read):
            for batch in _batches(search, _in_scope(search, source, directories), directories, program, finder):
                new = [key for key in batch if key not in found]
                found.update(new)
                yield new


def _batches(
    search: TextSearch, in_scope: Iterator[bytes], directories: OpenDirectories, program: str, finder: _Finder
) -> Iterator[Sequence[bytes]]:
    count = _FIRST_NAMES
    while names := list(_command_line(in_scope, count)):
        search.check()
        matching = finder(search, program, directories.handle(()), names)
        for start in range(0, len(matching), _BATCH_FILES):
            yield matching[start : start + _BATCH_FILES]
        count = _MAX_NAMES


def _matching_as_read(search: TextSearch, program: str, root: int, names: Sequence[bytes]) -> Sequence[bytes]:
    """The files that may match as they are read, one way after the other."""
    by_way: dict[Way, list[bytes]] = defaultdict(list)
    for name in names:
        way = way_of(by_name.of(printable(name))[0].type)
        if way is not None:
            by_way[way].append(name)
    return [
        name
        for way, of_way in by_way.items()
        for name in ripgrep.matching_files(
            program, ripgrep_pattern(search.pattern.literal, way), root, of_way, search.check
        )
    ]


def _matching(search: TextSearch, program: str, root: int, names: Sequence[bytes]) -> Sequence[bytes]:
    pattern, check = search.pattern, search.check
    if pattern.ripgrep is None:
        return names
    matching = ripgrep.matching_files(program, pattern.ripgrep, root, names, check)
    if pattern.is_ascii:
        return matching
    candidates = set(matching)
    others = [name for name in names if name not in candidates]
    candidates.update(ripgrep.oddly_encoded_files(program, root, others, check))
    return [name for name in names if name in candidates]


def _in_scope(search: TextSearch, source: LocalFolder, directories: OpenDirectories) -> Iterator[bytes]:
    for key, size in _names(search, source):
        if search.visible is not None and not search.sees(file_id(search.index.id, key)):
            continue
        path = printable(key)
        # do not reveal an ignored file, even if it is asked for by name
        if path == search.files.path and source.leaves_out(key):
            continue
        # a file that was too large when it was cached may have shrunk
        mtime_ms = _mtime_ms(directories, key) if search.files.has_times else None
        if search.files.takes(path, mtime_ms=mtime_ms) and (
            size <= search.max_bytes or _size(directories, key) <= search.max_bytes
        ):
            yield key


def _size(directories: OpenDirectories, key: bytes) -> int:
    try:
        return directories.info(key).st_size
    except OSError:
        # deleted meanwhile; reading it will report that
        return 0


def _mtime_ms(directories: OpenDirectories, key: bytes) -> int | None:
    try:
        return directories.info(key).st_mtime_ns // 1_000_000
    except OSError:
        return None


def _names(search: TextSearch, source: LocalFolder) -> Iterator[tuple[bytes, int]]:
    """Keys and sizes of the files at the path, or of the whole folder from the cache while that is current."""
    root = source.real_path
    with _cache_lock:
        cached = _cache.get(search.index.id)
    if cached is not None and cached.folder == root and cached.is_current():
        yield from cached.files
        return
    names, path = WalkedFolder(root), search.files.path
    # a backslash may stand for an undecodable byte, so the path cannot be turned into a key
    top = tuple(path.encode().split(b"/")) if path and "\\" not in path else ()
    for file in walk(source, rules_of(search.index.settings), names, top):
        search.check()
        yield file
    if not top and names.is_settled and len(names.files) + len(names.stamps) < _MAX_CACHED_NAMES:
        with _cache_lock:
            _cache[search.index.id] = names


def _command_line(names: Iterator[bytes], count: int) -> Iterator[bytes]:
    """The next names, at most `count`, as far as they fit into a command line."""
    room = _MAX_NAME_BYTES
    for name in islice(names, count):
        yield name
        room -= len(name) + 1
        if room < 0:
            return
