"""What follows an answer of a language model, over the strict fake."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest

from schemas.errors import LlmRefused, LlmUnauthorized, LlmUnavailable, TooManyTokens
from tests.fakes.chat import NONSENSE, ChatFake
from tests.unit.worker.embed.rates import Hours
from worker.embed.rate_limit import RateBudget, no_check
from worker.embed.rates import Rate
from worker.llm.chat import Chat, Completion
from worker.llm.litellm import Provider
from worker.tokens.tokenizers import cl100k
from worker.tree.model_summaries import PROMPT, SUMMARY_TOKENS, ProviderSummariser


@pytest.fixture(scope="module")
def server() -> Iterator[ChatFake]:
    with ChatFake() as fake:
        yield fake


@pytest.fixture
def fake(server: ChatFake) -> ChatFake:
    server.reset()
    return server


def writer(
    fake: ChatFake, key: str = "k", prompt: str = PROMPT, **given: Any
) -> tuple[ProviderSummariser, list[tuple[int, int]]]:
    paid: list[tuple[int, int]] = []
    env = fake.env
    model, address = env["DEFAULT_LLM_MODEL"], env["LLM_API_BASE"]
    provider = Provider(model, address, key, given.get("seconds", 60), "LLM_API_KEY")
    chat = Chat(provider, given.get("budget"), "p", lambda sent, received: paid.append((sent, received)))
    return ProviderSummariser(chat, prompt, 2, given.get("room")), paid


def test_one_request_for_a_cluster(fake: ChatFake) -> None:
    model, paid = writer(fake)
    summary = model.summarise(["The first text.", "The second text."], no_check)
    assert summary.text is not None
    assert summary.text.startswith("Summary ")
    assert [prompt.count("text.") for prompt in fake.prompts] == [2]
    assert paid
    assert min(paid[0]) > 0


def test_equal_texts_have_equal_summaries(fake: ChatFake) -> None:
    model, _ = writer(fake)
    first, second = (model.summarise(["a text"], no_check) for _ in range(2))
    assert fake.requests == 2
    assert first == second


def test_the_prompt_of_the_tool(fake: ChatFake) -> None:
    model, _ = writer(fake, prompt="In one line: {text} {braces}")
    model.summarise(["a text"], no_check)
    assert fake.prompts == ["In one line: a text {braces}"]


def test_a_long_cluster_is_summarised_in_parts(fake: ChatFake) -> None:
    model, _ = writer(fake)
    texts = [f"Text {number} says {'something long ' * 400}" for number in range(20)]
    assert model.summarise(texts, no_check).text
    *parts, whole = fake.prompts
    assert len(parts) > 1
    assert all(f"Text {number} says" in "".join(parts) for number in range(20))
    assert whole.count("Summary ") == len(parts)


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("REFUSE-ME", "refused"),
        ("SAY-NOTHING", "empty"),
        ("TALK-ON", "too_long"),
        *((word, "unreadable") for word in NONSENSE),
    ],
)
def test_a_useless_answer_is_left_out_with_its_reason(fake: ChatFake, word: str, reason: str) -> None:
    model, _ = writer(fake)
    texts = ["\n".join(f"line {number} of {word}" for number in range(40)), f"more {word}"]
    assert model.summarise(texts, no_check) == (None, reason)
    # asked twice, and then in halves
    assert fake.requests > 2


def test_texts_beside_a_refused_one_are_asked_for_apart(fake: ChatFake) -> None:
    model, _ = writer(fake)
    fake.fail_next(400, 2)
    assert model.summarise(["one line of text\n" * 60], no_check).text
    assert fake.requests == 5


def test_errors_of_the_provider(fake: ChatFake) -> None:
    model, _ = writer(fake)
    fake.fail_next(429, retry_after=7)
    with pytest.raises(LlmUnavailable, match=r"is busy \(HTTP 429\) and asks to wait 7 s") as limited:
        model.summarise(["text"], no_check)
    assert limited.value.retry_after == 7
    # the second request finds out whether the server answers another prompt
    for status, requests, told in ((500, 2, r"has a fault \(HTTP 500\)"), (0, 2, "does not answer")):
        fake.fail_next(status, requests)
        with pytest.raises(LlmUnavailable, match=told):
            model.summarise(["text"], no_check)
    wrong, _ = writer(fake, key="wrong")
    with pytest.raises(LlmUnauthorized, match="LLM_API_KEY"):
        wrong.summarise(["text"], no_check)


def test_a_text_at_which_the_server_fails_has_no_summary(fake: ChatFake) -> None:
    model, _ = writer(fake)
    assert model.summarise(["FAULT-ME"], no_check) == (None, "refused")
    assert model.summarise(["another text"], no_check).text
    # the server recovered meanwhile
    fake.fail_next(500)
    assert model.summarise(["one more text"], no_check).text


def test_a_text_that_the_server_does_not_answer_has_no_summary(fake: ChatFake) -> None:
    model, _ = writer(fake)
    assert model.summarise(["DROP-ME"], no_check) == (None, "no_answer")
    # the server recovered meanwhile
    fake.fail_next(0)
    assert model.summarise(["one more text"], no_check).text


def test_a_text_that_takes_too_long_has_no_summary(fake: ChatFake) -> None:
    model, _ = writer(fake, seconds=1)
    hold = fake.holds.add("chat", "endless")
    assert model.summarise(["endless"], no_check) == (None, "no_answer")
    hold.release()
    fake.holds.add("chat")
    with pytest.raises(LlmUnavailable, match="choose a faster model"):
        model.summarise(["any text"], no_check)


def test_the_prompt_that_every_model_answers_is_charged_to_the_rate(fake: ChatFake) -> None:
    hours = Hours()
    budget = RateBudget(
        "m", uuid4().hex, Rate(1, None, 60), redis_url="redis://127.0.0.1:1/0", concurrency=1, clock=hours.clock
    )
    model, _ = writer(fake, budget=budget)
    began = hours.time
    with pytest.raises(LlmRefused):
        model.chat.ask("FAULT-ME", SUMMARY_TOKENS)
    assert fake.requests == 2
    assert hours.time - began >= 60


def test_no_request_exceeds_the_tokens_of_a_build(fake: ChatFake) -> None:
    model, paid = writer(fake, room=500)
    assert model.summarise(["text"], no_check).text
    assert model.room == 500 - sum(paid[0])
    # a request may take as much as the longest summary
    assert model.room < SUMMARY_TOKENS + sum(paid[0])
    with pytest.raises(TooManyTokens):
        model.summarise(["text"], no_check)
    assert fake.requests == 1
    assert model.room == 500 - sum(paid[0])


def test_a_build_may_take_exactly_the_tokens_that_it_has(fake: ChatFake) -> None:
    needed = len(cl100k().starts(PROMPT.replace("{text}", "text"))) + SUMMARY_TOKENS
    few, _ = writer(fake, room=needed - 1)
    few.afford(needed - 1)
    with pytest.raises(TooManyTokens):
        few.afford(needed)
    with pytest.raises(TooManyTokens):
        few.summarise(["text"], no_check)
    enough, _ = writer(fake, room=needed)
    assert enough.summarise(["text"], no_check).text
    assert fake.requests == 1


def test_a_request_that_fails_gives_its_tokens_back(fake: ChatFake) -> None:
    model, _ = writer(fake, room=600)
    fake.fail_next(503)
    with pytest.raises(LlmUnavailable):
        model.summarise(["text"], no_check)
    assert model.room == 600


def test_an_answer_that_took_more_than_expected_is_kept(fake: ChatFake, monkeypatch: pytest.MonkeyPatch) -> None:
    model, _ = writer(fake, room=600)
    ask = Chat.ask

    def expensive(*given: Any) -> Completion:
        return replace(ask(*given), tokens_in=1_000)

    monkeypatch.setattr(Chat, "ask", expensive)
    assert model.summarise(["text"], no_check).text
    with pytest.raises(TooManyTokens):
        model.summarise(["text"], no_check)
    assert fake.requests == 1
