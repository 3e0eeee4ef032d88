"""Ids that callers choose, each one part of a URL's path, and ids of rows that stand in the order of their content."""

from __future__ import annotations

from hashlib import blake2b
from typing import Annotated
from uuid import UUID

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

#: The bits of a UUID that state its version and variant, and those of version 8, whose other bits its maker chooses.
_FIXED_BITS = (0xF << 76) | (0x3 << 62)
_VERSION_8 = (0x8 << 76) | (0x2 << 62)
#: Bits that the order of two ids depends on.
_ORDER_BITS = 64
_UNIQUE_BITS = (1 << _ORDER_BITS) - 1


def ordered_id(content: bytes, unique: int) -> UUID:
    """An id as unique as the last 64 bits of `unique`. Its order among others is decided by the contents alone.

    Stores break ties by id, and samples take the first ids. So equal folders give equal answers, whatever their indexes
    are called. The order is that of a hash: the first ids are a fair sample.
    """
    order = int.from_bytes(blake2b(content, digest_size=_ORDER_BITS // 8).digest()) << _ORDER_BITS
    return UUID(int=((order | (unique & _UNIQUE_BITS)) & ~_FIXED_BITS) | _VERSION_8)
