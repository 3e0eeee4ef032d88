"""The encoder of all-MiniLM-L6-v2 in numpy: six layers of BERT (Devlin et al. 2018), as pure functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

_HEADS = 12
_LAYERS = 6
_EPSILON = np.float32(1e-12)

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


class Weights(NamedTuple):
    """The whole model. The position table includes the embedding of the single token type."""

    words: Matrix
    positions: Matrix
    norm: Dense
    layers: list[Layer]


def load_weights(path: Path) -> Weights:
    """Read the file into the layout that `encode` multiplies fastest. Takes 0.2 s and 90 MB."""
    from safetensors import safe_open

    with safe_open(str(path), framework="numpy") as file:
        get: Callable[[str], Matrix] = file.get_tensor
        table = get("embeddings.position_embeddings.weight") + get("embeddings.token_type_embeddings.weight")[0]
        layers = [_layer(get, f"encoder.layer.{number}.") for number in range(_LAYERS)]
        return Weights(get("embeddings.word_embeddings.weight"), table, _norm(get, "embeddings.LayerNorm"), layers)


def _layer(get: Callable[[str], Matrix], prefix: str) -> Layer:
    query, key, value = (_dense(get, f"{prefix}attention.self.{name}") for name in ("query", "key", "value"))
    # Attention divides by the square root of a head's width, and GELU halves. Fold both into the weights once.
    scale = np.float32((len(query.bias) // _HEADS) ** -0.5)
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


def _dense(get: Callable[[str], Matrix], name: str) -> Dense:
    return Dense(np.ascontiguousarray(get(f"{name}.weight").T), get(f"{name}.bias"))


def _norm(get: Callable[[str], Matrix], name: str) -> Dense:
    return Dense(get(f"{name}.weight"), get(f"{name}.bias"))


def encode(weights: Weights, ids: Sequence[Sequence[int]]) -> Matrix:
    """Run BERT's encoder, average over the pieces, scale to length 1: float32 of shape (len(ids), 384).

    The pieces of all texts are rows of one matrix, one text below the other. Nothing is padded, and only attention
    treats the texts separately.
    """
    ends = np.cumsum([len(text) for text in ids])
    spans = list(zip([0, *ends[:-1].tolist()], ends.tolist(), strict=True))
    places = np.concatenate([np.arange(len(text)) for text in ids])
    rows = weights.words[np.concatenate([np.asarray(text, dtype=np.intp) for text in ids])]
    rows += weights.positions[places]
    normalise(rows, weights.norm)
    for layer in weights.layers:
        rows = _through(layer, rows, spans)
    means = np.stack([rows[begin:end].mean(axis=0) for begin, end in spans])
    means /= np.linalg.norm(means, axis=1, keepdims=True)
    return means


def _through(layer: Layer, rows: Matrix, spans: Sequence[Span]) -> Matrix:
    attended = _apply(layer.attended, _attend(_apply(layer.qkv, rows), spans))
    attended += rows
    normalise(attended, layer.attended_norm)
    inner = _apply(layer.up, attended)
    gelu_twice(inner)
    out = _apply(layer.down, inner)
    out += attended
    normalise(out, layer.norm)
    return out


def _apply(dense: Dense, rows: Matrix) -> Matrix:
    out: Matrix = rows @ dense.weight
    out += dense.bias
    return out


def _attend(qkv: Matrix, spans: Sequence[Span]) -> Matrix:
    heads = qkv.reshape(len(qkv), 3, _HEADS, -1)
    out = np.empty((len(qkv), _HEADS, heads.shape[-1]), dtype=np.float32)
    for begin, end in spans:
        # Heads first: (head, piece, width) for query and value, (head, width, piece) for key, as views.
        query, value = heads[begin:end, 0].transpose(1, 0, 2), heads[begin:end, 2].transpose(1, 0, 2)
        scores = query @ heads[begin:end, 1].transpose(1, 2, 0)
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
