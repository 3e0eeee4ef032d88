"""What lines give a variable takes time linear in them, and each kind comes once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from api.search.code import given as module
from api.search.code.given import given
from api.search.code.reads import mentions
from tests.pumps import grows_too_fast

SHAPES = {
    "one other name": ("    x = y\n", "python"),
    "two names in turn": ("x = y\ny = x\n", "python"),
    "what is annotated": ("def f(y: A): x = y\n", "python"),
    "one line": ("x=y,y=x;", "javascript"),
    "signatures": ("def f(x, y=[", "python"),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_what_a_variable_gets_takes_linear_time(shape: str) -> None:
    repeated, language = SHAPES[shape]

    def text(size: int) -> str:
        return repeated * (size // len(repeated))

    assert not grows_too_fast(lambda lines: list(given(lines, "x", language)), text, 16_000)


@pytest.mark.parametrize("language", ["python", "javascript", "java", "go", "rust"])
@pytest.mark.parametrize("opened", ["x = f(", "x := f([", "let x = F {", "A x = new A("])
def test_calls_that_never_close_cost_no_more_from_some_size_on(
    monkeypatch: pytest.MonkeyPatch, opened: str, language: str
) -> None:
    closed, read = module._closed, Counter[str]()

    def count(lines: str, start: int) -> int | None:
        read["characters"] += min(len(lines) - start, module._MAX_VALUE)
        return closed(lines, start)

    monkeypatch.setattr(module, "_closed", count)
    kinds = list(given(opened * 50_000, "x", language))
    assert "" in kinds
    assert read["characters"] <= module.MAX_PLACES * module._MAX_VALUE


@pytest.mark.parametrize("others", [module.MAX_PLACES - 1, module.MAX_PLACES])
def test_a_variable_with_many_places_may_be_anything(others: int) -> None:
    lines = "x = Job()\n" + "x.run()\n" * others
    assert list(given(lines, "x", "python")) == (["Job"] if others < module.MAX_PLACES else ["", "Job"])


def test_each_other_name_is_looked_up_once_and_only_some_are(monkeypatch: pytest.MonkeyPatch) -> None:
    looked = Counter[str]()

    def seen(lines: str, name: str) -> Iterator[int]:
        looked[name] += 1
        return mentions(lines, name)

    monkeypatch.setattr(module, "mentions", seen)
    lines = "def f(y0: A, y1: B):\n" + "".join(f"    x = y{number % 40}\n" for number in range(400))
    assert list(given(lines, "x", "python")) == ["A", "B", ""]
    assert set(looked.values()) == {1}
    assert len(looked) == 1 + module._MAX_FOLLOWED
