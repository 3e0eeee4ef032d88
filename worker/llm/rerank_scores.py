"""Scores by a rerank model, which reads the query with one text at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence

from worker.embed.known_models import known_input_tokens
from worker.embed.models import is_local
from worker.embed.rate_limit import no_check
from worker.llm import cross_encoder
from worker.llm.litellm import Check, Provider, relevance
from worker.llm.text_windows import beginning, likeliest, windows
from worker.tokens.tokenizers import cl100k

#: Maximum documents of a request.
MAX_DOCUMENTS = 1000
#: Maximum tokens of a request, with the query counted once per document.
MAX_REQUEST_TOKENS = 150_000
#: Tokens of query plus text for an unknown model.
DEFAULT_TOKENS = 512
#: Tokens of query plus text above which Cohere truncates, even if it accepts more.
LONGEST_TOKENS = 4096


def scores(provider: Provider, query: str, texts: Sequence[str], check: Check = no_check) -> list[float]:
    """Return one score from 0 to 1 per text, for at least one text: its best part's. All parts go in one request.

    LiteLLM's table limits query and text together. If a text has more parts than the request can hold, only those with
    most of the query's words count. Raises `RerankUnavailable`, and the errors of `check`.
    """
    share = MAX_REQUEST_TOKENS // len(texts)
    runs_here = is_local(provider.model)
    known = None if runs_here else known_input_tokens(provider.model)
    tokens = min(_cautious(known or DEFAULT_TOKENS), share)
    query = beginning(query, tokens // 2)
    size = tokens - len(cl100k().starts(query))
    max_parts = min(share // tokens, MAX_DOCUMENTS // len(texts))
    parts = [likeliest(query, windows(text, size), max_parts) for text in texts]
    ask = cross_encoder.relevance if runs_here else relevance
    part_scores = iter(_unit(ask(provider, query, [part for of_text in parts for part in of_text], check)))
    return [max(next(part_scores) for _ in of_text) for of_text in parts]


def _cautious(tokens: int) -> int:
    """Return the cl100k tokens that the model safely accepts: BERT has up to 1.55 times as many pieces of code."""
    return min(tokens, LONGEST_TOKENS) * 3 // 5


def _unit(raw: Sequence[float]) -> list[float]:
    """Return scores unchanged if all lie between 0 and 1, else treated as logits."""
    if all(0 <= score <= 1 for score in raw):
        return list(raw)
    return [(1 + math.tanh(score / 2)) / 2 for score in raw]
