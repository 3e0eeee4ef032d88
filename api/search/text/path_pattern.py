"""Selects files by a caller's path or pattern. Names may hold what a pattern gives a meaning, such as `app/[slug]`."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import takewhile

from schemas.errors import Invalid
from worker.ignore import compiled_glob

_GLOB_CHARACTERS = frozenset("*?[]{}!\\")
#: Without these characters only stars and question marks have a meaning, and they match themselves too.
_AMBIGUOUS = frozenset("[]{}\\#")
#: Signs that are literal in one reading of a pattern, if no backslash is before them.
_BRACKETS = re.compile(r"\\.|[\[\]]", re.DOTALL)
_BRACKETS_AND_BRACES = re.compile(r"\\.|[\[\]{}]", re.DOTALL)

#: Tells whether a path is selected.
Takes = Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class _Reading:
    """One meaning of a pattern. `excludes`: it selects all files but those that match."""

    matches: Takes
    excludes: bool = False


class PathPattern:
    """The meaning of the parameter `name`: a path as it is spelled, or else a pattern as in ripgrep.

    Between the two, brackets and braces are tried as parts of names, so `app/[slug]/**` selects what lies in the folder
    of that name. Of these readings, the first counts that any file matches. Raises `Invalid` for a pattern that can
    match nothing, unless a file has it as its path.
    """

    def __init__(self, name: str, pattern: str) -> None:
        #: Whether it begins with `!`.
        self.excludes = pattern.startswith("!") and bool(pattern[1:].strip())
        self._pattern = pattern[1:] if self.excludes else pattern.removeprefix("./")
        self.is_ambiguous = self.excludes or not _AMBIGUOUS.isdisjoint(pattern) or pattern != pattern.strip()
        #: The literal folders at the start, which hold all that is selected; "" if there are none.
        self.folder = "" if self.excludes else folder_of(self._pattern)
        self._invalid: Invalid | None = None
        self._readings = [_Reading(_literal(self._pattern), self.excludes)]
        if self.excludes:
            self._readings.insert(0, _Reading(_literal(pattern)))
        for text in dict.fromkeys([*map(self._escaped, (_BRACKETS_AND_BRACES, _BRACKETS)), self._pattern]):
            try:
                self._readings.append(_Reading(compiled_glob(name, text).matches, self.excludes))
            except Invalid as error:
                # one that is longer by its backslashes is left out; the pattern itself comes last
                self._invalid = error if text == self._pattern else None

    def among(self, paths: Sequence[str]) -> Takes:
        """The selection among these files."""
        for reading in self._readings:
            if any(map(reading.matches, paths)):
                return _selection([reading])
        return self.anywhere()

    def anywhere(self) -> Takes:
        """The selection where no file is known: the union of all readings."""
        if self._invalid:
            raise self._invalid
        readings = [reading for reading in self._readings if reading.excludes == self.excludes]
        return _selection(readings if self.is_ambiguous else readings[-1:])

    def _escaped(self, signs: re.Pattern[str]) -> str:
        return signs.sub(lambda sign: sign[0] if len(sign[0]) > 1 else f"\\{sign[0]}", self._pattern)


def folder_of(glob: str) -> str:
    """The literal folders at the start of a glob, such as `dir/` for `dir/**`; "" if there are none."""
    # a trailing slash alone does not anchor a pattern
    folders = glob.removeprefix("/").rstrip("/").split("/")[:-1]
    literal = takewhile(lambda name: name not in {"", ".", ".."} and not _GLOB_CHARACTERS & set(name), folders)
    return "".join(f"{name}/" for name in literal)


def _literal(path: str) -> Takes:
    """Matches a path and all below it. Without a slash it is a name that may be anywhere, as in patterns."""
    name = path.removeprefix("/").removesuffix("/")
    if "/" in path.removesuffix("/"):
        return lambda found: found == name or found.startswith(f"{name}/")
    return lambda found: name in found and name in found.split("/")


def _selection(readings: Sequence[_Reading]) -> Takes:
    """The joint selection of readings that agree on whether they exclude."""
    excludes = readings[0].excludes
    if len(readings) == 1 and not excludes:
        return readings[0].matches
    return lambda path: any(reading.matches(path) for reading in readings) != excludes
