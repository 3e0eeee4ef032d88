"""The content of a JSON node is written in a fraction of the time that the standard library holds the interpreter."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from typing import Any

import pytest
from pydantic_core import from_json

from api.routes.content.nodes import _checked_json
from schemas.errors import Invalid


def seconds(write: Callable[[Any], str], value: Any) -> float:
    times = []
    for _ in range(3):
        begun = time.thread_time()
        write(value)
        times.append(time.thread_time() - begun)
    return min(times)


@pytest.mark.parametrize(
    "value",
    [{f"name{number}": 1 for number in range(245_000)}, [1.5e300] * 490_000, [{"a": 1}] * 160_000],
    ids=["names", "numbers", "objects"],
)
def test_many_values_are_written_soon(value: Any) -> None:
    assert seconds(_checked_json, value) < seconds(json.dumps, value) / 2


def test_what_is_written_is_what_was_sent() -> None:
    numbers = "1,1.0,1e300,-0.5,123456789012345678901234567890,true,null"
    text = f'{{"b":[{numbers}],"a":"NaN é \U0001f600 Infinity \\"\\n","":{{}}}}'
    assert list(from_json(_checked_json(from_json(text))).items()) == list(from_json(text).items())


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, ["NaN", math.inf], {"a": {"b": math.nan}}])
def test_what_json_does_not_know_is_refused(value: Any) -> None:
    with pytest.raises(Invalid, match="NaN or Infinity"):
        _checked_json(value)


@pytest.mark.parametrize("value", ["\ud800", {"\udfff": 1}])
def test_half_a_pair_is_refused(value: Any) -> None:
    with pytest.raises(Invalid, match="surrogate"):
        _checked_json(value)
