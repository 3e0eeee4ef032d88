"""One file of code, as those read it who look for what a call in it means."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from api.search.code.imports import Imported, Imports, outermost, read_imports
from api.search.code.masked import masked
from api.search.code.own_names import is_bound
from api.search.code.packages import LANGUAGES, read_package_imports
from api.search.code.reads import mentions
from api.search.code.scripts import SCRIPTS, read_scripts
from schemas.queries.symbol import Confidence
from worker.state.search.code_texts import CodeFile, Defined

#: The surest first.
CONFIDENCES: tuple[Confidence, ...] = ("resolved", "likely", "by_name")
#: Characters before a call in which its receiver is looked for.
MAX_RECEIVER = 200
#: What separates the parts of a path, which a receiver keeps at its end.
PATH = "::"
#: What stands before a method of a string.
LITERAL, _QUOTES = "''", frozenset({'"', "'", "`"})
MEMBER = re.compile(r"(?:[!?]?(?:\.|->)|::)\s*$")
RECEIVER = re.compile(
    r"([A-Za-z_]\w{0,99}(?:\([^()\n]{0,80}\))?(?:(?:[!?]?(?:\.|->)|::)\$?#?[A-Za-z_]\w{0,99}(?:\([^()\n]{0,80}\))?){0,6})"
    r"\s{0,40}(?:[!?]?(?:\.|->)|::)$"
)
#: Kinds of definitions that have names of their own.
FUNCTIONS = frozenset({"function", "method"})
_BREAK = re.compile(r"\n")
_PASSED = re.compile(r"\([^()]*\)")
_MISSING = re.compile(r"[!?]?(?:\.|->)")
#: What follows the name of a call: also type arguments, and what Rust makes of a struct.
_CALLED = re.compile(r"[ \t]*(?:\?\.)?(?:::)?[(<!`{]")


@dataclass(frozen=True, slots=True)
class Meaning:
    """The definitions that a call may mean; none: what it calls is not in the folder."""

    targets: tuple[Defined, ...]
    confidence: Confidence

    def weaker(self, confidence: Confidence) -> Meaning:
        """The same, no surer than this."""
        return Meaning(self.targets, max(self.confidence, confidence, key=CONFIDENCES.index))


def one_of(meanings: Sequence[Meaning]) -> Meaning:
    """Combine the meanings of all branches. Without any, the name means nothing in the folder."""
    if not meanings:
        return Meaning((), "resolved")
    if all(each == meanings[0] for each in meanings):
        return meanings[0]
    targets = tuple(dict.fromkeys(target for each in meanings for target in each.targets))
    return Meaning(targets, "by_name" if all(each.confidence == "by_name" for each in meanings) else "likely")


def _bare(receiver: str) -> str:
    """A receiver without what its calls are given, and without signs of what may be missing."""
    return _MISSING.sub(".", _PASSED.sub("()", receiver))


@dataclass(slots=True, eq=False)
class CodeOfFile:
    """One file of code as far as it was read: without its text, calls in it are followed by name."""

    file: CodeFile
    text: str
    first_line: int
    outline: Sequence[Defined]
    bases: dict[str, list[str]]
    code: str = field(init=False)
    breaks: list[int] = field(init=False)
    imports: Imports = field(init=False)
    _outside: str | None = None
    _members: dict[tuple[str, str], tuple[Defined, ...]] | None = None
    _bound: dict[str, bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.code = masked(self.text, self.file.language)
        self.breaks = [-1, *(found.start() for found in _BREAK.finditer(self.code)), len(self.code)]
        self.imports = self._read_imports()

    def _read_imports(self) -> Imports:
        language = self.file.language
        if language == "python":
            functions = [each for each in self.outline if each.kind in FUNCTIONS]
            spans = ((self.offset(each.start_line), self.offset(each.end_line + 1)) for each in functions)
            return read_imports(self.code, spans)
        if language in SCRIPTS:
            return read_scripts(self.text, self.code)
        return read_package_imports(self.text, self.code, language) if language in LANGUAGES else Imports()

    @property
    def has_locals(self) -> bool:
        """Whether functions of the language hide names by assignments and parameters that are looked for."""
        return self.file.language == "python" or self.file.language in SCRIPTS

    @property
    def outside(self) -> str:
        """The code outside of functions, in which another function has no names of its own."""
        if self._outside is None:
            functions = [each for each in self.outline if each.kind in FUNCTIONS]
            spans = outermost((self.offset(each.start_line), self.offset(each.end_line + 1)) for each in functions)
            ends = [0, *(end for _, end in spans)]
            starts = [*(start for start, _ in spans), len(self.code)]
            self._outside = "\n".join(self.code[end:start] for end, start in zip(ends, starts, strict=True))
        return self._outside

    def is_bound_outside(self, name: str) -> bool:
        """Whether the code outside of functions gives a name to what a function without a name gets."""
        if name not in self._bound:
            self._bound[name] = self.has_locals and is_bound(self.outside, name)
        return self._bound[name]

    def members(self, scope: str, name: str) -> tuple[Defined, ...]:
        """The definitions of a name directly within a definition."""
        if self._members is None:
            self._members = {}
            for each in self.outline:
                key = each.scope, each.name
                self._members[key] = (*self._members.get(key, ()), each)
        return self._members.get((scope, name), ())

    def between(self, first: int, last: int) -> str:
        """The code of some lines."""
        return self.code[self.offset(first) : max(0, self.offset(last + 1) - 1)]

    def inner_import(self, name: str, functions: Iterable[Defined]) -> Imported | None:
        """The meaning of a name that an import within one of these functions brings."""
        for each in functions:
            first, last = (self.offset(line) for line in (each.start_line, each.end_line + 1))
            for place, alias, imported in self.imports.inner:
                if alias == name and first <= place < last:
                    return imported
        return None

    def offset(self, line: int) -> int:
        """The offset of a line's start in the code that was read."""
        number = min(max(0, line - self.first_line), len(self.breaks) - 1)
        return self.breaks[number] + 1

    def receivers(self, line: int, name: str) -> list[str | None]:
        """The receivers of the calls of a name in a line: "" for none, None for an unreadable one."""
        number = line - self.first_line
        if not 0 <= number < len(self.breaks) - 1:
            return []
        start = self.breaks[number] + 1
        is_definition = any(each.name == name and each.start_line == line for each in self.outline)
        end_of_line = self.breaks[number + 1]
        places = list(mentions(self.code[start:end_of_line], name))
        called = {place for place in places if _CALLED.match(self.code, start + place + len(name), end_of_line)}
        found: list[str | None] = []
        for place in places:
            before = self.code[max(0, start + place - MAX_RECEIVER) : start + place]
            member = MEMBER.search(before)
            if is_definition and not member:
                # what the line defines comes first, and calls nothing
                is_definition = False
            elif called and place not in called:
                # another use of the name
                continue
            elif member:
                end = start + place - len(member[0])
                receiver = RECEIVER.search(before.rstrip())
                is_text = end > 0 and self.text[end - 1] in _QUOTES
                path = PATH if member[0].startswith(PATH) else ""
                found.append(LITERAL if is_text else _bare(receiver[1]) + path if receiver else None)
            else:
                found.append("")
        return found
