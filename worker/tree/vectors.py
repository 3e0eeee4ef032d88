"""The vectors of leaves and summaries, from the store or the embedding cache; only vectors in neither are computed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from schemas.errors import EmbeddingRefused, Excess
from worker.embed.batching import SHORTEST_CUT, RequestTerms, embed_all
from worker.embed.faults import FaultFindingEmbedder, FurtherRequests
from worker.state.index import embedding_cache
from worker.state.index.embedding_cache import VectorOwner
from worker.state.tree import build_rows
from worker.state.tree.build_rows import SummaryNode, TreeLeaf, UnembeddedSummary
from worker.tokens.tokenizers import truncated
from worker.tree.run import TreeRun
from worker.vectors import Vector, VectorRow

T = TypeVar("T")

#: Number of vectors that are read, or summaries that are embedded and written, at a time.
BATCH = 1000


def of_leaves(run: TreeRun, leaves: Sequence[TreeLeaf]) -> Iterator[tuple[list[TreeLeaf], NDArray[np.float32]]]:
    """Yield the leaves in their order, with their vectors. A leaf that cannot have one is left out."""
    for start in range(0, len(leaves), BATCH):
        run.lease.check()
        batch = leaves[start : start + BATCH]
        found = _leaf_vectors(run, batch)
        yield _joined(run, [(leaf, found.get(leaf.hash)) for leaf in batch])


def _leaf_vectors(run: TreeRun, batch: Sequence[TreeLeaf]) -> dict[str, Vector]:
    stored = run.store.vectors(run.index.namespace, [leaf.chunk_id for leaf in batch])
    found = {leaf.hash: stored[leaf.chunk_id] for leaf in batch if leaf.chunk_id in stored}
    missing = [leaf for leaf in batch if leaf.hash not in found]
    if missing:
        found |= embedding_cache.lookup(run.pool, _owner(run), [leaf.hash for leaf in missing])
    # the store lost these; the task that restores them finds them in the cache
    lost = build_rows.leaf_inputs(run.pool, [leaf.chunk_id for leaf in missing if leaf.hash not in found])
    return found | _embed(run, lost) if lost else found


def of_nodes(run: TreeRun, found: Sequence[SummaryNode]) -> tuple[list[SummaryNode], NDArray[np.float32]]:
    """Return the summaries that have a vector, with it."""
    vectors: dict[UUID, Vector] = {}
    for start in range(0, len(found), BATCH):
        run.lease.check()
        vectors |= run.store.vectors(run.namespace, [node.id for node in found[start : start + BATCH]])
    cached = embedding_cache.lookup(run.pool, _owner(run), [n.text_hash for n in found if n.id not in vectors])
    return _joined(run, [(node, vectors.get(node.id, cached.get(node.text_hash))) for node in found])


def _joined(run: TreeRun, pairs: Sequence[tuple[T, Vector | None]]) -> tuple[list[T], NDArray[np.float32]]:
    kept = [(item, vector) for item, vector in pairs if vector is not None]
    matrix = np.zeros((len(kept), run.index.settings.embedder.dimensions), dtype=np.float32)
    for row, (_, vector) in enumerate(kept):
        matrix[row] = vector
    return [item for item, _ in kept], matrix


def write(run: TreeRun, level: int, texts: Sequence[UnembeddedSummary]) -> None:
    """Embed summaries and write them to the store, except those that the provider refuses. Raises `LeaseLost`."""
    hashes = {text.text_hash: text.text for text in texts}
    vectors = embedding_cache.lookup(run.pool, _owner(run), hashes)
    vectors |= _embed(run, {hash_: text for hash_, text in hashes.items() if hash_ not in vectors})
    run.lease.check()
    rows = [
        VectorRow(text.id, vectors[text.text_hash], _attributes(run, level, text), generation=run.build.epoch)
        for text in texts
        if text.text_hash in vectors
    ]
    run.store.write(run.namespace, run.index.settings.embedder.dimensions, upserts=rows)
    refused = [text.id for text in texts if text.text_hash not in vectors]
    build_rows.note_stored(run.pool, run.build, [row.id for row in rows], refused)


def _attributes(run: TreeRun, level: int, text: UnembeddedSummary) -> dict[str, str | int | bool | None]:
    """Return the filter attributes of a summary. The tree's id is in `scope`: trees of one index share a namespace."""
    return {"chunk_id": str(text.id), "content_hash": text.text_hash, "scope": str(run.build.id), "level": level}


def _embed(run: TreeRun, texts: Mapping[str, str]) -> dict[str, Vector]:
    """Embed texts by hash, and cache each answer at once. Refused texts are missing from the result.

    A text longer than the model's limit gets the vector of its beginning up to that limit.
    """
    hashes = list(texts)
    limit = run.index.settings.embedder.max_input_tokens
    inputs = [truncated(text, limit, lambda: run.tokenizer) for text in texts.values()]
    tokens = [len(run.tokenizer.starts(text)) for text in inputs]
    terms = RequestTerms(run.budget, run.index.project_id, run.lease.check)
    vectors: dict[str, Vector] = {}
    tokens_of = dict(zip(inputs, tokens, strict=True))
    further = FurtherRequests(run.lease.check, run.budget, run.index.project_id, tokens_of)
    embedder = FaultFindingEmbedder(run.embedder, further)
    shorter: dict[str, str] = {}
    for indices, result in embed_all(embedder, inputs, tokens, run.concurrency, terms):
        if isinstance(result, EmbeddingRefused):
            if result.excess is Excess.LENGTH:
                shorter |= {hashes[index]: inputs[index][: len(inputs[index]) // 2] for index in indices}
        else:
            answered = {hashes[index]: result[row] for row, index in enumerate(indices)}
            embedding_cache.keep(run.pool, _owner(run), answered)
            vectors |= answered
    shorter = {hash_: text for hash_, text in shorter.items() if len(text) >= SHORTEST_CUT}
    return vectors | _embed(run, shorter) if shorter else vectors


def _owner(run: TreeRun) -> VectorOwner:
    return VectorOwner(run.index.project_id, run.index.settings.embedder)
