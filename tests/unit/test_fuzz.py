"""Reading and cutting takes time in proportion to a text's length; `make bench ONLY=fuzz` tries far more texts."""

from __future__ import annotations

import pytest

from tests.bench.fuzz import seconds, slowest
from worker.parse.sandbox import client as sandbox

TOKENS = ("- ", "a: ", "#", "[", "<a>", "\t", "|", "\\", '"', "```", "=\n", "0,")
#: Bytes of a text, seconds that are too few to be compared, and the most that four times the text may take.
SIZE, LITTLE, MOST = 100_000, 0.25, 10.0


@pytest.mark.parametrize("ending", ["txt", "md", "rst", "tex", "json", "yaml", "csv", "html", "xml", "c"])
def test_time_is_linear_in_the_text(ending: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # the helper's time for a syntax tree has a bound of its own
    monkeypatch.setattr(sandbox, "syntax", lambda *_: None)
    name = f"a.{ending}"
    seconds(name, "a b\n", 1000)
    took, token = slowest(name, TOKENS, SIZE)
    if took < LITTLE:
        return
    # the lesser of two: the machine may have been busy with other things
    took, quarter = (min(seconds(name, token, size) for _ in range(2)) for size in (SIZE, SIZE // 4))
    assert took < max(LITTLE, MOST * quarter), token
