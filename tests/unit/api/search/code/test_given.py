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
