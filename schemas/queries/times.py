"""Times of files, as a filter."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import AwareDatetime, BaseModel, BeforeValidator, Field


def _as_time(value: object) -> object:
    """Convert ISO 8601 to a time. Pydantic alone would also take numbers, as seconds."""
    if isinstance(value, datetime):
        return value
    if not isinstance(value, str):
        raise ValueError("a time must be ISO 8601 with a time zone, such as 2026-11-01T00:00:00Z")  # noqa: TRY004 - pydantic takes no TypeError
    return datetime.fromisoformat(value)


Time = Annotated[AwareDatetime, BeforeValidator(_as_time)]


class Times(BaseModel):
    """Selects files by the time of their last change. A file of which no time is known is in no range."""

    modified_after: Time | None = Field(
        default=None,
        description="Files that were last changed at this time or later: ISO 8601 with a time zone. Null: any time.",
        examples=["2026-11-01T00:00:00Z"],
    )
    modified_before: Time | None = Field(
        default=None,
        description="Files that were last changed before this time: ISO 8601 with a time zone. Null: any time.",
        examples=["2026-12-01T00:00:00+01:00"],
    )
