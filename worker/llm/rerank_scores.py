"""Scores by a rerank model, which reads the query with one text at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence

from worker.embed.litellm import known_input_tokens
from worker.embed.rate_limit import unchecked
from worker.llm.litellm import Check, Provider, relevance
from worker.llm.text_windows import beginning, likeliest, windows
from worker.tokens.tokenizers import cl100k

#: Limits of a request: documents, and tokens in total, with the query counted once per document.
MAX_DOCUMENTS, MAX_REQUEST_TOKENS = 1000, 150_000
#: Tokens of query plus text for an unknown model, and the limit above which Cohere truncates, whatever it accepts.
DEFAULT_TOKENS, LONGEST = 512, 4096


def scores(
    provider: Provider, query: str, texts: Sequence[str], max_tokens: int | None, check: Check = unchecked
) -> list[float]:
    """One score from 0 to 1 per text, for at least one text: that of its best part. All parts go in one request.

    `max_tokens` limits query and text together; None means the value in LiteLLM's table. If a text has more parts than
    the request can hold, only those with most of the query's words count. Raises `RerankUnavailable`, and what `check`
    raises.
    """
    share = MAX_REQUEST_TOKENS // len(texts)
    tokens = min(_cautious(max_tokens or known_input_tokens(provider.model) or DEFAULT_TOKENS), share)
    query = beginning(query, tokens // 2)
    size = tokens - len(cl100k().starts(query))
    most = min(share // tokens, MAX_DOCUMENTS // len(texts))
    parts = [likeliest(query, windows(text, size), most) for text in texts]
    found = iter(_unit(relevance(provider, query, [part for of_text in parts for part in of_text], check)))
    return [max(next(found) for _ in of_text) for of_text in parts]


def _cautious(tokens: int) -> int:
    """Tokens of cl100k that the model safely accepts: BERT's word pieces of code are up to 1.55 times as many."""
    return min(tokens, LONGEST) * 3 // 5


def _unit(found: Sequence[float]) -> list[float]:
    """Scores as they are if all lie between 0 and 1, else treated as logits."""
    if all(0 <= score <= 1 for score in found):
        return list(found)
    return [(1 + math.tanh(score / 2)) / 2 for score in found]
