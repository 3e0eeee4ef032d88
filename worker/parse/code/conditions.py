"""Reduces conditions of C's preprocessor to one branch where they would confuse a parser."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

#: A line of a condition, with the lines that continue it.
_LINE = re.compile(
    rb"^[ \t]*#[ \t]*(?P<kind>if|ifn?def|elif|elifn?def|else|endif)\b(?P<rest>[^\n]*(?:(?<=\\)\n[^\n]*)*)\n?",
    re.MULTILINE,
)
#: Text whose braces do not count, and other lines for the preprocessor.
_UNCOUNTED = re.compile(
    rb'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|//[^\n]*|/\*(?:[^*]|\*(?!/))*(?:\*/|\Z)|^[ \t]*#[^\n]*', re.MULTILINE
)
_ENDS = (b";", b"}", b":")
#: Declarations of parameters behind a function's head.
_OLD_STYLE = re.compile(
    rb"(?<=\))[ \t]*\r?\n(?P<declared>(?:[ \t]*[A-Za-z_][\w \t*,\[\]]{1,200};[^\n;{}]{0,200}\n){1,30})(?=[ \t]*\{)"
)
#: Maximum levels of conditions. Deeper ones stay as they are.
_MAX_DEPTH = 200

Span = tuple[int, int]


@dataclass(slots=True)
class _Condition:
    """A condition that is open: its lines, the branches between them, and whether the first is never compiled."""

    lines: list[Span]
    is_never: bool
    branches: list[Span] = field(default_factory=list)


def excluded(data: bytes) -> list[Span]:
    """Return the spans to leave out, in no order: lines of conditions that need it, and all branches except one."""
    spans: list[Span] = []
    open_: list[_Condition] = []
    for line in _LINE.finditer(data):
        kind = line["kind"]
        if kind.startswith(b"if"):
            if len(open_) >= _MAX_DEPTH:
                return []
            open_.append(_Condition([line.span()], is_never=kind == b"if" and line["rest"].strip() == b"0"))
        elif not open_:
            # it belongs to no condition
            spans.append(line.span())
        else:
            condition = open_[-1]
            condition.branches.append((condition.lines[-1][1], line.start()))
            condition.lines.append(line.span())
            if kind == b"endif":
                spans += _of(data, open_.pop())
    # a condition without an end
    spans += [line for condition in open_ for line in condition.lines]
    return [*spans, *(match.span("declared") for match in _OLD_STYLE.finditer(data))]


def _of(data: bytes, condition: _Condition) -> list[Span]:
    if all(_is_whole(data[start:end]) for start, end in condition.branches):
        return []
    kept = 1 if condition.is_never else 0
    return [*condition.lines, *(branch for number, branch in enumerate(condition.branches) if number != kept)]


def _is_whole(branch: bytes) -> bool:
    """Return whether a branch closes what it opens, and ends where a statement does."""
    code = _UNCOUNTED.sub(b"", branch).strip()
    return code.count(b"{") == code.count(b"}") and (not code or code.endswith(_ENDS))
