"""Random folders with access lists, changed at random: everybody is shown what a model says, and at no time more."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial

import pytest

from tests.fakes.turbopuffer import FakeTurbopuffer
from tests.integration.test_keys import foldex
from tests.model.asked_readers import PEOPLE, new_project
from tests.service import NewService, Service, checked, service
from worker.settings import LOCAL_MODEL

SEED = int(os.environ.get("CHAOS_SEED") or random.randrange(10**6))
CHANGES = 8


@pytest.fixture(params=["lancedb", "turbopuffer"])
def running(request: pytest.FixtureRequest, new_service: NewService) -> Iterator[Service]:
    """A service with vectors in one store, and keywords in it or in Postgres."""
    env = {
        "DEFAULT_EMBEDDING_MODEL": LOCAL_MODEL,
        "AUTH": "on",
        "VECTOR_STORE": request.param,
        "KEYWORD_INDEX": "store",
    }
    with ExitStack() as stack:
        if request.param == "turbopuffer":
            fake = stack.enter_context(FakeTurbopuffer())
            at = {"TURBOPUFFER_API_KEY": fake.api_key, "TURBOPUFFER_BASE_URL": fake.url}
            env |= {**at, "KEYWORD_INDEX": "postgres"}
        yield stack.enter_context(new_service(partial(service), **env))


def new_key(running: Service, project: str, *scopes: str) -> str:
    made = foldex(running, "keys", "create", project, *(part for scope in scopes for part in ("--scope", scope)))
    assert made.returncode == 0, made.stderr
    return made.stdout.strip()


def test_everybody_is_shown_what_they_read(running: Service) -> None:
    project = new_project(running.client, partial(new_key, running), random.Random(SEED))
    project.fill(folders=5, files=12)
    project.check((SEED, "at first"))
    for number in range(CHANGES):
        in_model, in_service = project.any_change()
        checked(in_service(), 200)
        in_model(project.model)
        if number % 4 == 3:
            project.model.groups[project.dice.choice(PEOPLE)] ^= {"a"}
        project.check((SEED, number))
