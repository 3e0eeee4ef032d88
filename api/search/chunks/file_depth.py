"""Lets a search that groups hits by file find enough files, also behind a file that fills the legs' first rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from uuid import UUID

from api.search.chunks.legs import LegResults, Ranking
from api.search.query.index_search import MAX_DEPTH, IndexSearch
from worker.state.index import counting
from worker.state.search import found_chunks

#: Factor by which legs grow if their rows are of too few files.
GROWTH = 4

#: The live chunks among ids, with their files.
Files = Mapping[str, UUID]


def legs_over_files(search: IndexSearch, run_legs: Callable[[IndexSearch], LegResults]) -> tuple[LegResults, Files]:
    """Run the legs, and again with more rows while they name fewer than `top_k` of the files that they may reach."""
    legs = run_legs(search)
    files = _files(search, legs.rankings)
    wanted = search.request.top_k
    if len(set(files.values())) < wanted:
        wanted = min(wanted, _reachable_files(search))
    while len(set(files.values())) < wanted and search.depth < MAX_DEPTH and _is_full(legs.rankings, search.depth):
        search.disconnect.check()
        search = replace(search, depth=min(MAX_DEPTH, GROWTH * search.depth))
        deeper = run_legs(search)
        legs = replace(deeper, report=legs.report + deeper.report)
        files = _files(search, legs.rankings)
    return legs, files


def best_of_each_file(ids: Iterable[str], files: Files, count: int) -> list[str]:
    """The first id of each of the first `count` files."""
    best: dict[UUID, str] = {}
    for id_ in ids:
        if id_ in files:
            best.setdefault(files[id_], id_)
            if len(best) == count:
                break
    return list(best.values())


def _files(search: IndexSearch, rankings: Sequence[Ranking]) -> Files:
    ids = {id_ for ranking in rankings for id_ in ranking.ids}
    return found_chunks.file_ids(search.resources.pool, search.index.id, ids)


def _is_full(rankings: Sequence[Ranking], depth: int) -> bool:
    """Whether a leg may hold more rows than it returned."""
    return any(len(ranking.results) >= depth for ranking in rankings)


def _reachable_files(search: IndexSearch) -> int:
    """An upper bound of the number of files that pass the filters."""
    selection = search.filters.files
    if selection is not None and selection.ids is not None:
        return len(selection.ids)
    indexed, *_ = counting.counts(search.resources.pool, search.index.id, include_lost=True)
    return indexed
