"""Matches .gitignore patterns against a path, one name at a time.

The part of a pattern between two slashes matches as in git's `wildmatch`. Lines apply in git's order: the last match
decides, and names are checked from the top down. Patterns never become regular expressions. Those with wildcards form
one machine, which reads each name of a path once. So the time is linear in the length of the path.

Over 2,195 files in 100 random repositories, this module always agrees with `git check-ignore`. pathspec 1.1 differs for
106 of them, and igittigitt 2.3 for 80. For 100,000 paths and 176 lines, this module takes 0.4 s of processor time,
pathspec 1.9 s and igittigitt 20 s.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import structlog

from schemas.errors import Invalid
from worker.ignore.braces import TooManyError, alternatives
from worker.ignore.wildcards import (
    Element,
    UnreadableError,
    Varying,
    Wildcard,
    edges,
    elements_of,
    matcher,
    one_per_byte,
)

#: Maximum patterns in one list, and maximum characters in one pattern.
MAX_PATTERNS = 1000
MAX_PATTERN = 1000
#: Maximum characters of all patterns of a list. A page of a thousand tools shows the lists of each.
MAX_LIST = 100_000
#: Maximum total cost of a list, and of one glob of a request, as each file is matched against all of it.
MAX_LIST_COST = 100_000
MAX_GLOB_COST = 10_000

#: Cost of a name in a pattern with wildcards, relative to a plain pattern, which is a dictionary lookup.
_WILDCARD_COST = 10
#: Characters of a pattern with wildcards that cost as much as a plain one: memory grows with them.
_CHARACTERS_PER_COST = 4

#: Maximum number of directories for which a glob caches the state of its match.
_MAX_FOLDERS = 1_000

_SPECIAL = frozenset("*?[\\")

log = structlog.get_logger()


class Patterns:
    """.gitignore lines relative to one directory, each with its rule's name; `path` is their file.

    `cost` measures the memory and time they take, in units of a plain name.
    """

    def __init__(self, lines: Iterable[str] = (), rule: str = "", path: str = "") -> None:
        self.cost = 0
        self._path = path
        self._rules: list[str | None] = []
        # indexed by `is_dir`: number of the last line for each name, path and name ending
        self._names: tuple[dict[str, int], dict[str, int]] = ({}, {})
        self._paths: tuple[dict[str, int], dict[str, int]] = ({}, {})
        self._ends: tuple[dict[str, int], dict[str, int]] = ({}, {})
        self._wild: list[tuple[int, bool, str]] = []
        self._last_way = _Way()
        self.add(lines, rule)

    def add(self, lines: Iterable[str], rule: str) -> None:
        """Add more lines. Must not be called after `match`."""
        for line in lines:
            pattern, takes, only_dirs = _parts(line)
            self._add(pattern, rule if takes else None, only_dirs)

    def match(self, names: Sequence[str], depth: int, *, is_dir: bool) -> tuple[str | None] | None:
        """Return the outcome of the last line that matches the path `names[depth:]` itself; None if no line matches.

        The outcome is a 1-tuple: the line's rule, or None for a line that negates.
        """
        if not self._rules:
            return None
        awaited = self._awaited(names[depth:-1]) if self._wild else 0
        path = "/".join(names[depth:]) if self._paths[is_dir] else ""
        line = self._last_line(names[-1], path, awaited, is_dir=is_dir)
        return (self._rules[line],) if line >= 0 else None

    def _last_line(self, name: str, path: str, awaited: int, *, is_dir: bool) -> int:
        """Return the last line that matches a path itself, whose last name is `name`; -1 if there is none."""
        line = self._names[is_dir].get(name, -1)
        if path:
            line = max(line, self._paths[is_dir].get(path, -1))
        if name.endswith(self._endings[is_dir]):
            line = max(line, *(at for end, at in self._ends[is_dir].items() if name.endswith(end)))
        return max(line, self.machine.last_line(name, awaited, is_dir=is_dir)) if awaited else line

    def takes(self, name: str, path: str, awaited: int, *, is_dir: bool) -> bool:
        """Return whether the last line that matches a path itself does not negate; see `_last_line`."""
        line = self._last_line(name, path, awaited, is_dir=is_dir)
        return line >= 0 and self._rules[line] is not None

    @property
    def path_lengths(self) -> frozenset[int]:
        """The lengths of paths without wildcards."""
        return frozenset(len(path) for paths in self._paths for path in paths)

    def _awaited(self, folder: Sequence[str]) -> int:
        """Return the machine's state in a folder. It is cached, because the next path is often in the same folder."""
        way = self._last_way
        if folder == way.names:
            return way.awaited[-1] if way.names else self.machine.start
        shared = _shared(folder, way.names)
        awaited = way.awaited[:shared]
        for name in folder[shared:]:
            awaited.append(self.machine.below(name, awaited[-1] if awaited else self.machine.start))
        # replaced as a whole, as another thread may use the same patterns
        self._last_way = _Way(folder, awaited)
        return awaited[-1] if awaited else self.machine.start

    def _add(self, pattern: str, rule: str | None, only_dirs: bool) -> None:
        if not pattern or len(pattern) > MAX_PATTERN:
            return
        line = len(self._rules)
        self._rules.append(rule)
        if _SPECIAL.isdisjoint(pattern):
            self.cost += 1
            key, lookup = pattern.removeprefix("/"), self._paths if "/" in pattern else self._names
        elif "/" not in pattern and pattern[0] == "*" and pattern[1:] and _SPECIAL.isdisjoint(pattern[1:]):
            self.cost += _WILDCARD_COST
            key, lookup = pattern[1:], self._ends
        else:
            self.cost += _WILDCARD_COST * (pattern.count("/") + 1) + len(pattern) // _CHARACTERS_PER_COST
            self._wild.append((line, only_dirs, pattern))
            return
        for kind in (1,) if only_dirs else (0, 1):
            lookup[kind][key] = line

    @cached_property
    def _endings(self) -> tuple[tuple[str, ...], ...]:
        return tuple(tuple(ends) for ends in self._ends)

    @cached_property
    def machine(self) -> _Machine:
        """The patterns that need more than a lookup. Compiled on first use, as that is slow."""
        machine = _Machine()
        for line, only_dirs, pattern in self._wild:
            try:
                machine.add(line, _segments(pattern), only_dirs=only_dirs)
            except UnreadableError:
                # git also ignores patterns that it cannot parse
                log.warning("a pattern is ignored because it matches nothing", pattern=pattern, path=self._path)
        return machine


