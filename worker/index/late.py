"""Decides whether the words of files are written before their vectors.

One write is cheaper than two, but a slow vector must not delay the words of its chunk. So the words wait only if this
process has lately measured that vectors come soon. Soon means about the time that reading the files took, or their
share of `LATE_SECONDS` for the rest of the task. If the vectors take longer, the words are written while the request is
in flight. After a failure, and before the first answer, the pace is unknown: a provider then gets at least
`TRY_SECONDS`. A local model is never that fast.

Where processors are busy, answers and reading take longer alike. So words wait at least as long as reading took.
"""

from __future__ import annotations

from collections.abc import Sequence

from worker.embed.pace import EmbeddingPace
from worker.index.file_states import EmbeddedFile

#: Maximum seconds by which vectors may delay the words of all files of a task, unless reading these took longer.
LATE_SECONDS = 2.0
#: Minimum seconds that words wait while the provider's pace is unknown.
TRY_SECONDS = 0.5


def are_late(
    pace: EmbeddingPace, files: Sequence[EmbeddedFile], read_seconds: float, left_bytes: float, *, is_local: bool
) -> bool:
    """Return whether waiting for the missing vectors would delay the words of the files.

    Reading the files took `read_seconds`. `left_bytes` of the task's files remain.
    """
    if not pace.is_known:
        return is_local
    texts = {chunk.content_hash: chunk.chunk.tokens for file in files for chunk in file.lacking}
    size = sum(file.claim.size_bytes for file in files)
    share = min(1.0, size / left_bytes) if left_bytes else 1.0
    return pace.seconds(sum(texts.values())) > max(read_seconds, LATE_SECONDS * share)


def patience_seconds(pace: EmbeddingPace, files: Sequence[EmbeddedFile]) -> float:
    """Return the maximum seconds that the words of files wait for vectors that were expected soon."""
    reading = sum(sum(file.state.timings.values()) for file in files)
    return max(reading, LATE_SECONDS) if pace.is_known else min(max(reading, TRY_SECONDS), LATE_SECONDS)
