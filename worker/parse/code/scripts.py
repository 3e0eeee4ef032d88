"""Finds the scripts of components, such as Vue's, Svelte's and Astro's, whose definitions become the file's."""

from __future__ import annotations

import re
from collections.abc import Iterator

#: A script's first tag. Values may have a sign that ends a tag elsewhere.
_SCRIPT = re.compile(
    r"""<script\b(?P<attributes>(?:[^<>"']|"[^"]{0,500}"|'[^']{0,500}'){0,1000})>|<!--(?:[^-]|-(?!->))*(?:-->|\Z)""",
    re.IGNORECASE,
)
_END = re.compile(r"</script\b", re.IGNORECASE)
_LANGUAGE = re.compile(r"""\blang\s*=\s*["']?(ts|tsx|typescript|js|jsx|javascript)\b""", re.IGNORECASE)
_TYPE = re.compile(r"""(?<![\w-])type\s*=\s*["']?([\w/+.-]*)""", re.IGNORECASE)
_TYPES = {"", "module", "text/javascript", "application/javascript", "text/typescript", "text/babel"}
#: The code in front of a component of Astro, which is TypeScript.
_FRONT = re.compile(r"\A\s*---[ \t]*\r?\n(?P<code>(?:[^\n]*\n)*?)---[ \t]*\r?(?:\n|\Z)")
_NOT_LINE_BREAK = re.compile(r"[^\n]")
_GRAMMARS = {"ts": "typescript", "typescript": "typescript", "tsx": "tsx"}


def alone(text: str) -> tuple[str | None, str]:
    """Return the language of a component's scripts (None without any), and the file with the rest blanked."""
    found = list(_scripts(text))
    if not found:
        return None, text
    languages = {language for language, _, _ in found}
    parts, at = list[str](), 0
    for _, start, end in found:
        parts += [_NOT_LINE_BREAK.sub(" ", text[at:start]), text[start:end]]
        at = end
    blanked = "".join([*parts, _NOT_LINE_BREAK.sub(" ", text[at:])])
    # TypeScript contains JavaScript
    return next(name for name in ("tsx", "typescript", "javascript") if name in languages), blanked


def _scripts(text: str) -> Iterator[tuple[str, int, int]]:
    """Language, start and end of each script."""
    front = _FRONT.match(text)
    if front:
        yield "typescript", *front.span("code")
    at = front.end() if front else 0
    while tag := _SCRIPT.search(text, at):
        at = tag.end()
        attributes = tag["attributes"]
        if attributes is None or attributes.rstrip().endswith("/"):
            continue
        end = _END.search(text, at)
        stop = end.start() if end else len(text)
        type_ = _TYPE.search(attributes)
        if type_ is None or type_[1].lower() in _TYPES:
            language = _LANGUAGE.search(attributes)
            yield _GRAMMARS.get(language[1].lower(), "javascript") if language else "javascript", at, stop
        at = stop
