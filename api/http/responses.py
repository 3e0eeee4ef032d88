"""Answers as they go out."""

from __future__ import annotations

from fastapi import Response
from pydantic import BaseModel


def written(answer: BaseModel) -> Response:
    """The answer as JSON. FastAPI would check all of it once more, in a thread of its own."""
    return Response(answer.model_dump_json(), media_type="application/json")
