"""How long words wait for vectors that were expected soon."""

from __future__ import annotations

import pytest

from tests.unit.worker.index.test_file_states import CLAIM
from worker.embed.pace import EmbeddingPace
from worker.index.file_states import EmbeddedFile, FileFacts, UnchangedFile
from worker.index.late import patience_seconds


@pytest.mark.parametrize(
    ("reading", "unknown", "known"),
    [
        (0.0, 0.5, 2.0),
        (1.5, 1.5, 2.0),
        # a provider that hangs at its first answer holds no words up for long
        (9.0, 2.0, 9.0),
    ],
)
def test_words_wait_as_long_as_reading_their_files_took(reading: float, unknown: float, known: float) -> None:
    parts = {"read": reading / 3, "parse": reading / 3, "chunk": 0.0}
    states = [
        UnchangedFile(CLAIM, FileFacts("markdown"), parts),
        UnchangedFile(CLAIM, FileFacts("markdown"), {"read": reading / 3}),
    ]
    files = [EmbeddedFile(state, timings={"embed": 60.0}) for state in states]
    assert patience_seconds(EmbeddingPace(), files) == pytest.approx(unknown)
    assert patience_seconds(EmbeddingPace(1.0), files) == pytest.approx(known)
