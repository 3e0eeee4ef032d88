"""Gives hits their address on the web."""

from __future__ import annotations

from collections.abc import Sequence

from schemas.queries.search import Hit
from schemas.url import filled


def with_urls(hits: Sequence[Hit], template: str | None) -> list[Hit]:
    """Make an address by the template for each hit whose node has none."""
    if template is None:
        return list(hits)
    return [hit if hit.url else hit.model_copy(update={"url": filled(template, hit.__dict__)}) for hit in hits]
