"""The pattern language of .gitignore, a name of the path at a time.

A pattern between two slashes means what git's own wildmatch takes it for, and patterns meet a path in git's order of
things (the last line that matches decides, names from the top down), in time that grows with the path and not with its
powers. pathspec, which knows brackets less well, stays for the filters of a request.
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

#: In a filter, which is one expression for a whole path, each star between two slashes multiplies the time.
MAX_STARS = 4
#: Patterns of one list, and characters of one pattern.
MAX_PATTERNS = 1000
MAX_PATTERN = 1000

#: What a pattern with wildcards costs beside one that is looked up.
_WILD = 10

_SPECIAL = re.compile(r"[*?\[\\]")
#: Between two slashes git takes more stars than two for two.
_ANY_NUMBER = re.compile(r"\*\*+")
#: The innermost braces with a comma, unless behind a backslash.
_BRACES = re.compile(r"(?<!\\)\{([^{},]*,[^{}]*)\}")
#: One thing in brackets: a class by name, a range, or a character, which a backslash may save.
_ITEM = re.compile(r"\[:[^\]]*:\]|(?:\\.|[^\\])-(?!\])(?:\\.|[^\\])|\\.|[^\\]", re.DOTALL)
#: One thing of a pattern: what begins brackets, what a backslash saves, stars, or a character.
_TOKEN = re.compile(r"\[[!^]?|\\.|\*+|.", re.DOTALL)
#: As git has them, which differs from C.
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

#: A name to be equal to, an expression to match it, or None for any number of names.
_Segment = str | re.Pattern[str] | None


log = structlog.get_logger()


class Patterns:
    """Lines as in .gitignore, relative to one directory, each with the rule it stands for, of the file at `place`.

    `cost` is what they take to hold and to ask, in units of a plain name.
    """

    def __init__(self, lines: Iterable[str] = (), rule: str = "", place: str = "") -> None:
        self.cost = 0
        self._place = place
        self._rules: list[str | None] = []
        # by whether a directory is asked about: the last line for a name, for a path, for the end of a name
        self._names: tuple[dict[str, int], dict[str, int]] = ({}, {})
        self._paths: tuple[dict[str, int], dict[str, int]] = ({}, {})
        self._ends: tuple[dict[str, int], dict[str, int]] = ({}, {})
        self._wild: list[tuple[int, bool, str]] = []
        self.add(lines, rule)

    def add(self, lines: Iterable[str], rule: str) -> None:
        """Take in more lines; not once they have been asked."""
        for line in lines:
            pattern, takes, only_dirs = _parts(line)
            self._add(pattern, rule if takes else None, only_dirs)

    def match(self, names: Sequence[str], depth: int, *, is_dir: bool) -> tuple[str | None] | None:
        """What the last line says that matches the path `names[depth:]` itself; None: no line does.

        It gives its rule, or no rule where it takes back.
        """
        name = names[-1]
        found = self._names[is_dir].get(name, -1)
        if self._paths[is_dir]:
            found = max(found, self._paths[is_dir].get("/".join(names[depth:]), -1))
        if name.endswith(self._tails[is_dir]):
            found = max(found, *(line for end, line in self._ends[is_dir].items() if name.endswith(end)))
        as_bytes = [_bytes(one) for one in names] if self._wild else ()
        for line, only_dirs, is_path, segments in self._rest:
            if line < found:
                break
            if (is_dir or not only_dirs) and _fits(segments, as_bytes, depth if is_path else len(names) - 1):
                found = line
                break
        return (self._rules[found],) if found >= 0 else None

    def _add(self, pattern: str, rule: str | None, only_dirs: bool) -> None:
        if not pattern or len(pattern) > MAX_PATTERN:
            return
        line = len(self._rules)
        self._rules.append(rule)
        plain = not _SPECIAL.search(pattern)
        self.cost += 1 if plain else _WILD
        if plain:
            key, known = pattern.removeprefix("/"), self._paths if "/" in pattern else self._names
        elif "/" not in pattern and pattern[0] == "*" and pattern[1:] and not _SPECIAL.search(pattern[1:]):
            key, known = pattern[1:], self._ends
        else:
            self._wild.append((line, only_dirs, pattern))
            return
        for kind in (1,) if only_dirs else (0, 1):
            known[kind][key] = line

    @cached_property
    def _tails(self) -> tuple[tuple[str, ...], ...]:
        return tuple(tuple(ends) for ends in self._ends)

    @cached_property
    def _rest(self) -> list[tuple[int, bool, bool, tuple[_Segment, ...]]]:
        """What takes more than a look, the last line first; read at its first use, as reading takes the most time."""
        found = []
        for line, only_dirs, pattern in reversed(self._wild):
            is_path = "/" in pattern
            try:
                found.append((line, only_dirs, is_path, _segments(_bytes(pattern), is_path=is_path)))
            except GitIgnorePatternError:
                # git too passes over what it cannot read
                log.warning("a pattern is passed over, as it matches nothing", pattern=pattern, path=self._place)
        return found


def lines_of(data: bytes) -> list[str]:
    """The lines of an ignore file, decoded as names on disk are."""
    text = data.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "surrogateescape")
    return [line.removesuffix("\r") for line in text.split("\n")]


def _bytes(text: str) -> str:
    """A character for each byte, as git compares them: `?` is one byte of a letter beyond ASCII."""
    if text.isascii():
        return text
    try:
        return text.encode("utf-8", "surrogateescape").decode("latin-1")
    except UnicodeEncodeError:  # a name on disk has no other halves of pairs, one in JSON may
        return text.encode("utf-8", "surrogatepass").decode("latin-1")


def _parts(line: str) -> tuple[str, bool, bool]:
    """A line's pattern ("" for none), whether it leaves out (or takes back), and whether directories only."""
    line = _without_blanks(line)
    if line.startswith("#"):
        return "", True, False
    pattern = line.removeprefix("!")
    return pattern.removesuffix("/"), pattern == line, pattern.endswith("/")


