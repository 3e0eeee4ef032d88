"""The compared systems: the search modes of the service, and two plain ones over the same chunks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import bm25s
import numpy as np

from tests.bench.search.questions import Passage
from tests.service import PROJECT, Service
from worker.embed.local.minilm import LocalEmbedder
from worker.vectors import Vector

DEPTH = 20

System = Callable[[str], list[Passage]]

#: The modes of the service and their reranking, by the name of the row.
MODES = {
    "vector": ("vector", "none"),
    "keyword": ("keyword", "none"),
    "hybrid": ("hybrid", "none"),
    "hybrid+boost": ("hybrid", "boost"),
}

_CHUNKS = """
SELECT f.path, c.start_line, c.chunk_text, f.path || E'\\n' || c.context || E'\\n' || c.chunk_text, e.vector
FROM search_tool t
JOIN chunk c ON c.index_id = t.index_id AND c.live
JOIN search_index_file f ON f.id = c.file_id
JOIN embedding_cache e ON e.project_id = %s AND c.content_hash = 'sha256:' || encode(e.text_hash, 'hex')
WHERE t.id = %s ORDER BY f.path, c.chunk_index
"""


@dataclass(frozen=True, slots=True)
class Chunks:
    """All chunks of a tool. `words` is the text in the service's keyword index: path, headings and text."""

    passages: list[Passage]
    words: list[str]
    vectors: list[Vector]


def chunks_of(service: Service, tool: str) -> Chunks:
    """Every live chunk with its vector, shape (384,)."""
    rows = service.rows(_CHUNKS, PROJECT, tool)
    return Chunks(
        [Passage(*passage) for *passage, _, _ in rows],
        [words for *_, words, _ in rows],
        [np.frombuffer(vector, dtype="<f4") for *_, vector in rows],
    )


def asked(service: Service, tool: str, mode: str, rerank: str) -> System:
    """Search with the service over HTTP."""

    def search(query: str) -> list[Passage]:
        hits = service.query(tool, query, mode=mode, rerank=rerank, top_k=DEPTH)
        return [Passage(hit["file_path"], hit["start_line"], hit["chunk_text"]) for hit in hits]

    return search


def bm25(chunks: Chunks) -> System:
    """Search with the BM25 library's defaults (Lucene's BM25, lower case, English stop words), without stemming."""
    index = bm25s.BM25()
    index.index(bm25s.tokenize(chunks.words, stopwords="english", show_progress=False), show_progress=False)
    depth = min(DEPTH, len(chunks.words))

    def search(query: str) -> list[Passage]:
        words = bm25s.tokenize(query, stopwords="english", return_ids=False, show_progress=False)
        numbers, scores = index.retrieve(words, k=depth, show_progress=False)
        return [chunks.passages[n] for n, score in zip(numbers[0], scores[0], strict=True) if score > 0]

    return search


def dense(chunks: Chunks) -> System:
    """Multiply every vector with the query's: exact nearest neighbours by cosine."""
    embedder, vectors = LocalEmbedder(), np.stack(chunks.vectors)

    def search(query: str) -> list[Passage]:
        nearness = vectors @ embedder.embed([query])[0]
        return [chunks.passages[n] for n in np.argsort(-nearness, kind="stable")[:DEPTH]]

    return search


def systems(service: Service, tool: str, chunks: Chunks) -> dict[str, System]:
    """All systems, by name."""
    own = {name: asked(service, tool, *mode) for name, mode in MODES.items()}
    return {"bm25s": bm25(chunks), "dense": dense(chunks), **own}
