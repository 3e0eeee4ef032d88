"""Names that a function has of its own, and definitions that hang on another name, in Python and in scripts."""

from __future__ import annotations

import re
from collections.abc import Iterator

from api.search.code.reads import mentions

#: Characters around a name that are looked at.
_AROUND = 200
_ASSIGNED = re.compile(r"[ \t]*(?::[^=\n(}]{1,100})?(?::=|=(?![=>]))")
#: What follows one of several names that get values together, such as `a` in `(a, b[0]) =`, and one within a condition.
_UNPACKED = re.compile(r"[ \t]{0,9}(?:[)\]][ \t]{0,9}){0,9}(?:,[\w \t.,*()\[\]]{0,200})?=(?![=>])")
_WALRUS = re.compile(r"[ \t]{0,9}:=")
#: What stands before the variable of a loop or of a `lambda`, and before what a `catch` gets.
_LOOPS = re.compile(
    r"\bfor[ \t(\[](?:(?!\b(?:in|of)\b)[\w \t.,*()\[\]]){0,200}$"
    r"|\blambda\b(?:[^:()\n]{0,200},)?[ \t*]{0,9}$|\bcatch[ \t]{0,9}\([ \t]{0,9}$"
)
_NAMED_AS = re.compile(r"\bas[ \t]{1,9}$|\bas[ \t]{0,9}[(\[][\w \t,*]{0,200}$|\bclass[ \t]{1,9}$")
_MATCHED = re.compile(r"case\b(?![^\n]{0,200}\bif\b)[^\n{:]{0,200}(?:\{[^}\n]{0,200})?$")
_NOT_MATCHED = re.compile(r"[ \t]{0,9}[.=]")
_FUNCTION = re.compile(r"\bfunction[ \t]{0,9}\*?[ \t]{0,9}$")
_DECLARES = re.compile(r"\b(?:const|let|var)(?=[\s{\[])")
_DECLARED = re.compile(r"[ \t]{0,9}(?:[:!=,;}\]\n]|$|of\b|in\b)")
_KEY = re.compile(r"\s{0,50}:")
_GLOBAL = re.compile(r"\b(?:global|nonlocal)[ \t]{1,9}(?:\w{1,99}[ \t]{0,9},[ \t]{0,9}){0,20}$")
_IN_CALL = re.compile(r"[(,]\s*$")
_BRACKET = re.compile(r"[{}()\[\]]")
_CALLS = re.compile(r"[\w)\]]")
#: What follows a parameter of an arrow function, and what follows the parentheses of one.
_ARROW = re.compile(r"\s{0,50}=>")
_ARROW_AFTER = re.compile(r"(?::[^=;{}()]{0,100}|\s{0,50})=>")
_WITH_PARAMETERS = re.compile(r"\bfunction\b[ \t]{0,9}\*?[ \t]{0,9}[\w$]{0,99}[ \t]{0,9}$")
_PARAMETER_BEFORE = re.compile(
    r"[(,{\[]\s{0,50}(?:\*{1,2}|\.{3})?\s{0,50}$|\blambda[ \t]{1,9}(?:\w{1,99}[ \t]{0,9},[ \t]{0,9}){0,9}$"
)
_PARAMETER_AFTER = re.compile(r"\s{0,50}\??\s{0,50}(?:[:=,)}\]]|$)")
_HOLDER = re.compile(r"([A-Za-z_$][\w$.]{0,200})\.[\w$]+\s*=[^=]")


def is_local(lines: str, signature: str, name: str) -> bool:
    """Whether a function gives a name a value of its own, as a parameter or in its lines."""
    head = signature.partition("(")[2] or signature
    for place in mentions(head, name):
        before = "(" + head[max(0, place - _AROUND) : place]
        if _PARAMETER_BEFORE.search(before) and _PARAMETER_AFTER.match(head, place + len(name)):
            return True
    for before, end in _uses(lines, name):
        if _is_assigned(before, lines, end):
            return not _is_global(lines, name)
        if _NAMED_AS.search(before) or _is_declared(before, lines, end) or _is_bound(before, lines, end):
            return True
    return False


