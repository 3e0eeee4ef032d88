"""A cross-encoder from a directory, compared with BERT's definition, and what happens if it cannot be used."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import save_file
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing

from api.http.disconnect import CallerLeft
from schemas.errors import RerankUnavailable
from tests.unit.worker.embed.local.reference import Reference
from worker.llm import cross_encoder, rerank_scores
from worker.llm.cross_encoder import FILES, relevance
from worker.llm.litellm import Provider

WIDTH, HEADS, LAYERS, PIECES = 24, 3, 2, 32
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *"abcdefgh"]
CONFIG = {
    "architectures": ["BertForSequenceClassification"],
    "hidden_act": "gelu",
    "layer_norm_eps": 1e-12,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "id2label": {"0": "LABEL_0"},
}
TEXTS = ["a b c", "", "h", "d e f g " * 3, "a " * 100]


def tensors() -> dict[str, NDArray[np.float32]]:
    """Random weights, by the names that BERT's have."""
    random = np.random.default_rng(7)

    def dense(name: str, inner: int, outer: int) -> dict[str, NDArray[np.float32]]:
        weight, bias = random.normal(size=(outer, inner)), random.normal(size=outer)
        return {f"{name}.weight": weight.astype(np.float32), f"{name}.bias": bias.astype(np.float32)}

    def norm(name: str) -> dict[str, NDArray[np.float32]]:
        made = dense(name, 1, WIDTH)
        return made | {f"{name}.weight": made[f"{name}.weight"][:, 0].copy()}

    made = norm("bert.embeddings.LayerNorm")
    for name, rows in (("word", len(WORDS)), ("position", PIECES), ("token_type", 2)):
        made[f"bert.embeddings.{name}_embeddings.weight"] = random.normal(size=(rows, WIDTH)).astype(np.float32)
    for layer in (f"bert.encoder.layer.{number}" for number in range(LAYERS)):
        for name in ("self.query", "self.key", "self.value", "output.dense"):
            made |= dense(f"{layer}.attention.{name}", WIDTH, WIDTH)
        made |= dense(f"{layer}.intermediate.dense", WIDTH, 2 * WIDTH) | dense(
            f"{layer}.output.dense", 2 * WIDTH, WIDTH
        )
        made |= norm(f"{layer}.attention.output.LayerNorm") | norm(f"{layer}.output.LayerNorm")
    return made | dense("bert.pooler.dense", WIDTH, WIDTH) | dense("classifier", WIDTH, 1)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    tokenizer = Tokenizer(WordPiece({word: n for n, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    save_file(tensors(), tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    return tmp_path


def provider(directory: Path, seconds: float = 30) -> Provider:
    return Provider(f"local/{directory}", None, None, seconds, "RERANK_MODEL")


def test_scores_are_those_of_the_definition(directory: Path) -> None:
    reference = Reference(directory / "model.safetensors", LAYERS, HEADS, "bert.")
    tokenizer = cross_encoder._model(f"local/{directory}").tokenizer
    pairs = tokenizer.encode_batch([("b h", text) for text in TEXTS])
    assert [len(pair.ids) for pair in pairs] == [8, 5, 6, 17, PIECES]
    assert pairs[0].type_ids == [0] * 4 + [1] * 4
    expected = [reference.score(pair.ids, pair.type_ids) for pair in pairs]
    assert relevance(provider(directory), "b h", TEXTS) == pytest.approx(expected, abs=1e-3)
    assert max(expected) - min(expected) > 0.1


def test_a_score_does_not_depend_on_the_company(directory: Path) -> None:
    many = [" ".join("abcdefgh"[n % 8] for n in range(start % 29)) for start in range(40)]
    together = relevance(provider(directory), "c", many)
    alone = [relevance(provider(directory), "c", [text])[0] for text in many]
    assert together == pytest.approx(alone, abs=1e-4)


def test_a_long_text_is_judged_by_its_best_part(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rerank_scores, "DEFAULT_TOKENS", 64)
    scores = rerank_scores.scores(provider(directory), "c", ["a b", "h " * 400])
    assert len(scores) == 2
    assert scores[0] == pytest.approx(relevance(provider(directory), "c", ["a b"])[0], abs=1e-4)


@pytest.mark.parametrize("name", FILES)
def test_missing_and_broken_files_are_named_and_may_be_added_later(directory: Path, name: str) -> None:
    kept = (directory / name).read_bytes()
    (directory / name).unlink()
    with pytest.raises(RerankUnavailable, match=f"lacks {name}"):
        relevance(provider(directory), "a", TEXTS)
    (directory / name).write_bytes(b"{")
    with pytest.raises(RerankUnavailable, match="cannot be read"):
        relevance(provider(directory), "a", TEXTS)
    cross_encoder.warm(f"local/{directory}")
    (directory / name).write_bytes(kept)
    assert len(relevance(provider(directory), "a", TEXTS)) == len(TEXTS)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"architectures": ["XLMRobertaForSequenceClassification"]}, "architectures"),
        ({"hidden_act": "relu"}, "hidden_act"),
        ({"layer_norm_eps": 1e-5}, "layer_norm_eps"),
        ({"id2label": {"0": "no", "1": "yes"}}, "2 labels"),
        ({"num_hidden_layers": LAYERS + 1}, "cannot be read"),
        ({"num_attention_heads": None}, "cannot be read"),
    ],
)
def test_other_models_are_refused(directory: Path, changed: dict[str, Any], said: str) -> None:
    (directory / "config.json").write_text(json.dumps({**CONFIG, **changed}))
    with pytest.raises(RerankUnavailable, match=said):
        relevance(provider(directory), "a", TEXTS)


def test_a_model_that_takes_too_long_says_what_to_change(directory: Path) -> None:
    relevance(provider(directory), "a", TEXTS)
    with pytest.raises(RerankUnavailable, match="a smaller model, or raise SEARCH_SECONDS"):
        relevance(provider(directory, seconds=-1), "a", TEXTS)


def test_who_waits_for_another_query_waits_no_longer_than_allowed(directory: Path) -> None:
    computing = cross_encoder._model(f"local/{directory}").computing
    with computing, pytest.raises(RerankUnavailable, match="other queries"):
        relevance(provider(directory, seconds=0), "a", TEXTS)
    assert len(relevance(provider(directory), "a", TEXTS)) == len(TEXTS)


def test_a_caller_that_left_ends_the_work(directory: Path) -> None:
    left = threading.Event()

    def check() -> None:
        if left.is_set():
            raise CallerLeft

    relevance(provider(directory), "a", TEXTS, check)
    left.set()
    with pytest.raises(CallerLeft):
        relevance(provider(directory), "a", TEXTS, check)
