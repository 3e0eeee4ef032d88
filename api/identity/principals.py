"""The header in which a trusted program names the principals of its own caller."""

from __future__ import annotations

import re
import string
from urllib.parse import quote, unquote_to_bytes

from starlette.datastructures import Headers

from schemas.content.acl import MAX_PRINCIPALS, checked_principal
from schemas.errors import Invalid
from schemas.wording import amount

HEADER = "Foldex-Principals"
#: What may be around entries. `str.strip` would also take bytes of UTF-8, which are read as Latin-1.
_BLANKS = " \t"
#: A percent sign that begins no encoded byte.
_LONE_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")


def sent(headers: Headers) -> frozenset[str] | None:
    """The principals that a request names; None without the header. Raises `Invalid`, which names the header."""
    values = headers.getlist(HEADER)
    if not values:
        return None
    if len(values) > 1:
        raise _refused("it was sent more than once; send one with all principals, separated by commas")
    entries = values[0].split(",") if values[0].strip(_BLANKS) else []
    if len(entries) > MAX_PRINCIPALS:
        raise _refused(f"it has {amount(len(entries), 'principal')}; send {MAX_PRINCIPALS:,} at most")
    return frozenset(_decoded(number, entry.strip(_BLANKS)) for number, entry in enumerate(entries, 1))


def passed_on(headers: Headers) -> dict[str, str]:
    """The header of a request, in ASCII, for calls that are made on its behalf."""
    value = headers.get(HEADER)
    return {} if value is None else {HEADER: quote(value.encode("latin-1"), safe=string.printable)}


def _decoded(number: int, entry: str) -> str:
    if _LONE_PERCENT.search(entry):
        raise _refused(f"entry {number:,} has a lone percent sign; write %25")
    try:
        # ASGI reads bytes as Latin-1
        return checked_principal(unquote_to_bytes(entry.encode("latin-1")).decode())
    except UnicodeDecodeError:
        raise _refused(f"entry {number:,} is no UTF-8; encode it") from None
    except ValueError as error:
        raise _refused(f"entry {number:,}: {error}") from None


def _refused(reason: str) -> Invalid:
    return Invalid(f"The header {HEADER} cannot be used: {reason}.")