class Glob:
    """Lines that select files by path, as ignore files do: by the file itself, or by a directory above it."""

    def __init__(self, lines: Iterable[str], rule: str) -> None:
        self._patterns = Patterns(lines, rule)
        self._lengths = self._patterns.path_lengths
        # the machine's state in a directory; None if all of it is selected
        self._folders: dict[str, int | None] = {}

    def matches(self, path: str) -> bool:
        """Return whether the lines select a file."""
        folder, _, name = path.rpartition("/")
        awaited = self._folders[folder] if folder in self._folders else self._enter(folder)
        return awaited is None or self._takes(name, path, len(path), awaited, is_dir=False)

    def _enter(self, folder: str) -> int | None:
        """Read the path of a directory from the top down, and cache the machine's state there."""
        if len(self._folders) >= _MAX_FOLDERS:
            self._folders.clear()
        end, awaited = -1, self._patterns.machine.start
        for name in folder.split("/") if folder else ():
            end += 1 + len(name)
            if self._takes(name, folder, end, awaited, is_dir=True):
                self._folders[folder] = None
                return None
            awaited = self._patterns.machine.below(name, awaited)
        self._folders[folder] = awaited
        return awaited

    def _takes(self, name: str, path: str, end: int, awaited: int, *, is_dir: bool) -> bool:
        """Return whether the lines select `path[:end]`, which ends with `name`, by itself."""
        # copying each directory's path would take quadratic time
        plain = path[:end] if end in self._lengths else ""
        return self._patterns.takes(name, plain, awaited, is_dir=is_dir)


@dataclass(frozen=True, slots=True)
class _Way:
    """A folder, and the machine's state in each folder on the path to it."""

    names: Sequence[str] = ()
    awaited: list[int] = field(default_factory=list)


_Wild = Wildcard | Varying
#: Matchers of names, each with the bits that it sets, and these by a character.
_Weighed = Sequence[tuple[_Wild, int]]
_ByCharacter = Mapping[str, _Weighed]
#: A name, a matcher for one, or None for any number of names.
_Segment = str | _Wild | None


class _Machine:
    """Patterns of several names, as one nondeterministic automaton with a bit for each name that a pattern awaits.

    Bits are in the order of the lines, so the highest bit is the last line that matches.
    """

    def __init__(self) -> None:
        self.start = 0
        self._names: dict[str, int] = {}
        self._wildcards: dict[_Wild, int] = {}
        self._size = self._anywhere = self._ends = self._ends_of_files = 0
        self._lines: dict[int, int] = {}

    def add(self, line: int, segments: Sequence[_Segment], *, only_dirs: bool) -> None:
        """Add the next line's pattern."""
        self.start |= 1 << self._size
        for segment in segments:
            bit = 1 << self._size
            if segment is None:
                self._anywhere |= bit
                continue
            if isinstance(segment, str):
                self._names[segment] = self._names.get(segment, 0) | bit
            else:
                self._wildcards[segment] = self._wildcards.get(segment, 0) | bit
            self._size += 1
        end = self._size - 1
        self._lines[end] = line
        self._ends |= 1 << end
        self._ends_of_files |= 0 if only_dirs else 1 << end

    def last_line(self, name: str, awaited: int, *, is_dir: bool) -> int:
        """Return the last line that ends with a name; -1 if there is none."""
        ends = self._matched(name, awaited & (self._ends if is_dir else self._ends_of_files))
        return self._lines[ends.bit_length() - 1] if ends else -1

    def below(self, name: str, awaited: int) -> int:
        """Return the state in a directory of this name."""
        return (self._matched(name, awaited & ~self._ends) << 1) | (awaited & self._anywhere)

    def _matched(self, name: str, awaited: int) -> int:
        if not awaited:
            return 0
        name = one_per_byte(name)
        matched = awaited & self._names.get(name, 0)
        firsts, lasts, others = self._by_edge
        for group in (firsts.get(name[:1], ()), lasts.get(name[-1:], ()), others):
            for wildcard, bits in group:
                if awaited & bits and wildcard.matches(name):
                    matched |= awaited & bits
        return matched

    @cached_property
    def _by_edge(self) -> tuple[_ByCharacter, _ByCharacter, _Weighed]:
        """Return the wildcards by the first or the last character that they match, and those that may match any name.

        This rules out nearly all patterns for nearly all names.
        """
        firsts: dict[str, list[tuple[_Wild, int]]] = {}
        lasts: dict[str, list[tuple[_Wild, int]]] = {}
        others: list[tuple[_Wild, int]] = []
        for each in self._wildcards.items():
            first, last = edges(each[0])
            group = firsts.setdefault(first, []) if first else lasts.setdefault(last, []) if last else others
            group.append(each)
        return firsts, lasts, others


