"""Limits concurrent large answers."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

from api.http.shares import LARGE_ANSWERS, LARGE_TEXTS

#: Hits above which an answer is large.
LARGE_HITS = 1000
#: Chunks above which a text is large. They have up to 8,192 tokens each, and 512 by default.
LARGE_CHUNKS = 100


def answer(top_k: int, project_id: str) -> AbstractContextManager[None]:
    """Hold room for an answer of up to `top_k` hits. Raises `ProjectBusy` or `SearchBusy` if there is none in time."""
    return LARGE_ANSWERS.hold(project_id) if top_k > LARGE_HITS else nullcontext()


def text(chunks: int, project_id: str, *, with_file: bool = False) -> AbstractContextManager[None]:
    """Hold room for the text of so many chunks, and for a whole file.

    Raises `ProjectBusy` or `ServerBusy` if there is none in time.
    """
    return LARGE_TEXTS.hold(project_id) if with_file or chunks > LARGE_CHUNKS else nullcontext()
