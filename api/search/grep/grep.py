"""Searches the text of an index's files for a pattern, line by line, including files not indexed yet."""

from __future__ import annotations

from threading import Event

from api.search.grep.fallback import fallback
from api.search.grep.lines import Line, lines_after, lines_before, shown
from api.search.grep.scope import Folder, Text, TimeOver, opened
from api.search.grep.texts import all_texts
from schemas.errors import FilterMatchesNothing, SourceError
from schemas.grep import Grep, GrepAnswer, GrepHit
from schemas.search import Coverage, Note
from worker.resources import Resources
from worker.state.index import tasks
from worker.state.index.tools import Index

__all__ = ["fallback", "grep"]


def grep(resources: Resources, index: Index, asked: Grep, *, left: Event | None = None) -> GrepAnswer:
    """Find the matching lines of an index's files, by path and line. `left` is set when the caller disconnects.

    Takes little more than GREP_SECONDS, and returns what was found by then. Raises `Invalid` for an invalid pattern,
    path or glob, and `FilterMatchesNothing` for a path without files.
    """
    folder = opened(resources, index, asked, left)
    hits: list[GrepHit] = []
    try:
        is_whole = _look_through(folder, asked, hits)
        if folder.place.path is not None and not folder.place.files:
            raise FilterMatchesNothing(f"No file lies at path={folder.place.path!r}; list the tool's files.")
    except TimeOver:
        is_whole = False
        folder.notes.append(Note(code="time_over", detail="The time was over before all files were looked through."))
    except SourceError as error:
        is_whole = False
        folder.notes.append(Note(code=error.code, detail=error.message))
    hits.sort(key=lambda hit: (hit.file_path, hit.file_id_path, hit.line))
    indexed, total = tasks.counts(resources.pool, index.id)
    return GrepAnswer(
        hits=hits,
        truncated=not is_whole,
        coverage=Coverage(indexed_files=indexed, total_files=total),
        notes=[*folder.notes, *_unread(folder), *_cut(folder)],
    )


def _look_through(folder: Folder, asked: Grep, hits: list[GrepHit]) -> bool:
    """Add matches to `hits`, up to the limits. Returns whether that is all there are."""
    is_whole = True
    for text in all_texts(folder):
        for count, line in enumerate(text.lines(folder.pattern, folder.check)):
            if len(hits) == asked.head_limit:
                return False
            if count == asked.max_per_file:
                is_whole = False
                break
            hits.append(_hit(text, line, asked))
        if folder.pattern.is_cut(text.data):
            folder.cut.append(text.file_id)
            is_whole = is_whole and asked.multiline
    return is_whole


def _hit(text: Text, line: Line, asked: Grep) -> GrepHit:
    preview, column = shown(text.data[line.start : line.end], line.at)
    floor = 0 if text.narrowed is None else text.narrowed.start
    return GrepHit(
        file_id_path=text.id_path,
        file_path=text.path,
        line=line.number,
        column=column,
        preview=preview,
        before=lines_before(text.data, line.start, asked.before, floor),
        after=lines_after(text.data, line.stop, asked.after),
        end_line=line.last if line.last > line.number else None,
    )


def _unread(folder: Folder) -> list[Note]:
    if not folder.unread:
        return []
    count = len(folder.unread)
    return [Note(code="not_indexed", detail=f"Files that can only be read once they are indexed: {count}.")]


def _cut(folder: Folder) -> list[Note]:
    if not folder.cut:
        return []
    count, reach = len(folder.cut), folder.pattern.reach
    if folder.pattern.is_multiline:
        said = f"Files that were looked through in parts, where a match above {reach // 2} bytes may be missed or cut"
        return [Note(code="long_text", detail=f"{said}: {count}.")]
    said = f"Files with lines above {reach} bytes, of which only the beginning was looked through"
    return [Note(code="long_lines", detail=f"{said}: {count}.")]
