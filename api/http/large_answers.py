"""Limits concurrent large answers."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

from api.http.shares import LARGE_ANSWERS

#: Hits above which an answer is large.
LARGE_HITS = 1000


def answer(top_k: int, project_id: str) -> AbstractContextManager[None]:
    """Hold room for an answer of up to `top_k` hits. Raises `ProjectBusy` or `SearchBusy` if there is none in time."""
    return LARGE_ANSWERS.held(project_id) if top_k > LARGE_HITS else nullcontext()
