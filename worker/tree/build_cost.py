"""Estimates the cost of a tree without any request."""

from __future__ import annotations

import math
from dataclasses import dataclass

from schemas.summary_tree import RaptorConfig
from worker.tokens.tokenizers import cl100k
from worker.tree.model_summaries import PROMPT, SUMMARY_TOKENS

#: Mean number of texts in a cluster, as a multiple of `min_cluster_size`, as measured with `adjacent`.
MEAN_FACTOR = 5 / 3
#: Number of times that `gmm` summarises a text, because a text may have several parents.
GMM_PARENTS = 1.2
#: Mean tokens of a summary.
MEAN_SUMMARY_TOKENS = SUMMARY_TOKENS // 2
TOKENS_PER_PRICE = 1_000_000


@dataclass(frozen=True, slots=True)
class BuildCost:
    """Estimated summaries and tokens of a whole build, in one request per summary."""

    summaries: int
    tokens_in: int
    tokens_out: int

    @property
    def tokens(self) -> int:
        """Total tokens sent and received."""
        return self.tokens_in + self.tokens_out

    def money(self, input_price: float | None, output_price: float | None) -> float | None:
        """Return the costs at prices per million tokens; None if a price is unknown."""
        if input_price is None or output_price is None:
            return None
        return (self.tokens_in * input_price + self.tokens_out * output_price) / TOKENS_PER_PRICE


def cost(config: RaptorConfig, leaves: int, tokens: int) -> BuildCost:
    """Estimate a build of a tree over `leaves` texts that have `tokens` tokens in total."""
    clusters = _clusters(config, leaves)
    parents = GMM_PARENTS if config.cluster_method == "gmm" else 1.0
    return cost_above(config, clusters=clusters, unpaid=clusters, tokens=round(tokens * parents))


def cost_above(config: RaptorConfig, *, clusters: int, unpaid: int, tokens: int) -> BuildCost:
    """Estimate a build whose first layer has `clusters` clusters.

    `unpaid` clusters have no summary yet, and their texts have `tokens` tokens in total.
    """
    prompt = len(cl100k().starts(config.summary_prompt or PROMPT))
    summaries, tokens_in = unpaid, float(tokens + unpaid * prompt)
    for _ in range(1, config.max_layers):
        below, clusters = clusters, _clusters(config, clusters)
        if not clusters:
            break
        # each new summary changes at most one of the layer above
        unpaid = min(unpaid, clusters)
        summaries += unpaid
        tokens_in += unpaid * (prompt + below / clusters * MEAN_SUMMARY_TOKENS)
    return BuildCost(summaries, round(tokens_in), summaries * MEAN_SUMMARY_TOKENS)


def _clusters(config: RaptorConfig, items: int) -> int:
    """Return the expected clusters of `items` texts or summaries; 0 where the tree ends."""
    if items < config.min_cluster_size:
        return 0
    clusters = math.ceil(items / (config.min_cluster_size * MEAN_FACTOR))
    return clusters if clusters < items else 0
