"""The embedding models that run on this machine, by their names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from schemas.content.source import EmbedderProfile
from worker.embed import Embedder
from worker.embed.local import e5, minilm
from worker.embed.local.wordpieces import WordPieces
from worker.tokens.tokenizers import Tokenizer


@dataclass(frozen=True, slots=True)
class LocalModel:
    """A model and its use. `check` raises `ModelRefused` if its files are missing or wrong.

    `open` takes a precision, and whether the texts are queries. `unrelated_cosine` is the cosine of texts without any
    relation.
    """

    profile: EmbedderProfile
    max_inputs: int
    max_pieces: int
    check: Callable[[], None]
    open: Callable[[str, bool], Embedder]
    tokenizer: Callable[[], Tokenizer]
    legibility: Callable[[str], float]
    unrelated_cosine: float = 0.0


MODELS = {
    minilm.MODEL: LocalModel(
        profile=minilm.PROFILE,
        max_inputs=minilm.MAX_INPUTS,
        max_pieces=minilm.MAX_PIECES,
        check=minilm.check_files,
        open=lambda precision, _: minilm.LocalEmbedder(precision=precision),
        tokenizer=lambda: WordPieces(minilm.model_directory()),
        legibility=minilm.legibility,
    ),
    e5.MODEL: LocalModel(
        profile=e5.PROFILE,
        max_inputs=e5.MAX_INPUTS,
        max_pieces=e5.MAX_PIECES,
        check=e5.check_files,
        open=lambda precision, for_queries: e5.E5Embedder(precision, for_queries=for_queries),
        tokenizer=e5.tokenizer,
        legibility=lambda _: 1.0,
        unrelated_cosine=e5.UNRELATED_COSINE,
    ),
}
