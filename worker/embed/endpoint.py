"""A provider's model at an address."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, eq=False)
class Endpoint:
    """A model at an address, as a client calls it. Its environment variables supply a missing address or key."""

    model: str
    api_base: str | None
    api_key: str | None = field(repr=False)
    dimensions: int | None
    #: Maximum duration of a request.
    seconds: float
