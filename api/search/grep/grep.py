"""Searches the text of an index's files for a pattern, line by line, including files not indexed yet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import Event
from uuid import UUID

from api.http.sight import SeenIndex
from api.search.grep.fallback import fallback
from api.search.grep.lines import MatchedLine, lines_after, lines_before, shown, spans_shown
from api.search.grep.pattern import Pattern
from api.search.grep.scope import SearchableText, TextSearch, TimeOver, UnreadFile, text_search
from api.search.grep.texts import all_texts
from api.search.text.visibility import are_counted
from schemas.errors import FilterMatchesNothing, SourceError
from schemas.queries.grep import MAX_CONTEXT, Grep, GrepAnswer, GrepHit
from schemas.queries.search import Coverage, Note
from worker.resources import Resources
from worker.state.index import counting

__all__ = ["fallback", "grep"]


@dataclass(slots=True)
class _FoundMatches:
    """The matches found so far. `unread` counts files without text, `cut` those that were searched in part."""

    hits: list[GrepHit] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    unread: int = 0
    cut: int = 0
    is_complete: bool = True


def grep(
    resources: Resources,
    index: SeenIndex,
    request: Grep,
    *,
    disconnected: Event | None = None,
    only: frozenset[UUID] | None = None,
) -> GrepAnswer:
    """Find the matching lines of an index's files, by path and line. `disconnected` is set when the caller is gone.

    Files outside `only` are not searched; None: all are.
    Takes little more than SEARCH_SECONDS, and returns what was found by then. Raises `Invalid` for an invalid pattern,
    path or glob, and `FilterMatchesNothing` for a path without files.
    """
    search = text_search(resources, index, request, disconnected, only=only)
    matches = _all_matches(search, request)
    counts = counting.counts(resources.pool, index.id)
    is_counted = are_counted(resources.pool, index)
    return GrepAnswer(
        hits=sorted(matches.hits, key=lambda hit: (hit.file_path, hit.file_id_path, hit.line)),
        truncated=not matches.is_complete,
        coverage=Coverage(
            indexed_files=counts.found_files if is_counted else None,
            total_files=counts.total_files if is_counted else None,
        ),
        notes=[*matches.notes, *_unread_notes(matches.unread), *_cut_notes(matches.cut, search.pattern)],
    )


def _all_matches(search: TextSearch, request: Grep) -> _FoundMatches:
    """The matches up to the limits. If the time is over or the source fails, those until then, with a note."""
    matches = _FoundMatches()
    try:
        _collect(matches, search, request)
        _check_path(search)
    except TimeOver:
        matches.is_complete = False
        matches.notes.append(
            Note(code="time_over", detail="The time limit was reached before all files were searched.")
        )
    except SourceError as error:
        matches.is_complete = False
        matches.notes.append(Note(code=error.code, detail=error.message))
    return matches


def _collect(matches: _FoundMatches, search: TextSearch, request: Grep) -> None:
    for reading in all_texts(search):
        if isinstance(reading, Note):
            matches.notes.append(reading)
        elif isinstance(reading, UnreadFile):
            matches.unread += 1
        elif not _add_lines(matches, reading, search, request):
            return


def _add_lines(matches: _FoundMatches, text: SearchableText, search: TextSearch, request: Grep) -> bool:
    """Add the matching lines of a text. Returns whether `head_limit` allows more."""
    for count, line in enumerate(text.lines(search.pattern, search.check)):
        if len(matches.hits) == request.head_limit:
            matches.is_complete = False
            return False
        if count == request.max_per_file:
            matches.is_complete = False
            break
        matches.hits.append(_hit(text, line, request, search))
    if search.pattern.is_cut(text.data):
        matches.cut += 1
        matches.is_complete = matches.is_complete and request.multiline
    return True


def _check_path(search: TextSearch) -> None:
    if search.files.path is not None and not search.files.files_at_path:
        raise FilterMatchesNothing(f"There is no file at path={search.files.path!r}; list the tool's files.")


def _hit(text: SearchableText, line: MatchedLine, request: Grep, search: TextSearch) -> GrepHit:
    preview, column = shown(text.data[line.start : line.end], line.match_start)
    floor = 0 if text.narrowed is None else text.narrowed.start
    further = line.last_number - line.number
    return GrepHit(
        file_id_path=text.id_path,
        file_path=text.path,
        line=line.number,
        column=column,
        preview=preview,
        before=lines_before(text.data, line.start, request.before, floor),
        after=lines_after(text.data, line.stop, request.after),
        end_line=line.last_number if further else None,
        rest=lines_after(text.data, line.end, min(further, MAX_CONTEXT)) if further else None,
        spans=spans_shown(text.data, line, search.pattern, search.check) if request.spans else None,
    )


def _unread_notes(count: int) -> Sequence[Note]:
    if not count:
        return ()
    return [Note(code="not_indexed", detail=f"Files that can be read only once they are indexed: {count}.")]


def _cut_notes(count: int, pattern: Pattern) -> Sequence[Note]:
    if not count:
        return ()
    if pattern.is_multiline:
        bound = pattern.reach // 2
        what = f"Files that were searched in segments, where a match longer than {bound} bytes may be missed or cut"
        return [Note(code="long_text", detail=f"{what}: {count}.")]
    what = f"Files with lines longer than {pattern.reach} bytes, of which only the beginning was searched"
    return [Note(code="long_lines", detail=f"{what}: {count}.")]
