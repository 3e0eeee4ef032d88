"""The local model compared with its definition, written plainly in double precision."""

from __future__ import annotations

import math
import shutil
import time
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import load_file

from schemas.errors import EmbeddingRefused, EmbeddingUnauthorized, ModelRefused
from worker.embed.local import minilm
from worker.embed.local.minilm import LocalEmbedder, check_files, model_directory
from worker.embed.local.wordpieces import WINDOW, WordPieces, windows

Doubles = NDArray[np.float64]

TEXTS = [
    "That is a happy person",
    "def authenticate(request):\n    return jwt.decode(request.token, KEY)",
    "word " * 200,
    "",
    "Zürich, 東京, 서울, naïve café — 3.14 \U0001f600",
]


@pytest.fixture(scope="module")
def pieces() -> WordPieces:
    return WordPieces(model_directory(None))


class Reference:
    """The forward pass as in the paper, one text at a time."""

    def __init__(self, path: Path) -> None:
        self._weights = {name: value.astype(np.float64) for name, value in load_file(path).items()}

    def embed(self, ids: list[int]) -> Doubles:
        get = self._weights
        rows = get["embeddings.word_embeddings.weight"][ids]
        rows = rows + get["embeddings.position_embeddings.weight"][: len(ids)]
        rows = self._norm(rows + get["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")
        for number in range(6):
            rows = self._layer(rows, f"encoder.layer.{number}.")
        mean: Doubles = rows.mean(axis=0)
        return mean / np.linalg.norm(mean)

    def _layer(self, rows: Doubles, at: str) -> Doubles:
        mixed = self._dense(self._attention(rows, f"{at}attention.self."), f"{at}attention.output.dense")
        rows = self._norm(rows + mixed, f"{at}attention.output.LayerNorm")
        inner = self._dense(rows, f"{at}intermediate.dense")
        gelu = inner * 0.5 * (1 + np.vectorize(math.erf)(inner / math.sqrt(2)))
        return self._norm(rows + self._dense(gelu, f"{at}output.dense"), f"{at}output.LayerNorm")

    def _attention(self, rows: Doubles, at: str) -> Doubles:
        query, key, value = (np.split(self._dense(rows, at + name), 12, axis=1) for name in ("query", "key", "value"))
        heads = []
        for head in range(12):
            scores = query[head] @ key[head].T / math.sqrt(32)
            shares = np.exp(scores - scores.max(axis=1, keepdims=True))
            heads.append(shares / shares.sum(axis=1, keepdims=True) @ value[head])
        return np.hstack(heads)

    def _dense(self, rows: Doubles, name: str) -> Doubles:
        out: Doubles = rows @ self._weights[f"{name}.weight"].T + self._weights[f"{name}.bias"]
        return out

    def _norm(self, rows: Doubles, name: str) -> Doubles:
        spread = np.sqrt(rows.var(axis=1, keepdims=True) + 1e-12)
        scaled = (rows - rows.mean(axis=1, keepdims=True)) / spread
        out: Doubles = scaled * self._weights[f"{name}.weight"] + self._weights[f"{name}.bias"]
        return out


def test_vectors_are_those_of_the_definition(pieces: WordPieces) -> None:
    reference = Reference(model_directory(None) / "model.safetensors")
    expected = np.stack([reference.embed(ids) for ids in pieces.ids(TEXTS)])
    assert ((LocalEmbedder().embed(TEXTS) * expected).sum(axis=1) > 0.99999).all()


def test_similarities_are_those_the_authors_publish() -> None:
    person, dog, very, day = LocalEmbedder().embed(
        ["That is a happy person", "That is a happy dog", "That is a very happy person", "Today is a sunny day"]
    )
    assert [person @ dog, person @ very, person @ day] == pytest.approx([0.695, 0.943, 0.257], abs=1e-3)


def test_a_vector_does_not_depend_on_the_company() -> None:
    embedder = LocalEmbedder()
    together = embedder.embed(TEXTS)
    for text, vector in zip(TEXTS, together, strict=True):
        assert embedder.embed([text])[0] == pytest.approx(vector, abs=1e-5)


def test_too_long_a_text_is_refused_by_position_and_never_cut() -> None:
    with pytest.raises(EmbeddingRefused, match="256") as caught:
        LocalEmbedder().embed(["short", "word " * 255, "word " * 254])
    assert caught.value.indices == [1]


def test_starts_are_the_pieces_of_the_text(pieces: WordPieces) -> None:
    text = "re-indexes [SEP] Zürich 한"
    starts = pieces.starts(text).tolist()
    assert [text[at] for at in starts[:7]] == ["r", "-", "i", "e", "[", "S", "]"]
    assert len(starts) == len(pieces.ids([text])[0]) - 2
    assert starts == sorted(starts)
    assert pieces.starts("").tolist() == []


def test_a_long_word_counts_by_its_length(pieces: WordPieces) -> None:
    assert len(pieces.starts("k9" * 5000)) >= 100


def test_windows_change_no_piece(pieces: WordPieces) -> None:
    text = "".join(f"line {n} of a longer text, with some_words\n" for n in range(4000))
    assert len(windows(text)) > 2
    starts = pieces.starts(text)
    assert len(starts) == len(pieces.ids([text])[0]) - 2
    assert sum(text.startswith("line", at) for at in starts.tolist()) == 4000
    assert windows("x" * (WINDOW + 1)) == [(0, WINDOW), (WINDOW, WINDOW + 1)]


@pytest.mark.parametrize("unit", ["word and ", "x", "é\n", "漢字"])
def test_counting_time_grows_with_the_text_and_not_faster(pieces: WordPieces, unit: str) -> None:
    def seconds(characters: int) -> float:
        text = unit * (characters // len(unit))
        begun = time.process_time()
        pieces.starts(text)
        return time.process_time() - begun

    seconds(50_000)
    assert seconds(800_000) < 40 * seconds(100_000) + 0.5


def test_missing_files_are_told_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(ModelRefused, match="LOCAL_MODEL_DIR"):
        check_files(tmp_path)
    with pytest.raises(EmbeddingUnauthorized, match="LOCAL_MODEL_DIR"):
        LocalEmbedder(tmp_path).embed(["a"])


def test_other_weights_are_not_taken_for_the_model(tmp_path: Path) -> None:
    for name in minilm.HASHES:
        shutil.copy(model_directory(None) / name, tmp_path / name)
    check_files(tmp_path)
    with (tmp_path / "model.safetensors").open("r+b") as file:
        file.seek(1_000_000)
        file.write(b"changed")
    (tmp_path / "model.safetensors").touch()
    with pytest.raises(ModelRefused, match=r"model\.safetensors"):
        check_files(tmp_path)
