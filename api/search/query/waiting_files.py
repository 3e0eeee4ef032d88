"""Searches the lines of files whose words no run has indexed yet, and joins them to what the index finds."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count, islice

from api.search.grep.fallback import waiting_lines
from api.search.query.index_search import Findings, IndexSearch, SearchReport, note
from api.search.text.visibility import are_counted
from schemas.errors import ProjectBusy, ServerBusy
from schemas.queries.search import Hit
from schemas.wording import amount, noun
from worker.state.index import counting
from worker.state.search import file_texts, found_chunks

#: Seconds that lines are searched if the index can find something. If it cannot, SEARCH_SECONDS.
LINES_SECONDS = 2.0
#: The smallest and the largest share of an answer that lines have beside hits of the index.
LEAST_LINES, MOST_LINES = 0.1, 0.5


@dataclass(frozen=True, slots=True)
class WaitingLines:
    """Lines of files that wait, best first, and the share of the files that these are."""

    hits: Sequence[Hit] = ()
    share: float = 0.0
    report: SearchReport = field(default_factory=SearchReport)


def search_waiting_files(search: IndexSearch) -> WaitingLines:
    """Search files whose words are not indexed yet, if any waits. Raises `ProjectBusy` and `ServerBusy`.

    Call it before the index is searched: a file that is indexed meanwhile is found by both or by one, never by none.
    """
    pool, index = search.resources.pool, search.index
    if not search.is_changing or not file_texts.waiting(pool, index.id, search.only).have_lines:
        return WaitingLines()
    indexed, total, *_ = counting.counts(pool, index.id)
    is_counted = are_counted(pool, index)
    said = (
        f"{indexed} of {amount(total, 'file')} {noun(total, 'is', 'are')} indexed so far"
        if is_counted
        else "Not all files are indexed yet"
    )
    has_words = found_chunks.any_live(pool, index.id, search.only)
    found = _found(search, has_words=has_words) if search.request.mode != "vector" or not has_words else None
    if found is None:
        return WaitingLines(report=note("not_indexed_yet", f"{said}; the others are found once they are indexed."))
    detail = f"{said}; of the others, lines with words of the query were searched."
    share = (total - indexed) / total if total and is_counted else 1.0
    return replace(found, share=share, report=note("not_indexed_yet", detail) + found.report)


def _found(search: IndexSearch, *, has_words: bool) -> WaitingLines | None:
    """The lines; None if the filters ask for more than lines of files have, or others use all room to read."""
    started, resources = time.perf_counter(), search.resources
    seconds = LINES_SECONDS if has_words else resources.settings.search_seconds
    try:
        found = waiting_lines(resources, search.index, search.request, seconds, search.disconnect.event)
    except (ProjectBusy, ServerBusy):
        if has_words:
            return None
        raise
    if found is None:
        return None
    hits, notes = found
    return WaitingLines(hits, report=SearchReport(notes=tuple(notes)) + search.step("grep", started, len(hits)))


def with_waiting_lines(search: IndexSearch, findings: Findings, waiting: WaitingLines) -> Findings:
    """Join lines to the hits of the index. They take turns, by the share of the files that wait."""
    report = findings.report + waiting.report
    indexed = {hit.file_id for hit in findings.hits}
    lines = [line for line in waiting.hits if line.file_id not in indexed]
    if not lines:
        return replace(findings, report=report)
    every = round(1 / min(MOST_LINES, max(LEAST_LINES, waiting.share)))
    hits = islice(_in_turns(lines, findings.hits, every), search.request.top_k)
    return replace(findings, hits=list(hits), report=report)


def _in_turns(lines: Sequence[Hit], hits: Sequence[Hit], every: int) -> Iterator[Hit]:
    """Lines and hits, each best first. A line with all words of the query is first, another second; then `every` one.

    A line's score is at least that of the next hit, so that scores fall with the ranks.
    """
    first = 0 if lines[0].score >= 1 else 1
    waiting, found, last = deque(lines), deque(hits), 1.0
    for place in count():
        if waiting and (not found or (place >= first and (place - first) % every == 0)):
            line, floor = waiting.popleft(), found[0].score if found else 0.0
            last = min(last, max(line.score, floor))
            yield line.model_copy(update={"score": last})
        elif found:
            last = found[0].score
            yield found.popleft()
        else:
            return
