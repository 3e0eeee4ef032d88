"""The weights of a search. They were chosen with `make bench-search`, which also tries others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

#: Weights of a search's legs, for queries that name something (`name_`) and for sentences (`language_`).
LEG_WEIGHTS = {
    "name_vector": 0.7,
    "name_text": 0.5,
    "name_code": 1.0,
    "language_vector": 1.0,
    "language_text": 0.5,
    "language_code": 0.5,
    "prose_vector": 1.0,
    "prose_text": 1.0,
    "prose_code": 0.3,
}
#: Weights of what is known about a chunk and its file; a negative weight ranks the chunk lower.
RANKING_WEIGHTS = {
    "definition": 0.5,
    "symbol": 0.3,
    "path": 0.3,
    "stem": 0.1,
    "phrase": 0.3,
    "verbatim": 0.6,
    "near_path": 0.1,
    "near_symbol": 0.05,
    "own_symbol": -0.05,
    "test": -0.15,
    "coherence": 0.8,
    "repeat": -0.2,
    "crowd": -0.2,
}


@dataclass(frozen=True, slots=True)
class Weights:
    """All weights of a search, by their names in `LEG_WEIGHTS` and `RANKING_WEIGHTS`."""

    legs: Mapping[str, float]
    features: Mapping[str, float]


WEIGHTS = Weights(LEG_WEIGHTS, RANKING_WEIGHTS)
