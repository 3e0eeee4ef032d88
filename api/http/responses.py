"""Serialized answers to searches."""

from __future__ import annotations

from schemas.queries.across import Across, AcrossAnswer, PlacedHit
from schemas.queries.search import Answer, Hit, Query


def answer_json(request: Query | Across, answer: Answer | AcrossAnswer) -> str:
    """The answer as JSON, in which each hit has the fields that the request chooses.

    Routes send it themselves: FastAPI would validate the answer a second time, in another thread.
    By default these are all but those of options that are not set, and a hit has `page` and `metadata` only if it has a
    page and metadata.
    """
    if request.fields is None:
        left_out = {number: request.unset_fields | _lacking(hit) for number, hit in enumerate(answer.results)}
    else:
        others = PlacedHit.model_fields.keys() - request.fields
        left_out = dict.fromkeys(range(len(answer.results)), others)
    return answer.model_dump_json(exclude={"results": left_out})


def _lacking(hit: Hit) -> set[str]:
    return {name for name in ("page", "metadata") if getattr(hit, name) is None}
