"""The local model compared with its definition, written plainly in double precision."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from random import Random

import numpy as np
import pytest

from schemas.content.source import FLOAT32
from schemas.errors import EmbeddingRefused, EmbeddingUnauthorized, ModelRefused
from tests.interpreter import longest_hold
from tests.unit.worker.embed.local.reference import Reference
from worker.embed.local import minilm, wordpieces
from worker.embed.local.loading import INT8
from worker.embed.local.minilm import LocalEmbedder, check_files, fastest_precision, model_directory
from worker.embed.local.wordpieces import WINDOW, WordPieces, load_tokenizer, windows
from worker.machine.onnx import session

TEXTS = [
    "That is a happy person",
    "def authenticate(request):\n    return jwt.decode(request.token, KEY)",
    "word " * 200,
    "",
    "Zürich, 東京, 서울, naïve café — 3.14 \U0001f600",
]


@pytest.fixture(params=[FLOAT32, INT8])
def precision(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def pieces() -> WordPieces:
    return WordPieces(model_directory(None))


@pytest.mark.parametrize(("precision", "least"), [(FLOAT32, 0.99999), (INT8, 0.98)], indirect=["precision"])
def test_vectors_are_those_of_the_definition(pieces: WordPieces, precision: str, least: float) -> None:
    reference = Reference(model_directory(None) / "model.safetensors")
    expected = np.stack([reference.embed(ids) for ids in pieces.ids(TEXTS)])
    assert ((LocalEmbedder(precision=precision).embed(TEXTS) * expected).sum(axis=1) > least).all()


@pytest.mark.parametrize(("precision", "off"), [(FLOAT32, 1e-3), (INT8, 0.02)], indirect=["precision"])
def test_similarities_are_those_the_authors_publish(precision: str, off: float) -> None:
    person, dog, very, day = LocalEmbedder(precision=precision).embed(
        ["That is a happy person", "That is a happy dog", "That is a very happy person", "Today is a sunny day"]
    )
    assert [person @ dog, person @ very, person @ day] == pytest.approx([0.695, 0.943, 0.257], abs=off)


def test_a_vector_does_not_depend_on_the_company(precision: str) -> None:
    embedder = LocalEmbedder(precision=precision)
    texts = [*TEXTS, *(f"{'word ' * number}end" for number in range(0, 90, 7))]
    together = embedder.embed(texts)
    for text, vector in zip(texts, together, strict=True):
        assert embedder.embed([text])[0] == pytest.approx(vector, abs=1e-5)


def test_too_long_a_text_is_refused_by_position_and_never_cut(precision: str) -> None:
    with pytest.raises(EmbeddingRefused, match="256") as caught:
        LocalEmbedder(precision=precision).embed(["short", "word " * 255, "word " * 254])
    assert caught.value.indices == [1]


def test_starts_are_the_pieces_of_the_text(pieces: WordPieces) -> None:
    text = "re-indexes [SEP] Zürich 한"
    starts = pieces.starts(text).tolist()
    assert [text[at] for at in starts[:7]] == ["r", "-", "i", "e", "[", "S", "]"]
    assert len(starts) == len(pieces.ids([text])[0]) - 2
    assert starts == sorted(starts)
    assert pieces.starts("").tolist() == []


#: Characters that the library drops, splits, joins or decomposes, or that other programs take for white space or signs.
_ODD = (
    "ab Z9_-.\t\n\r\x00\x0b\x0c\x1c\x7f\x85\xa0\xad\xc9\xdf\xe9\u0130\u0131\u0301\u0345\u01c5"
    "\ufb01\u03a3\u03c2\u2260\u1160"
    "\u1f88\u200b\u200d\u2028\u3000\u6f22\u5b57\uff0c\ud55c\uae00\ue000\ufeff\ufffd\U0001f600"
)


@pytest.mark.parametrize("longest", [1, 8, 300])
def test_starts_are_those_of_the_library(pieces: WordPieces, longest: int) -> None:
    library = load_tokenizer(model_directory(None) / "tokenizer.json")
    random = Random(longest)
    texts = ["".join(random.choice(_ODD) for _ in range(random.randint(0, longest))) for _ in range(3000)]
    texts += [unit * longest for unit in ("def f(x): ", "_" * 3 + "naïve", "[SEP]", "é", "漢字", "x" * 101 + "-")]
    for text, encoding in zip(texts, library.encode_batch(texts, add_special_tokens=False), strict=True):
        assert pieces.starts(text).tolist() == [start for start, _ in encoding.offsets], text


def test_remembered_words_stay_few_and_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    pieces, text = WordPieces(model_directory(None)), "some unbelievable words " + "x" * 65
    expected = pieces.starts(text).tolist()
    monkeypatch.setattr(wordpieces, "MAX_ENTRIES", 3)
    for number in range(20):
        assert len(pieces.starts(f"word{number} other{number}")) >= 2
        assert pieces.starts(text).tolist() == expected
        assert len(pieces._known) <= 3 + 3
        assert "x" * 65 not in pieces._known


@pytest.mark.parametrize(
    ("query", "least", "most"),
    [
        ("How many points did the defence give up?", 1.0, 1.0),
        ("getUserById", 0.8, 1.0),
        ("E11000 12 %", 0.0, 1.0),
        ("42: 7 %", 1.0, 1.0),
        ("", 1.0, 1.0),
        ("Wie viele Punkte gab die Verteidigung der Panthers auf?", 0.5, 0.95),
        ("كم نقطة تخلى عنها دفاع البانثرز؟", 0.0, 0.0),
        ("黑豹队的防守丢了多少分", 0.0, 0.0),
        ("パンサーズの守備は何点を許しましたか", 0.0, 0.0),
        ("팬서스 수비진은 몇 점을 내주었습니까", 0.0, 0.0),
        ("Сколько очков уступила защита", 0.0, 0.0),
        # each word is one unknown piece
        ("แนวรับของแพนเธอร์สเสียไปกี่แต้ม", 0.0, 0.0),
        ("ꙮ" * 100_000, 0.0, 0.0),
    ],
)
def test_the_model_reads_english_and_only_letters_of_other_scripts(query: str, least: float, most: float) -> None:
    assert least <= minilm.legibility(query) <= most


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
    with pytest.raises(ModelRefused, match="extra `local-model`"):
        check_files(tmp_path)
    with pytest.raises(EmbeddingUnauthorized, match="extra `local-model`"):
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


def test_int8_needs_its_library_and_is_never_replaced(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert fastest_precision() == INT8
    monkeypatch.setattr(session, "is_installed", lambda: False)
    assert fastest_precision() == FLOAT32
    with pytest.raises(EmbeddingUnauthorized, match="onnxruntime"):
        LocalEmbedder(link(tmp_path), INT8).embed(["a"])
    assert LocalEmbedder(tmp_path, FLOAT32).embed(["a"]).shape == (1, 384)


def test_other_weights_embed_nothing(tmp_path: Path, precision: str) -> None:
    weights = link(tmp_path) / "model.safetensors"
    weights.unlink()
    weights.write_bytes(b"others")
    with pytest.raises(EmbeddingUnauthorized, match="differs from the published"):
        LocalEmbedder(tmp_path, precision).embed(["a"])


def link(folder: Path) -> Path:
    for name in minilm.HASHES:
        (folder / name).symlink_to(model_directory(None) / name)
    return folder


@pytest.mark.parametrize("unit", ["a", "1 ", "\u4e2d\u6587", "word "])
def test_a_long_text_is_counted_without_holding_the_interpreter(pieces: WordPieces, unit: str) -> None:
    text = unit * (WINDOW // len(unit))
    # a busy machine makes single measurements longer; held throughout, 65,536 letters took 0.2 s
    assert min(longest_hold(lambda: pieces.starts(text)) for _ in range(3)) < 0.06
