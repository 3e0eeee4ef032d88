"""Blanks strings and comments of source code, so that what is left are names that the code uses.

No parser runs here: one pass of a constant pattern, whose time is linear in the text.
"""

from __future__ import annotations

import re

# A string or a comment, to its end; one without an end reaches to the end of the line or of the text. Where a quote may
# also begin a lifetime, only a single character is a string.
_DOUBLE = r"""\"[^"\\\n]*(?:\\(?:[\s\S]|\Z)[^"\\\n]*)*"?"""
_SINGLE = r"""'[^'\\\n]*(?:\\(?:[\s\S]|\Z)[^'\\\n]*)*'?"""
_TEMPLATE = r"`[^`\\]*(?:\\(?:[\s\S]|\Z)[^`\\]*)*`?"
_LONG = r"""\"{3}(?:[^\\]|\\(?:[\s\S]|\Z))*?(?:\"{3}|\Z)|'{3}(?:[^\\]|\\(?:[\s\S]|\Z))*?(?:'{3}|\Z)"""
_REMARK, _NOTE = r"//[^\n]*|/\*[\s\S]*?(?:\*/|\Z)", r"\#[^\n]*"
_CHARACTER = r"'(?:[^'\\\n]|\\[^\n'][^'\n]{0,9})'"
_PYTHON = re.compile(f"{_LONG}|{_DOUBLE}|{_SINGLE}|{_NOTE}")
_JAVASCRIPT = re.compile(f"{_REMARK}|{_DOUBLE}|{_SINGLE}|{_TEMPLATE}")
_PHP = re.compile(f"{_REMARK}|{_NOTE}|{_DOUBLE}|{_SINGLE}")
_SCRIPT = re.compile(f"{_NOTE}|{_DOUBLE}|{_SINGLE}")
_C = re.compile(f"{_REMARK}|{_DOUBLE}|{_CHARACTER}|`[^`]*`?")
_OF_LANGUAGE = {
    "python": _PYTHON,
    "javascript": _JAVASCRIPT,
    "typescript": _JAVASCRIPT,
    "tsx": _JAVASCRIPT,
    "php": _PHP,
    "ruby": _SCRIPT,
    "bash": _SCRIPT,
}
#: An annotation of Python that names a type which is defined below it, and what stands before one.
_NAMED_TYPE = re.compile(r"""(["'])[A-Za-z_][\w.]{0,99}(?: ?\| ?[\w.]{1,99}){0,4}\1""")
_ANNOTATED = re.compile(r"(?:\w[ \t]{0,9}:|\)[ \t]{0,9}->)[ \t]{0,9}$")
#: What a string inserts: expressions of Python's f-strings and of JavaScript's templates.
_INSERTED = re.compile(r"\{([^{}]*)\}")
_QUOTED = re.compile(f"{_DOUBLE}|{_SINGLE}")
_F_STRING = re.compile(r"(?:^|[^\w])[rR]?[fF][rR]?$")
_NOT_A_BREAK = re.compile(r"[^\n]")


def masked(text: str, language: str | None) -> str:
    """The code without the text of its strings and comments, each character at its place."""
    is_python = language == "python"
    return _OF_LANGUAGE.get(language or "", _C).sub(lambda found: _blank(found, text, is_python=is_python), text)


def _blank(found: re.Match[str], text: str, *, is_python: bool) -> str:
    part = found[0]
    if is_python and _NAMED_TYPE.fullmatch(part) and _ANNOTATED.search(text, max(0, found.start() - 20), found.start()):
        return f" {part[1:-1]} "
    opens = part[:1] == "`" or (part[:1] in "\"'" and _F_STRING.search(text[max(0, found.start() - 3) : found.start()]))
    if not opens or "{" not in part:
        return _NOT_A_BREAK.sub(" ", part)
    kept, end = [], 0
    for inserted in _INSERTED.finditer(part):
        start = inserted.start(1)
        within = _QUOTED.sub(lambda quoted: _NOT_A_BREAK.sub(" ", quoted[0]), inserted[1])
        kept += [_NOT_A_BREAK.sub(" ", part[end:start]), within]
        end = inserted.end(1)
    return "".join([*kept, _NOT_A_BREAK.sub(" ", part[end:])])
