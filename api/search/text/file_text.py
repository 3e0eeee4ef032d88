"""Rebuilds the text of a file, or part of it, from its chunks."""

from __future__ import annotations

from collections.abc import Sequence

from schemas.errors import Invalid, NotFound
from schemas.tool import FileText
from schemas.wording import amount
from worker.sandbox.pool import ProjectHelpers
from worker.sandbox.texts import value_span
from worker.state.index.file_lookup import LiveFile
from worker.state.pool import Pool
from worker.state.search import snippets
from worker.state.search.snippets import TextRow

#: Characters whose line feeds are counted at a time.
_BLOCK = 1 << 16


def file_text(
    pool: Pool,
    helpers: ProjectHelpers,
    file: LiveFile,
    start_line: int | None,
    end_line: int | None,
    pointer: str | None,
) -> FileText:
    """A file's extracted text by lines (from 1, inclusive) or JSON pointer.

    Raises `NotFound` if it has no such part, and `Invalid` for reversed lines, or for lines and a pointer together.
    Raises `SourceBusy` if no helper is free to search for a pointer.
    """
    if pointer is None:
        return _by_lines(pool, file, start_line or 1, end_line)
    if start_line is not None or end_line is not None:
        raise Invalid("Send either line numbers or a pointer, not both.")
    return _by_pointer(pool, helpers, file, pointer)


def joined(rows: Sequence[TextRow]) -> str:
    """Join the text of successive chunks, ordered by start, with the text around them. Overlaps are taken once."""
    parts: list[str] = []
    end = _start(rows)
    for row in rows:
        parts.append(row.lead)
        end += len(row.lead)
        if row.end_char > end:
            parts.append(row.chunk_text[end - row.start_char :])
            end = row.end_char
    return "".join([*parts, rows[-1].trail])


def first_line_of(rows: Sequence[TextRow]) -> int:
    """The line, from 1, at which the joined text of these chunks begins."""
    return rows[0].start_line - rows[0].lead.count("\n")


def _by_lines(pool: Pool, file: LiveFile, first: int, last: int | None) -> FileText:
    if last is not None and last < first:
        raise Invalid("end_line is before start_line; swap them.")
    rows = snippets.lines(pool, file.id, first, last)
    if not rows:
        count = snippets.count_lines(pool, file.id)
        raise (
            NotFound(f"{file.path} has {amount(count, 'line')}; request lines up to that number.")
            if count
            else _without_text(file)
        )
    text, line = joined(rows), first_line_of(rows)
    start, end = lines_span(text, first - line, None if last is None else last - line)
    return _file_text(file, text[start:end], first, _start(rows) + start)


def _by_pointer(pool: Pool, helpers: ProjectHelpers, file: LiveFile, pointer: str) -> FileText:
    rows = snippets.text(pool, file.id)
    if not rows:
        raise _without_text(file)
    if rows[0].json_pointer is None:
        raise NotFound(f"{file.path} is not JSON, so it has no pointers; request lines.")
    text = joined(rows)
    start, end = value_span(helpers, text.encode(), pointer)
    return _file_text(file, text[start:end], text.count("\n", 0, start) + 1, start)


def lines_span(text: str, first: int, last: int | None) -> tuple[int, int]:
    """Start and end, in characters, of lines of a text (from 0, inclusive). Missing lines are empty."""
    start = _line_start(text, first)
    return start, len(text) if last is None else min(len(text), _line_start(text, last + 1))


def _line_start(text: str, number: int) -> int:
    """The place where a line begins; of missing ones, that behind the last line and a line feed."""
    place = 0
    # a text may have millions of lines
    while (inside := text.count("\n", place, place + _BLOCK)) < number and place + _BLOCK < len(text):
        number, place = number - inside, place + _BLOCK
    for _ in range(number):
        found = text.find("\n", place)
        if found < 0:
            return len(text.removesuffix("\n")) + 1
        place = found + 1
    return place


def _start(rows: Sequence[TextRow]) -> int:
    """The character offset at which the joined text of these chunks begins, including the first one's lead."""
    return rows[0].start_char - len(rows[0].lead)


def _file_text(file: LiveFile, text: str, first_line: int, start: int) -> FileText:
    return FileText(
        file_id=file.id,
        file_path=file.path,
        text=text,
        start_line=first_line,
        end_line=first_line + text.removesuffix("\n").count("\n"),
        start_char=start,
        end_char=start + len(text),
    )


def _without_text(file: LiveFile) -> NotFound:
    return NotFound(f"{file.path} has no indexed text; its status and reason say why.")
