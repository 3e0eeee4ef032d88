"""A provider's model at an address."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, eq=False)
class Endpoint:
    """What a client asks. Without address or key, those of the provider's own environment variables are taken."""

    model: str
    api_base: str | None
    api_key: str | None = field(repr=False)
    dimensions: int | None
    #: Maximum duration of a request.
    seconds: float
