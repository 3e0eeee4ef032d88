"""Decides whether the words of files are written before their vectors.

One write is cheaper than two, but no chunk shall wait for its vector to be found. So vectors are awaited only if this
process has lately measured that they come soon: in about the time that reading the files took, or within their part of
`LATE_SECONDS` for all that is left of the task. If they take longer after all, the words are written while the request
is in flight. After a failure, and before the first answer, nothing is known: a provider then gets `TRY_SECONDS`. A
local model is never that fast.
"""

from __future__ import annotations

from collections.abc import Sequence

from worker.embed.pace import EmbeddingPace
from worker.index.file_states import EmbeddedFile

#: Seconds by which vectors may delay the words of all files of a task.
LATE_SECONDS = 2.0
#: That number if nothing is known of the provider.
TRY_SECONDS = 0.5


def are_late(
    pace: EmbeddingPace, files: Sequence[EmbeddedFile], read_seconds: float, left_bytes: float, *, is_local: bool
) -> bool:
    """Whether the vectors that files lack would delay their words.

    Reading the files took `read_seconds`, and `left_bytes` of the task's files are to be done.
    """
    if not pace.is_known:
        return is_local
    texts = {chunk.content_hash: chunk.chunk.tokens for file in files for chunk in file.lacking}
    size = sum(file.claim.size_bytes for file in files)
    share = min(1.0, size / left_bytes) if left_bytes else 1.0
    return pace.seconds(sum(texts.values())) > max(read_seconds, LATE_SECONDS * share)


def patience_seconds(pace: EmbeddingPace) -> float:
    """How long words wait for vectors that were to come soon."""
    return LATE_SECONDS if pace.is_known else TRY_SECONDS
