"""From a query to its answer by the tree of summaries."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from uuid import UUID

from api.http.disconnect import Disconnect
from api.search.query.coverage import coverage
from api.search.query.filters import resolve_filters
from api.search.query.no_hits import not_indexed_yet
from api.search.query.query_vectors import embed_queries
from api.search.query.refresh import refresh
from api.search.query.report import Report, step
from api.search.query.search import unheard
from api.search.text.snippets import grouped, with_neighbours
from api.search.text.urls import with_urls
from api.search.tree.built import built_tree
from api.search.tree.forest import Forest, NearSummary
from api.search.tree.ways import Found, LeafHit, collapsed, traversal
from schemas.errors import FilterMatchesNothing, Invalid
from schemas.search import Query, Step
from schemas.tree_search import PREVIEW_CHARACTERS, SummaryHit, TreeAnswer, TreeHit
from worker.resources import Resources
from worker.state.index import chunks
from worker.state.index.tools import Index
from worker.state.tree import views
from worker.state.tree.trees import Tree


def search_tree(
    resources: Resources,
    tool_id: UUID,
    index: Index,
    query: Query,
    *,
    disconnect: Disconnect,
    on_step: Callable[[Step], None] = unheard,
) -> TreeAnswer:
    """Find chunks by meaning, directly and through the summaries above them. Calls `on_step` for each step.

    Raises `NoTree`, `Invalid`, `FilterMatchesNothing`, `EmbeddingError`, `StoreError`, and `CallerLeft` between steps.
    """
    started = time.perf_counter()
    _check_combination(query)
    tree = built_tree(resources.pool, tool_id)
    freshness = refresh(resources, tool_id, index, query.refresh, disconnect=disconnect)
    found, report = _found(resources, index, tree, query, disconnect)
    for each in report.steps:
        on_step(each)
    hits = _hits(resources, index, query, found.leaves[: 2 * query.top_k + len(found.summaries)])
    summaries = _summaries(resources, tree, found.summaries)
    return TreeAnswer(
        query=query.texts[0],
        mode="vector",
        total_results=len(hits),
        took_ms=round((time.perf_counter() - started) * 1000, 1),
        coverage=coverage(resources, index, query, freshness.stale_files, vectors_missing=False),
        notes=[*freshness.notes, *report.notes],
        trace=list(report.steps) if query.trace else None,
        results=[hit for hit in with_urls(hits, index.url_template) if isinstance(hit, TreeHit)],
        summaries=summaries,
    )


def _check_combination(query: Query) -> None:
    if query.mode == "keyword":
        raise Invalid("A tree is searched by meaning; omit `mode`, or send tree: off.")
    if query.rerank in {"model", "llm"} or query.include_unembedded:
        raise Invalid("`tree` cannot be combined with rerank by a model or include_unembedded; omit one of them.")


def _found(
    resources: Resources, index: Index, tree: Tree, query: Query, disconnect: Disconnect
) -> tuple[Found, Report]:
    try:
        filters = resolve_filters(resources.pool, index, query.filters)
    except FilterMatchesNothing as error:
        return Found([], []), not_indexed_yet(resources, index, error)
    started = time.perf_counter()
    vectors = embed_queries(resources, index, query.texts)
    report = step("embed", started, len(vectors))
    disconnect.check()
    started = time.perf_counter()
    store = resources.store(index.vector_store, index.keyword_index)
    forest = Forest(resources.pool, store, index, tree, vectors, filters)
    if query.tree == "collapsed":
        found = collapsed(forest, query.top_k, expand=query.expand_to_leaves)
    else:
        top = views.top_level(resources.pool, tree)
        found = traversal(forest, query.top_k, beam=query.beam, top_level=top, expand=query.expand_to_leaves)
    return found, report + step("tree", started, len(found.leaves) + len(found.summaries), query.tree)


def _hits(resources: Resources, index: Index, query: Query, leaves: Sequence[LeafHit]) -> list[TreeHit]:
    """The first `top_k` leaves with a live row. Equal texts stand once, where they were first reached."""
    rows = chunks.hits(resources.pool, index.id, dict.fromkeys(str(leaf.id) for leaf in leaves))
    hits: dict[str, TreeHit] = {}
    for leaf in leaves:
        row = rows.get(str(leaf.id))
        if row is not None and row["content_hash"] not in hits:
            hits[row["content_hash"]] = _hit(row, leaf)
    scored = [hit for hit in hits.values() if query.min_score is None or hit.score >= query.min_score]
    found = scored[: query.top_k]
    if query.group_by_file:
        found = [hit for hit in grouped(found) if isinstance(hit, TreeHit)]
    if query.before or query.after:
        around = with_neighbours(resources.pool, index.id, found, query.before, query.after)
        found = [hit for hit in around if isinstance(hit, TreeHit)]
    return found


def _hit(row: dict[str, object], leaf: LeafHit) -> TreeHit:
    path = str(row["file_path"])
    above = leaf.summary
    return TreeHit.model_validate(
        {
            **row,
            "file_name": path.rsplit("/", 1)[-1],
            "score": round(leaf.score, 6),
            "distance": round(leaf.distance, 6),
            "raptor_expanded_from": above and above.node.id,
            "raptor_summary_preview": above and above.node.text[:PREVIEW_CHARACTERS],
        }
    )


def _summaries(resources: Resources, tree: Tree, found: Sequence[NearSummary]) -> list[SummaryHit]:
    paths = views.paths(resources.pool, tree, [each.node.key for each in found])
    return [
        SummaryHit(
            node_id=each.node.id,
            level=each.node.level,
            text=each.node.text,
            score=round(min(1.0, max(0.0, 1 - each.distance)), 6),
            file_paths=paths.get(each.node.key, [])[: views.MAX_PATHS],
        )
        for each in found
    ]
