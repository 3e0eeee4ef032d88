"""Filters by metadata over Turbopuffer, with words there and in Postgres. Turbopuffer gets no value of metadata."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from tests.fakes.embeddings import EmbeddingsFake
from tests.fakes.turbopuffer import FakeTurbopuffer
from tests.integration.filtered import Shelf, draw_filter
from tests.service import NewService, Service


@pytest.fixture(scope="module")
def words_in_postgres(new_service: NewService, provider: EmbeddingsFake, store: FakeTurbopuffer) -> Iterator[Service]:
    with new_service(**provider.env, **store.env, KEYWORD_INDEX="postgres") as started:
        yield started


@pytest.mark.parametrize("service", ["running", "words_in_postgres"])
def test_random_filters_find_what_a_model_says(service: str, request: pytest.FixtureRequest) -> None:
    running: Service = request.getfixturevalue(service)
    random = Random(7)
    shelf = Shelf(running, random, 15)
    for round_ in range(40):
        if round_ % 3 == 0:
            shelf.change()
        conditions, mode = draw_filter(random), random.choice(("hybrid", "vector", "keyword"))
        expected = shelf.expected(conditions)
        assert (shelf.found(conditions, mode=mode) or set()) == expected, (conditions, mode)


def test_the_store_gets_no_metadata(running: Service, store: FakeTurbopuffer) -> None:
    top = running.node("secret", "folder", metadata={"team": "xyzzyteam"})
    running.node("a.md", "markdown", "word", parent_id=top)
    tool = running.tool(node_id=top, config={"metadata": {"team": "string"}})
    store.received = []
    running.wait(tool)
    assert running.query(tool, "word", filters={"metadata": {"team": "xyzzyteam"}})
    received, store.received = store.received, None
    assert received
    assert not any(b"xyzzyteam" in body for body in received)
