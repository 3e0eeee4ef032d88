"""Names that a function has of its own, and definitions that hang on another name, in Python and in scripts."""

from __future__ import annotations

import re

from api.search.code.reads import mentions

#: Characters around a name that are looked at.
_AROUND = 200
_ASSIGNED = re.compile(r"[ \t]*(?::[^=\n(]{1,100})?(?::=|=(?![=>]))")
_LOOPS = re.compile(r"\bfor[ \t(]{1,9}(?:\w{1,99}[ \t]{0,9},[ \t]{0,9}){0,9}$|\bas[ \t]{1,9}$")
_DECLARED = re.compile(
    r"\b(?:const|let|var)[ \t]{0,9}[{\[]?[^{}()\[\]=;]{0,200}$|\bfunction[ \t]{0,9}\*?[ \t]{0,9}$|\bclass[ \t]{1,9}$"
)
_GLOBAL = re.compile(r"\b(?:global|nonlocal)[ \t]{1,9}(?:\w{1,99}[ \t]{0,9},[ \t]{0,9}){0,20}$")
_IN_CALL = re.compile(r"[(,]\s*$")
#: What follows a parameter of an arrow function.
_ARROW = re.compile(r"\s{0,50}(?:,[^()\n]{0,100})?\)?\s{0,50}=>")
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
    for place in mentions(lines, name):
        before = lines[max(0, place - _AROUND) : place]
        if before.endswith("."):
            continue
        end = place + len(name)
        if _ASSIGNED.match(lines, end) and not _IN_CALL.search(before):
            return not _is_global(lines, name)
        if _LOOPS.search(before) or _ARROW.match(lines, end) or _DECLARED.search(before.rpartition("\n")[2]):
            return True
    return False


def _is_global(lines: str, name: str) -> bool:
    """Whether a function of Python says that a name is not its own."""
    return any(_GLOBAL.search(lines[max(0, place - _AROUND) : place]) is not None for place in mentions(lines, name))


def holder_of(signature: str, name: str) -> str | None:
    """What a function of a script is assigned to: `app` of `app.use = function`; None if it stands by itself."""
    found = _HOLDER.match(signature)
    return found[1] if found and f".{name}" in signature else None
