"""Finds Markdown's headings with a line scan, which is much faster than a full parse and yields positions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

from schemas.content.document import Document, DocumentProperties
from schemas.content.stated import front_matter
from worker.parse.data.csv import is_data
from worker.parse.encodings import decode
from worker.parse.limits import Limits
from worker.parse.properties import MAX_TITLE_CHARS, properties_of
from worker.parse.text.runs import end_of_run

#: Fences, ATX headings (`# …`) and setext underlines (`===`, `---`), with the line break above, which is fast to find.
_MARKS = re.compile(
    r"\n(?=[ #`~=-]) {0,3}(?:(?P<fence>`{3,}(?=[^`\n]*$)|~{3,})(?P<info>[^\n]*)"
    r"|(?P<level>\#{1,6})(?:[ \t]+(?P<title>[^\n]*))?\r?$"
    r"|(?P<line>=+|-+)[ \t]*\r?$)",
    re.MULTILINE,
)
#: YAML between lines of dashes, or TOML between lines of plus signs.
_FRONT_MATTER = re.compile(
    r"\A(?:---[ \t]*\r?\n(?![ \t]*\r?\n)(?:[^\n]*\n)*?(?:---|\.\.\.)|\+\+\+[ \t]*\r?\n(?:[^\n]*\n)*?\+\+\+)"
    r"[ \t]*\r?(?:\n|\Z)"
)
#: Maximum characters in front matter.
_MAX_FRONT_MATTER_CHARS = 65_536
#: Properties by their names in front matter.
_PROPERTIES = {
    **{name: name for name in ("title", "author", "description", "keywords")},
    "authors": "author",
    "summary": "description",
    "tags": "keywords",
    "date": "created",
    "lastmod": "modified",
    "updated": "modified",
}
_PROPERTY = re.compile(rf"^({'|'.join(_PROPERTIES)})[ \t]*[:=][ \t]*(\S[^\r\n]{{0,1000}})", re.MULTILINE)
#: The YAML indicator that text follows on the lines below.
_BLOCK = re.compile(r"[|>][-+\d]{0,2}")
_BACKTICKS = re.compile(r"^[ ]*(`{3,})", re.MULTILINE)
#: Marks of a fence, anywhere in a line.
_FENCE = re.compile(r"(?P<fence>[`~](?:(?<=`)``+(?=[^`\n]*$)|(?<=~)~~+))(?P<info>[^\n]*)", re.MULTILINE)
#: Maximum columns that a fence may be indented.
_MAX_FENCE_INDENT = 3
#: The row of dashes in a table, below the column names.
_DASHES = r"[ ]{0,3}(?=[^|\n]*\|)[|:-][-:| \t]*\r?(?:\n|\Z)"
#: Start of a table: the first of at least two rows with a leading pipe, or column names above a row of dashes.
_TABLE = re.compile(
    rf"^(?:(?P<piped>[ ]{{0,3}}\|[^\n]*\n)(?=[ ]{{0,3}}\|)|[^|\n]+\|[^\n]*\n{_DASHES})",
    re.MULTILINE,
)
_PIPED_ROWS = re.compile(r"(?:[ ]{0,3}\|[^\n]*(?:\n|\Z)){1,1000}")
_ROWS = re.compile(r"(?:[^|\n]*\|[^\n]*(?:\n|\Z)){1,1000}")
_COLUMNS = re.compile(rf"(?P<cells>[^|\n]*\|[^\n]*)\n{_DASHES}")
_PIPE = re.compile(r"(?<!\\)\|")
#: Maximum characters in the rows of names and dashes together. Longer ones are page layout.
_MAX_HEADER_CHARS = 8192
#: Maximum characters in a column name.
_MAX_NAME_CHARS = 80
#: Text that no setext heading starts with: a list, quote, table, heading, rule or indented code.
_NO_PARAGRAPH = re.compile(r"[ ]{4}|\t|\s*(?:[-*+>|#=<]|\d+[.)]\s|`{3}|~{3})")


class Heading(NamedTuple):
    """A heading, from `start` (the character offset of its line) to `end`."""

    start: int
    end: int
    level: int
    title: str


#: Builds a `Heading` from a tuple of all its fields, in half the time of its own constructor.
made_heading = partial(tuple.__new__, Heading)


def read(data: bytes, _limits: Limits) -> Document:
    """Return the document of a Markdown text. Its title is that of the front matter, else the first heading."""
    text = decode(data)
    properties = _properties(text)
    title = properties.title or first_title(headings(text))
    front = _FRONT_MATTER.match(text, 0, _MAX_FRONT_MATTER_CHARS)
    stated = front_matter(front[0]) if front else {}
    return Document(text, "markdown", None, title, markup="markdown", properties=properties, metadata=stated)


def title_of(text: str) -> str | None:
    """Return the one-line title in the front matter, else the first heading with text."""
    return _properties(text).title or first_title(headings(text))


def _properties(text: str) -> DocumentProperties:
    """Return the one-line properties in the front matter."""
    front = _FRONT_MATTER.match(text, 0, _MAX_FRONT_MATTER_CHARS)
    stated: dict[str, str] = {}
    for match in _PROPERTY.finditer(text, 0, front.end()) if front else ():
        value = match[2].strip().strip("[]\"'")
        if not _BLOCK.fullmatch(value):
            stated.setdefault(_PROPERTIES[match[1]], value)
    return properties_of(**stated)


def first_title(all_headings: Iterator[Heading]) -> str | None:
    """Return the first heading that has text."""
    first = next((heading.title for heading in all_headings if heading.title), None)
    return first and first[:MAX_TITLE_CHARS]


def fenced(code: str, language: str = "") -> str:
    """Return a code block whose fence is longer than any inside it."""
    longest = max(map(len, _BACKTICKS.findall(code)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{code}\n{fence}"


def headings(text: str) -> Iterator[Heading]:
    """ATX and setext headings in order, outside front matter and fenced code."""
    front = _FRONT_MATTER.match(text, 0, _MAX_FRONT_MATTER_CHARS)
    fence = ""
    # with a line break prepended, a match starts where its line starts in `text`, and ends one character later
    for mark in _MARKS.finditer(f"\n{text}", front.end() if front else 0):
        kind = mark.lastgroup
        if kind == "info":
            fence = _after_fence(fence, mark)
        elif not fence:
            heading = _setext(text, mark) if kind == "line" else _atx(mark)
            if heading:
                yield heading


def blocks(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Start and end of the front matter, the fenced code blocks and the tables in a section, in order."""
    front = _FRONT_MATTER.match(text, 0, _MAX_FRONT_MATTER_CHARS) if start == 0 else None
    if front:
        yield front.span()
    position = front.end() if front else start
    if text.find("|", position, end) < 0:
        yield from _fences(text, position, end)
        return
    for first, last in _fences(text, position, end):
        yield from _tables(text, position, first)
        yield first, last
        position = last
    yield from _tables(text, position, end)


