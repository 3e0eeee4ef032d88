"""Names that a function has of its own hide those of the file, however it gets them."""

from __future__ import annotations

import pytest

from api.search.code.own_names import is_bound, is_local


@pytest.mark.parametrize(
    "line",
    [
        "go = p()",
        "go: Fn = p()",
        "go, other = p()",
        "(go, other) = p()",
        "[other, go] = p()",
        "other[0], (go, *rest) = p()",
        "rest, *go = p()",
        "if (go := p()): pass",
        "while x(go := p()): pass",
        "for go in p: pass",
        "for (a, go) in p: pass",
        "for a, [b, go] in p: pass",
        "with p as (a, go): pass",
        "x = [go() for _, go in p]",
        "x = map(lambda a=1, go=2: go(), p)",
        "case [go, _]:",
        "case Point(x=go):",
        "case {'a': go}:",
        "case int() as go:",
        "except Error as go: pass",
        "let a = 1, go = f;",
        "const a = f(1, [2]),\n  go = f",
        "let a, go",
        "const { a: { go } } = x;",
        "const {\n  a,\n  b: [go = 1, c],\n} = x",
        "const { a: go } = x",
        "const [a, ...go] = x",
        "for (const go of x) {}",
        "try { x() } catch (go) { go() }",
        "xs.forEach(function (go) { go() })",
        "xs.forEach(function each(a, go) { go() })",
        "return xs.map(go => go())",
        "return xs.map((go: Fn) => go())",
        "return xs.map(async (a = f(1), go): Promise<void> => go())",
        "return xs.map(({ a, go }) => go())",
        "return xs.map((...go) => go())",
    ],
)
def test_values_of_its_own(line: str) -> None:
    assert is_local(f"    {line}\n    go()\n", "t(p)", "go")


@pytest.mark.parametrize(
    "line",
    [
        "global go\n    go = p",
        "send(go, other=1)",
        "send(other, go=1)",
        "send(\n    go, other=1\n)",
        "x[go], y = p()",
        "x.go, y = p()",
        "for x in go: pass",
        "for x in (go, y): pass",
        "with go() as a, go() as b: pass",
        "case x if go(x):",
        "return go, x == 1",
        "if (x < go) y = 1",
        "let a = f(1, go)",
        "const m = new Map<string, go>()",
        "const { go: other } = { x: 1 }",
        "const x = { a: { go } }",
        "for (const x of go) {}",
        "xs.forEach(go)",
        "send(go, x => 1)",
        "send(go, (x) => 1)",
        "map(lambda x: go(x), p)",
    ],
)
def test_uses_are_no_values(line: str) -> None:
    assert not is_local(f"    {line}\n    go()\n", "t(p)", "go")


def test_of_functions_without_a_name_only_what_they_get_counts() -> None:
    assert is_bound("app.get('/', function (req, go) { go() })", "go")
    assert is_bound("app.get('/', async (go) => { go() })", "go")
    assert not is_bound("const go = f\nimport { a as go } from './a'\ngo()", "go")
