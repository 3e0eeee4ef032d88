"""The surroundings of a place in code: the classes and functions that contain it, and the text before a base."""

from __future__ import annotations

from collections.abc import Iterator

from api.search.code.code_of_file import MAX_RECEIVER, MEMBER, CodeOfFile
from api.search.code.reads import mentions
from worker.state.search.code_texts import Defined

#: Lines in which the bases of a class stand.
_MAX_HEAD_LINES = 12

#: Kinds of definitions that have members.
CLASSES = frozenset({"class", "interface", "struct", "enum", "trait", "impl", "type", "module"})
#: Those of them whose members need a name before them. Within a namespace, its own names do not.
WITH_MEMBERS = CLASSES - {"module"}


def text_before(code: CodeOfFile, owner: Defined, base: str) -> str:
    """The text before a base in the head of a class, such as `module.`."""
    head = code.between(owner.start_line, min(owner.end_line, owner.start_line + _MAX_HEAD_LINES))
    places = [place for place in mentions(head, base) if place]
    start = places[-1] if len(places) == 1 else next((p for p in places if MEMBER.search(head[:p][-9:])), None)
    return "" if start is None else head[max(0, start - MAX_RECEIVER) : start]


def classes_around(code: CodeOfFile, within: Defined | None) -> Iterator[Defined]:
    """The classes around a definition, the innermost first; itself if it is one."""
    path = within.path if within else ""
    while path:
        yield from [each for each in code.outline if each.path == path and each.kind in WITH_MEMBERS][:1]
        path = path.rpartition("/")[0]
    if within and within.scope and code.file.language in {"go", "cpp"}:
        # a method may stand in another file than its type
        yield Defined(within.file_id, -1, within.scope, "struct", "", within.start_line, within.start_line, "")


def functions_around(code: CodeOfFile, within: Defined | None) -> list[Defined]:
    """The definition and the functions around it, the innermost first."""
    found = [within] if within else []
    path = within.scope if within else ""
    while path and within:
        named = [each for each in code.outline if each.path == path and each.kind not in CLASSES]
        # of overloads, the one that contains it
        around = [each for each in named if each.start_line <= within.start_line <= each.end_line]
        found += around[:1] or named[:1]
        path = path.rpartition("/")[0]
    return found
