"""What a tree will cost, by values alone."""

from __future__ import annotations

from typing import Any

import pytest

from schemas.summary_tree import RaptorConfig
from worker.tokens.tokenizers import cl100k
from worker.tree.build_cost import GMM_PARENTS, MEAN_SUMMARY_TOKENS, BuildCost, cost, cost_above

PROMPT = "Summarise this in one line: {text}"
PROMPT_TOKENS = len(cl100k().starts(PROMPT))


def config(**given: Any) -> RaptorConfig:
    plain = {"cluster_method": "adjacent", "min_cluster_size": 3, "summary_prompt": PROMPT}
    return RaptorConfig.model_validate({**plain, **given})


def test_one_layer_sends_each_text_once_with_a_prompt_for_each_summary() -> None:
    found = cost_above(config(max_layers=1), clusters=20, unpaid=4, tokens=1000)
    assert found == BuildCost(4, 1000 + 4 * PROMPT_TOKENS, 4 * MEAN_SUMMARY_TOKENS)


def test_a_second_layer_sends_the_summaries_of_the_first() -> None:
    # five summaries come to each of the four above
    found = cost_above(config(max_layers=2), clusters=20, unpaid=20, tokens=1000)
    tokens_in = 1000 + 24 * PROMPT_TOKENS + 20 * MEAN_SUMMARY_TOKENS
    assert found == BuildCost(24, tokens_in, 24 * MEAN_SUMMARY_TOKENS)


def test_a_new_summary_changes_at_most_one_of_each_layer_above() -> None:
    found = cost_above(config(max_layers=5), clusters=100, unpaid=1, tokens=0)
    # 100, 20, 4 and 1
    assert found.summaries == 4
    assert cost_above(config(max_layers=5), clusters=100, unpaid=0, tokens=0).tokens == 0


@pytest.mark.parametrize(("leaves", "summaries"), [(0, 0), (2, 0), (3, 1), (5, 1), (6, 2)])
def test_too_few_texts_have_no_summary(leaves: int, summaries: int) -> None:
    assert cost(config(), leaves, 100).summaries == summaries


def test_texts_with_several_parents_are_sent_for_each() -> None:
    once, several = (cost(config(cluster_method=method), 30, 1000) for method in ("adjacent", "gmm"))
    assert several.tokens_in - once.tokens_in == round(1000 * GMM_PARENTS) - 1000


def test_money_needs_both_prices() -> None:
    made = BuildCost(1, 3_000_000, 500_000)
    assert made.money(0.5, 2.0) == 2.5
    assert made.money(None, 2.0) is None
    assert made.money(0.5, None) is None
