"""Serialized answers to searches."""

from __future__ import annotations

from schemas.queries.across import Across, AcrossAnswer, PlacedHit
from schemas.queries.search import Answer, Query


def answer_json(request: Query | Across, answer: Answer | AcrossAnswer) -> str:
    """The answer as JSON, in which each hit has the fields that the request chooses.

    Routes send it themselves: FastAPI would validate the answer a second time, in another thread.
    By default these are all but those of options that are not set. A hit without a page then has no `page`.
    """
    if request.fields is None:
        paged = request.unset_fields
        unpaged = {*paged, "page"}
    else:
        paged = unpaged = PlacedHit.model_fields.keys() - request.fields
    left_out = {number: unpaged if hit.page is None else paged for number, hit in enumerate(answer.results)}
    return answer.model_dump_json(exclude={"results": left_out})
