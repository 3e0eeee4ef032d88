"""Cuts code at its definitions. A piece's context is the headers of the classes and functions around it."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from schemas.content.document import CodeDefinition, Document
from worker.chunk.lines import cut_all
from worker.chunk.measure import MINOR_KINDS, ChunkSpan, Measure, made_piece

#: A definition of at least this many tokens gets its own chunk; smaller ones share a chunk with their neighbours. An
#: eighth of the limit applies if that is less.
_SEPARATE_TOKENS = 32

#: Text between two such definitions, such as a closing brace, joins one of them if it has fewer tokens than this.
_TINY_TOKENS = 16

#: Lines directly above a definition that belong to it: comments, attributes, annotations.
_LEAD = re.compile(r"[ \t]*(?://|/\*|\*|#|@|\[)")
_DOCSTRING = re.compile(r"""\s*[rRuU]?(?:\"""|''')\s*([^\n]*)""")

#: Maximum characters in a context for a header, and for the first docstring line after it.
_MAX_HEADER_CHARS = 300
_MAX_DOC_CHARS = 120

_NONE = -1


@dataclass(slots=True)
class _Outline:
    """The definitions of a text as a tree.

    `starts` and `ends` are widened to whole lines and to the comments above. `tokens` maps each of these places, and
    the text's start and end, to the number of tokens before it. A span of `sure_tokens` certainly fits. `fits` caches
    the result for longer spans, because each is checked several times.
    """

    text: str
    definitions: tuple[CodeDefinition, ...]
    parents: list[int] = field(default_factory=list)
    children: dict[int, list[int]] = field(default_factory=dict)
    starts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    tokens: dict[int, int] = field(default_factory=dict)
    headers: dict[int, str] = field(default_factory=dict)
    sure_tokens: int = 0
    fits: dict[tuple[int, int], bool] = field(default_factory=dict)

    def around(self, index: int) -> list[int]:
        """Return a definition and its ancestors, outermost first; empty for `_NONE`."""
        chain = []
        while index != _NONE:
            chain.append(index)
            index = self.parents[index]
        return chain[::-1]


class _Stretch(NamedTuple):
    """A span within the definition `owner`. It covers the whole definition `whole`, unless that is `_NONE`."""

    start: int
    end: int
    owner: int
    whole: int = _NONE


def cut(measure: Measure, document: Document) -> Iterator[ChunkSpan]:
    """Yield a piece for each definition that fits and is not small, and pieces for the rest.

    The rest is the text between those definitions and the parts of long ones. The pieces cover the text once, except
    that parts of long functions overlap. As with lines, each cut depends only on nearby text and the definitions around
    it.
    """
    outline = _outline(document)
    long: dict[bool, list[_Stretch]] = {True: [], False: []}
    for stretch in _stretches(measure, outline):
        if _fits(measure, outline, stretch.start, stretch.end):
            yield _piece(outline, stretch)
        else:
            long[_overlaps(outline, stretch)].append(stretch)
    for overlaps, group in long.items():
        yield from _parts(measure if overlaps else replace(measure, overlap_tokens=0, overlap_chars=0), outline, group)


def _parts(measure: Measure, outline: _Outline, long: list[_Stretch]) -> Iterator[ChunkSpan]:
    """Yield pieces of stretches that do not fit. Small definitions are not cut if that can be avoided."""
    if not long:
        return
    blocks = [
        (outline.starts[index], outline.ends[index])
        for stretch in long
        for index in _within(outline, stretch.owner, stretch.start, stretch.end)
        if outline.ends[index] < stretch.end or outline.starts[index] > stretch.start
    ]
    first = 0
    for start, end in cut_all(measure, [(stretch.start, stretch.end) for stretch in long], blocks):
        while end > long[first].end:
            first += 1
        yield _piece(outline, _Stretch(start, end, long[first].owner))


def _overlaps(outline: _Outline, stretch: _Stretch) -> bool:
    """Return whether a stretch's parts overlap: true inside functions, and for texts without definitions."""
    if stretch.owner == _NONE:
        return not outline.definitions
    return outline.definitions[stretch.owner].kind in ("function", "method")


