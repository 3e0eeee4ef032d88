"""Returns whole files that are not embedded: vectors cannot find them, so the caller reads them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import NamedTuple
from uuid import UUID

from api.search.chunks.legs import Ranking
from api.search.query.index_search import IndexSearch
from api.search.text.file_text import joined
from schemas.content.document import text_hash
from schemas.queries.search import UNEMBEDDED_CHARACTERS, Hit
from worker.state.search import found_chunks
from worker.state.search.found_chunks import HitRow
from worker.state.search.snippets import TextRow
from worker.vectors import RankedRow


class _AnswerRoom(NamedTuple):
    """Space left in the answer."""

    files: int
    characters: int


def whole_files(search: IndexSearch, rankings: Sequence[Ranking]) -> list[Hit]:
    """At most `top_k` whole files that pass the filters, with at most `UNEMBEDDED_CHARACTERS` in total.

    Files that a keyword leg found come first, best first, then the rest by path. Files that do not fit are skipped.
    """
    pool, index = search.resources.pool, search.index
    scores = _file_scores(search, rankings)
    chosen = _chosen_files(search, scores)
    order = {file_id: position for position, file_id in enumerate(chosen)}
    pointer = index.source.narrowed_to or ""
    rows_by_file = groupby(found_chunks.whole(pool, list(order)), key=lambda found: found[0].file_id)
    hits = [_hit(list(found), pointer, scores.get(file_id, 0.0)) for file_id, found in rows_by_file]
    return sorted(hits, key=lambda hit: order[hit.file_id])


def _file_scores(search: IndexSearch, rankings: Sequence[Ranking]) -> dict[UUID, float]:
    by_language = [ranking.results for ranking in rankings if ranking.kind == "text"]
    ids = [result.id for results in by_language for result in results]
    return best_scores(found_chunks.hits(search.resources.pool, search.index.id, ids), by_language)


def best_scores(rows: Mapping[str, HitRow], rankings: Sequence[Sequence[RankedRow]]) -> dict[UUID, float]:
    """The best keyword score, 0 to 1, of each unembedded file in the rankings.

    Values of different rankings are not comparable, so each is divided by the best of its own ranking.
    """
    scores: dict[UUID, float] = {}
    for results in rankings:
        best = results[0].value if results else 0.0
        for result in results:
            row = rows.get(result.id)
            if row is not None and not row.embedded:
                score = result.value / best if best > 0 else 0.0
                scores[row.file_id] = max(score, scores.get(row.file_id, 0.0))
    return scores


def _chosen_files(search: IndexSearch, scores: Mapping[UUID, float]) -> list[UUID]:
    pool, scored_ids = search.resources.pool, list(scores)
    budget = _AnswerRoom(search.request.top_k, UNEMBEDDED_CHARACTERS)
    values = {**search.filters.values, "index_id": search.index.id, "characters": budget.characters}
    scored = found_chunks.find_unembedded(pool, {**values, "only": scored_ids, "without": [], "limit": len(scores)})
    scored.sort(key=lambda file: -scores[file[0]])
    chosen, budget = _fitting(scored, budget)
    values |= {"characters": budget.characters, "only": None, "without": scored_ids, "limit": budget.files}
    others, _ = _fitting(found_chunks.find_unembedded(pool, values), budget)
    return [*chosen, *others]


def _fitting(files: Sequence[tuple[UUID, int]], budget: _AnswerRoom) -> tuple[list[UUID], _AnswerRoom]:
    """The first files, given with their characters, that fit into the budget, and what remains of it."""
    chosen: list[UUID] = []
    for file_id, characters in files:
        if budget.files > 0 and characters <= budget.characters:
            chosen.append(file_id)
            budget = _AnswerRoom(budget.files - 1, budget.characters - characters)
    return chosen, budget


def _hit(found: Sequence[tuple[HitRow, TextRow]], pointer: str, score: float) -> Hit:
    """A hit with the whole file, or the part the tool is narrowed to. Fields of chunks, such as `symbol`, are null."""
    first, text = found[0][0], joined([row for _, row in found])
    start = first.start_char if pointer else 0
    end = max(row.end_char for row, _ in found) if pointer else len(text)
    shown = text[start:end]
    line = text.count("\n", 0, start) + 1
    row = first._replace(
        chunk_text=shown,
        content_hash=text_hash(shown),
        json_pointer=None if first.json_pointer is None else pointer,
        start_char=start,
        end_char=end,
        start_line=line,
        end_line=line + shown.rstrip("\n").count("\n"),
        symbol=None,
        node_type=None,
        scope=None,
        page=None,
    )
    name = first.file_path.rsplit("/", 1)[-1]
    return Hit(**row._asdict(), file_name=name, score=round(score, 6), distance=None, whole=True)
