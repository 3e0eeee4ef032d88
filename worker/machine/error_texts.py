"""What some libraries and programs say of an error in its text alone. Nothing else decides by the text of an error."""

from __future__ import annotations

import re


def lacks_file(error: BaseException | None) -> bool:
    """Whether LanceDB misses a file, or finds no table in a directory."""
    return isinstance(error, RuntimeError | ValueError) and "not found" in str(error).lower()


def system_error(error: BaseException) -> int | None:
    """The number of the system's error that led to an error, also of a library that only says it. None if none did."""
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno
    said = re.search(r"\(os error (\d{1,5})\)", str(error))
    return int(said[1]) if said else None


def lacks_memory(error: BaseException) -> bool:
    """Whether a library says that the memory did not suffice."""
    return re.search("out of memory|cannot allocate memory|resources exhausted", str(error), re.IGNORECASE) is not None


def knows_no_field(detail: str) -> bool:
    """Whether a Foldex refused a request for a field of it, and none of its config, that this Foldex has."""
    return re.match(r"\w+: Extra inputs are not permitted", detail) is not None


def own_message(said: str) -> str:
    """What a validator of ours says, without the words that pydantic puts before it."""
    return said.removeprefix("Value error, ")


def lacks_space(error: BaseException) -> bool:
    """Whether LanceDB, or a program that we start, found no space on a disk."""
    return isinstance(error, OSError | RuntimeError) and "No space left on device" in str(error)
