"""Shared code of the models on the CPU: it verifies them, loads them once, and selects an encoder by precision."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Sequence
from functools import cache, partial, wraps
from pathlib import Path
from typing import Generic, NamedTuple, ParamSpec, TypeVar

import numpy as np

from schemas.errors import EmbeddingRefused, EmbeddingUnauthorized, ModelRefused
from worker.embed.local import runtime
from worker.embed.local.bert import Matrix, ModelWeights, encode, groups
from worker.machine.memory.freed_memory import give_back
from worker.machine.onnx import session

INT8 = "int8"
#: Computes the vectors of texts from the ids of their pieces.
Encode = Callable[[Sequence[Sequence[int]]], Matrix]
P = ParamSpec("P")
T = TypeVar("T")


class Loaded(NamedTuple, Generic[T]):
    """A model in memory: its tokenizer and its encoder."""

    pieces: T
    encode: Encode


def load_once(load: Callable[P, T]) -> Callable[P, T]:
    """Cache a function's result; one thread at a time loads it. An error is not cached."""
    loading, cached = threading.Lock(), cache(load)

    @wraps(load)
    def loaded(*arguments: P.args, **named: P.kwargs) -> T:
        with loading:
            return cached(*arguments, **named)  # type: ignore[arg-type] # a cache takes what can be hashed

    return loaded


def check_hash(path: Path, expected: str, model: str, remedy: str) -> None:
    """Raise `ModelRefused` unless the file has this SHA-256. Reads it once."""
    stat = path.stat()
    if _sha256(path, stat.st_size, stat.st_mtime_ns) != expected:
        raise ModelRefused(f"{path} differs from the published {path.name} of {model}. {remedy}")


@cache
def _sha256(path: Path, _size: int, _mtime_ns: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def refuse_long(ids: Sequence[Sequence[int]], most: int, model: str) -> None:
    """Raise `EmbeddingRefused` if a text has more pieces than the model reads."""
    long = [index for index, text in enumerate(ids) if len(text) > most]
    if long:
        raise EmbeddingRefused(
            f"A text has {len(ids[long[0]])} word pieces, but {model} accepts {most}; choose smaller chunks.",
            indices=long,
        )


def encoder_of(weights: ModelWeights, precision: str, model: str) -> Encode:
    """Return the encoder for this precision. Raises `EmbeddingUnauthorized` if none is installed."""
    if precision != INT8:
        return partial(_encode, weights)
    if not session.is_installed():
        raise EmbeddingUnauthorized(
            f"The index has vectors of {model} in int8, but the package `onnxruntime` is not installed here. Install "
            "the extra `local-model` for the API and all workers, on a platform that has the package."
        )
    encode = runtime.Int8Encoder(weights).encode
    # the session has its own weights, so this frees 45 MB
    del weights
    give_back()
    return encode


def _encode(weights: ModelWeights, ids: Sequence[Sequence[int]]) -> Matrix:
    vectors = np.empty((len(ids), weights.positions.shape[1]), dtype=np.float32)
    for group in groups([len(text) for text in ids]):
        vectors[group] = encode(weights, [ids[index] for index in group])
    return vectors
