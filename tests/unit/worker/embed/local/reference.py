"""BERT's definition, written plainly in double precision."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file

Doubles = NDArray[np.float64]


class Reference:
    """The forward pass as in the paper, one text at a time. `prefix` begins the names of the encoder's tensors."""

    def __init__(self, path: Path, layers: int = 6, heads: int = 12, prefix: str = "") -> None:
        self._weights = {name: value.astype(np.float64) for name, value in load_file(path).items()}
        self._layers, self._heads, self._prefix = layers, heads, prefix

    def embed(self, ids: Sequence[int]) -> Doubles:
        mean: Doubles = self._rows(ids, [0] * len(ids)).mean(axis=0)
        return mean / np.linalg.norm(mean)

    def score(self, ids: Sequence[int], types: Sequence[int]) -> float:
        pooled = np.tanh(self._dense(self._rows(ids, types)[:1], f"{self._prefix}pooler.dense"))
        return 1 / (1 + math.exp(-float(self._dense(pooled, "classifier")[0, 0])))

    def _rows(self, ids: Sequence[int], types: Sequence[int]) -> Doubles:
        get, at = self._weights, f"{self._prefix}embeddings."
        rows = get[f"{at}word_embeddings.weight"][list(ids)]
        rows = rows + get[f"{at}position_embeddings.weight"][: len(ids)]
        rows = self._norm(rows + get[f"{at}token_type_embeddings.weight"][list(types)], f"{at}LayerNorm")
        for number in range(self._layers):
            rows = self._layer(rows, f"{self._prefix}encoder.layer.{number}.")
        return rows

    def _layer(self, rows: Doubles, at: str) -> Doubles:
        mixed = self._dense(self._attention(rows, f"{at}attention.self."), f"{at}attention.output.dense")
        rows = self._norm(rows + mixed, f"{at}attention.output.LayerNorm")
        inner = self._dense(rows, f"{at}intermediate.dense")
        gelu = inner * 0.5 * (1 + np.vectorize(math.erf)(inner / math.sqrt(2)))
        return self._norm(rows + self._dense(gelu, f"{at}output.dense"), f"{at}output.LayerNorm")

    def _attention(self, rows: Doubles, at: str) -> Doubles:
        parts = (np.split(self._dense(rows, at + name), self._heads, axis=1) for name in ("query", "key", "value"))
        heads = []
        for query, key, value in zip(*parts, strict=True):
            scores = query @ key.T / math.sqrt(key.shape[1])
            shares = np.exp(scores - scores.max(axis=1, keepdims=True))
            heads.append(shares / shares.sum(axis=1, keepdims=True) @ value)
        return np.hstack(heads)

    def _dense(self, rows: Doubles, name: str) -> Doubles:
        out: Doubles = rows @ self._weights[f"{name}.weight"].T + self._weights[f"{name}.bias"]
        return out

    def _norm(self, rows: Doubles, name: str) -> Doubles:
        spread = np.sqrt(rows.var(axis=1, keepdims=True) + 1e-12)
        scaled = (rows - rows.mean(axis=1, keepdims=True)) / spread
        out: Doubles = scaled * self._weights[f"{name}.weight"] + self._weights[f"{name}.bias"]
        return out
