"""Finds hits by a query's words alone, in files or a folder that no index can find."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from threading import Event
from uuid import uuid5

import re2

from api.http.sight import SeenIndex
from api.search.grep.lines import MatchedLine
from api.search.grep.pattern import Pattern
from api.search.grep.scope import Reading, SearchableText, TextSearch, TimeOver, UnreadFile, text_search
from api.search.grep.texts import all_texts, waiting_texts
from schemas.content.document import text_hash
from schemas.errors import Invalid, SourceError
from schemas.queries.grep import Grep
from schemas.queries.search import Filters, Hit, Note, SearchRequest
from schemas.queries.times import Times
from worker.resources import Resources

#: Maximum words of a query that are searched for.
MAX_WORDS = 32
#: Maximum characters of a word. Longer words are cut.
MAX_WORD_CHARACTERS = 100
#: Maximum matching lines of a file that are scored.
MAX_LINES = 1_000
#: Lines shown before and after a hit.
_CONTEXT_LINES = 3
#: Maximum bytes shown before and after the match.
_MAX_CONTEXT_BYTES = 1_000
#: Characters of the shortest word that is searched for if there are such words.
_MIN_WORD_CHARACTERS = 3

_WORD = re.compile(r"\w+")
#: Filters that select files before anything is known of their contents.
_FILTERS_OF_FILES = ("path", "types", *Times.model_fields)

#: Distinct query words in the line, then in its file, and the hit.
_ScoredHit = tuple[int, int, Hit]


@dataclass(frozen=True, slots=True)
class BestLines:
    """Hits, best first, the notes of the reading, and the paths of files without text."""

    hits: Sequence[Hit] = ()
    notes: Sequence[Note] = ()
    unread: Sequence[str] = ()


def fallback(
    resources: Resources, index: SeenIndex, text: str, top_k: int, *, disconnected: Event | None = None
) -> tuple[Sequence[Hit], Sequence[Note]]:
    """Find the best line of each file that has any of a query's words, with context; most words first.

    Takes little more than SEARCH_SECONDS. If the folder cannot be read to its end, returns partial results and a note.
    """
    words = words_of(text)
    if not words:
        return [], []
    search = text_search(resources, index, any_of(words), disconnected)
    return _best(search, all_texts(search), words, top_k)


def waiting_lines(
    resources: Resources, index: SeenIndex, request: SearchRequest, seconds: float, disconnected: Event | None
) -> tuple[Sequence[Hit], Sequence[Note]] | None:
    """As `fallback`, in files whose words no run has indexed yet, within about `seconds`.

    None if the filters ask for more than paths, types and times. Raises `ProjectBusy` and `ServerBusy`.
    """
    filters, words = request.filters, words_of(" ".join(request.texts))
    asked = dict.fromkeys(_FILTERS_OF_FILES) | {"level": filters.level or None}
    if filters.model_copy(update=asked) != Filters():
        return None
    times = {name: getattr(filters, name) for name in Times.model_fields}
    grep = any_of(words).model_copy(update={"glob": filters.path, "types": filters.types, **times}) if words else None
    try:
        search = grep and text_search(resources, index, grep, disconnected, seconds)
    except Invalid:
        # no file has such a type or path
        return [], []
    return _best(search, waiting_texts(search), words, request.top_k) if search else ([], [])


def _best(
    search: TextSearch, texts: Iterable[Reading], words: Sequence[str], top_k: int
) -> tuple[Sequence[Hit], Sequence[Note]]:
    best = best_lines(until_source_fails(texts), words, search.pattern, search.check, top_k)
    return best.hits, best.notes


def until_source_fails(readings: Iterable[Reading]) -> Iterator[Reading]:
    """Yield what is read until the source fails, and a note then: partial results are better than none."""
    try:
        yield from readings
    except SourceError as error:
        yield Note(code=error.code, detail=error.message)


def words_of(text: str) -> list[str]:
    """The query's words to search for, in lower case."""
    words = list(dict.fromkeys(word[:MAX_WORD_CHARACTERS] for word in _WORD.findall(text.lower())))
    return ([word for word in words if len(word) >= _MIN_WORD_CHARACTERS] or words)[:MAX_WORDS]


