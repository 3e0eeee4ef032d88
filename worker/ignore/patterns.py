"""Matches .gitignore patterns against a path, one name at a time.

A pattern between two slashes means what git's own wildmatch takes it for. Lines apply in git's order: the last match
decides, and names are checked from the top down. Matching time is linear in the path's length. pathspec, which handles
brackets less accurately, is used only for the filters of requests.

Over 2,195 files in 100 random repositories, this module always agrees with `git check-ignore`. pathspec 1.1 differs for
106 of them, and igittigitt 2.3 for 80. For 100,000 paths and 176 lines, this module takes 0.4 s of processor time,
pathspec 1.9 s and igittigitt 20 s. For a single glob, pathspec takes 0.06 s and this module 0.3 to 1.2 s.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, lru_cache
from itertools import islice

import structlog
from pathspec import GitIgnoreSpec
from pathspec.patterns.gitignore import GitIgnorePatternError

from schemas.errors import Invalid

#: Maximum stars between two slashes. A filter is one expression for a whole path, and each star multiplies its time.
MAX_STARS = 4
#: Maximum patterns in one list, and maximum characters in one pattern.
MAX_PATTERNS = 1000
MAX_PATTERN = 1000

#: Cost of a pattern with wildcards relative to a plain one, which is a dictionary lookup.
_WILDCARD_COST = 10

_SPECIAL = re.compile(r"[*?\[\\]")
#: Between two slashes, git treats three or more stars as two.
_ANY_NUMBER = re.compile(r"\*\*+")
#: The innermost braces with a comma, unless a backslash precedes them.
_BRACES = re.compile(r"(?<!\\)\{([^{},]*,[^{}]*)\}")
#: One item in brackets: a named class, a range, or a character, possibly escaped by a backslash.
_BRACKET_ITEM = re.compile(r"\[:[^\]]*:\]|(?:\\.|[^\\])-(?!\])(?:\\.|[^\\])|\\.|[^\\]", re.DOTALL)
#: One token of a pattern: an opening bracket, an escaped character, stars, or a single character.
_TOKEN = re.compile(r"\[[!^]?|\\.|\*+|.", re.DOTALL)
#: Character classes as git defines them, which differs from C.
_CLASSES = {
    "alpha": "a-zA-Z",
    "digit": "0-9",
    "alnum": "a-zA-Z0-9",
    "lower": "a-z",
    "upper": "A-Z",
    "xdigit": "0-9a-fA-F",
    "space": r" \t\n\r",
    "blank": r" \t",
    "punct": r"!-/:-@\[-`{-~",
    "cntrl": r"\x00-\x1f\x7f",
    "graph": "!-~",
    "print": " -~",
}

#: A literal name, an expression that matches a name, or None for any number of names.
_Segment = str | re.Pattern[str] | None


log = structlog.get_logger()


class Patterns:
    """.gitignore lines relative to one directory, each with the rule it stands for; `path` is their file.

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
        self.add(lines, rule)

    def add(self, lines: Iterable[str], rule: str) -> None:
        """Add more lines. Must not be called after `match`."""
        for line in lines:
            pattern, takes, only_dirs = _parts(line)
            self._add(pattern, rule if takes else None, only_dirs)

    def match(self, names: Sequence[str], depth: int, *, is_dir: bool) -> tuple[str | None] | None:
        """The outcome of the last line that matches the path `names[depth:]` itself; None if no line matches.

        The outcome is a 1-tuple: the line's rule, or None for a line that negates.
        """
        if not self._rules:
            return None
        name = names[-1]
        last_match = self._names[is_dir].get(name, -1)
        if self._paths[is_dir]:
            last_match = max(last_match, self._paths[is_dir].get("/".join(names[depth:]), -1))
        if name.endswith(self._endings[is_dir]):
            last_match = max(last_match, *(line for end, line in self._ends[is_dir].items() if name.endswith(end)))
        as_bytes = [_bytes(part) for part in names] if self._wild else ()
        for line, only_dirs, is_path, segments in self._wildcards:
            if line < last_match:
                break
            if (is_dir or not only_dirs) and _segments_match(segments, as_bytes, depth if is_path else len(names) - 1):
                last_match = line
                break
        return (self._rules[last_match],) if last_match >= 0 else None

    def _add(self, pattern: str, rule: str | None, only_dirs: bool) -> None:
        if not pattern or len(pattern) > MAX_PATTERN:
            return
        line = len(self._rules)
        self._rules.append(rule)
        plain = not _SPECIAL.search(pattern)
        self.cost += 1 if plain else _WILDCARD_COST
        if plain:
            key, lookup = pattern.removeprefix("/"), self._paths if "/" in pattern else self._names
        elif "/" not in pattern and pattern[0] == "*" and pattern[1:] and not _SPECIAL.search(pattern[1:]):
            key, lookup = pattern[1:], self._ends
        else:
            self._wild.append((line, only_dirs, pattern))
            return
        for kind in (1,) if only_dirs else (0, 1):
            lookup[kind][key] = line

    @cached_property
    def _endings(self) -> tuple[tuple[str, ...], ...]:
        return tuple(tuple(ends) for ends in self._ends)

    @cached_property
    def _wildcards(self) -> list[tuple[int, bool, bool, tuple[_Segment, ...]]]:
        """Patterns that need more than a lookup, last line first. Compiled on first use, as that is slow."""
        wildcards = []
        for line, only_dirs, pattern in reversed(self._wild):
            is_path = "/" in pattern
            try:
                wildcards.append((line, only_dirs, is_path, _segments(_bytes(pattern), is_path=is_path)))
            except GitIgnorePatternError:
                # git also ignores patterns that it cannot parse
                log.warning("a pattern is ignored because it matches nothing", pattern=pattern, path=self._path)
        return wildcards


