"""LangChain's `index()` with a record manager on disk and a vector store in memory."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from langchain_classic.indexes import SQLRecordManager
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.indexing import index as bring_up_to_date
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_text_splitters import RecursiveCharacterTextSplitter
from loop import CHUNK_TOKENS, OVERLAP_TOKENS, files, serve, text_of, vectors

STATE = Path(sys.argv[1])


class _Free(Embeddings):
    def embed_documents(self, texts: list[str]) -> Any:
        return vectors(texts).tolist()

    def embed_query(self, text: str) -> Any:
        return vectors([text])[0].tolist()


def main() -> None:
    splitter = RecursiveCharacterTextSplitter.from_tiktoken_encoder(
        "cl100k_base", chunk_size=CHUNK_TOKENS, chunk_overlap=OVERLAP_TOKENS
    )
    store = InMemoryVectorStore(_Free())
    # what a record manager on disk knows would outlive the vectors in memory
    (STATE / "records.db").unlink(missing_ok=True)
    records = SQLRecordManager("folder", db_url=f"sqlite:///{STATE / 'records.db'}")
    records.create_schema()

    def index(folder: Path) -> None:
        documents = [
            Document(text, metadata={"source": str(path), "number": number})
            for path in files(folder)
            for number, text in enumerate(splitter.split_text(text_of(path)))
        ]
        bring_up_to_date(
            documents, records, store, cleanup="full", source_id_key="source", batch_size=1_000, key_encoder="sha256"
        )

    serve(index, lambda: len(store.store))


main()
