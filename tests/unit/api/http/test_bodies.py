"""Bodies in JSON are counted before they are parsed, and share a budget."""

from __future__ import annotations

import json
import random
import time
from contextlib import ExitStack
from typing import Any

import pytest
from fastapi.routing import APIRoute, iter_route_contexts
from fastapi.testclient import TestClient

from api.http import bodies
from api.http.bodies import (
    INLINE_BYTES,
    MAX_FAULTS,
    MAX_LEVELS,
    MAX_VALUES,
    BodyBudget,
    JsonRoute,
    check,
    parse,
    parse_in_turn,
    parsed,
)
from api.main import create_app
from schemas.errors import BodiesBusy, FoldexError, Invalid, TooManyValues
from worker.settings import Settings


def values_of(value: Any) -> int:
    """The structural characters of a value that `json.dumps` wrote: what the check counts."""
    if isinstance(value, dict):
        return 1 + sum(1 + values_of(each) for each in value.values()) + max(0, len(value) - 1)
    if isinstance(value, list):
        return 1 + sum(map(values_of, value)) + max(0, len(value) - 1)
    return 0


def levels_of(value: Any) -> int:
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if children is None else 1 + max(map(levels_of, children), default=0)


def some_value(choice: random.Random, levels: int = 6) -> Any:
    text = "".join(choice.choice('[]{},:"\\ \n\u00e9x') for _ in range(choice.randrange(12)))
    kind = choice.randrange(5 if levels else 2)
    if kind == 0:
        return text
    if kind == 1:
        return choice.choice([1, None, True, 1.5, "\\" * choice.randrange(9)])
    items = [some_value(choice, levels - 1) for _ in range(choice.randrange(5))]
    return items if kind < 4 else {f"{text}{n}": item for n, item in enumerate(items)}


def is_refused(body: bytes, most: int) -> type[FoldexError] | None:
    try:
        check(body, most)
    except FoldexError as error:
        return type(error)
    return None


def test_values_are_counted_outside_of_strings_at_any_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "MAX_LEVELS", 3)
    choice = random.Random(7)
    for _ in range(400):
        monkeypatch.setattr(bodies, "_BLOCK", choice.choice([2, 3, 5, 17, 1 << 18]))
        value = some_value(choice)
        body = json.dumps(value, ensure_ascii=choice.random() < 0.5).encode()
        count, levels = values_of(value), levels_of(value)
        refused = is_refused(body, count), is_refused(body, count - 1)
        assert refused == ((None, TooManyValues) if levels <= 3 else (Invalid, refused[1])), body
        if levels > 3:
            assert refused[1] in {Invalid, TooManyValues}


@pytest.mark.parametrize("unit", [b"[],", b"{},", b'"",', b'{"a":1},', b"1,"])
def test_both_sides_of_the_number_of_values(unit: bytes) -> None:
    counted = sum(unit.count(each) for each in (b"[", b"{", b",", b":"))
    most = (MAX_VALUES - 1) // counted
    scope: dict[str, Any] = {}
    parse(scope, b"[" + unit * most + b"1]", MAX_VALUES)
    assert len(parsed(scope)) == most + 1
    with pytest.raises(TooManyValues):
        check(b"[" + unit * (most + 1) + b"1]", MAX_VALUES)


@pytest.mark.parametrize("closed", [0, 1])
def test_levels_that_never_end_are_no_json_even_with_a_surrogate(closed: int) -> None:
    scope: dict[str, Any] = {}
    parse(scope, b'{"a":"\\ud800","b":' + b"[" * 30_000 + b"]" * closed, MAX_VALUES)
    with pytest.raises(ValueError, match="nested"):
        parsed(scope)


@pytest.mark.parametrize("escape", ["\\ud800", "\\uDFFF", "\\ud83d\\ud83d\\ude00", "\\ude00\\ud83d"])
def test_half_a_pair_is_named_by_its_field_in_a_small_body_alone(escape: str) -> None:
    """The standard library, which takes it, holds the interpreter for as long as it parses."""
    scope: dict[str, Any] = {}
    parse(scope, f'{{"a":"{escape}"}}'.ljust(INLINE_BYTES).encode(), MAX_VALUES)
    assert parsed(scope) == {"a": json.loads(f'"{escape}"')}
    with pytest.raises(Invalid, match="surrogate"):
        parse(scope, f'{{"a":"{escape}"}}'.ljust(INLINE_BYTES + 1).encode(), MAX_VALUES)


