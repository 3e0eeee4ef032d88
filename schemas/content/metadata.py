"""Metadata of nodes: a flat object of values that searches can filter by."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress

#: Maximum bytes of the metadata of one node, as JSON in UTF-8.
MAX_METADATA_BYTES = 16 << 10
#: Numbers are below this, whatever their sign.
MAX_NUMBER = 1 << 63

#: A key has no character that an operator of the command line has.
KEY_PATTERN = r"^\w[\w.-]{0,63}$"
_KEY = re.compile(r"\w[\w.-]{0,63}")

#: The writer of a file must not decide who reads it, and nobody must believe that this key does.
_NEVER = "acl"

Value = str | int | float | bool | list[str]


def checked_key(key: object) -> str:
    """The key. Raises `ValueError` if it is not one."""
    if not isinstance(key, str) or _KEY.fullmatch(key) is None:
        raise ValueError("a key has 1 to 64 letters, digits, `_`, `-` and `.`, and begins with a letter, digit or `_`")
    return key


def checked_value(value: object) -> Value:
    """The value. Raises `ValueError` if no metadata can have it."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _checked_text(value)
    if isinstance(value, int | float) and math.isfinite(value) and abs(value) < MAX_NUMBER:
        return value
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return [_checked_text(each) for each in value]
    raise ValueError("a value is a string, a number of at most 64 bits, a boolean or a list of strings")


def checked_metadata(metadata: object) -> dict[str, Value]:
    """The metadata of a node. Raises `ValueError` if it is not a flat object within the limits."""
    if not isinstance(metadata, Mapping):
        raise ValueError("metadata is an object; send an object of keys and values")  # noqa: TRY004 - pydantic takes no TypeError
    checked = {checked_key(key): checked_value(value) for key, value in metadata.items()}
    if metadata_bytes(checked) > MAX_METADATA_BYTES:
        raise ValueError(f"metadata has at most {MAX_METADATA_BYTES >> 10} KiB as JSON; leave keys out")
    return checked


def usable_metadata(values: Iterable[tuple[object, object]]) -> dict[str, Value]:
    """The usable values, up to the size limit of metadata. The first value of a key counts, and null means none.

    A key `acl`, in whatever case, is left out.
    """
    usable: dict[str, Value] = {}
    left = MAX_METADATA_BYTES - len("{}")
    for key, value in values:
        with suppress(ValueError):
            checked = {checked_key(key): checked_value(value)}
            # a comma and a blank stand between two values
            size = metadata_bytes(checked)
            if size <= left and not usable.keys() & checked.keys() and not is_access_list(key):
                usable |= checked
                left -= size
    return usable


def is_access_list(key: object) -> bool:
    """Whether a key seems to decide who may read a file."""
    return isinstance(key, str) and key.lower() == _NEVER


def metadata_bytes(metadata: Mapping[str, Value]) -> int:
    """The size of checked metadata, as JSON in UTF-8."""
    return len(json.dumps(metadata, ensure_ascii=False).encode())


def _checked_text(text: str) -> str:
    if "\0" in text:
        raise ValueError("a string has no NUL character; leave it out")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("a string has no half of a surrogate pair; leave it out") from None
    return text
