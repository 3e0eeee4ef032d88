"""The int8 encoder on ONNX Runtime, in less than half of numpy's time.

Weights are rounded to 255 values for each column, and the rows before each multiplication to 255 values for each row.
So a vector depends on no other text of its request. Never change the arithmetic, because indexes hold its vectors.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from worker.embed.local.bert import EPSILON, Dense, Layer, Matrix, ModelWeights, at_length_1
from worker.machine.onnx.graph import FLOAT, RUNTIME, OnnxGraph, Port
from worker.machine.onnx.session import open_session

#: Number of integers on each side of zero.
_LEVELS = np.float32(127)
#: Lower bound of the largest value of a row or column, so that a row of zeros can be divided by it.
_TINY = np.float32(1e-9)
#: Maximum word pieces, with padding, in one run of the model. More would not fit the processor's cache.
_ROWS = 192
_PLACES: list[int | str] = ["text", "piece"]
#: What is added to the scores of each text's pieces.
PADDING: Port = ("padding", FLOAT, ["text", 1, 1, "piece"])


class Int8Encoder:
    """The model as a session of ONNX Runtime, for any number of threads. Make it after the fork. Takes 0.2 s."""

    def __init__(self, weights: ModelWeights) -> None:
        self._words, self._positions = weights.words, weights.positions
        self._session = open_session(_graph(weights))

    def encode(self, ids: Sequence[Sequence[int]]) -> Matrix:
        """Run the encoder, average over the pieces, scale to length 1: float32 of shape (len(ids), width)."""
        vectors = np.empty((len(ids), self._words.shape[1]), dtype=np.float32)
        for group in padded_groups([len(text) for text in ids]):
            vectors[group] = self._means([ids[index] for index in group])
        return at_length_1(vectors)

    def _means(self, ids: Sequence[Sequence[int]]) -> Matrix:
        longest = max(map(len, ids))
        pieces = np.zeros((len(ids), longest), dtype=np.intp)
        for row, text in enumerate(ids):
            pieces[row, : len(text)] = text
        rows = self._words[pieces] + self._positions[:longest]
        lengths = np.array([len(text) for text in ids])
        # padding gets no weight
        padding = np.where(np.arange(longest) < lengths[:, None], np.float32(0), -np.float32(np.inf))
        (hidden,) = self._session.run(None, {"rows": rows, "padding": padding[:, None, None]})
        return np.stack([hidden[row, : len(text)].mean(axis=0) for row, text in enumerate(ids)])


def padded_groups(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Return the indices of texts, longest first, in groups of at most `_ROWS` pieces after padding to the first."""
    group: list[int] = []
    for index in sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True):
        if group and (len(group) + 1) * lengths[group[0]] > _ROWS:
            yield group
            group = []
        group.append(index)
    if group:
        yield group


def rounded(weight: Matrix) -> tuple[NDArray[np.int8], Matrix]:
    """Return the integers for a linear map, and the value of 1 in each column."""
    scale = np.maximum(np.abs(weight).max(axis=0), _TINY) / _LEVELS
    return np.rint(weight / scale).astype(np.int8), scale


def _graph(weights: ModelWeights) -> bytes:
    """Build the encoder after the embedding layer; its input has the shape (text, piece, width)."""
    encoder = _Encoder(weights.words.shape[1], weights.heads)
    graph, shape = encoder.graph, [*_PLACES, weights.words.shape[1]]
    rows = encoder.normalise(graph.node("Reshape", "rows", encoder.flat), weights.norm)
    for layer in weights.layers:
        rows = encoder.through(layer, rows)
    out = graph.node("Reshape", rows, encoder.shape)
    return graph.model([("rows", FLOAT, shape), PADDING], [(out, FLOAT, shape)])