def _without_blanks(line: str) -> str:
    """Without blanks at the end, of which a backslash saves one."""
    bare = line.rstrip(" ")
    backslashes = len(bare) - len(bare.rstrip("\\"))
    return bare + " " if backslashes % 2 and len(bare) < len(line) else bare


def _segments(pattern: str, *, is_path: bool) -> tuple[_Segment, ...]:
    if not is_path:
        return (_segment(pattern),)
    parts = _split(pattern.removeprefix("/"))
    if _ANY_NUMBER.fullmatch(parts[-1]):
        # whatever is within, and not the directory itself
        parts.append("*")
    return tuple(None if _ANY_NUMBER.fullmatch(part) else _segment(part) for part in parts)


def _split(pattern: str) -> list[str]:
    """What stands between slashes; one within brackets is none."""
    parts = [""]
    for token in _tokens(pattern):
        if token in {"/", "\\/"}:
            parts.append("")
        else:
            parts[-1] += token
    return parts


def _tokens(pattern: str) -> Iterator[str]:
    """Brackets, what a backslash saves, stars, or a character at a time. Raises `GitIgnorePatternError`."""
    at = 0
    while found := _TOKEN.match(pattern, at):
        start, at = found.span()
        if pattern[start] == "[":
            at = _end_of_brackets(pattern, at)
        yield pattern[start:at]


def _end_of_brackets(pattern: str, at: int) -> int:
    """Where brackets end whose first item is at `at`, even if that is a bracket itself."""
    while item := _ITEM.match(pattern, at):
        at = item.end()
        if pattern.startswith("]", at):
            return at + 1
    raise _without_end("[")


def _without_end(sign: str) -> GitIgnorePatternError:
    return GitIgnorePatternError(f"{sign!r} has no end")


@lru_cache(4096)
def _segment(text: str) -> str | re.Pattern[str]:
    """What one name is compared with; raises `GitIgnorePatternError`."""
    if not _SPECIAL.search(text):
        return text
    # as in Python's own fnmatch, what stands between two stars is taken at its first place, which is as good as any
    # other, for it takes always the same number of characters: looked for ahead, it is not looked for again
    between = [""]
    for token in _tokens(text):
        if token[0] == "*":
            between.append("")
        else:
            between[-1] += _one(token)
    first, *more = between
    stars = "".join(f"(?=(?P<part{n}>.*?{part}))(?P=part{n})" for n, part in enumerate(more[:-1]))
    return re.compile(f"{first}{stars}.*{more[-1]}" if more else first, re.DOTALL)


def _one(text: str) -> str:
    """The expression of one character, which brackets, a backslash or itself stand for."""
    if text == "\\":
        raise _without_end(text)
    if text[0] == "[":
        return _brackets(text[1:-1])
    return "." if text == "?" else re.escape(text[-1])