def lines_of(data: bytes) -> list[str]:
    """The lines of an ignore file, decoded like file names on disk."""
    text = data.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "surrogateescape")
    return [line.removesuffix("\r") for line in text.split("\n")]


def _bytes(text: str) -> str:
    """One character per byte, as git compares bytes: `?` matches one byte of a non-ASCII letter."""
    if text.isascii():
        return text
    try:
        return text.encode("utf-8", "surrogateescape").decode("latin-1")
    except UnicodeEncodeError:  # other lone surrogates occur in JSON, never on disk
        return text.encode("utf-8", "surrogatepass").decode("latin-1")


def _parts(line: str) -> tuple[str, bool, bool]:
    """A line's pattern ("" for none), whether it excludes (or negates), and whether it applies to directories only."""
    line = _without_blanks(line)
    if line.startswith("#"):
        return "", True, False
    pattern = line.removeprefix("!")
    return pattern.removesuffix("/"), pattern == line, pattern.endswith("/")


def _without_blanks(line: str) -> str:
    """The line without trailing blanks, except one that a backslash escapes."""
    bare = line.rstrip(" ")
    backslashes = len(bare) - len(bare.rstrip("\\"))
    return bare + " " if backslashes % 2 and len(bare) < len(line) else bare


def _segments(pattern: str, *, is_path: bool) -> tuple[_Segment, ...]:
    if not is_path:
        return (_segment(pattern),)
    parts = _split(pattern.removeprefix("/"))
    if _ANY_NUMBER.fullmatch(parts[-1]):
        # matches everything inside, but not the directory itself
        parts.append("*")
    return tuple(None if _ANY_NUMBER.fullmatch(part) else _segment(part) for part in parts)


def _split(pattern: str) -> list[str]:
    """Split at slashes, except those within brackets."""
    parts = [""]
    for token in _tokens(pattern):
        if token in {"/", "\\/"}:
            parts.append("")
        else:
            parts[-1] += token
    return parts


def _tokens(pattern: str) -> Iterator[str]:
    """Yield bracket expressions, escaped characters, stars and single characters. Raises `GitIgnorePatternError`."""
    position = 0
    while token := _TOKEN.match(pattern, position):
        start, position = token.span()
        if pattern[start] == "[":
            position = _end_of_brackets(pattern, position)
        yield pattern[start:position]


def _end_of_brackets(pattern: str, position: int) -> int:
    """The end of a bracket expression whose first item is at `position`, even if that item is a bracket itself."""
    while item := _BRACKET_ITEM.match(pattern, position):
        position = item.end()
        if pattern.startswith("]", position):
            return position + 1
    raise _without_end("[")


def _without_end(sign: str) -> GitIgnorePatternError:
    return GitIgnorePatternError(f"{sign!r} is not closed")


@lru_cache(4096)
def _segment(text: str) -> str | re.Pattern[str]:
    """The matcher for one name. Raises `GitIgnorePatternError`."""
    if not _SPECIAL.search(text):
        return text
    # As in Python's fnmatch, text between two stars is matched at its first place. A later place is never better,
    # because the text always takes the same number of characters. The lookahead prevents backtracking.
    between = [""]
    for token in _tokens(text):
        if token[0] == "*":
            between.append("")
        else:
            between[-1] += _character(token)
    first, *following = between
    stars = "".join(f"(?=(?P<part{n}>.*?{part}))(?P=part{n})" for n, part in enumerate(following[:-1]))
    return re.compile(f"{first}{stars}.*{following[-1]}" if following else first, re.DOTALL)


def _character(text: str) -> str:
    """The expression for one character: brackets, an escaped character, or the character itself."""
    if text == "\\":
        raise _without_end(text)
    if text[0] == "[":
        return _brackets(text[1:-1])
    return "." if text == "?" else re.escape(text[-1])


