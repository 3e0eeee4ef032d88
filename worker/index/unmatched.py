"""Notes which config entries of a tool match something during the listing of its folder, and warns of the others.

An entry is noted by its list and its place there, such as `include:3`. Entries that have matched cost no more time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import TypeVar

from schemas.content.document import SourceEntry
from schemas.reason import Reason
from schemas.tool import IndexSettings
from schemas.wording import list_first
from worker.formats.by_name import LANGUAGES, plain_type, type_names
from worker.formats.registry import BY_EXTENSION, BY_TYPE
from worker.ignore import Active, Rules, nothing
from worker.ignore.defaults import DEFAULTS
from worker.ignore.patterns import Patterns
from worker.state.index.tools import Index

#: Lists of the config that hold patterns, or kinds that expand to patterns.
_PATTERNS = ("include", "exclude", "keep")
#: Noted once the rules have judged any path.
_JUDGED = "judged"
#: Noted once any file has passed the rules.
_PASSED = "passed"
#: Maximum number of entries of one list that a warning names.
_MAX_NAMED = 3
#: Maximum number of characters of an entry that a warning shows.
_MAX_CHARACTERS = 60
#: How similar a known type must be to an unknown one to be suggested, from 0 to 1: one letter of four may differ.
_SIMILARITY = 0.75
#: Kinds of `config.keep` that depend on names alone. The other kinds may also depend on a file's content.
_NAMED_KINDS = frozenset(DEFAULTS) - {"secrets", Reason.MINIFIED, Reason.GENERATED}
_EXTENSIONS = {language: extensions.split() for language, extensions in LANGUAGES.items()}
_KNOWN_TYPES = sorted({*BY_TYPE, *BY_EXTENSION, *(one for several in _EXTENSIONS.values() for one in several)})

Value = TypeVar("Value")


class MatchedPatterns:
    """The entries of an index's config that have matched something so far.

    `earlier` are the entries that earlier slices of the listing matched.
    """

    def __init__(self, index: Index, earlier: Collection[str]) -> None:
        self._settings = index.settings
        self._entries = set(earlier)
        self._new: list[str] = []
        self._types = _unless(self._entries, _entries_of_types(index))

    def add(self, entry: str) -> None:
        """Note that an entry has matched."""
        if entry not in self._entries:
            self._entries.add(entry)
            self._new.append(entry)

    def take_new(self) -> list[str]:
        """Return the entries that have matched since the last call."""
        new, self._new = self._new, []
        return new

    def open_patterns(self, name: str) -> dict[str, Sequence[str]]:
        """Return the patterns of one list of the config that have matched nothing so far, by entry."""
        return _unless(self._entries, _entries_of_patterns(self._settings, name))

    def note_types(self, passed: Iterable[SourceEntry]) -> None:
        """Note the types of files that passed the rules."""
        for file in passed:
            self.add(_PASSED)
            if not self._types:
                return
            names = type_names(file.path, file.type)
            for entry in [entry for entry, type_ in self._types.items() if type_ in names]:
                del self._types[entry]
                self.add(entry)

    def warning(self) -> str | None:
        """Return a sentence that names the entries without a match in the complete listing; None if there is none.

        Without any file that could match, it names unknown types only. A single node obeys no rule.
        """
        types = (entry for entry, type_ in self._types.items() if _PASSED in self._entries or not _is_known(type_))
        parts = [_part("types", [_shown_type(self._text(entry)) for entry in types])]
        for name in _PATTERNS if _JUDGED in self._entries else ():
            parts += [_part(name, [_quoted(self._text(entry)) for entry in self.open_patterns(name)])]
        named = " or ".join(part for part in parts if part)
        return f"No listed file or folder matches {named}; correct or remove that." if named else None

    def _text(self, entry: str) -> str:
        name, _, place = entry.partition(":")
        return str(getattr(self._settings, name)[int(place)])


class NotingRules(Rules):
    """The rules of an index. They note the patterns that match a path."""

    def __init__(self, settings: IndexSettings, matched: MatchedPatterns) -> None:
        s = settings
        super().__init__(s.include, s.exclude, keep=s.keep, use_ignore_files=s.use_ignore_files)
        self._matched = matched
        self._open = {name: _OpenPatterns(matched, name) for name in _PATTERNS}

    def ignored(
        self,
        names: Sequence[str],
        active: Active,
        top: int = 0,
        kind: Callable[[], str | None] = nothing,
        *,
        is_dir: bool,
    ) -> str | None:
        """See `Rules`. A kind counts as kept only if no other rule leaves out the path."""
        self._matched.add(_JUDGED)
        rule = super().ignored(names, active, top, kind, is_dir=is_dir)
        self._open["exclude"].note(names[top:], is_dir=is_dir)
        if rule is None:
            self._open["keep"].note(names[top:], is_dir=is_dir)
        return rule

    def includes(self, names: Sequence[str], inherited: bool, top: int = 0, *, is_dir: bool) -> bool:
        """See `Rules`."""
        self._open["include"].note(names[top:], is_dir=is_dir)
        return super().includes(names, inherited, top, is_dir=is_dir)


class _OpenPatterns:
    """The patterns of one list that have matched nothing so far."""

    def __init__(self, matched: MatchedPatterns, name: str) -> None:
        self._matched, self._name = matched, name
        self._patterns = self._compiled()

    def note(self, names: Sequence[str], *, is_dir: bool) -> None:
        # one match names one entry, so look again without it
        while self._patterns and (found := self._patterns.match(names, 0, is_dir=is_dir)):
            self._matched.add(str(found[0]))
            self._patterns = self._compiled()

    def _compiled(self) -> Patterns | None:
        patterns = Patterns()
        for entry, lines in self._matched.open_patterns(self._name).items():
            patterns.add(lines, entry)
        return patterns if patterns.cost else None


def _entries_of_types(index: Index) -> dict[str, str]:
    """Return the types to which a folder is restricted, by entry."""
    types = index.settings.types if index.types else ()
    return {f"types:{place}": plain_type(type_) for place, type_ in _places(types)}


def _entries_of_patterns(settings: IndexSettings, name: str) -> dict[str, Sequence[str]]:
    """Return the patterns of one list of the config, by entry."""
    if name == "keep":
        return {f"keep:{place}": DEFAULTS[kind] for place, kind in _places(settings.keep) if kind in _NAMED_KINDS}
    lines = _places(getattr(settings, name))
    return {f"{name}:{place}": [_positive(line)] for place, line in lines if Patterns([line]).cost}


def _places(entries: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Return the distinct entries with their places."""
    places = {entry: place for place, entry in reversed([*enumerate(entries)])}
    return ((place, entry) for entry, place in sorted(places.items(), key=lambda item: item[1]))


