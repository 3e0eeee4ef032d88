"""The encoder of BERT (Devlin et al. 2018) in numpy, for models of the MiniLM family, as pure functions."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

#: Term that layer normalisation adds to the variance.
EPSILON = 1e-12
_EPSILON = np.float32(EPSILON)
#: Rows (word pieces) that pass through a layer together, so that a layer's data stays in the cache.
_ROWS = 256
#: Bytes of the length at the beginning of a safetensors file.
_LENGTH_BYTES = 8

Matrix = NDArray[np.float32]
Span = tuple[int, int]


class Dense(NamedTuple):
    """A linear map: `x @ weight + bias`."""

    weight: Matrix
    bias: Matrix


class Layer(NamedTuple):
    """One layer of the encoder. Query, key and value are side by side in one linear map."""

    qkv: Dense
    attended: Dense
    attended_norm: Dense
    up: Dense
    down: Dense
    norm: Dense


class WordTable(Protocol):
    """The embeddings of pieces, by their ids."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of pieces, and the width of an embedding."""

    def __getitem__(self, ids: NDArray[np.intp], /) -> Matrix:
        """Return the rows of pieces."""


class ModelWeights(NamedTuple):
    """The whole model. The position table includes the embedding of the first token type, `second_type` the rest."""

    words: WordTable
    positions: Matrix
    second_type: Matrix
    norm: Dense
    layers: list[Layer]
    heads: int


class ModelShape(NamedTuple):
    """The number of layers of a model, and of heads per layer."""

    layers: int
    heads: int


#: The shape of all-MiniLM-L6-v2.
MINILM = ModelShape(layers=6, heads=12)


def load_weights(path: Path, shape: ModelShape = MINILM, prefix: str = "") -> ModelWeights:
    """Read the file into the layout that `hidden` multiplies fastest. Takes 0.2 s and 90 MB for all-MiniLM-L6-v2.

    The word embeddings, half of the file, stay in its pages, which all processes share. Replace the file, never
    overwrite it, while a process uses it.

    The names of the encoder's tensors begin with `prefix`. Raises `SafetensorError` if one is missing.
    """
    from safetensors import safe_open

    with safe_open(str(path), framework="numpy") as file:

        def get(name: str) -> Matrix:
            tensor: Matrix = file.get_tensor(prefix + name)
            return tensor.astype(np.float32, copy=False)

        words = "embeddings.word_embeddings.weight"
        is_float32 = file.get_slice(prefix + words).get_dtype() == "F32"
        return weights_from(get, _mapped(path, prefix + words) if is_float32 else get(words), shape)


def weights_from(get: Callable[[str], Matrix], words: WordTable, shape: ModelShape) -> ModelWeights:
    """Return the weights in the layout that `hidden` multiplies fastest. `get` returns a tensor by its name in BERT."""
    first, *others = get("embeddings.token_type_embeddings.weight")
    return ModelWeights(
        words,
        get("embeddings.position_embeddings.weight") + first,
        others[0] - first if others else np.zeros_like(first),
        _norm(get, "embeddings.LayerNorm"),
        [_layer(get, shape.heads, f"encoder.layer.{number}.") for number in range(shape.layers)],
        shape.heads,
    )


def _mapped(path: Path, name: str) -> Matrix:
    """Map a float32 tensor as read-only pages of its file. The safetensors library can only copy.

    The file begins with the length of its header and the header, which is JSON with the place of each tensor.
    """
    with path.open("rb") as file:
        length = int.from_bytes(file.read(_LENGTH_BYTES), "little")
        entry = json.loads(file.read(length))[name]
    begin = _LENGTH_BYTES + length + entry["data_offsets"][0]
    return np.asarray(np.memmap(path, np.float32, "r", begin, tuple(entry["shape"])))