def _brackets(text: str) -> str:
    bare = text[1:] if text[0] in "!^" else text
    items = "".join(_item(item) for item in _BRACKET_ITEM.findall(bare))
    return f"[{items}]" if bare == text else f"[^{items}]"


def _item(item: str) -> str:
    if item.startswith("[:") and item.endswith(":]"):
        if item[2:-2] not in _CLASSES:
            raise GitIgnorePatternError(f"{item} is not a character class")
        return _CLASSES[item[2:-2]]
    low, high = item.removeprefix("\\")[0], item[-1]
    # git compares the first character before it sees the range, so a backwards range matches only that
    return f"{re.escape(low)}-{re.escape(high)}" if low <= high else re.escape(low)


def _segments_match(segments: Sequence[_Segment], names: Sequence[str], start: int) -> bool:
    """Whether segments match all names from `start` on.

    Each segment but `**` takes one name, so only the last `**` seen ever needs to take one more. The number of
    comparisons is at most segments times names.
    """
    segment, position = 0, start
    retry_segment, retry_position = -1, start
    while position < len(names):
        if segment < len(segments) and segments[segment] is None:
            retry_segment, retry_position = segment, position
            segment += 1
        elif segment < len(segments) and _segment_matches(segments[segment], names[position]):
            segment, position = segment + 1, position + 1
        elif retry_segment >= 0:
            retry_position += 1
            segment, position = retry_segment + 1, retry_position
        else:
            return False
    return all(each is None for each in segments[segment:])


def _segment_matches(wanted: _Segment, name: str) -> bool:
    if isinstance(wanted, str):
        return wanted == name
    return wanted is not None and wanted.fullmatch(name) is not None


def check(name: str, patterns: Sequence[str]) -> None:
    """Raise `Invalid` if a line of the parameter `name` cannot be used in `Patterns`."""
    _check(name, patterns, _is_readable)


def _is_readable(line: str) -> bool:
    """Whether a line can match anything, or is blank or a comment."""
    pattern = _parts(line)[0]
    try:
        _segments(_bytes(pattern), is_path="/" in pattern)
    except GitIgnorePatternError:
        return False
    return bool(pattern.strip("/")) or not line.strip() or line.startswith("#")


def compiled(name: str, patterns: Sequence[str]) -> GitIgnoreSpec:
    """The compiled patterns of the parameter `name`. Raises `Invalid` for one that cannot match or is too slow."""
    with _no_foresight():
        _check(name, patterns, _can_match)
        # pathspec would use RE2 if installed, which rejects some of git's classes
        return GitIgnoreSpec.from_lines(patterns, backend="simple")


def compiled_glob(name: str, glob: str) -> GitIgnoreSpec:
    """One pattern of the parameter `name`, in which `{a,b}` matches either, as in ripgrep. Raises `Invalid`."""
    _check_length(name, glob)
    return compiled(name, list(islice(_alternatives(glob), MAX_PATTERNS + 1)))


def _alternatives(glob: str) -> Iterator[str]:
    """Expand the braces. Those without a comma, or after a backslash, are literal."""
    braces = _BRACES.search(glob)
    if braces is None:
        yield glob
        return
    for alternative in braces[1].split(","):
        yield from _alternatives(f"{glob[: braces.start()]}{alternative}{glob[braces.end() :]}")


@contextmanager
def _no_foresight() -> Iterator[None]:
    """Suppress warnings about what nested brackets may mean in a future Python."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        yield


def _check_length(name: str, pattern: str) -> None:
    if len(pattern) > MAX_PATTERN:
        raise Invalid(f"`{name}` has a pattern of more than {MAX_PATTERN} characters; shorten it.")


def _check(name: str, patterns: Sequence[str], can_match: Callable[[str], bool]) -> None:
    if len(patterns) > MAX_PATTERNS:
        raise Invalid(f"`{name}` has more than {MAX_PATTERNS} patterns; combine some with wildcards.")
    for pattern in patterns:
        _check_length(name, pattern)
        if any(part.count("*") > MAX_STARS for part in pattern.split("/")):
            raise Invalid(f"`{name}` has {pattern!r}; use at most {MAX_STARS} stars between two slashes.")
        if not can_match(pattern):
            raise Invalid(f"`{name}` has {pattern!r}, which matches nothing; write it as in a .gitignore file.")


def _can_match(pattern: str) -> bool:
    try:
        compiled = GitIgnoreSpec.from_lines([pattern], backend="simple").patterns
    except (GitIgnorePatternError, re.error):
        return False
    blank = not pattern.strip() or pattern.startswith("#")
    return blank or any(parsed.include is not None for parsed in compiled)
