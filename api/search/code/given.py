"""The class of a variable, by its declaration or by what is assigned to it, in each language."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import islice

from api.search.code.reads import mentions
from api.search.code.scripts import SCRIPTS

#: Characters before a name in which its type is looked for.
_MAX_TYPE = 200

_NAME = r"[A-Za-z_][\w.]*"
#: What gives a variable its class: an annotation, or a call.
_GIVEN = re.compile(
    rf"[ \t]*\??:[ \t]*(?:Optional\[|type\[)?[\"']?({_NAME})"
    rf"|[ \t]*(?::=|=)[ \t]*(?:await[ \t]+|new[ \t]+)?({_NAME})[ \t]*(?:<[^<>;(){{}}\n]{{0,99}}>)?(\(?)"
    r"|[ \t]*=[ \t]*([\[{])"
)
#: What a literal is in Python, and in scripts, where what is in braces may be any object.
_LITERALS = {("python", "["): "list", ("python", "{"): "dict"}
_SCRIPT_LITERALS = {"[": "Array"}
#: An array of what was named.
_ARRAY = re.compile(r"[ \t]*\[\]")
_RESTS = {"*": "tuple", "**": "dict"}
#: What stands before a parameter's name, where a list of parameters begins, and the signs within it.
_PARAMETER = re.compile(r"\s{0,99}(\*{0,2})\s{0,9}(?=\w)")
_PARAMETERS = {
    "python": re.compile(r"\bdef[ \t]{1,9}\w{1,200}[ \t]{0,9}(?:\[[^\[\]\n]{0,200}\])?\("),
    "": re.compile(r"\bfunction\b[ \t]{0,9}\*?[ \t]{0,9}[\w$]{0,200}[ \t]{0,9}\("),
}
_SIGN, _DEPTH = re.compile(r"[()\[\]{},]"), {**dict.fromkeys("([{", 1), ",": 0, **dict.fromkeys(")]}", -1)}
_ANNOTATED = re.compile(r"[ \t]{0,9}\??:")
_MAY_BE_PARAMETER = re.compile(r"[(,]\s{0,99}\*{0,2}\s{0,9}$")
_BRACKET = re.compile(r"[()\[\]{}]")
#: Characters of a value that are read. Those of a call that is never closed are read at each place.
_MAX_VALUE = 2_000
#: Places of a variable that are looked at.
MAX_PLACES = 500
#: What follows a value that goes on: the next step of a chain, with its name if it is a call, or an index.
_NEXT = re.compile(r"\s{0,99}[!?]{0,2}(?:\.|->|::)\s{0,99}([A-Za-z_]\w{0,99})?[ \t]{0,9}(\(?)|[ \t]{0,9}!?[\[(]")
_MAX_CHAIN = 6
#: What follows a value that is read to its end. A next line may go on with an operator.
_ENDED = re.compile(r"[ \t]{0,99}(?:[!?]?[;,)]|[\]}{]|:(?!:)|\Z|\n(?!\s{0,99}[?:|&]))")
_ELSE_NOTHING = re.compile(r"[ \t]{1,9}(?:if[ \t(][^\n]{1,200}[ \t)]else|or)[ \t]{1,9}None\b")
#: Other names that are looked up for one name, and what is taken of each.
_MAX_FOLLOWED = 8
_MAX_KINDS = 4
#: `Type name` of C++ and PHP, also of a pointer or a reference.
_TYPED = re.compile(r"(?<!\w)([A-Z]\w{0,99})(?:<[^<>;(){}=\n]{0,99}>)?(?:[ \t]{1,9}[&*$]{0,3}|[&*]{1,3}[ \t]{0,9})$")
#: What stands before a parameter of a function without a name, in PHP and C++.
_CLOSURE = re.compile(r"(?:\b(?:function|fn)[ \t]{0,9}&?[ \t]{0,9}|(?<!operator\[)\][ \t]{0,9})\([^()]{0,200}$")
#: What may precede the last of several types of PHP.
_OTHER_TYPE = re.compile(r"(\w{1,99})\s{0,9}[|&]\s{0,9}\\?(?:\w{1,50}\\){0,9}$")
_ALTERNATIVE = re.compile(rf"[ \t]*\|[ \t]*[\"']?({_NAME})")
#: Values of a variable that name no class.
_NOTHING = frozenset({"None", "null", "undefined"})
#: What stands before an attribute, before an argument or a parameter, and before what a loop assigns.
_OWNER = re.compile(r"([\w)\]]{1,50})(?:\?\.|\.|->)$")
_SELVES = frozenset({"self", "this", "cls"})
_IN_CALL = re.compile(r"[(,]\s*$")
_LOOP = re.compile(r"\bfor[ \t(]{1,9}(?:(?:const|let|var)[ \t]{1,9})?(?:\w{1,99}[ \t]{0,9},[ \t]{0,9}){0,9}$")
_AS = re.compile(r"([A-Za-z_][\w.]{0,99})[ \t]{0,9}\([^()\n]{0,99}\)[ \t]{1,9}as[ \t]{1,9}$")
#: `Type name` of Java and C#, whose types begin with a capital.
_TYPE_BEFORE = re.compile(
    r"(?<![\w.])((?:[a-z]\w{0,50}\.){0,6}[A-Z][\w.]{0,99})(?:<[^<>;(){}=\n]{0,99}>)?\??[ \t]{1,9}$"
)
_NEW = re.compile(
    rf"[ \t]*=[ \t]*(?:await[ \t]+)?(new[ \t]+)?({_NAME})[ \t]*(?:<[^<>;(){{}}\n]{{0,99}}>)?[ \t]*([({{]?)"
)
#: `name Type` of Go in a declaration, also `a, b Type`, and `name := &Type{`, `name, err := call(`.
_GO = re.compile(
    rf"(?:,[ \t]*\w+){{0,4}}(?:[ \t]+\*?({_NAME})(?=[ \t]*(?:[,)=`\n]|//))"
    rf"|[ \t]*:?=[ \t]*&?({_NAME})[ \t]*([({{]))"
)
_GO_WORDS = frozenset(
    {"in", "range", "func", "map", "chan", "struct", "interface", "if", "for", "return", "else", "case"}
)
_RUST_NAME = r"[A-Za-z_]\w*(?:::[A-Za-z_]\w*)*"
_RUST = re.compile(
    rf"[ \t]*:[ \t]*(?:&(?:'\w+[ \t]+)?)?(?:(?:mut|dyn|impl)[ \t]+)?(?:(?:Box|Arc|Rc)<(?:dyn[ \t]+)?)?({_RUST_NAME})"
    rf"|[ \t]*=[ \t]*&?(?:mut[ \t]+)?({_RUST_NAME})(?:::<[^<>;\n]{{0,99}}>)?[ \t]*([({{])"
)

_RETURNS = re.compile(r"(?:->|\)\s*:)\s*(?:Promise<)?[\"']?([A-Za-z_][\w.]*)")
# of a signature whose blanks are single spaces
_GO_RETURNS = re.compile(r"\) ?\(? ?\*?([A-Za-z_][\w.]*)(?:, ?(?:error|bool) ?\))? ?$")
_RUST_RETURNS = re.compile(r"-> ?(?:Result<|io::Result<|Option<)? ?&?(?:'\w+ )?(?:mut )?([A-Za-z_][\w:]*)")


def given(lines: str, variable: str, language: str | None, *, is_attribute: bool = False) -> Iterator[str]:
    """The classes, or functions that return them, which the lines give a variable; "" for what is not seen.

    Each comes once. `is_attribute`: an attribute of the class that the lines define.
    """
    followed: dict[str, list[str]] = {}

    def follow(other: str) -> list[str]:
        if other not in followed:
            if len(followed) >= _MAX_FOLLOWED:
                return [""]
            found = list(islice(_distinct(_given(lines, other, language, None)), _MAX_KINDS + 1))
            followed[other] = [*found[:_MAX_KINDS], *([""] if len(found) > _MAX_KINDS else [])] or [""]
        return followed[other]

    return _distinct(_given(lines, variable, language, follow, is_attribute=is_attribute))


def _distinct(kinds: Iterator[str]) -> Iterator[str]:
    seen = set[str]()
    for kind in kinds:
        if kind not in seen:
            seen.add(kind)
            yield kind


def _given(
    lines: str,
    variable: str,
    language: str | None,
    follow: Callable[[str], list[str]] | None,
    *,
    is_attribute: bool = False,
) -> Iterator[str]:
    """The same. `follow` says what another variable is given that the variable gets."""
    is_given, of_closures = False, list[str]()
    parameters, passed = _Parameters(lines, language), list[str]()
    places, unseen = _places(lines, variable)
    yield from unseen
    for start in places:
        before = lines[max(0, start - _MAX_TYPE) : start]
        owner = _OWNER.search(before)
        if owner and not (is_attribute and (owner[1] in _SELVES or language in {"go", "rust"})):
            continue
        end = start + len(variable)
        if language in {"java", "csharp", "go", "rust"}:
            if found := _at(lines, start, end, language):
                yield found
            continue
        if language in {"cpp", "php"} and (typed := _TYPED.search(before)):
            names = [typed[1], *_other_types(before[: typed.start()], language)]
            if _CLOSURE.search(before, 0, typed.start()):
                # its parameter is no variable of the function around it
                of_closures += names
                continue
        else:
            passed += parameters.passed(before, start, end)
            names = list(_choices(lines, before, variable, end, language, follow))
        is_given = is_given or bool(names)
        yield from names
    if not is_given and any(passed):
        yield from passed
    elif is_given and "" in passed and not is_attribute:
        # it may also be what is passed
        yield ""
    if of_closures:
        yield from of_closures if is_given else [""]


def _places(lines: str, variable: str) -> tuple[list[int], list[str]]:
    """The first places of a variable, and "" if there are more."""
    places = list(islice(mentions(lines, variable), MAX_PLACES + 1))
    return places[:MAX_PLACES], [""] * (len(places) > MAX_PLACES)


class _Parameters:
    """The parameters of functions of Python and of scripts, which are read when the first place is asked for."""

    def __init__(self, lines: str, language: str | None) -> None:
        self._lines = lines
        self._begins = _PARAMETERS.get("" if language in SCRIPTS else language or "none")
        self._stars: dict[int, str] | None = None

    def passed(self, before: str, start: int, end: int) -> list[str]:
        """The type of a parameter at a place, "" if it may be anything; nothing if it has an annotation or is none."""
        if not self._begins or not _MAY_BE_PARAMETER.search(before):
            return []
        if self._stars is None:
            self._stars = self._read(self._begins)
        stars = self._stars.get(start)
        return [] if stars is None or _ANNOTATED.match(self._lines, end) else [_RESTS.get(stars, "")]

    def _read(self, begins: re.Pattern[str]) -> dict[int, str]:
        """The stars before each parameter, by the place of its name."""
        stars: dict[int, str] = {}
        opened = begins.search(self._lines)
        while opened:
            depth, end = 1, opened.end()
            self._add(stars, end)
            for sign in _SIGN.finditer(self._lines, end):
                end = sign.end()
                depth += _DEPTH[sign[0]]
                if not depth:
                    break
                if sign[0] == "," and depth == 1:
                    self._add(stars, end)
            opened = begins.search(self._lines, end) if not depth else None
        return stars

    def _add(self, stars: dict[int, str], place: int) -> None:
        if named := _PARAMETER.match(self._lines, place):
            stars[named.end()] = named[1]


def _other_types(before: str, language: str | None) -> Iterator[str]:
    """The other types of a variable of PHP that has one of several."""
    while language == "php" and (found := _OTHER_TYPE.search(before)):
        if found[1] not in _NOTHING:
            yield found[1]
        before = before[: found.start()]


def _choices(
    lines: str,
    before: str,
    variable: str,
    end: int,
    language: str | None,
    follow: Callable[[str], list[str]] | None,
) -> Iterator[str]:
    """The class names that an annotation or an assignment gives a variable at one place."""
    found = _GIVEN.match(lines, end)
    if found and found[4]:
        of_script = _SCRIPT_LITERALS.get(found[4]) if language in SCRIPTS else None
        literal = _LITERALS.get((language or "", found[4]), of_script)
        if literal and not _IN_CALL.search(before):
            yield literal if _chained(lines, found.start(4), "", language) == "" else ""
    elif found and found[1]:
        is_array = language in SCRIPTS and _ARRAY.match(lines, found.end(1)) is not None
        names, place = ["Array" if is_array else found[1]], found.end(1)
        while alternative := _ALTERNATIVE.match(lines, place):
            names.append(alternative[1])
            place = alternative.end()
        yield from (name for name in names if name not in _NOTHING)
    elif found:
        is_same = not found[3] and found[2] in {variable, *_NOTHING} and _is_ended(lines, found.end(2), language)
        # what Python passes to a call, or takes if nothing is passed, is not what the variable always is
        if not is_same and not (language == "python" and _IN_CALL.search(before)):
            yield from _valued(lines, found, language, follow)
    elif opened := _AS.search(before):
        yield opened[1]
    elif _LOOP.search(before):
        yield ""


def _valued(
    lines: str, found: re.Match[str], language: str | None, follow: Callable[[str], list[str]] | None
) -> Iterator[str]:
    """What a variable gets that is assigned a name or a call."""
    if found[3]:
        yield _chained(lines, found.start(3), found[2], language) or ""
    elif "." in found[2] or not follow or not _is_ended(lines, found.end(2), language):
        yield ""
    else:
        # such as an attribute that gets what a parameter is
        yield from follow(found[2])


def _is_ended(lines: str, end: int, language: str | None) -> bool:
    """Whether a value ends at a place, so that it is no part of a larger one."""
    if language == "python" and (nothing := _ELSE_NOTHING.match(lines, end)):
        end = nothing.end()
    found = _ENDED.match(lines, end)
    # of a tuple
    return found is not None and not (language == "python" and found[0].endswith(","))


def _chained(lines: str, start: int, value: str, language: str | None) -> str | None:
    """A value whose bracket opens at `start`, with the calls after it: `Pool().get`. None if it is not such a chain."""
    for _ in range(_MAX_CHAIN):
        end = _closed(lines, start)
        if end is None:
            return None
        after = _NEXT.match(lines, end)
        if after is None:
            return value if _is_ended(lines, end, language) else None
        if not after[1] or not after[2]:
            return None
        value, start = f"{value}().{after[1]}", after.start(2)
    return None


def _closed(lines: str, start: int) -> int | None:
    """Where the bracket closes that opens at a place."""
    depth = 0
    for found in _BRACKET.finditer(lines, start, start + _MAX_VALUE):
        depth += 1 if found[0] in "([{" else -1
        if not depth:
            return found.end()
    return None


def _at(lines: str, start: int, end: int, language: str | None) -> str | None:
    if language in {"java", "csharp"}:
        before = _TYPE_BEFORE.search(lines, max(0, start - _MAX_TYPE), start)
        if before:
            return before[1]
        found = _NEW.match(lines, end)
        return _whole(lines, found, 2, language) if found and (found[1] or found[3] == "(") else None
    if language == "go":
        found = _GO.match(lines, end)
        name = found and (found[1] or _whole(lines, found, 2, language))
        return None if name in _GO_WORDS else name
    found = _RUST.match(lines, end)
    return (found[1] or _whole(lines, found, 2, language)).replace("::", ".") if found else None


def _whole(lines: str, found: re.Match[str], name: int, language: str | None) -> str:
    """A class or function that makes a value, or with further calls the chain of all; "" if what it makes is not seen.

    The group after the name has the bracket, if there is one.
    """
    if not found[name + 1]:
        return found[name]
    return _chained(lines, found.start(name + 1), found[name], language) or ""


def returned(signature: str, name: str, language: str | None) -> str | None:
    """The class that a function returns, by its signature."""
    if language in {"java", "csharp"}:
        at = signature.find(f" {name}")
        found = _TYPE_BEFORE.search(signature, 0, at + 1) if at > 0 else None
        return found[1] if found else None
    pattern = {"go": _GO_RETURNS, "rust": _RUST_RETURNS}.get(language or "", _RETURNS)
    found = pattern.search(" ".join(signature.split()))
    return found[1].replace("::", ".") if found else None