def lines_of(data: bytes) -> list[str]:
    """Return the lines of an ignore file, decoded like file names on disk."""
    text = data.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "surrogateescape")
    return [line.removesuffix("\r") for line in text.split("\n")]


def _parts(line: str) -> tuple[str, bool, bool]:
    """Return a line's pattern ("" for none), whether it excludes (or negates), and whether it needs a directory."""
    line = _without_blanks(line)
    if line.startswith("#"):
        return "", True, False
    pattern = line.removeprefix("!")
    return pattern.removesuffix("/"), pattern == line, pattern.endswith("/")


def _without_blanks(line: str) -> str:
    """Return the line without trailing blanks, except one that a backslash escapes."""
    bare = line.rstrip(" ")
    backslashes = len(bare) - len(bare.rstrip("\\"))
    return bare + " " if backslashes % 2 and len(bare) < len(line) else bare


def _segments(pattern: str) -> list[_Segment]:
    """Return a pattern's matchers, name by name. Raises `UnreadableError`."""
    is_path = "/" in pattern
    parts: list[list[Element]] = [[]]
    for element in elements_of(one_per_byte(pattern.removeprefix("/"))):
        if is_path and element == "/":
            parts.append([])
        else:
            parts[-1].append(element)
    if not is_path:
        return [None, matcher(parts[0])]
    if _is_any_number(parts[-1]):
        # matches everything inside, but not the directory itself
        parts.append([None])
    return [None if _is_any_number(part) else matcher(part) for part in parts]


def _is_any_number(part: Sequence[Element]) -> bool:
    """Return whether a part between two slashes matches any number of names. Three or more stars count as two."""
    return len(part) > 1 and all(element is None for element in part)


def _shared(first: Sequence[str], other: Sequence[str]) -> int:
    """Return the length of the common prefix of two paths."""
    shorter = min(len(first), len(other))
    if first[:shorter] == other[:shorter]:
        return shorter
    for depth, (a, b) in enumerate(zip(first, other, strict=False)):
        if a != b:
            return depth
    return shorter


def check(name: str, patterns: Sequence[str], max_cost: int = MAX_LIST_COST) -> None:
    """Raise `Invalid` if the lines of the parameter `name` cannot be used in `Patterns`."""
    if len(patterns) > MAX_PATTERNS:
        raise Invalid(f"`{name}` has more than {MAX_PATTERNS} patterns; combine some with wildcards.")
    for pattern in patterns:
        _check_length(name, pattern)
    if sum(map(len, patterns)) > MAX_LIST:
        raise Invalid(f"`{name}` has more than {MAX_LIST:,} characters; combine some patterns with wildcards.")
    if Patterns(patterns).cost > max_cost:
        raise Invalid(f"`{name}` has too many patterns with wildcards; remove some, or shorten them.")
    for pattern in patterns:
        if not _is_readable(pattern):
            raise Invalid(f"`{name}` has {pattern!r}, which matches nothing; write it as in a .gitignore file.")


def compiled_glob(name: str, glob: str) -> Glob:
    """Compile one pattern of the parameter `name`, in which `{a,b}` matches either, as in ripgrep. Raises `Invalid`."""
    _check_length(name, glob)
    try:
        lines = alternatives(glob, MAX_PATTERNS)
    except TooManyError:
        raise Invalid(f"`{name}` has braces for more than {MAX_PATTERNS} patterns; use wildcards instead.") from None
    check(name, lines, MAX_GLOB_COST)
    return Glob(lines, name)


def _check_length(name: str, pattern: str) -> None:
    if len(pattern) > MAX_PATTERN:
        raise Invalid(f"`{name}` has a pattern of more than {MAX_PATTERN} characters; shorten it.")


def _is_readable(line: str) -> bool:
    """Return whether a line can match anything, or is blank or a comment."""
    pattern = _parts(line)[0]
    try:
        _segments(pattern)
    except UnreadableError:
        return False
    return bool(pattern.strip("/")) or not line.strip() or line.startswith("#")
