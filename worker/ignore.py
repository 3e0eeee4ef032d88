"""Which files of a folder are indexed: directories nobody wrote by hand are left out, then the tool's own patterns."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from pathspec import GitIgnoreSpec
from pathspec.patterns.gitignore import GitIgnorePatternError

from schemas.errors import Invalid

#: Left out unless `exclude` takes one back (`!node_modules/`). `target`, `build` and `vendor` are missing on
#: purpose: people keep their own files in folders of those names.
LEFT_OUT = (
    # the history of version control, not the files
    *(".git/", ".hg/", ".svn/", ".bzr/", ".jj/"),
    # other people's code, fetched again at will
    *("node_modules/", "bower_components/", ".venv/", "venv/", ".tox/", ".nox/", ".gradle/", ".terraform/"),
    # what tools cache, and the settings of editors
    *("__pycache__/", ".mypy_cache/", ".ruff_cache/", ".pytest_cache/", ".idea/", ".cache/"),
    # our own data
    ".foldex/",
    # versions and hashes that tools write and read
    *("*.lock", "package-lock.json", "pnpm-lock.yaml", "npm-shrinkwrap.json", "go.sum"),
)

#: A name is matched by a backtracking expression, whose time grows with a power of the stars between two slashes.
MAX_STARS = 4
#: Patterns of one list, and characters of one pattern.
MAX_PATTERNS = 1000
MAX_PATTERN = 1000

#: Directories whose verdict is remembered: more than any listing has open at once.
_REMEMBERED = 4096


class Rules:
    """The choice of one tool, over paths relative to its folder.

    `include` and `exclude` are patterns as in .gitignore; without `include` everything is included. As in git, nothing
    below an excluded directory can be taken back. `types` are extensions ("md", ".py") or types as `keep` is given
    them. Raises `Invalid` for a pattern that cannot match.
    """

    def __init__(self, include: Iterable[str] = (), exclude: Iterable[str] = (), types: Iterable[str] = ()) -> None:
        wanted = list(include)
        self._include = compiled("include", wanted) if wanted else None
        self._exclude = compiled("exclude", [*LEFT_OUT, *exclude])
        self._types = frozenset(kind.lower().removeprefix(".") for kind in types)
        self._pruned = lru_cache(_REMEMBERED)(self._is_pruned)

    def prune(self, dir_path: str) -> bool:
        """Whether the directory, or one above it, is left out with everything below."""
        return self._pruned(dir_path)

    def keep(self, path: str, type: str | None = None) -> bool:  # noqa: A002 - the word of `Entry`
        """Whether a file is indexed. `type` is its type where the caller knows one better than the extension."""
        if self._types and not self._types & {_extension(path), type}:
            return False
        if self._include and not self._include.match_file(path):
            return False
        parent, _, _ = path.rpartition("/")
        return not (parent and self._pruned(parent)) and not self._exclude.match_file(path)

    def _is_pruned(self, dir_path: str) -> bool:
        # a loop over the directories above: a path may be deeper than the interpreter's stack
        ends = [place for place, letter in enumerate(dir_path) if letter == "/"]
        return any(self._exclude.match_file(dir_path[:end] + "/") for end in [*ends, len(dir_path)])


def _extension(path: str) -> str:
    stem, dot, extension = path.rpartition("/")[2].rpartition(".")
    return extension.lower() if dot and stem else ""


def compiled(name: str, patterns: list[str]) -> GitIgnoreSpec:
    """The patterns of the parameter `name`. Raises `Invalid` for one that cannot match, or takes too long to."""
    if len(patterns) > MAX_PATTERNS:
        raise Invalid(f"`{name}` has more than {MAX_PATTERNS} patterns; join some with wildcards.")
    for pattern in patterns:
        _check(name, pattern)
    return GitIgnoreSpec.from_lines(patterns)


def _check(name: str, pattern: str) -> None:
    if len(pattern) > MAX_PATTERN:
        raise Invalid(f"`{name}` has a pattern of more than {MAX_PATTERN} characters; shorten it.")
    if any(part.count("*") > MAX_STARS for part in pattern.split("/")):
        raise Invalid(f"`{name}` has {pattern!r}: at most {MAX_STARS} stars may stand between two slashes.")
    if not _can_match(pattern):
        raise Invalid(f"`{name}` has {pattern!r}, which matches nothing; write it as in a .gitignore file.")


def _can_match(pattern: str) -> bool:
    try:
        compiled = GitIgnoreSpec.from_lines([pattern]).patterns
    except GitIgnorePatternError:
        return False
    blank = not pattern.strip() or pattern.startswith("#")
    return blank or any(one.include is not None for one in compiled)