def _brackets(text: str) -> str:
    bare = text[1:] if text[0] in "!^" else text
    items = "".join(_item(item) for item in _ITEM.findall(bare))
    return f"[{items}]" if bare == text else f"[^{items}]"


def _item(item: str) -> str:
    if item.startswith("[:") and item.endswith(":]"):
        if item[2:-2] not in _CLASSES:
            raise GitIgnorePatternError(f"{item} is no class")
        return _CLASSES[item[2:-2]]
    low, high = item.removeprefix("\\")[0], item[-1]
    # of a range that runs backwards git has met the first character already
    return f"{re.escape(low)}-{re.escape(high)}" if low <= high else re.escape(low)


def _fits(segments: Sequence[_Segment], names: Sequence[str], start: int) -> bool:
    """Whether segments match all names from `start` on.

    Each segment but `**` takes one name, so that only the last `**` seen need ever take one more: segments times names
    are compared at most.
    """
    here, at = 0, start
    back, back_at = -1, start
    while at < len(names):
        if here < len(segments) and segments[here] is None:
            back, back_at = here, at
            here += 1
        elif here < len(segments) and _is(segments[here], names[at]):
            here, at = here + 1, at + 1
        elif back >= 0:
            back_at += 1
            here, at = back + 1, back_at
        else:
            return False
    return all(each is None for each in segments[here:])


def _is(wanted: _Segment, name: str) -> bool:
    if isinstance(wanted, str):
        return wanted == name
    return wanted is not None and wanted.fullmatch(name) is not None


def check(name: str, patterns: Sequence[str]) -> None:
    """Raises `Invalid` for lines of the parameter `name` that `Patterns` are not to have."""
    _check(name, patterns, _is_read)


def _is_read(line: str) -> bool:
    """Whether a line matches anything, or is blank or a comment."""
    pattern = _parts(line)[0]
    try:
        _segments(_bytes(pattern), is_path="/" in pattern)
    except GitIgnorePatternError:
        return False
    return bool(pattern.strip("/")) or not line.strip() or line.startswith("#")


def compiled(name: str, patterns: Sequence[str]) -> GitIgnoreSpec:
    """The patterns of the parameter `name`. Raises `Invalid` for one that cannot match, or takes too long to."""
    with _no_foresight():
        _check(name, patterns, _can_match)
        # RE2, which pathspec would take where it is installed, refuses some of git's classes
        return GitIgnoreSpec.from_lines(patterns, backend="simple")


def compiled_glob(name: str, glob: str) -> GitIgnoreSpec:
    """One pattern of the parameter `name`, in which `{a,b}` stands for either, as for ripgrep. Raises `Invalid`."""
    _check_length(name, glob)
    return compiled(name, list(islice(_alternatives(glob), MAX_PATTERNS + 1)))


def _alternatives(glob: str) -> Iterator[str]:
    """What its braces stand for; those without a comma, or behind a backslash, are names' own."""
    found = _BRACES.search(glob)
    if found is None:
        yield glob
        return
    for one in found[1].split(","):
        yield from _alternatives(f"{glob[: found.start()]}{one}{glob[found.end() :]}")


@contextmanager
def _no_foresight() -> Iterator[None]:
    """Without warnings of what brackets within brackets may mean in a later Python."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        yield


def _check_length(name: str, pattern: str) -> None:
    if len(pattern) > MAX_PATTERN:
        raise Invalid(f"`{name}` has a pattern of more than {MAX_PATTERN} characters; shorten it.")


def _check(name: str, patterns: Sequence[str], can_match: Callable[[str], bool]) -> None:
    if len(patterns) > MAX_PATTERNS:
        raise Invalid(f"`{name}` has more than {MAX_PATTERNS} patterns; join some with wildcards.")
    for pattern in patterns:
        _check_length(name, pattern)
        if any(part.count("*") > MAX_STARS for part in pattern.split("/")):
            raise Invalid(f"`{name}` has {pattern!r}: at most {MAX_STARS} stars may stand between two slashes.")
        if not can_match(pattern):
            raise Invalid(f"`{name}` has {pattern!r}, which matches nothing; write it as in a .gitignore file.")


def _can_match(pattern: str) -> bool:
    try:
        compiled = GitIgnoreSpec.from_lines([pattern], backend="simple").patterns
    except (GitIgnorePatternError, re.error):
        return False
    blank = not pattern.strip() or pattern.startswith("#")
    return blank or any(one.include is not None for one in compiled)
