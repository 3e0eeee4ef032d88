"""Serialized responses."""

from __future__ import annotations

from fastapi import Response
from pydantic import BaseModel


def written(answer: BaseModel) -> Response:
    """The answer as JSON. Avoids FastAPI's second validation, which runs in another thread."""
    return Response(answer.model_dump_json(), media_type="application/json")
