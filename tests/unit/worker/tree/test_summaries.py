"""What a summary is known by, so that none is paid for twice."""

from __future__ import annotations

from unittest.mock import Mock

from worker.llm.chat import Chat
from worker.tree.model_summaries import PROMPT, ProviderSummariser
from worker.tree.summaries import Extractive, Summariser, key_of


def written(model: str = "openai/m", prompt: str = PROMPT) -> ProviderSummariser:
    return ProviderSummariser(Mock(spec=Chat, provider=Mock(model=model)), prompt, 1, None)


def test_a_summary_is_known_by_its_texts_in_any_order() -> None:
    assert key_of(written(), ["a", "b", "c"]) == key_of(written(), ["c", "a", "b"])
    assert len({key_of(written(), children) for children in (["a", "bc"], ["ab", "c"], ["abc"], ["a", "b", "c"])}) == 4


def test_another_model_or_prompt_makes_another_summary() -> None:
    summarisers: list[Summariser] = [written(), written("openai/other"), written(prompt="In one line: {text}")]
    assert len({key_of(summariser, ["a"]) for summariser in [*summarisers, Extractive()]}) == 4