def _stretches(measure: Measure, outline: _Outline) -> Iterator[_Stretch]:
    """Yield the text in order: definitions that get their own chunk, and the text between them."""
    places = [0, len(outline.text), *outline.starts, *outline.ends]
    outline.sure_tokens = measure.max_tokens - measure.slack
    outline.tokens = tokens = dict(zip(places, measure.tokens(np.array(places, dtype=np.int64)).tolist(), strict=True))
    min_tokens = min(_SEPARATE_TOKENS, measure.max_tokens // 8)
    spans = enumerate(zip(outline.starts, outline.ends, strict=True))
    separate = {index for index, (start, end) in spans if tokens[end] - tokens[start] >= min_tokens}
    return _region(measure, outline, separate, _Stretch(0, len(outline.text), _NONE))


def _count(outline: _Outline, start: int, end: int) -> int:
    return outline.tokens[end] - outline.tokens[start]


def _fits(measure: Measure, outline: _Outline, start: int, end: int) -> bool:
    # the token counts already settle most spans
    if _count(outline, start, end) <= outline.sure_tokens and measure.has_room(start, end):
        return True
    fits = outline.fits.get((start, end))
    if fits is None:
        fits = outline.fits[start, end] = measure.fits(start, end)
    return fits


def _region(measure: Measure, outline: _Outline, separate: set[int], region: _Stretch) -> Iterator[_Stretch]:
    """Return the stretches of a region: its owner's direct children and the text between, with long ones divided."""
    position, pending = region.start, None
    for index in outline.children.get(region.owner, ()):
        if index not in separate:
            continue
        start, end = outline.starts[index], outline.ends[index]
        if _is_tiny(outline, position, start) and (
            _fits(measure, outline, position, end) or not _fits(measure, outline, start, end)
        ):
            start = position
        if pending:
            yield from _divided(measure, outline, separate, pending)
        yield from _between(outline, position, start, region.owner)
        pending, position = _Stretch(start, end, region.owner, index), end
    if pending and _is_tiny(outline, position, region.end):
        extended = pending._replace(end=region.end)
        if _fits(measure, outline, extended.start, extended.end) or not _fits(
            measure, outline, pending.start, pending.end
        ):
            pending, position = extended, region.end
    if pending:
        yield from _divided(measure, outline, separate, pending)
    yield from _between(outline, position, region.end, region.owner)


def _divided(measure: Measure, outline: _Outline, separate: set[int], stretch: _Stretch) -> Iterator[_Stretch]:
    if _fits(measure, outline, stretch.start, stretch.end):
        yield stretch
    else:
        yield from _region(measure, outline, separate, _Stretch(stretch.start, stretch.end, stretch.whole))


def _between(outline: _Outline, start: int, end: int, owner: int) -> Iterator[_Stretch]:
    if outline.text[start:end].strip():
        yield _Stretch(start, end, owner)


def _is_tiny(outline: _Outline, start: int, end: int) -> bool:
    return _count(outline, start, end) < _TINY_TOKENS or not outline.text[start:end].strip()


def _within(outline: _Outline, owner: int, start: int, end: int) -> list[int]:
    """Return the direct children of `owner` that lie between two character offsets."""
    children = outline.children.get(owner, [])
    first = bisect_left(children, start, key=outline.starts.__getitem__)
    last = bisect_left(children, end, key=outline.starts.__getitem__)
    return [index for index in children[first:last] if outline.ends[index] <= end]


def _piece(outline: _Outline, stretch: _Stretch) -> ChunkSpan:
    """Return the piece of a stretch, named after the only definition in it, or else the innermost one around it."""
    above = tuple(
        _header(outline, index) for index in outline.around(stretch.owner) if outline.starts[index] < stretch.start
    )
    named = _name(outline, stretch)
    if named == _NONE:
        return made_piece((stretch.start, stretch.end, above, None, None, None, None, None))
    symbol = outline.definitions[named]
    scope = "/".join(symbol.scope) or None
    return made_piece((stretch.start, stretch.end, above, None, None, symbol.kind, symbol.name, scope))


def _name(outline: _Outline, stretch: _Stretch) -> int:
    """Return the definition that names a stretch; `_NONE` if it neither contains one nor lies within one."""
    if stretch.whole != _NONE:
        return stretch.whole
    if stretch.owner != _NONE and outline.starts[stretch.owner] >= stretch.start:
        # the stretch begins with the owner's header
        return stretch.owner
    inside = _within(outline, stretch.owner, stretch.start, stretch.end)
    major = [index for index in inside if outline.definitions[index].kind not in MINOR_KINDS]
    if not major:
        major = [i for i in inside if 2 * (outline.ends[i] - outline.starts[i]) > stretch.end - stretch.start]
    # the first definition at the top level gives the name
    return major[0] if len(major) == 1 or (major and stretch.owner == _NONE) else stretch.owner


def _header(outline: _Outline, index: int) -> str:
    """Return a definition's decorators and signature, and the first line of its docstring."""
    if index not in outline.headers:
        definition = outline.definitions[index]
        head = outline.text[
            definition.start_char : min(definition.body_char, definition.start_char + 4 * _MAX_HEADER_CHARS)
        ]
        lines = "\n".join(line for line in map(str.strip, head.splitlines()) if line)[:_MAX_HEADER_CHARS]
        doc = _DOCSTRING.match(
            outline.text, definition.body_char, min(definition.body_char + _MAX_DOC_CHARS, definition.end_char)
        )
        first = doc[1].strip("\"' ") if doc else ""
        outline.headers[index] = f"{lines}\n{first}" if first else lines
    return outline.headers[index]


def _outline(document: Document) -> _Outline:
    """Build the tree of definitions, which come ordered by start, outer ones first."""
    outline = _Outline(document.text, document.definitions)
    open_: list[int] = []
    for index, definition in enumerate(document.definitions):
        while open_ and document.definitions[open_[-1]].end_char <= definition.start_char:
            open_.pop()
        outline.parents.append(open_[-1] if open_ else _NONE)
        outline.children.setdefault(outline.parents[-1], []).append(index)
        open_.append(index)
    outline.starts = [0] * len(document.definitions)
    outline.ends = [0] * len(document.definitions)
    for owner in sorted(outline.children):
        _widen(outline, owner)
    return outline


def _widen(outline: _Outline, owner: int) -> None:
    """Widen the direct children of `owner` to whole lines and to the comments above them."""
    definitions, children = outline.definitions, outline.children[owner]
    position, body, end = 0, 0, len(outline.text)
    if owner != _NONE:
        position, body, end = definitions[owner].start_char, definitions[owner].body_char, outline.ends[owner]
    nexts = [*(definitions[index].start_char for index in children[1:]), end]
    for index, following in zip(children, nexts, strict=True):
        definition = definitions[index]
        outline.starts[index] = _start(outline.text, definition.start_char, position, max(position, body))
        line_end = outline.text.find("\n", definition.end_char, following) + 1
        outline.ends[index] = position = line_end or definition.end_char


def _start(text: str, start: int, search_start: int, body: int) -> int:
    """Return the start of the line of `start`, or of the comment above it, but not before `body`.

    The search for the line's start begins at `search_start`. If other text precedes `start` on the line, the result is
    `start` itself.
    """
    line = text.rfind("\n", search_start, start) + 1
    if not line and search_start and text[search_start - 1] != "\n":
        return start
    line = line or search_start
    if line < body and text[line:start].strip():
        return start
    # usually the line above is empty, and there is nothing to search for
    while line > body and text[line - 2 : line] != "\n\n":
        above = max(text.rfind("\n", body, line - 1) + 1, body)
        if text[above:line].rstrip().endswith("*/"):
            opening = text.rfind("/*", body, line)
            if opening < 0:
                break
            line = max(text.rfind("\n", body, opening) + 1, body)
        elif _LEAD.match(text, above, line):
            line = above
        else:
            break
    return line
