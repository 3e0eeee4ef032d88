"""What the answers of providers mean, in their own words."""

from __future__ import annotations

import pytest

from tests.fakes.provider_answers import ANSWERS, ProviderAnswer
from worker.embed.verdicts import judge, words_of


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: f"{answer.provider}-{answer.status}-{answer.texts}")
def test_an_answer_has_the_verdict_that_its_provider_means(answer: ProviderAnswer) -> None:
    found = judge(answer.status, answer.headers, answer.content, answer.texts)
    assert (found.kind, found.excess, found.most) == (answer.verdict.kind, answer.verdict.excess, answer.verdict.most)
    assert found.wait == (None if answer.verdict.wait is None else pytest.approx(answer.verdict.wait))


@pytest.mark.parametrize(
    "body",
    [b"", b"\xff\xfe", b"null", b"[" * 10_000, b'{"error":' * 5000, b'{"error": {"message": null}}', b"1" * (1 << 21)],
)
def test_any_body_has_words(body: bytes) -> None:
    assert isinstance(words_of(body), str)


def test_what_a_server_quotes_of_a_request_is_no_word_of_its_error() -> None:
    body = b'{"detail": [{"msg": "Field required", "input": ["insufficient_quota", "maximum context length"]}]}'
    assert words_of(body) == "Field required"