def _positive(line: str) -> str:
    """Return the line without its negation."""
    pattern = line.removeprefix("!")
    return f"\\{pattern}" if pattern != line and pattern.startswith(("!", "#")) else pattern


def _unless(matched: Collection[str], entries: Mapping[str, Value]) -> dict[str, Value]:
    return {entry: value for entry, value in entries.items() if entry not in matched}


def _part(name: str, shown: Sequence[str]) -> str:
    """Name some entries of a list of the config in words; "" for none."""
    return f"config.{name} {list_first(shown, _MAX_NAMED)}" if shown else ""


def _shown_type(type_: str) -> str:
    nearest = _nearest(plain_type(type_))
    return f"{_quoted(type_)} (did you mean {nearest!r}?)" if nearest else _quoted(type_)


def _quoted(text: str) -> str:
    return repr(text if len(text) <= _MAX_CHARACTERS else text[: _MAX_CHARACTERS - 1] + "…")


def _is_known(type_: str) -> bool:
    return type_ in _KNOWN_TYPES


def _nearest(type_: str) -> str | None:
    """Return the type or extension that was probably meant; None if this one exists, or none is close."""
    if _is_known(type_):
        return None
    if type_ in _EXTENSIONS:
        return _EXTENSIONS[type_][0]
    return next(iter(get_close_matches(type_, _KNOWN_TYPES, 1, _SIMILARITY)), None)
