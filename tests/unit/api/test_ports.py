"""The ports of the embedded stack: the next free one, unless somebody set which."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any, Literal

import pytest

from api.stack.embedded import _port
from api.stack.processes import StackError
from worker.settings import Settings

NAMES: list[Literal["api_port", "flower_port"]] = ["api_port", "flower_port"]


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        yield listening.getsockname()[1]


def settings(**given: int) -> Settings:
    values: dict[str, Any] = {"api_port": 8000, "flower_port": 5555, **given}
    return Settings.model_construct(set(given), **values)


@pytest.mark.parametrize("name", NAMES)
def test_a_port_that_was_set_and_is_taken_is_an_error(taken: int, name: Literal["api_port", "flower_port"]) -> None:
    with pytest.raises(StackError, match=f"{name.upper()} is {taken}, and another program uses that port"):
        _port(settings(**{name: taken}), name)


@pytest.mark.parametrize("name", NAMES)
def test_a_port_that_nobody_set_may_be_another_one(taken: int, name: Literal["api_port", "flower_port"]) -> None:
    values: dict[str, Any] = {"api_port": 8000, "flower_port": 5555, name: taken}
    assert _port(Settings.model_construct(set(), **values), name) > taken


@pytest.mark.parametrize("name", NAMES)
def test_a_free_port_that_was_set_is_used(taken: int, name: Literal["api_port", "flower_port"]) -> None:
    free = taken + 1 if taken < 65_000 else taken - 1
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(("127.0.0.1", free))
    assert _port(settings(**{name: free}), name) == free