def _layer(get: Callable[[str], Matrix], heads: int, prefix: str) -> Layer:
    query, key, value = (_dense(get, f"{prefix}attention.self.{name}") for name in ("query", "key", "value"))
    # Attention divides by the square root of a head's width, and GELU halves. Fold both into the weights once.
    scale = np.float32((len(query.bias) // heads) ** -0.5)
    down = _dense(get, f"{prefix}output.dense")
    return Layer(
        Dense(
            np.hstack([query.weight * scale, key.weight, value.weight]),
            np.hstack([query.bias * scale, key.bias, value.bias]),
        ),
        _dense(get, f"{prefix}attention.output.dense"),
        _norm(get, f"{prefix}attention.output.LayerNorm"),
        _dense(get, f"{prefix}intermediate.dense"),
        Dense(down.weight * np.float32(0.5), down.bias),
        _norm(get, f"{prefix}output.LayerNorm"),
    )


def dense(path: Path, name: str) -> Dense:
    """Return one linear map of a file. Raises `SafetensorError` if it is missing."""
    from safetensors import safe_open

    with safe_open(str(path), framework="numpy") as file:
        return _dense(lambda full: np.asarray(file.get_tensor(full), dtype=np.float32), name)


def _dense(get: Callable[[str], Matrix], name: str) -> Dense:
    return Dense(np.ascontiguousarray(get(f"{name}.weight").T), get(f"{name}.bias"))


def _norm(get: Callable[[str], Matrix], name: str) -> Dense:
    return Dense(get(f"{name}.weight"), get(f"{name}.bias"))


def encode(weights: ModelWeights, ids: Sequence[Sequence[int]]) -> Matrix:
    """Run BERT's encoder, average over the pieces, scale to length 1: float32 of shape (len(ids), 384)."""
    rows, spans = hidden(weights, ids)
    return at_length_1(np.stack([rows[begin:end].mean(axis=0) for begin, end in spans]))


def at_length_1(rows: Matrix) -> Matrix:
    """Scale the rows in place, and return them."""
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows


def groups(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Return the indices of texts by number of pieces, longest text first, in groups of about `_ROWS` pieces."""
    group: list[int] = []
    rows = 0
    for index in sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True):
        if group and rows + lengths[index] > _ROWS:
            yield group
            group, rows = [], 0
        group.append(index)
        rows += lengths[index]
    if group:
        yield group


def hidden(
    weights: ModelWeights, ids: Sequence[Sequence[int]], types: Sequence[Sequence[int]] | None = None
) -> tuple[Matrix, Sequence[Span]]:
    """Run BERT's encoder. Returns a row per piece, with texts one below the other, and the span of rows of each text.

    `types` are the token types of the pieces, 0 or 1; None: all are 0. Nothing is padded, and only attention treats the
    texts separately.
    """
    ends = np.cumsum([len(text) for text in ids])
    spans = list(zip([0, *ends[:-1].tolist()], ends.tolist(), strict=True))
    places = np.concatenate([np.arange(len(text)) for text in ids])
    rows = weights.words[np.concatenate([np.asarray(text, dtype=np.intp) for text in ids])]
    rows += weights.positions[places]
    if types is not None:
        rows[np.concatenate([np.asarray(text, dtype=bool) for text in types])] += weights.second_type
    normalise(rows, weights.norm)
    for layer in weights.layers:
        rows = _through(layer, weights.heads, rows, spans)
    return rows, spans


def _through(layer: Layer, heads: int, rows: Matrix, spans: Sequence[Span]) -> Matrix:
    attended = apply(layer.attended, _attend(apply(layer.qkv, rows), heads, spans))
    attended += rows
    normalise(attended, layer.attended_norm)
    inner = apply(layer.up, attended)
    gelu_twice(inner)
    out = apply(layer.down, inner)
    out += attended
    normalise(out, layer.norm)
    return out


def apply(dense: Dense, rows: Matrix) -> Matrix:
    """Apply a linear map to the rows."""
    out: Matrix = rows @ dense.weight
    out += dense.bias
    return out


def _attend(qkv: Matrix, heads: int, spans: Sequence[Span]) -> Matrix:
    split = qkv.reshape(len(qkv), 3, heads, -1)
    out = np.empty((len(qkv), heads, split.shape[-1]), dtype=np.float32)
    for begin, end in spans:
        # Heads first: (head, piece, width) for query and value, (head, width, piece) for key, as views.
        query, value = split[begin:end, 0].transpose(1, 0, 2), split[begin:end, 2].transpose(1, 0, 2)
        scores = query @ split[begin:end, 1].transpose(1, 2, 0)
        scores -= scores.max(axis=2, keepdims=True)
        np.exp(scores, out=scores)
        mixed = scores @ value
        mixed /= scores.sum(axis=2, keepdims=True)
        out[begin:end] = mixed.transpose(1, 0, 2)
    return out.reshape(len(qkv), -1)


def normalise(rows: Matrix, norm: Dense) -> None:
    """Apply layer normalisation in place."""
    rows -= rows.mean(axis=1, keepdims=True)
    variance = np.einsum("ij,ij->i", rows, rows)[:, None] / rows.shape[1]
    rows *= norm.weight / np.sqrt(variance + _EPSILON)
    rows += norm.bias


def gelu_twice(rows: Matrix) -> None:
    """Apply x (1 + erf(x / sqrt 2)) in place, to within 6e-5.

    erf is computed as tanh of a polynomial, which numpy evaluates with vector instructions. The coefficients are a
    weighted least-squares fit over [0, 4.2]. From 5 on the polynomial's argument is clamped; tanh is already 1 there.
    """
    square = rows * rows
    np.minimum(square, 25, out=square)
    inner = square * np.float32(-3.51593307e-4)
    inner += np.float32(3.7005999e-2)
    inner *= square
    inner += np.float32(0.797507582)
    inner *= rows
    np.tanh(inner, out=inner)
    inner += 1
    rows *= inner
