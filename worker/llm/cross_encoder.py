"""A cross-encoder of the MiniLM family from a directory, in numpy: BERT reads the query with one text at a time.

After Nogueira and Cho, "Passage Re-ranking with BERT" (2019): a linear map, tanh and a second linear map turn the first
row into one number.
"""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import structlog

from schemas.errors import RerankUnavailable
from worker.embed.local.bert import EPSILON, Dense, ModelShape, ModelWeights, apply, dense, groups, hidden, load_weights
from worker.embed.local.wordpieces import load_tokenizer
from worker.embed.rate_limit import no_check
from worker.llm.litellm import CHECK_SECONDS, Check, Provider

PREFIX = "local/"
FILES = ("config.json", "model.safetensors", "tokenizer.json")
#: The values in `config.json` of a model that this module computes.
_ACCEPTED = {
    "architectures": ["BertForSequenceClassification"],
    "hidden_act": "gelu",
    "layer_norm_eps": EPSILON,
}

log = structlog.get_logger()


class CrossEncoder(NamedTuple):
    """A loaded model. Only one request computes at a time, because numpy already uses several threads."""

    weights: ModelWeights
    pooler: Dense
    classifier: Dense
    tokenizer: Any
    computing: threading.Lock


def relevance(provider: Provider, query: str, documents: Sequence[str], check: Check = no_check) -> list[float]:
    """Return a score from 0 to 1 for each document. A document longer than the model's input is cut at its end.

    Raises `RerankUnavailable` if the model's files cannot be used or the time is over, and the errors of `check`.
    """
    deadline = time.monotonic() + provider.seconds
    model = _model(provider.model)
    pairs = model.tokenizer.encode_batch([(query, document) for document in documents])
    scores = [0.0] * len(pairs)
    with _turn(provider, model, deadline, check):
        for done, group in enumerate(groups([len(pair.ids) for pair in pairs])):
            _go_on(provider, deadline, check, f"it read {done} groups of the texts")
            for index, score in zip(group, _scores(model, [pairs[index] for index in group]), strict=True):
                scores[index] = score
    return scores


def warm(name: str) -> None:
    """Load the model. Logs the reason if its files cannot be used: each query then reports it, too."""
    try:
        _model(name)
    except RerankUnavailable as error:
        log.warning("the rerank model is not usable", reason=error.message)


def _scores(model: CrossEncoder, pairs: Sequence[Any]) -> list[float]:
    rows, spans = hidden(model.weights, [pair.ids for pair in pairs], [pair.type_ids for pair in pairs])
    first = rows[[begin for begin, _ in spans]]
    logits = apply(model.classifier, np.tanh(apply(model.pooler, first)))[:, 0]
    return [(1 + math.tanh(logit / 2)) / 2 for logit in logits.tolist()]


@contextmanager
def _turn(provider: Provider, model: CrossEncoder, deadline: float, check: Check) -> Iterator[None]:
    while not model.computing.acquire(timeout=CHECK_SECONDS):
        _go_on(provider, deadline, check, "it still reads for other queries")
    try:
        yield
    finally:
        model.computing.release()


def _go_on(provider: Provider, deadline: float, check: Check, state: str) -> None:
    check()
    if time.monotonic() > deadline:
        message = f"{provider.model} did not finish within {provider.seconds:g} s: {state}"
        raise RerankUnavailable(f"{message}; choose a smaller model, or raise SEARCH_SECONDS.")


_loading = threading.Lock()


def _model(name: str) -> CrossEncoder:
    with _loading:
        return _load(Path(name.removeprefix(PREFIX)))


@cache
def _load(directory: Path) -> CrossEncoder:
    """Read the files. Raises `RerankUnavailable`, which is not cached, so that files may be added later."""
    started = time.monotonic()
    missing = [name for name in FILES if not (directory / name).is_file()]
    if missing:
        raise _unusable(directory, f"lacks {' and '.join(missing)}")
    try:
        config = json.loads((directory / "config.json").read_bytes())
        _refuse_others(directory, config)
        file, shape = (
            directory / "model.safetensors",
            ModelShape(config["num_hidden_layers"], config["num_attention_heads"]),
        )
        weights = load_weights(file, shape, "bert.")
        tokenizer = load_tokenizer(directory / "tokenizer.json")
        tokenizer.enable_truncation(len(weights.positions))
        model = CrossEncoder(
            weights, dense(file, "bert.pooler.dense"), dense(file, "classifier"), tokenizer, threading.Lock()
        )
    except RerankUnavailable:
        raise
    except Exception as error:  # `tokenizers` raises no narrower class
        raise _unusable(directory, f"holds a file that cannot be read ({error})") from error
    log.info("loaded the rerank model", directory=str(directory), seconds=round(time.monotonic() - started, 2))
    return model


def _refuse_others(directory: Path, config: Mapping[str, Any]) -> None:
    for name, accepted in _ACCEPTED.items():
        if config.get(name) != accepted:
            raise _unusable(directory, f"has {name} {config.get(name)!r}, but {accepted!r} is needed")
    labels = len(config.get("id2label", {"0": ""}))
    if labels != 1:
        raise _unusable(directory, f"has {labels} labels, but one score is needed")


def _unusable(directory: Path, why: str) -> RerankUnavailable:
    return RerankUnavailable(
        f"The directory {directory} of RERANK_MODEL {why}. Use a BERT cross-encoder with one score, such as "
        f"ms-marco-MiniLM-L6-v2, with {', '.join(FILES)}."
    )
