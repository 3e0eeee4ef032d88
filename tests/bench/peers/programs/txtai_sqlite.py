"""txtai with its defaults, sqlite and faiss, saved after each run. It has no notion of a changed file."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import tiktoken
from chonkie import TokenChunker
from loop import CHUNK_TOKENS, DIMENSIONS, OVERLAP_TOKENS, files, serve, text_of
from txtai import Embeddings

# it calls our function only if told so; the name of a function outlives what it saves
os.environ["ALLOW_RESOLVE_TRANSFORM"] = "True"
STATE = Path(sys.argv[1]) / "index"
CONFIG = {"method": "external", "transform": "loop.vectors", "dimensions": DIMENSIONS, "content": True}


def main() -> None:
    chunker = TokenChunker(tiktoken.get_encoding("cl100k_base"), chunk_size=CHUNK_TOKENS, chunk_overlap=OVERLAP_TOKENS)
    embeddings = Embeddings(CONFIG)
    if embeddings.exists(str(STATE)):
        embeddings.load(str(STATE))

    def chunks(folder: Path) -> Iterator[tuple[str, str, None]]:
        for path in files(folder):
            for number, chunk in enumerate(chunker.chunk(text_of(path))):
                yield f"{path}:{number}", chunk.text, None

    def index(folder: Path) -> None:
        embeddings.upsert(chunks(folder))
        embeddings.save(str(STATE))

    serve(index, lambda: embeddings.count() if embeddings.isdense() and embeddings.ann else 0)


main()
