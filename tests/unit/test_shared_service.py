"""The service that modules share is kept while it fits and is well."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import httpx
import pytest

from tests.service import Service
from tests.shared_service import SharedService

KEYS = {"AUTH": "on"}


@pytest.fixture
def running() -> list[Service]:
    """The services that run."""
    return []


@pytest.fixture
def shared(running: list[Service]) -> SharedService:
    @contextmanager
    def started(how: object, **env: str) -> Iterator[Service]:
        process = SimpleNamespace(ended=lambda: False, program=SimpleNamespace(ready=lambda: True))
        running.append(Service(Path(), env, cast("httpx.Client", None), {"api": cast("Any", process)}))
        yield running[-1]
        running.pop()

    return SharedService(started)


def test_equal_settings_get_the_same_service(shared: SharedService, running: list[Service]) -> None:
    first = shared.get(KEYS)
    assert shared.get(dict(KEYS)) is first
    shared.stop()
    assert running == []


@pytest.mark.parametrize("other", [{**KEYS, "LOG_LEVEL": "DEBUG"}, {"AUTH": "on", "API_HOST": "::1"}])
def test_other_settings_get_another_service_alone(
    shared: SharedService, running: list[Service], other: Mapping[str, str]
) -> None:
    first = shared.get(KEYS)
    assert shared.get(other) is not first
    assert [each.env for each in running] == [other]


@pytest.mark.parametrize("broken", ["ended", "ready"])
def test_a_broken_service_is_replaced(shared: SharedService, running: list[Service], broken: str) -> None:
    first = shared.get(KEYS)
    process = cast("Any", first.processes["api"])
    if broken == "ended":
        process.ended = lambda: True
    else:
        process.program.ready = lambda: False
    second = shared.get(KEYS)
    assert running == [second]
    assert second is not first
