"""The class of a variable, by its declaration or by what is assigned to it, in each language."""

from __future__ import annotations

import re
from collections.abc import Iterator

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
_STARRED, _RESTS = re.compile(r"[(,]\s{0,99}(\*\*?)$"), {"*": "tuple", "**": "dict"}
_BRACKET = re.compile(r"[()\[\]{}]")
#: Characters of a value that are read.
_MAX_VALUE = 10_000
#: What follows a value that goes on: the next step of a chain, with its name if it is a call, or an index.
_NEXT = re.compile(r"\s{0,99}[!?]{0,2}(?:\.|->|::)\s{0,99}([A-Za-z_]\w{0,99})?[ \t]{0,9}(\(?)|[ \t]{0,9}!?[\[(]")
_MAX_CHAIN = 6
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


def given(
    lines: str, variable: str, language: str | None, *, is_attribute: bool = False, follows: bool = True
) -> Iterator[str]:
    """The classes, or functions that return them, which the lines give a variable; "" for what is not seen.

    `is_attribute`: an attribute of the class that the lines define. `follows`: also what another variable is given
    that the variable gets.
    """
    is_given, of_closures, of_rest = False, list[str](), list[str]()
    for start in mentions(lines, variable):
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
            of_rest += [_RESTS[rest[1]]] if language == "python" and (rest := _STARRED.search(before)) else []
            names = list(_choices(lines, before, variable if follows else "", end, language))
        is_given = is_given or bool(names)
        yield from names
    if of_rest and not is_given:
        # what a function gets beyond its other parameters
        yield of_rest[0]
    if of_closures:
        yield from of_closures if is_given else [""]


def _other_types(before: str, language: str | None) -> Iterator[str]:
    """The other types of a variable of PHP that has one of several."""
    while language == "php" and (found := _OTHER_TYPE.search(before)):
        if found[1] not in _NOTHING:
            yield found[1]
        before = before[: found.start()]


def _choices(lines: str, before: str, variable: str, end: int, language: str | None) -> Iterator[str]:
    """The class names that an annotation or an assignment gives a variable at one place."""
    found = _GIVEN.match(lines, end)
    if found and found[4]:
        of_script = _SCRIPT_LITERALS.get(found[4]) if language in SCRIPTS else None
        literal = _LITERALS.get((language or "", found[4]), of_script)
        if literal and not _IN_CALL.search(before):
            yield literal if _chained(lines, found.start(4), "") == "" else ""
    elif found and found[1]:
        is_array = language in SCRIPTS and _ARRAY.match(lines, found.end(1)) is not None
        names, place = ["Array" if is_array else found[1]], found.end(1)
        while alternative := _ALTERNATIVE.match(lines, place):
            names.append(alternative[1])
            place = alternative.end()
        yield from (name for name in names if name not in _NOTHING)
    elif found and found[2] not in _NOTHING:
        # what Python passes to a call, or takes if nothing is passed, is not what the variable always is
        is_passed = language == "python" and _IN_CALL.search(before)
        if not is_passed and (found[3] or found[2] != variable):
            yield from _valued(lines, found, variable, language)
    elif opened := _AS.search(before):
        yield opened[1]
    elif not found and _LOOP.search(before):
        yield ""


def _valued(lines: str, found: re.Match[str], variable: str, language: str | None) -> Iterator[str]:
    """What a variable gets that is assigned a name or a call."""
    if found[3]:
        chain = _chained(lines, found.start(3), found[2])
        yield chain or ""
    elif "." in found[2] or not variable:
        yield ""
    else:
        # such as an attribute that gets what a parameter is
        others = list(given(lines, found[2], language, follows=False))
        yield from others or [""]


def _chained(lines: str, start: int, value: str) -> str | None:
    """A value whose bracket opens at a place, with the calls after it: `Pool().get`. None: it is no such chain."""
    for _ in range(_MAX_CHAIN):
        end = _closed(lines, start)
        if end is None:
            return None
        after = _NEXT.match(lines, end)
        if after is None:
            return value
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
        return _whole(lines, found, 2) if found and (found[1] or found[3] == "(") else None
    if language == "go":
        found = _GO.match(lines, end)
        name = found and (found[1] or _whole(lines, found, 2))
        return None if name in _GO_WORDS else name
    found = _RUST.match(lines, end)
    return (found[1] or _whole(lines, found, 2)).replace("::", ".") if found else None


def _whole(lines: str, found: re.Match[str], name: int) -> str:
    """A class or function that makes a value, or with further calls the chain of all; "" if what it makes is not seen.

    The group after the name has the bracket, if there is one.
    """
    if not found[name + 1]:
        return found[name]
    chain = _chained(lines, found.start(name + 1), found[name])
    return chain or ""


def returned(signature: str, name: str, language: str | None) -> str | None:
    """The class that a function returns, by its signature."""
    if language in {"java", "csharp"}:
        at = signature.find(f" {name}")
        found = _TYPE_BEFORE.search(signature, 0, at + 1) if at > 0 else None
        return found[1] if found else None
    pattern = {"go": _GO_RETURNS, "rust": _RUST_RETURNS}.get(language or "", _RETURNS)
    found = pattern.search(" ".join(signature.split()))
    return found[1].replace("::", ".") if found else None