class _Encoder:
    """Adds the steps of `bert` to a graph. Texts are rows one below the other, and only attention separates them."""

    def __init__(self, width: int, heads: int) -> None:
        self.graph = graph = OnnxGraph()
        self.shape = graph.node("Shape", "rows")
        self.flat = graph.constant(np.array([-1, width]))
        first = [graph.constant(np.array([at])) for at in (0, 2)]
        rest = graph.constant(np.array([-1]))
        self._wide = graph.node("Concat", graph.node("Slice", self.shape, *first), rest, axis=0)
        self._one = graph.constant(np.array([1]))
        #: Query, key and value, by heads. A 0 keeps the size of texts and pieces.
        self._by_heads = graph.constant(np.array([0, 0, 3, heads, width // heads]))
        self._thirds = [graph.constant(np.array(third)) for third in range(3)]
        self._middle, self._unscaled = graph.constant(np.array(128, dtype=np.uint8)), graph.constant(np.float32(1))
        self._tiny, self._step = graph.constant(_TINY), graph.constant(1 / _LEVELS)
        self._epsilon = graph.constant(np.float32(EPSILON))

    def through(self, layer: Layer, rows: str) -> str:
        """Add the steps of `bert._through`. GELU is not doubled here, so `down` is."""
        node, constant = self.graph.node, self.graph.constant
        attended = self._add(self._apply(layer.attended, self._attend(layer.qkv, rows)), layer.attended.bias, rows)
        attended = self.normalise(attended, layer.attended_norm)
        inner = node("BiasGelu", self._apply(layer.up, attended), constant(layer.up.bias), domain=RUNTIME)
        out = self._apply(layer.down._replace(weight=2 * layer.down.weight), inner)
        return self.normalise(self._add(out, layer.down.bias, attended), layer.norm)

    def normalise(self, rows: str, norm: Dense) -> str:
        """Add the steps of `bert.normalise`. The runtime's own operator takes three times as long."""
        node, constant = self.graph.node, self.graph.constant
        off = node("Sub", rows, node("ReduceMean", rows, axes=[-1]))
        variance = node("ReduceMean", node("Mul", off, off), axes=[-1])
        rows = node("Div", off, node("Sqrt", node("Add", variance, self._epsilon)))
        return node("Add", node("Mul", rows, constant(norm.weight)), constant(norm.bias))

    def _apply(self, dense: Dense, rows: str) -> str:
        """Add the steps of `bert.apply`, without the bias. Rows become integers around 128."""
        node, constant = self.graph.node, self.graph.constant
        # minimum and maximum are found faster than the maximum of absolute values
        highest = node("ReduceMax", rows, axes=[-1], keepdims=0)
        lowest = node("Neg", node("ReduceMin", rows, axes=[-1], keepdims=0))
        largest = node("Max", highest, lowest, self._tiny)
        scales = node("Mul", largest, self._step)
        middles = node("Expand", self._middle, node("Shape", scales))
        whole = node("QuantizeLinear", rows, scales, middles, axis=0)
        weight, scale = rounded(dense.weight)
        inputs = whole, constant(weight), self._unscaled, constant(scale), self._middle
        return node("Mul", node("MatMulIntegerToFloat", *inputs, domain=RUNTIME), node("Unsqueeze", scales, self._one))

    def _attend(self, qkv: Dense, rows: str) -> str:
        """Add the steps of `bert._attend`. The runtime's own operator takes a tenth longer for the same numbers."""
        node = self.graph.node
        wide = node("Reshape", self._apply(qkv, rows), self._wide)
        by_heads = node("Reshape", node("Add", wide, self.graph.constant(qkv.bias)), self._by_heads)
        heads_first = node("Transpose", by_heads, perm=[2, 0, 3, 1, 4])
        query, key, value = (node("Gather", heads_first, third, axis=0) for third in self._thirds)
        # the weights already hold the scale of the scores
        scores = node("MatMul", query, node("Transpose", key, perm=[0, 1, 3, 2]))
        weights = node("Softmax", node("Add", scores, "padding"), axis=-1)
        mixed = node("Transpose", node("MatMul", weights, value), perm=[0, 2, 1, 3])
        return node("Reshape", mixed, self.flat)

    def _add(self, rows: str, bias: Matrix, others: str) -> str:
        node = self.graph.node
        return node("Add", node("Add", rows, self.graph.constant(bias)), others)
