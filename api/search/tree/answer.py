"""Finds chunks and summaries by a tree of summaries."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby
from uuid import UUID

from api.http.disconnect import Disconnect
from api.http.sight import SeenIndex
from api.search.chunks.legs import embed, missing_vectors
from api.search.pipeline import answer_by, cut
from api.search.query.index_search import Findings, IndexSearch, ignore_step
from api.search.query.no_hits import stand_in
from api.search.query.waiting_files import search_waiting_files, with_waiting_lines
from api.search.tree.forest import Forest, NearSummary
from api.search.tree.shown_part import shown_part
from api.search.tree.walks import FoundInTree, LeafHit, collapsed, traversal
from schemas.errors import Invalid, NoTree
from schemas.queries.search import Answer, Query, Step
from schemas.queries.tree_search import PREVIEW_CHARACTERS, SummaryHit, TreeAnswer, TreeHit
from worker.resources import Resources
from worker.state.pool import Pool
from worker.state.search import found_chunks
from worker.state.search.found_chunks import HitRow
from worker.state.tree import trees, views
from worker.state.tree.trees import Tree
from worker.vectors import Vector


def answer_by_tree(
    resources: Resources,
    tool_id: UUID,
    index: SeenIndex,
    query: Query,
    *,
    disconnect: Disconnect,
    on_step: Callable[[Step], None] = ignore_step,
) -> Answer:
    """Find chunks by meaning, directly and through the summaries above them.

    Raises `NoTree`, `Invalid`, `EmbeddingError`, `StoreError`, and what `answer_by` raises.
    """
    if query.mode == "keyword":
        raise Invalid("A tree is searched by meaning; omit `mode`, or send tree: off.")
    if query.rerank in {"model", "llm"} or query.include_unembedded:
        raise Invalid("`tree` cannot be combined with rerank by a model or include_unembedded; omit one of them.")
    find = partial(_find, find_built_tree(resources.pool, tool_id))
    by_meaning = query.model_copy(update={"mode": "vector"})
    return answer_by(
        find, resources, tool_id, index, by_meaning, disconnect=disconnect, on_step=on_step, kind=TreeAnswer
    )


def find_built_tree(pool: Pool, tool_id: UUID) -> Tree:
    """The last complete tree of a tool. Raises `NoTree`."""
    tree = trees.of_tool(pool, tool_id)
    if tree is None or tree.built_at is None:
        raise NoTree(
            f"This tool has no complete summary tree yet; build one with `foldex tree build {tool_id}`, or with POST "
            f"/api/tools/search/{tool_id}/raptor/build, and wait until its indexing_status is indexed."
        )
    return tree


def _find(tree: Tree, search: IndexSearch) -> Findings:
    """Chunks and summaries, or lines of the folder if the index cannot answer yet."""
    vectors, report = embed(search)
    search.disconnect.check()
    started = time.perf_counter()
    found = _walk(search, tree, vectors)
    report += search.step("tree", started, len(found.leaves) + len(found.summaries), search.request.tree)
    hits = cut(search, _hits(search, found))
    summaries = _summaries(search, tree, found.summaries)
    findings = Findings(hits, report, more={"summaries": summaries})
    if hits:
        return findings
    missing = missing_vectors(search)
    findings = replace(findings, report=report + missing.report, vectors_missing=missing.vectors_missing)
    if summaries:
        return findings
    findings = with_waiting_lines(search, stand_in(search, findings), search_waiting_files(search))
    return replace(findings, hits=[TreeHit(**dict(hit)) for hit in findings.hits])


def _walk(search: IndexSearch, tree: Tree, vectors: Sequence[Vector]) -> FoundInTree:
    pool, query = search.resources.pool, search.request
    readable = shown_part(pool, tree, search.only).readable
    shown = None if readable is None else frozenset(readable)
    forest = Forest(pool, search.store, search.index, tree, vectors, search.filters, shown)
    if query.tree == "collapsed":
        return collapsed(forest, query.top_k, expand=query.expand_to_leaves)
    top = views.top_level(pool, tree)
    return traversal(forest, query.top_k, beam=query.beam, top_level=top, expand=query.expand_to_leaves)


def _hits(search: IndexSearch, found: FoundInTree) -> list[TreeHit]:
    """The best leaves with a live row.

    Equal texts stand once, where they were first reached, whatever their files are called.
    """
    leaves = found.leaves[: 2 * search.request.top_k + len(found.summaries)]
    rows = found_chunks.hits(search.resources.pool, search.index.id, dict.fromkeys(str(leaf.id) for leaf in leaves))
    live = [(leaf, rows[str(leaf.id)]) for leaf in leaves if str(leaf.id) in rows]
    hits: dict[tuple[str, str], TreeHit] = {}
    for _, equal in groupby(live, key=lambda found: (found[0].score, found[0].distance)):
        for leaf, row in sorted(equal, key=lambda found: found[1].place):
            # its hash is also of the name of its file
            if (text := (row.context, row.chunk_text)) not in hits:
                hits[text] = _hit(row, leaf)
    return list(hits.values())


def _hit(row: HitRow, leaf: LeafHit) -> TreeHit:
    above = leaf.summary
    return TreeHit(
        **row._asdict(),
        file_name=row.file_path.rsplit("/", 1)[-1],
        score=round(leaf.score, 6),
        distance=round(leaf.distance, 6),
        raptor_expanded_from=above and above.node.id,
        raptor_summary_preview=above and above.node.text[:PREVIEW_CHARACTERS],
    )


def _summaries(search: IndexSearch, tree: Tree, found: Sequence[NearSummary]) -> list[SummaryHit]:
    files = None if search.only is None else list(search.only)
    paths = views.paths(search.resources.pool, tree, [each.node.key for each in found], files)
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
