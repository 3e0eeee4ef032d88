"""A pattern in RE2's language, and what of it finds candidates faster than line by line.

RE2 and ripgrep's engine both take time linear in the text, and read nearly the same language. One expression decides,
on single lines; two wider ones, which may match more and never less, go over whole texts: one for RE2, one for ripgrep.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import re2

from schemas.errors import Invalid
from schemas.grep import Grep

#: Bytes that RE2 may take for one expression, compiled and at work.
MAX_MEMORY = 8 << 20
#: Steps of one uninterruptible search at its slowest: an expression's instructions times bytes.
MAX_STEPS = 200_000_000
#: Bytes that any expression is given at a time.
MIN_REACH = 1 << 16

_TOKEN = re.compile(
    r"(?P<quoted>\\Q.*?(?:\\E|\Z))|(?P<escape>\\.)|(?P<flags>\(\?[imsU]*-[imsU]*[:)])"
    r"|(?P<set>\[\^?\]?(?:\\.|\[:\^?\w+:\]|[^\]\\])*\])|(?P<one>.)",
    re.DOTALL,
)
_SET_PART = re.compile(r"\\.|\[:\^?\w+:\]|.", re.DOTALL)
#: Other braces are plain text in RE2, and errors in ripgrep.
_BRACES = re.compile(r"\{[0-9]+(?:,[0-9]*)?\}")
_BRACED = {r"\p", r"\P", r"\x"}
#: Escapes that stand for ASCII characters, or none; of the others some stand for more.
_ASCII_ESCAPE = re.compile(r"\\(?:[abdfnrstvwzAB]|[^0-9A-Za-z])")

#: A line's end is where the text's is; what stands before a line break is no part of it.
_LINE_END = r"(?:\r?$)"
_WIDE = {r"\A": "^", r"\z": _LINE_END, "$": _LINE_END}
#: ASCII only in RE2, all of Unicode in ripgrep; the last two mean the ends of a word there.
_RIPGREP = _WIDE | {
    r"\d": "[0-9]",
    r"\D": "[^0-9]",
    r"\w": "[0-9A-Za-z_]",
    r"\W": "[^0-9A-Za-z_]",
    r"\s": r"[\t\n\f\r ]",
    r"\S": r"[^\t\n\f\r ]",
    r"\b": r"(?-u:\b)",
    r"\B": r"(?-u:\B)",
    r"\<": "<",
    r"\>": ">",
}


@dataclass(frozen=True, slots=True)
class Pattern:
    """What is looked for. `line` decides on one line; `text` finds lines that may match, over bytes of UTF-8.

    `ripgrep` are the arguments that make it find every file with such a line; None: it would read the pattern
    differently. It only misses those that are not UTF-8, unless `is_ascii`: what matches has the same bytes in nearly
    every encoding. At most `reach` bytes are searched at a time.
    """

    line: Any
    text: Any
    ripgrep: list[str] | None
    is_ascii: bool
    reach: int

    def is_cut(self, text: bytes) -> bool:
        """Whether some line is longer than what of it is searched."""
        return len(text) > self.reach and any(len(line) > self.reach for line in text.split(b"\n"))


def compiled_pattern(asked: Grep) -> Pattern:
    """The pattern of a request. Raises `Invalid` with the place of what is no pattern, or too large a one."""
    if "\n" in asked.pattern or "\0" in asked.pattern:
        raise Invalid("`pattern` holds a line break or NUL, which no line does; look for one line's text.")
    case = [] if asked.case_sensitive else ["--ignore-case"]
    if not asked.regex:
        exact = re2.escape(asked.pattern)
        wide = exact
        arguments: list[str] | None = [*case, "--fixed-strings", "--", asked.pattern]
    else:
        exact, wide = asked.pattern, _translated(asked.pattern, _WIDE)
        theirs = _for_ripgrep(asked.pattern)
        arguments = None if theirs is None else [*case, "--", theirs]
    line = _expression(exact, asked)
    text = _expression(wide, asked)
    # the library keeps the last ones for ever, and they may be large
    re2.purge()
    is_ascii = asked.pattern.isascii() and not (asked.regex and _matches_more(asked.pattern))
    return Pattern(line, text, arguments, is_ascii, max(MIN_REACH, MAX_STEPS // max(1, text.programsize)))


def _expression(source: str, asked: Grep) -> Any:
    options = re2.Options()
    options.max_mem = MAX_MEMORY
    options.log_errors = False
    options.never_nl = True
    # nobody asks what a group holds, and each would cost every search
    options.never_capture = True
    options.case_sensitive = asked.case_sensitive
    try:
        return re2.compile(source.encode(), options)
    except re2.error as error:
        said = error.args[0].decode(errors="replace") if error.args else "no regular expression"
        raise Invalid(
            f"`pattern` is not taken: {said[:200]}. Write it in RE2's syntax, without look-around and references, and "
            "smaller where it is too large; or look for plain text with `regex: false`."
        ) from error


def _unquoted(pattern: str) -> str:
    """The pattern without quotations, behind which nothing could be added."""
    parts = (re.escape(f[0][2:].removesuffix(r"\E")) if f["quoted"] else f[0] for f in _TOKEN.finditer(pattern))
    return "".join(parts)


def _translated(pattern: str, words: dict[str, str]) -> str:
    """The pattern with `words` exchanged, whose ends of a text are those of each line in it."""
    parts = []
    for found in _TOKEN.finditer(_unquoted(pattern)):
        if found["flags"]:
            parts.append(_without_single_line(found[0]))
        else:
            parts.append(found[0] if found["set"] else words.get(found[0], found[0]))
    return f"(?m:{''.join(parts)})"


def _without_single_line(flags: str) -> str:
    on, off = flags[2:-1].split("-")
    off = off.replace("m", "")
    kept = f"{on}-{off}" if off else on
    return f"(?{kept}{flags[-1]}" if kept or flags[-1] == ":" else ""


def _for_ripgrep(pattern: str) -> str | None:
    """The pattern in the language of ripgrep, where sets may hold sets; None if that would not be wider."""
    found = list(_TOKEN.finditer(_unquoted(pattern)))
    if any(one[0] == r"\C" or (one["set"] and "--" in one[0]) for one in found):
        return None
    parts, before = [], ""
    for one in found:
        is_text = one[0] == "{" and before not in _BRACED and not _BRACES.match(one.string, one.start())
        parts.append(_set_for_ripgrep(one[0]) if one["set"] else r"\{" if is_text else one[0])
        before = one[0]
    return _translated("".join(parts), _RIPGREP)


def _matches_more(pattern: str) -> bool:
    """Whether a pattern in ASCII may match other characters."""
    return any(
        one[0] == "." or one[0].startswith("[^") or any(map(_stands_for_more, _SET_PART.findall(one[0])))
        for one in _TOKEN.finditer(_unquoted(pattern))
    )


def _stands_for_more(part: str) -> bool:
    return part.startswith("[:^") or (part[0] == "\\" and not _ASCII_ESCAPE.fullmatch(part))


def _set_for_ripgrep(token: str) -> str:
    opening = "[^" if token.startswith("[^") else "["
    body = token[len(opening) : -1]
    parts = [
        f"\\{part}" if part in {"[", "]", "&", "~"} else _RIPGREP.get(part, part) if part[0] == "\\" else part
        for part in _SET_PART.findall(body)
    ]
    return opening + "".join(parts) + "]"
