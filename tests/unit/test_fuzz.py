"""Reading and chunking takes linear time in the length of a text; `make bench ONLY=fuzz` tries far more texts."""

from __future__ import annotations

import pytest

from tests.bench.fuzz import seconds, slowest
from worker.parse.sandbox import client as sandbox

TOKENS = ("- ", "a: ", "#", "[", "<a>", "\t", "|", "\\", '"', "```", "=\n", "0,")
#: Bytes of a text; seconds too few to compare; and the highest ratio of times for a text four times as long.
SIZE, LITTLE, MOST = 100_000, 0.25, 10.0


@pytest.mark.parametrize("ending", ["txt", "md", "rst", "tex", "json", "yaml", "csv", "html", "xml", "c"])
def test_time_is_linear_in_the_text(ending: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # the helper's time for a syntax tree has its own limit
    monkeypatch.setattr(sandbox, "syntax", lambda *_: None)
    name = f"a.{ending}"
    took, token = slowest(name, TOKENS, SIZE)
    if took < LITTLE:
        return
    # the lower of two: the machine may have been busy with other work
    took, quarter = (min(seconds(name, token, size) for _ in range(2)) for size in (SIZE, SIZE // 4))
    assert took < max(LITTLE, MOST * quarter), token
