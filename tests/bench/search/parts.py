"""Searches among a few files of a folder, by what the legs found in all of it.

Among few chunks, none is near a query by chance. So the confidence depends on how many there are.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from api.search.chunks.legs import NEAREST, Ranking
from tests.bench.search.questions import Passage
from tests.bench.search.recorded import Recorded, Recording
from worker.vectors import Ranked, Vector

#: Numbers of files of the parts.
FILES = (40, 12, 3, 1)
#: How the files are drawn.
SEED = 5


def part(recording: Recording, files: int) -> Recording:
    """The questions, each asked among at most as many files, one of which answers it if any of the folder does.

    Leaves out questions whose answer no leg found, and folders that have no more files.
    """
    chosen = random.Random(SEED)
    by_file: dict[str, list[str]] = {}
    for id_ in sorted(recording.vectors.keys() & recording.rows.keys()):
        by_file.setdefault(recording.rows[id_].file_path, []).append(id_)
    if len(by_file) <= files:
        return replace(recording, recorded=[])
    asked = []
    for each in recording.recorded:
        answering = [path for path in by_file if _answers(recording, each, by_file[path])]
        if not answering and any(label.path for label in each.question.relevant):
            continue
        others = chosen.sample(list(by_file), files - bool(answering))
        kept = {*others, *(chosen.sample(answering, 1) if answering else ())}
        asked.append(_among(recording, each, [id_ for path in kept for id_ in by_file[path]]))
    return replace(recording, recorded=asked)


def _answers(recording: Recording, each: Recorded, ids: Sequence[str]) -> bool:
    rows = (recording.rows[id_] for id_ in ids)
    passages = [Passage(row.file_path, row.start_line, row.chunk_text) for row in rows]
    return any(label.path and label.fits(passage) for label in each.question.relevant for passage in passages)


def _among(recording: Recording, each: Recorded, ids: Sequence[str]) -> Recorded:
    """What the legs of a question find among some chunks."""
    cosines = np.stack([_unit(recording.vectors[id_]) for id_ in ids]) @ _unit(each.vector)
    order = np.argsort(-cosines, kind="stable")[:NEAREST].tolist()
    nearest = Ranked([ids[number] for number in order], [float(1 - cosines[number]) for number in order])
    kept = frozenset(ids)
    rankings = [
        replace(leg, results=nearest if leg.kind == "vector" else _found_among(leg, kept)) for leg in each.rankings
    ]
    return replace(each, rankings=rankings, defining=[id_ for id_ in each.defining if id_ in kept])


def _found_among(leg: Ranking, kept: frozenset[str]) -> Ranked:
    found = [result for result in leg.results if result.id in kept]
    return Ranked([result.id for result in found], [result.value for result in found])


def _unit(vector: Vector) -> Vector:
    return vector / np.linalg.norm(vector)
