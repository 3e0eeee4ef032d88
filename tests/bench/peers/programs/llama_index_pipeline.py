"""LlamaIndex's ingestion pipeline with a document store, all in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from llama_index.core import Document
from llama_index.core.embeddings import BaseEmbedding
from llama_index.core.ingestion import DocstoreStrategy, IngestionPipeline
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.storage.docstore import SimpleDocumentStore
from llama_index.core.vector_stores import SimpleVectorStore
from loop import CHUNK_TOKENS, OVERLAP_TOKENS, files, serve, text_of, vectors


class _Free(BaseEmbedding):
    def _get_text_embeddings(self, texts: list[str]) -> Any:
        return vectors(texts).tolist()

    def _get_text_embedding(self, text: str) -> Any:
        return self._get_text_embeddings([text])[0]

    _get_query_embedding = _get_text_embedding

    async def _aget_query_embedding(self, query: str) -> Any:
        return self._get_text_embedding(query)


def main() -> None:
    store = SimpleVectorStore()
    pipeline = IngestionPipeline(
        transformations=[
            SentenceSplitter(chunk_size=CHUNK_TOKENS, chunk_overlap=OVERLAP_TOKENS),
            _Free(embed_batch_size=2_000),
        ],
        docstore=SimpleDocumentStore(),
        docstore_strategy=DocstoreStrategy.UPSERTS_AND_DELETE,
        vector_store=store,
        # it would hold a second copy of all nodes, for transformations of the same nodes only
        disable_cache=True,
    )

    def index(folder: Path) -> None:
        pipeline.run(documents=[Document(text=text_of(path), id_=str(path)) for path in files(folder)])

    serve(index, lambda: len(store.data.embedding_dict))


main()