def columns(text: str, start: int, end: int) -> str:
    """Return the column names, separated by commas; "" if the block is not a table, or its first row is data."""
    match = _COLUMNS.match(text, start, min(end, start + _MAX_HEADER_CHARS))
    cells = _PIPE.split(match["cells"]) if match else []
    names = [" ".join(cell.replace("\\|", "|").split()) for cell in cells if cell.strip()]
    return "" if is_data(names, _MAX_NAME_CHARS) or len(names) == 1 else ", ".join(names)


def _tables(text: str, position: int, end: int) -> Iterator[tuple[int, int]]:
    while match := _TABLE.search(text, position, end):
        position = end_of_run(_PIPED_ROWS if match["piped"] else _ROWS, text, match.end(), end)
        yield match.start(), position


def _fences(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    fence, begin = "", start
    for mark in _FENCE.finditer(text, start, end):
        line = text.rfind("\n", 0, mark.start()) + 1
        if text[line : mark.start()].strip(" ") or mark.start() - line > _MAX_FENCE_INDENT:
            continue
        before, fence = fence, _after_fence(fence, mark)
        if not before:
            begin = line
        elif not fence:
            yield begin, mark.end()
    if fence:
        yield begin, end


def _after_fence(fence: str, mark: re.Match[str]) -> str:
    """Return the fence that is open after this line; "" for none."""
    if not fence:
        return mark["fence"]
    closes = mark["fence"].startswith(fence) and not mark["info"].strip()
    return "" if closes else fence


def _atx(mark: re.Match[str]) -> Heading:
    level, title = mark.group("level", "title")
    title = title.strip() if title else ""
    start, end = mark.span()
    return made_heading((start, end - 1, len(level), _unclosed(title) if title.endswith("#") else title))


def _unclosed(title: str) -> str:
    """Return a heading's text without the number signs that may close it."""
    bare = title.rstrip("#")
    return title if bare and bare[-1] not in " \t" else bare.rstrip()


def _setext(text: str, mark: re.Match[str]) -> Heading | None:
    """Return the heading that this underline makes of the one-line paragraph above. Longer ones are rarely intended."""
    # the first line has none above
    above_end = max(mark.start() - 1, 0)
    above_start = text.rfind("\n", 0, above_end) + 1
    title = text[above_start:above_end].strip()
    before = text[text.rfind("\n", 0, max(above_start - 1, 0)) + 1 : above_start]
    if not title or before.strip() or _NO_PARAGRAPH.match(text, above_start):
        return None
    return made_heading((above_start, mark.end() - 1, 1 if mark["line"][0] == "=" else 2, title))
