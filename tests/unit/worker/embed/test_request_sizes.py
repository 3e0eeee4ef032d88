"""How many texts a request has: by limits, by what a provider refuses, and by how fast it answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import count

import pytest

from schemas.errors import EmbeddingRefused, EmbeddingUnavailable, EmbeddingUnreadable, Excess
from tests.unit.worker.embed.lengths import Lengths, collect, run
from tests.unit.worker.embed.rates import UNLIMITED, Hours
from worker.embed import Vectors
from worker.embed.batching import FREE, RequestTerms, embed_all
from worker.embed.rate_limit import RateBudget
from worker.embed.rates import Rate
from worker.embed.retry import MAX_REFUSALS, MAX_UNREADABLE, MOST_TO_ENLARGE, TimeSource


@pytest.mark.parametrize("concurrency", [1, 4])
def test_requests_shrink_until_a_slow_server_answers_in_time_and_grow_again(hours: Hours, concurrency: int) -> None:
    seconds_per_text = 1.0

    too_large: list[int] = []

    class Slow(Lengths):
        max_request_tokens = 1 << 16

        def embed(self, texts: Sequence[str]) -> Vectors:
            needed = len(texts) * seconds_per_text
            hours.time += min(60.0, needed)
            if needed > 60:
                too_large.append(len(texts))
                raise EmbeddingUnavailable("m does not answer")
            return super().embed(texts)

    server = Slow(max_inputs=1 << 16)
    budget = RateBudget(
        "m", "n", UNLIMITED, redis_url="redis://127.0.0.1:1/0", concurrency=concurrency, clock=hours.clock
    )

    def embed_in_slices(texts: Sequence[str]) -> None:
        slices, left = 0, list(texts)
        while left:
            slices, done = slices + 1, set[int]()
            try:
                for indices, _ in embed_all(server, left, [1] * len(left), concurrency, RequestTerms(budget, "p")):
                    done |= {*indices}
            except EmbeddingUnavailable as error:
                hours.time += error.retry_after or 0
            assert slices < 100
            left = [text for index, text in enumerate(left) if index not in done]

    embed_in_slices([f"slow {number}" for number in range(1024)])
    # halved from what was sent, which is far less than the largest request
    assert list(dict.fromkeys(too_large)) == [1024, 512, 256, 128, 64]
    assert max(map(len, server.requests)) == 32
    assert Counter(text for request in server.requests for text in request).most_common(1)[0][1] == 1
    seconds_per_text = 0.001
    for number in range(MOST_TO_ENLARGE):
        embed_in_slices([f"fast {number} {each}" for each in range(1024)])
    assert len(server.requests[-1]) == 1024


def test_a_request_fits_into_the_budget() -> None:
    embedder = Lengths(max_inputs=100)
    moments = count(step=0.1)
    clock = TimeSource(lambda: next(moments), lambda _: None)
    budget = RateBudget("m", "n", Rate(None, 30, 10), redis_url="redis://127.0.0.1:1/0", concurrency=1, clock=clock)
    collect(embed_all(embedder, [f"{n}" for n in range(10)], [3] * 10, 1, RequestTerms(budget, "p")))
    assert [len(batch) for batch in embedder.requests] == [10]
    with pytest.raises(EmbeddingUnavailable, match="EMBEDDING_TPM"):
        collect(embed_all(embedder, [f"x{n}" for n in range(20)], [3] * 20, 1, RequestTerms(budget, "p")))


def test_no_request_has_more_tokens_than_the_budget_of_a_minute() -> None:
    embedder = Lengths(max_inputs=100)
    moments = count(step=0.1)
    clock = TimeSource(lambda: next(moments), lambda _: None)
    budget = RateBudget("m", "n", Rate(None, 30, 10), redis_url="redis://127.0.0.1:1/0", concurrency=1, clock=clock)
    found: dict[int, float | None] = {}
    with pytest.raises(EmbeddingUnavailable, match="EMBEDDING_TPM"):
        collect(embed_all(embedder, [f"{n}" for n in range(20)], [3] * 20, 1, RequestTerms(budget, "p")), found)
    assert [len(batch) for batch in embedder.requests] == [10]
    assert sorted(found) == list(range(10))


def test_parts_of_a_refused_request_come_in_its_order_before_all_others() -> None:
    embedder = Lengths(max_inputs=4)
    run(embedder, ["a", "b", "c", "bad", "e", "f"])
    assert embedder.requests == [["a", "b", "c", "bad"], ["a", "b"], ["c", "bad"], ["c"], ["bad"], ["e", "f"]]


def test_texts_that_fill_no_request_wait_for_more() -> None:
    embedder = Lengths(max_inputs=20)
    texts = [f"text {n}" for n in range(50)]
    found = collect(embed_all(embedder, texts, [1] * 50, 1, RequestTerms(only_full=True)))
    assert sorted(found) == list(range(40))
    assert collect(embed_all(embedder, texts[40:], [1] * 10, 1)) == {n: len("text 40") for n in range(10)}
    assert [len(batch) for batch in embedder.requests] == [20, 20, 10]
    assert len(collect(embed_all(embedder, texts[:19], [1] * 19, 1, RequestTerms(only_full=True)))) == 19


@pytest.mark.parametrize(("size", "is_sent"), [(94, False), (95, True), (100, True)])
def test_texts_with_almost_all_tokens_of_a_request_fill_it(size: int, is_sent: bool) -> None:
    embedder = Lengths(max_inputs=20)
    found = collect(embed_all(embedder, ["a", "bb"], [size * 5] * 2, 1, RequestTerms(only_full=True)))
    assert sorted(found) == ([0, 1] if is_sent else [])


def test_a_provider_that_refuses_everything_is_not_asked_for_ever() -> None:
    embedder = Lengths(max_inputs=500)
    found = run(embedder, [f"bad {n}" for n in range(3000)])
    assert set(found.values()) == {None}
    assert len(found) == 3000
    assert len(embedder.requests) <= MAX_REFUSALS + 20


class Short(Lengths):
    """Answers with too few vectors to requests of more than `readable` texts."""

    def __init__(self, readable: int, max_inputs: int = 500) -> None:
        super().__init__(max_inputs)
        self.readable = readable

    def embed(self, texts: Sequence[str]) -> Vectors:
        if len(texts) > self.readable:
            self.requests.append(list(texts))
            raise EmbeddingUnreadable("too few vectors", vectors=self.readable)
        return super().embed(texts)


@pytest.mark.parametrize("concurrency", [1, 4])
@pytest.mark.parametrize("terms", [FREE, RequestTerms(seconds=0)])
def test_a_provider_none_of_whose_answers_can_be_read_ends_the_task(concurrency: int, terms: RequestTerms) -> None:
    embedder = Short(readable=0)
    texts = [f"text {n}" for n in range(3000)]
    with pytest.raises(EmbeddingUnreadable, match="too few vectors"):
        collect(embed_all(embedder, texts, [1] * len(texts), concurrency, terms))
    assert MAX_UNREADABLE < len(embedder.requests) <= MAX_UNREADABLE + concurrency


def test_after_an_answer_that_could_be_read_the_others_are_split_to_the_end() -> None:
    class ReadableAtFirst(Lengths):
        def embed(self, texts: Sequence[str]) -> Vectors:
            if self.requests:
                self.requests.append(list(texts))
                raise EmbeddingUnreadable("no vectors", vectors=0)
            return super().embed(texts)

    embedder = ReadableAtFirst(max_inputs=MAX_UNREADABLE)
    found = run(embedder, [f"text {n:2}" for n in range(2 * MAX_UNREADABLE)])
    assert list(found.values()) == [len("text 00")] * MAX_UNREADABLE + [None] * MAX_UNREADABLE
    assert len(embedder.requests) > MAX_UNREADABLE + 1


@pytest.mark.parametrize("readable", [1, 3, 63])
def test_a_provider_that_reads_few_texts_a_request_is_paid_for_each_batch_once_more(readable: int) -> None:
    embedder = Short(readable, max_inputs=64)
    found = run(embedder, [f"text {n}" for n in range(640)], 4)
    assert len(found) == 640
    assert None not in found.values()
    assert sum(min(len(texts), readable) for texts in embedder.requests) == 640 + 10 * readable


@pytest.mark.parametrize("excess", [Excess.TEXTS, Excess.SIZE, None])
def test_requests_grow_while_texts_wait_once_larger_ones_are_taken(hours: Hours, excess: Excess | None) -> None:
    class Few(Lengths):
        most = 10

        def embed(self, texts: Sequence[str]) -> Vectors:
            if len(texts) > self.most:
                self.requests.append(list(texts))
                raise EmbeddingRefused("no", excess=excess)
            return super().embed(texts)

    server = Few(max_inputs=400)
    budget = RateBudget("m", "n", UNLIMITED, redis_url="redis://127.0.0.1:1/0", concurrency=2, clock=hours.clock)
    texts = [f"text {number:3}" for number in range(400)]
    assert len(collect(embed_all(server, texts, [1] * 400, 2, RequestTerms(budget, "p")))) == 400
    refused = [len(request) for request in server.requests if len(request) > 10]
    assert len(refused) <= 12
    assert len(server.requests) - len(refused) <= 80
    assert Counter(text for request in server.requests if len(request) <= 10 for text in request).total() == 400