def is_bound(lines: str, name: str) -> bool:
    """Whether a function without a name, a loop or a `catch` in some lines gives a name a value of its own."""
    return any(_is_bound(before, lines, end) for before, end in _uses(lines, name))


def _uses(lines: str, name: str) -> Iterator[tuple[str, int]]:
    """The text before each use of a name that may give it a value, and the end of the use."""
    for place in mentions(lines, name):
        end = place + len(name)
        before = lines[max(0, place - _AROUND) : place]
        is_call = lines[end : end + 1] == "(" and not _FUNCTION.search(before)
        is_member = before.endswith(".") and not before.endswith("...")
        if not is_call and not is_member:
            yield before, end


def _is_assigned(before: str, lines: str, end: int) -> bool:
    if _WALRUS.match(lines, end):
        return True
    is_argument = _IN_CALL.search(before) is not None
    if _ASSIGNED.match(lines, end) and not is_argument:
        return True
    line = before.rpartition("\n")[2]
    # in a line of its own, it is rather an argument
    is_seen = len(line) < _AROUND and not (is_argument and not line.strip())
    return is_seen and _UNPACKED.match(lines, end) is not None and not _is_in_call(before)


def _is_declared(before: str, lines: str, end: int) -> bool:
    """Whether a name of a script stands in a declaration, also within a pattern."""
    if _FUNCTION.search(before):
        return True
    start = max((found.end() for found in _DECLARES.finditer(before)), default=None)
    between = ";" if start is None else before[start:]
    if ";" in between or not _DECLARED.match(lines, end):
        return False
    opened = _opened(between)
    earlier = between[: opened[0]] if opened else between
    if earlier.strip() and not earlier.rstrip().endswith(","):
        return False
    if not opened:
        return True
    is_pattern = all(between[place] != "(" for place in opened) and between.rstrip().endswith(
        ("{", "[", ",", ":", "...")
    )
    return is_pattern and not _KEY.match(lines, end)


def _is_bound(before: str, lines: str, end: int) -> bool:
    if _LOOPS.search(before) or _ARROW.match(lines, end):
        return True
    if _MATCHED.match(before.rpartition("\n")[2].lstrip()) and not _NOT_MATCHED.match(lines, end):
        return True
    if not (_PARAMETER_BEFORE.search(before) and _PARAMETER_AFTER.match(lines, end)):
        return False
    opened = _opened(before)
    while opened and before[opened[-1]] != "(":
        opened.pop()
    if not opened:
        return False
    depth = len(_opened(before[opened[-1] :]))
    return bool(_WITH_PARAMETERS.search(before[: opened[-1]])) or _is_before_arrow(lines, end, depth)


def _is_before_arrow(lines: str, end: int, depth: int) -> bool:
    """Whether the parentheses around a place are those of an arrow function. `depth`: brackets that are open there."""
    for found in _BRACKET.finditer(lines, end, end + _AROUND):
        depth += 1 if found[0] in "([{" else -1
        if not depth:
            return _ARROW_AFTER.match(lines, found.end()) is not None
    return False


def _opened(text: str) -> list[int]:
    """The places of brackets that a text does not close."""
    places: list[int] = []
    for found in _BRACKET.finditer(text):
        if found[0] in "([{":
            places.append(found.start())
        elif places:
            places.pop()
    return places


def _is_in_call(before: str) -> bool:
    """Whether a text ends among the arguments of a call, or in an index."""
    for place in reversed(_opened(before)):
        if before[place] == "{":
            return False
        if _CALLS.match(before, place - 1 if place else len(before)):
            return True
    return False


def _is_global(lines: str, name: str) -> bool:
    """Whether a function of Python says that a name is not its own."""
    return any(_GLOBAL.search(lines[max(0, place - _AROUND) : place]) is not None for place in mentions(lines, name))


def holder_of(signature: str, name: str) -> str | None:
    """The target that a function of a script is assigned to: `app` of `app.use = function`; None if it stands alone."""
    found = _HOLDER.match(signature)
    return found[1] if found and f".{name}" in signature else None
