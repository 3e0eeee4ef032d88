"""Decides which files of a folder are indexed, by defaults, git-style ignore files and the tool's own patterns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar, get_args

import structlog

from schemas.tool import IgnoredKind, IndexSettings
from worker.ignore.defaults import DEFAULTS
from worker.ignore.patterns import Patterns, check, compiled_glob, lines_of
from worker.ignore.wildcards import name_matches

__all__ = [
    "EVERYTHING",
    "IGNORE_FILES",
    "MAX_IGNORE_FILE",
    "NOT_OBEYED",
    "Above",
    "Active",
    "IgnoreFile",
    "Rules",
    "Trail",
    "compiled_glob",
    "name_matches",
    "nothing",
    "rules_of",
]

#: Files whose patterns apply below their own directory. Within one directory, later ones take precedence.
IGNORE_FILES = (".gitignore", ".ignore", ".cursorignore", ".foldexignore")
#: Maximum bytes of an ignore file; larger ones are not applied.
MAX_IGNORE_FILE = 1 << 20
#: Maximum total cost of the ignore files along one path, as every file there is matched against all of them.
MAX_COST = 20_000

#: The rule name under which ignore files that could not be applied are counted.
NOT_OBEYED = "ignore_file_not_obeyed"

Part = TypeVar("Part")

#: An ignore file's name and content; None if the file exists but cannot be read.
IgnoreFile = tuple[str, bytes | None]

log = structlog.get_logger()

#: Patterns that apply at some place. Each comes with the depth of the directory that it is relative to.
Active = Sequence[tuple[int, Patterns]]


def nothing() -> None:
    """Return None: no default leaves out a path for its contents."""


@dataclass(frozen=True, slots=True)
class Above:
    """The rules from above a folder: the `names` of directories on the path to it, from where the rules begin.

    Each of the `files` comes with the depth of its directory among these.
    """

    names: Sequence[str] = ()
    files: Sequence[tuple[int, IgnoreFile]] = ()


class Rules:
    """The file selection of one tool, over paths relative to its folder.

    `exclude` takes precedence, then the ignore files (the deepest directory first), then the defaults except those
    named in `keep`. Of the remaining files, those are indexed that `include` matches, or whose directory it matches.
    Without `include` all are indexed. Raises `Invalid` for a pattern that cannot match.
    """

    def __init__(
        self,
        include: Iterable[str] = (),
        exclude: Iterable[str] = (),
        *,
        keep: Iterable[str] = (),
        use_ignore_files: bool = True,
    ) -> None:
        wanted, unwanted = list(include), list(exclude)
        self._keep = frozenset(keep)
        for name, patterns in (("include", wanted), ("exclude", unwanted)):
            check(name, patterns)
        self.use_ignore_files = use_ignore_files
        self.includes_all = not wanted
        self._include = Patterns(wanted, "include")
        self._exclude = Patterns(unwanted, "exclude")
        self._defaults = Patterns()
        for kind, lines in DEFAULTS.items():
            if kind not in self._keep:
                self._defaults.add(lines, kind)

    def ignored(
        self,
        names: Sequence[str],
        active: Active,
        top: int = 0,
        kind: Callable[[], str | None] = nothing,
        *,
        is_dir: bool,
    ) -> str | None:
        """Return the rule that leaves out the path `names[top:]` below the folder, judged alone; None if none does.

        `active` are the patterns of the ignore files above it, the outermost first. `kind` returns the default that
        leaves out the path for its contents, whatever its name.
        """
        for depth, patterns in ((top, self._exclude), *reversed(active), (top, self._defaults)):
            verdict = patterns.match(names, depth, is_dir=is_dir)
            if verdict:
                return verdict[0]
        found = kind()
        return None if found in self._keep else found

    def includes(self, names: Sequence[str], inherited: bool, top: int = 0, *, is_dir: bool) -> bool:
        """Return whether `include` covers the path `names[top:]`. Without a match it inherits from its directory."""
        verdict = self._include.match(names, top, is_dir=is_dir)
        return verdict[0] is not None if verdict else inherited


def rules_of(settings: IndexSettings) -> Rules:
    """Return the rules of an index."""
    s = settings
    return Rules(s.include, s.exclude, keep=s.keep, use_ignore_files=s.use_ignore_files)


#: Rules that leave nothing out.
EVERYTHING = Rules(keep=get_args(IgnoredKind), use_ignore_files=False)


@dataclass(frozen=True, slots=True)
class _DirectoryLevel:
    """A directory on the path: whether `include` covers it, and how many pattern sets apply inside."""

    included: bool
    active: int


class Trail(Generic[Part]):
    """Applies the rules along the path from a folder to the current directory, named by the source's own `Part`s.

    `shown` returns the name of a part. `load` returns a directory's ignore files, with the one that takes precedence
    last. `above` returns the ignore files above the folder, and `kind` the default that leaves out a directory for its
    contents. A walk directory by directory judges and loads each directory once. Memory holds only the current path.
    Nothing below an excluded directory is examined.
    """

    def __init__(
        self,
        rules: Rules,
        shown: Callable[[Part], str],
        load: Callable[[tuple[Part, ...]], Iterable[IgnoreFile]],
        *,
        above: Callable[[], Above] = Above,
        kind: Callable[[tuple[Part, ...]], str | None] = lambda _: None,
    ) -> None:
        self._rules, self._shown, self._load = rules, shown, load
        self._above, self._kind = above, kind
        self.forget()

    def forget(self) -> None:
        """Start a new listing: load everything again."""
        self._way: tuple[Part, ...] = ()
        #: From the outermost directory whose ignore files apply; the folder is at `_top`.
        self._names: list[str] = []
        self._top = 0
        self._levels: list[_DirectoryLevel] = []
        self._active: list[tuple[int, Patterns]] = []
        self._reason: str | None = None
        self._refused: list[tuple[Part, ...]] = []

    def refused(self, after: tuple[Part, ...] | None) -> Counter[str]:
        """Count, under `NOT_OBEYED`, the ignore files since the last call that cannot be applied.

        Files in directories on the path to `after`, the cursor, belong to an earlier page and are not counted again.
        """
        refused, self._refused = self._refused, []
        return +Counter({NOT_OBEYED: sum(after is None or way != after[: len(way)] for way in refused)})

    def pruned(self, way: tuple[Part, ...]) -> tuple[tuple[Part, ...], str] | None:
        """Make `way` the current directory; return the topmost excluded directory on it and the rule, or None.

        `way` itself may be that directory.
        """
        shared = self._return_towards(way)
        for end in range(shared, len(way)):
            if self._reason is not None:
                break
            self._enter(way[: end + 1])
        return (self._way, self._reason) if self._reason is not None else None

    def ignored(self, name: str) -> str | None:
        """Return the rule that leaves out a file of the current, open directory; None if the file is indexed."""
        self._names.append(name)
        try:
            reason = self._rules.ignored(self._names, self._active, self._top, is_dir=False)
            included = self._levels[-1].included
            if reason is None and not self._rules.includes(self._names, included, self._top, is_dir=False):
                return "include"
            return reason
        finally:
            self._names.pop()

    def _return_towards(self, way: tuple[Part, ...]) -> int:
        """Go back up to the common prefix of the two paths and return its length."""
        if not self._levels:
            self._begin()
        if way == self._way:
            return len(way)
        shared = _shared(self._way, way)
        if shared < len(self._way):
            self._reason = None
        self._way = way[:shared]
        del self._names[self._top + shared :], self._levels[shared + 1 :]
        del self._active[self._levels[-1].active :]
        return shared

    def _begin(self) -> None:
        """Enter the folder itself, regardless of the rules above it."""
        if self._rules.use_ignore_files:
            above = self._above()
            self._names, self._top = [*above.names], len(above.names)
            for depth, file in above.files:
                self._obey((), above.names[:depth], file)
        self._open((), included=self._rules.includes_all)

    def _enter(self, way: tuple[Part, ...]) -> None:
        self._way = way
        self._names.append(self._shown(way[-1]))
        self._reason = self._rules.ignored(self._names, self._active, self._top, partial(self._kind, way), is_dir=True)
        if self._reason is None:
            included = self._levels[-1].included
            self._open(way, included=self._rules.includes(self._names, included, self._top, is_dir=True))
        else:
            self._levels.append(_DirectoryLevel(included=False, active=len(self._active)))

    def _open(self, way: tuple[Part, ...], *, included: bool) -> None:
        if self._rules.use_ignore_files:
            for file in self._load(way):
                self._obey(way, self._names, file)
        self._levels.append(_DirectoryLevel(included, len(self._active)))

    def _obey(self, way: tuple[Part, ...], folder: Sequence[str], file: IgnoreFile) -> None:
        """Apply an ignore file of a directory below it."""
        name, data = file
        cost_above = sum(outer.cost for _, outer in self._active)
        patterns = _patterns("/".join((*folder, name)), data, MAX_COST - cost_above)
        if patterns is None:
            self._refused.append(way)
        elif patterns.cost:
            self._active.append((len(folder), patterns))


def _patterns(path: str, data: bytes | None, max_cost: int) -> Patterns | None:
    """Return the patterns of the ignore file at `path`. Logs a warning and returns None if they cannot be applied."""
    patterns = None
    if data is None or len(data) > MAX_IGNORE_FILE:
        reason = f"it is not a readable file of at most {MAX_IGNORE_FILE:,} bytes"
    elif b"\0" in data:
        reason = "it contains NUL bytes; save it as UTF-8"
    else:
        patterns = Patterns(lines_of(data), "ignore_file", path)
        reason = "it and the ignore files above it have too many patterns; combine some with wildcards"
    if patterns and patterns.cost <= max_cost:
        return patterns
    log.warning("an ignore file is not applied", path=path, reason=reason)
    return None


def _shared(first: Sequence[Part], other: Sequence[Part]) -> int:
    for depth, (a, b) in enumerate(zip(first, other, strict=False)):
        if a != b:
            return depth
    return min(len(first), len(other))
