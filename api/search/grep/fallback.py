"""Finds hits by a query's words alone, while a folder has no index to search."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from threading import Event
from uuid import uuid5

import re2

from api.search.grep.lines import Line
from api.search.grep.pattern import Pattern
from api.search.grep.scope import Text, TimeOver, opened
from api.search.grep.texts import all_texts
from schemas.document import text_hash
from schemas.errors import SourceError
from schemas.grep import Grep
from schemas.search import Hit, Note
from worker.resources import Resources
from worker.state.index.tools import Index

#: Maximum words of a query, characters of a word, and matching lines of a file that are scored.
MAX_WORDS, MAX_WORD, MAX_LINES = 32, 100, 1_000
#: Lines shown before and after a hit, and maximum bytes before and after the match.
_AROUND, _MOST_AROUND = 3, 1_000
#: Shorter words are ignored if there are longer ones.
_SHORT = 3

_WORD = re.compile(r"\w+")

#: Distinct query words in the line, then in its file, and the hit.
_Weighed = tuple[int, int, Hit]


def fallback(
    resources: Resources, index: Index, text: str, top_k: int, *, left: Event | None = None
) -> tuple[list[Hit], list[Note]]:
    """Find the best line of each file that has any of a query's words, with context; most words first.

    Takes little more than GREP_SECONDS. If the folder cannot be read to its end, returns partial results and a note.
    """
    words = words_of(text)
    if not words:
        return [], []
    folder = opened(resources, index, any_of(words), left)
    texts = as_far_as_there(all_texts(folder), folder.notes)
    return best_lines(texts, words, folder.pattern, folder.check, top_k), folder.notes


def as_far_as_there(texts: Iterable[Text], notes: list[Note]) -> Iterator[Text]:
    """Yield texts until their source fails, and add a note then: partial results are better than none."""
    try:
        yield from texts
    except SourceError as error:
        notes.append(Note(code=error.code, detail=error.message))


def words_of(text: str) -> list[str]:
    """The query's words to search for, in lower case."""
    found = list(dict.fromkeys(word[:MAX_WORD] for word in _WORD.findall(text.lower())))
    return ([word for word in found if len(word) >= _SHORT] or found)[:MAX_WORDS]


def any_of(words: Sequence[str]) -> Grep:
    """The grep request for lines with any of the words."""
    return Grep(pattern="|".join(map(re2.escape, words)), regex=True)


def best_lines(
    texts: Iterable[Text], words: Sequence[str], pattern: Pattern, check: Callable[[], None], top_k: int
) -> list[Hit]:
    """As `fallback`, for these texts. `pattern` matches any of the words, and `check` may end the search."""
    best: list[_Weighed] = []
    try:
        for text in texts:
            best += _weighed(text, words, pattern, check)
            if len(best) > 2 * top_k:
                best = _first(best, top_k)
    except TimeOver:
        # partial results are better than none
        pass
    return [hit for _, _, hit in _first(best, top_k)]


def _first(found: Sequence[_Weighed], count: int) -> list[_Weighed]:
    return sorted(found, key=lambda one: (-one[0], -one[1], one[2].file_path, one[2].file_id_path))[:count]


def _weighed(text: Text, words: Sequence[str], pattern: Pattern, check: Callable[[], None]) -> list[_Weighed]:
    """The line of a text with the most words, as a list of at most one."""
    best: tuple[int, Line] | None = None
    in_file: set[str] = set()
    for line in islice(text.lines(pattern, check), MAX_LINES):
        lowered = text.data[line.start : line.end].decode(errors="replace").lower()
        present = {word for word in words if word in lowered}
        in_file |= present
        if best is None or len(present) > best[0]:
            best = len(present), line
    if best is None:
        return []
    count, line = best
    return [(count, len(in_file), hit_of(text, *_around(text, line), line.number, count / len(words)))]


def hit_of(text: Text, start: int, end: int, number: int, score: float) -> Hit:
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


def _around(text: Text, line: Line) -> tuple[int, int]:
    """The byte range of a line with its context; cut near the match if very long, and to the tool's narrowed part."""
    data, span = text.data, text.narrowed or range(len(text.data))
    start, end = line.start, line.end
    for _ in range(_AROUND):
        start = data.rfind(b"\n", 0, max(0, start - 1)) + 1
        following = data.find(b"\n", end + 1)
        end = following if following >= 0 else len(data)
    near = line.start + line.at
    return max(start, near - _MOST_AROUND, span.start), min(end, near + _MOST_AROUND, span.stop)