def test_a_pair_is_a_character_in_any_body() -> None:
    scope: dict[str, Any] = {}
    parse(scope, b'["' + b"\\uD83D\\ude00" * 10_000 + b'"]', MAX_VALUES)
    assert parsed(scope) == ["\U0001f600" * 10_000]
    parse(scope, b'["\\ud83d\\ude00",' + b" " * INLINE_BYTES, MAX_VALUES)
    with pytest.raises(ValueError, match="EOF"):
        parsed(scope)


def test_both_sides_of_the_number_of_levels() -> None:
    for opened, closed in ((b"[", b"]"), (b'{"a":', b"}")):
        scope: dict[str, Any] = {}
        parse(scope, opened * MAX_LEVELS + b"1" + closed * MAX_LEVELS, MAX_VALUES)
        assert levels_of(parsed(scope)) == MAX_LEVELS
        with pytest.raises(Invalid, match="levels"):
            check(opened * (MAX_LEVELS + 1) + b"1" + closed * (MAX_LEVELS + 1), MAX_VALUES)
        parse(scope, opened * (MAX_LEVELS + 1), MAX_VALUES)
        with pytest.raises(ValueError, match="line 1"):
            parsed(scope)
    # what is no JSON at all
    for garbage in (b"]" * 5000 + b"[" * 100, b'"' * 5001 + b"[" * 5000, b"\\" * 5000 + b"[" * 201):
        is_refused(garbage, MAX_VALUES)


def test_text_with_many_commas_is_a_single_value() -> None:
    text = '[{",:\\"' * 500_000
    scope: dict[str, Any] = {}
    parse(scope, json.dumps({"content": text}).encode(), 2)
    assert parsed(scope) == {"content": text}


@pytest.mark.parametrize(
    "body",
    [b"[],", b"{},", b'""', b'"', b"\\", b'\\"', b",", b'"\\', b"[", b"]", b'{"a":1},', b"1,", b"[[[[]]]],"],
)
def test_ten_megabytes_are_counted_in_bounded_time(body: bytes) -> None:
    body *= 10_000_000 // len(body)
    since = time.process_time()
    is_refused(body, MAX_VALUES)
    is_refused(b'"' + body, MAX_VALUES)
    # linear; what is quadratic would take hours
    assert time.process_time() - since < 10


def test_bodies_share_a_budget_by_owner_and_in_all() -> None:
    budget = BodyBudget(10, 6)
    with ExitStack() as stack:
        first = stack.enter_context(budget.holding("a"))
        first(4)
        with budget.holding("a") as second:
            second(2)
            with pytest.raises(BodiesBusy):
                second(1)
            with budget.holding("b") as other:
                other(4)
                with pytest.raises(BodiesBusy):
                    other(1)
            # what the others held is free again
            with budget.holding("b") as other:
                other(4)
        first(2)
    assert not budget._held


def test_a_project_parses_one_large_body_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "PARSE_WAIT_SECONDS", 0.05)
    with ExitStack() as first, ExitStack() as other:
        parse_in_turn({}, b"[]", 9, "a", first)
        with pytest.raises(BodiesBusy):
            parse_in_turn({}, b"[]", 9, "a", other)
        parse_in_turn({}, b"[]", 9, "b", other)
        first.close()
        parse_in_turn({}, b"[]", 9, "a", first)


def test_every_route_with_a_body_takes_it_as_it_was_parsed() -> None:
    app = create_app(Settings(database_url="postgresql://127.0.0.1:1/none", auth="off"))
    routes = [context.original_route for context in iter_route_contexts(app.routes)]
    with_body = [route for route in routes if isinstance(route, APIRoute) and route.body_field is not None]
    assert len(with_body) > 10
    assert [route.path for route in with_body if not isinstance(route, JsonRoute)] == []


def test_a_large_body_with_many_faults_is_refused_as_a_whole() -> None:
    app = create_app(Settings(database_url="postgresql://127.0.0.1:1/none", auth="off"))
    client = TestClient(app, base_url="http://127.0.0.1", client=("127.0.0.1", 1))
    contexts = [context for context in iter_route_contexts(app.routes) if getattr(context, "body_field", None)]
    assert len(contexts) > 10
    for context in contexts:
        for faults, is_too_many in ((MAX_FAULTS - 10, False), (MAX_FAULTS + 1, True)):
            body = {f"unknown {number:040}": 0 for number in range(faults)}
            assert len(json.dumps(body)) > INLINE_BYTES
            answer = client.request(next(iter(context.methods or ())), context.path or "", json=body)
            assert ("that this call does not take" in answer.json()["detail"]) is is_too_many, context.path
            assert answer.status_code == 422 or not is_too_many
