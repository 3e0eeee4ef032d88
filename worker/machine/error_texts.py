"""Errors that some libraries and programs report only as text. No other module decides by the text of an error."""

from __future__ import annotations

import re


def lacks_file(error: BaseException | None) -> bool:
    """Return whether LanceDB misses a file, or finds no table in a directory."""
    return isinstance(error, RuntimeError | ValueError) and "not found" in str(error).lower()


def system_error(error: BaseException) -> int | None:
    """Return the system's error number behind an error, even if a library only prints it. None if there is none."""
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno
    said = re.search(r"\(os error (\d{1,5})\)", str(error))
    return int(said[1]) if said else None


def lacks_memory(error: BaseException) -> bool:
    """Return whether a library reports too little memory."""
    return re.search("out of memory|cannot allocate memory|resources exhausted", str(error), re.IGNORECASE) is not None


def knows_no_field(detail: str) -> bool:
    """Return whether an older Foldex refused a field of a request, not of a config, that this Foldex has."""
    return re.match(r"\w+: Extra inputs are not permitted", detail) is not None


def own_message(said: str) -> str:
    """Return the message of our own validator, without the prefix that pydantic adds."""
    return said.removeprefix("Value error, ")


def lacks_space(error: BaseException) -> bool:
    """Return whether LanceDB, or a program that we start, reports a full disk."""
    return isinstance(error, OSError | RuntimeError) and "No space left on device" in str(error)