def any_of(words: Sequence[str]) -> Grep:
    """The grep request for lines with any of the words."""
    return Grep(pattern="|".join(map(re2.escape, words)), regex=True)


def best_lines(
    readings: Iterable[Reading], words: Sequence[str], pattern: Pattern, check: Callable[[], None], top_k: int
) -> BestLines:
    """As `fallback`, for what these readings yield. `pattern` matches any of the words; `check` may end the search."""
    best: list[_ScoredHit] = []
    notes: list[Note] = []
    unread: list[str] = []
    try:
        for reading in readings:
            if isinstance(reading, Note):
                notes.append(reading)
            elif isinstance(reading, UnreadFile):
                unread.append(reading.path)
            else:
                best += _best_line(reading, words, pattern, check)
                best = best if len(best) <= 2 * top_k else _first(best, top_k)
    except TimeOver:
        # partial results are better than none
        pass
    return BestLines([hit for _, _, hit in _first(best, top_k)], notes, unread)


def _first(hits: Sequence[_ScoredHit], count: int) -> list[_ScoredHit]:
    def order(scored: _ScoredHit) -> tuple[int, int, str, str]:
        words_in_line, words_in_file, hit = scored
        return -words_in_line, -words_in_file, hit.file_path, hit.file_id_path

    return sorted(hits, key=order)[:count]


def _best_line(
    text: SearchableText, words: Sequence[str], pattern: Pattern, check: Callable[[], None]
) -> list[_ScoredHit]:
    """The line of a text with the most words, as a list of at most one."""
    best: tuple[int, MatchedLine] | None = None
    words_in_file: set[str] = set()
    for line in islice(text.lines(pattern, check), MAX_LINES):
        lowered = "\n".join(text.forms(line)).lower()
        words_in_line = {word for word in words if word in lowered}
        words_in_file |= words_in_line
        if best is None or len(words_in_line) > best[0]:
            best = len(words_in_line), line
    if best is None:
        return []
    count, line = best
    return [(count, len(words_in_file), hit_of(text, *_with_context(text, line), line.number, count / len(words)))]


def hit_of(text: SearchableText, start: int, end: int, number: int, score: float) -> Hit:
    """A hit for the bytes `start` to `end` of a text. `number` distinguishes it from other hits of the text."""
    shown = text.data[start:end].decode(errors="ignore")
    first_char = len(text.data[:start].decode(errors="ignore"))
    first_line = text.data.count(b"\n", 0, start) + 1
    return Hit(
        chunk_id=uuid5(text.file_id, str(number)),
        chunk_text=shown,
        score=round(score, 6),
        distance=None,
        file_node_id=text.file_node_id,
        file_id=text.file_id,
        file_id_path=text.id_path,
        file_path=text.path,
        file_name=text.path.rsplit("/", 1)[-1],
        file_type=None,
        title=None,
        json_pointer=None,
        chunk_index=0,
        total_chunks=0,
        content_hash=text_hash(shown),
        start_line=first_line,
        end_line=first_line + shown.rstrip("\n").count("\n"),
        start_char=first_char,
        end_char=first_char + len(shown),
        language=None,
        symbol=None,
        node_type=None,
        scope=None,
        level=0,
        embedded=False,
        stale=False,
    )


def _with_context(text: SearchableText, line: MatchedLine) -> tuple[int, int]:
    """The byte range of a line with its context; cut near the match if very long, and to the tool's narrowed part."""
    data, part = text.data, text.narrowed or range(len(text.data))
    start, end = line.start, line.end
    for _ in range(_CONTEXT_LINES):
        start = data.rfind(b"\n", 0, max(0, start - 1)) + 1
        following = data.find(b"\n", end + 1)
        end = following if following >= 0 else len(data)
    match_start = line.start + line.match_start
    first, last = match_start - _MAX_CONTEXT_BYTES, match_start + _MAX_CONTEXT_BYTES
    return max(start, first, part.start), min(end, last, part.stop)
