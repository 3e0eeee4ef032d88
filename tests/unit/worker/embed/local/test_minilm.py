"""The local model compared with its definition, written plainly in double precision."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import numpy as np
import pytest

from schemas.errors import EmbeddingRefused, EmbeddingUnauthorized, ModelRefused
from tests.unit.worker.embed.local.reference import Reference
from worker.embed.local import minilm
from worker.embed.local.minilm import LocalEmbedder, check_files, model_directory
from worker.embed.local.wordpieces import WINDOW, WordPieces, windows

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
