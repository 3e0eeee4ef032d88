"""Meanings of a bare name: a member of the class around it, in Ruby and C++, or a variable of a function."""

from __future__ import annotations

import re
from collections.abc import Sequence

from api.search.code.code_of_file import CodeOfFile, Meaning
from api.search.code.own_names import is_local
from api.search.code.reads import mentions
from api.search.code.surroundings import CLASSES, classes_around
from worker.state.search.code_texts import Defined

#: Characters before a name that are looked at.
_AROUND = 200
#: What stands before a name of C++ that gets declared: a type, a pointer or a reference to it, or more names.
_TYPE = re.compile(r"(?<!\w)([A-Za-z_]\w{0,99})[ \t]{1,9}$|[\w)>*&]>[ \t]{1,9}$")
_POINTER = re.compile(r"[\w>][ \t]{0,9}[&*]{1,3}[ \t]{0,9}$|\([&*][ \t]{0,9}$|\bauto[ \t&]{1,9}\[[^\[\]]{0,100}$")
_AFTER = re.compile(r"[ \t]*(?:=(?!=)|[,;)\]{\[]|:(?!:))")
_CALLED = re.compile(r"[ \t]*\(")
#: Words that may stand before a call.
_NO_TYPES = frozenset(
    {"return", "else", "do", "case", "throw", "new", "delete", "and", "or", "not", "goto", "sizeof"}
    | {"co_return", "co_await", "co_yield"}
)
_OF_CLASS = re.compile(r"\s*(?:\w{1,50} )?def \w{1,99}\.")
#: Words with which a class or a module of Ruby says that what it defines next is its own.
_MADE_OWN = ("class <<", "module_function", "extend self")


def holders_of(code: CodeOfFile, within: Defined | None, name: str) -> Sequence[Defined]:
    """The classes whose members a bare name may be, the innermost first."""
    if code.file.language == "cpp" or (code.file.language == "ruby" and name[:1].isupper()):
        return list(classes_around(code, within))
    path = within.path if within and code.file.language == "ruby" else ""
    while path:
        if found := [each for each in code.outline if each.path == path and each.kind in CLASSES]:
            # Ruby looks for methods in no class further out
            return found[:1]
        path = path.rpartition("/")[0]
    return ()


def reached(code: CodeOfFile, within: Defined | None, holder: Defined, found: Meaning) -> Meaning:
    """The members of a class that a bare name reaches: in Ruby, a method of the class only others of the class."""
    if code.file.language != "ruby" or within is None:
        return found
    lines = code.between(holder.start_line, holder.end_line)
    if any(words in lines for words in _MADE_OWN):
        return found.weaker("likely")
    is_of_class = within.kind in CLASSES or _is_of_class(within)
    targets = tuple(each for each in found.targets if each.kind != "method" or _is_of_class(each) == is_of_class)
    return Meaning(targets, found.confidence)


def _is_of_class(defined: Defined) -> bool:
    return _OF_CLASS.match(defined.signature) is not None


def beside_members(found: Meaning, named: Sequence[Defined]) -> Meaning:
    """A function of a file as a class sees it, to which an unseen part or base may bring a method of this name."""
    methods = [each for each in named if each.kind == "method" and each not in found.targets]
    return Meaning((*found.targets, *methods), "by_name") if methods else found


def hides(code: CodeOfFile, function: Defined, name: str) -> bool:
    """Whether a function gives a name a value of its own."""
    # the first line of a function of this name defines it
    is_same = function.name == name
    if code.file.language != "cpp":
        return is_local(code.between(function.start_line + is_same, function.end_line), function.signature, name)
    lines = code.between(function.start_line, function.end_line)
    return any(_is_declared(lines, place, name) for place in list(mentions(lines, name))[is_same:])


def _is_declared(lines: str, place: int, name: str) -> bool:
    before = lines[max(0, place - _AROUND) : place]
    end = place + len(name)
    after = _AFTER.match(lines, end)
    if after and lines[after.end() - 1] == "=":
        return not before.endswith((".", "->"))
    typed = _TYPE.search(before)
    if typed and typed[1] not in _NO_TYPES:
        return after is not None or _CALLED.match(lines, end) is not None
    return after is not None and _POINTER.search(before) is not None
