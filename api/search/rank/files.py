"""Adjusts the scores of chunks by the other chunks of their file that were found."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import NamedTuple

#: Chunks of a file that support its best one. With more, long files would win by their length.
SUPPORTING_CHUNKS = 4
#: First hits of which many may be chunks of one file: the answer may be one of them, and not the best of its file.
CROWDED_HITS = 5


class FoundChunk(NamedTuple):
    """A chunk's file, whether the chunks of that file matter to each other, the chunk's score, and if it is a part.

    A chunk is a part if its file has others.
    """

    file: Hashable
    by_file: bool
    score: float
    is_part: bool = True


def file_parts(chunks: Sequence[FoundChunk], weights: Mapping[str, float]) -> list[tuple[str, float]]:
    """The file's part of the score of each chunk, with the name of the part. `chunks` come best first.

    A file's next chunks raise its best one ("coherence"). The further ones sink ("repeat"), because most are found by
    the same words. They all lose the same share, so that any of them may still come near the top. In prose, each place
    may answer by itself. The fewer of the chunks are parts, the less "coherence" counts: among files of one function,
    it would only raise the long ones.
    """
    parts_of = [chunk.is_part for chunk in chunks if chunk.by_file]
    coherence = weights["coherence"] * (sum(parts_of) / max(len(parts_of), 1))
    scores: dict[Hashable, list[float]] = {}
    ranked = []
    for chunk in chunks:
        of_file = scores.setdefault(chunk.file, [])
        ranked.append((chunk, len(of_file), of_file))
        of_file.append(max(0.0, chunk.score))
    parts = []
    for chunk, rank, of_file in ranked:
        if rank == 0:
            support = sum(of_file[1 : 1 + SUPPORTING_CHUNKS]) / SUPPORTING_CHUNKS
            parts.append(("coherence", coherence * support * chunk.by_file))
        else:
            parts.append(("repeat", weights["repeat"] * of_file[rank] * chunk.by_file))
    return parts


def crowding(chunks: Sequence[FoundChunk]) -> list[float]:
    """Each chunk's score if its file has a better chunk, else 0. `chunks` come best first.

    It is 0 for the first `CROWDED_HITS` chunks, which keep their places.
    """
    seen: set[Hashable] = set()
    crowded = []
    for rank, chunk in enumerate(chunks):
        is_crowded = rank >= CROWDED_HITS and chunk.by_file and chunk.file in seen
        crowded.append(max(0.0, chunk.score) * is_crowded)
        seen.add(chunk.file)
    return crowded
