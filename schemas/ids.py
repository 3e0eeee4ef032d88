"""Ids that callers choose. Each is one part of a URL's path."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field


def addressable(chosen: str) -> str:
    """The id. Raises `ValueError` for one that cannot be a part of a URL's path."""
    if chosen in {".", ".."}:
        raise ValueError("programs remove `.` and `..` from addresses, so no call would reach it; choose another id")
    if "/" in chosen or "\0" in chosen:
        raise ValueError("an id is one part of a URL's path, so it has no slash and no NUL; use `-` instead")
    try:
        chosen.encode()
    except UnicodeEncodeError:
        raise ValueError("an id has no half of a surrogate pair; leave it out") from None
    return chosen


#: The id of something that is made.
NewId = Annotated[str, AfterValidator(addressable), Field(json_schema_extra={"pattern": r"^[^/\x00]+$"})]
