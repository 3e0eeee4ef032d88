"""Access lists of documents: which principals may read them."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Annotated

from pydantic import AfterValidator, Field

#: Stands for every caller.
EVERYBODY = "*"
#: Before a principal that must not read.
DENY = "!"
#: Maximum bytes of a principal in UTF-8, and entries of a list.
MAX_PRINCIPAL_BYTES = 256
MAX_ENTRIES = 1_000
#: Maximum principals of a caller.
MAX_PRINCIPALS = 1_000

#: A kind, and a name. Terminals show it, so it has no characters that control them or the direction of text.
_PRINCIPAL = re.compile(r"[a-z][a-z0-9_-]{0,31}:[^\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]+")


def checked_principal(text: str) -> str:
    """A principal. Raises `ValueError` if it is not one."""
    if len(text.encode(errors="replace")) > MAX_PRINCIPAL_BYTES:
        raise ValueError(f"a principal has at most {MAX_PRINCIPAL_BYTES} bytes; shorten it")
    if _PRINCIPAL.fullmatch(text) is None or not text.partition(":")[2].strip():
        raise ValueError(f"{text!r:.80} is not a principal; write a kind and a name, such as user:ann@example.org")
    return text


def checked_acl(entries: list[str]) -> list[str]:
    """An access list, sorted, each entry once. Raises `ValueError`."""
    for entry in entries:
        principal = entry.removeprefix(DENY)
        if principal != EVERYBODY:
            checked_principal(principal)
    return sorted(set(entries))


def admits(entries: Collection[str], principals: Collection[str]) -> bool:
    """Whether a list admits a caller with these principals: an entry names one of them, and none denies one."""
    held = {*principals, EVERYBODY}
    return any(each in held for each in entries) and not any(
        each.startswith(DENY) and each.removeprefix(DENY) in held for each in entries
    )


Acl = Annotated[
    list[Annotated[str, Field(min_length=1, max_length=MAX_PRINCIPAL_BYTES + 1)]],
    Field(max_length=MAX_ENTRIES),
    AfterValidator(checked_acl),
]


@dataclass(frozen=True, slots=True)
class Sight:
    """Whose documents a call may show: what admits these principals, besides everybody's. None: all documents."""

    principals: frozenset[str] | None

    @property
    def is_whole(self) -> bool:
        """Whether all documents may be shown, whatever their lists say."""
        return self.principals is None


#: Of the operator, and of keys with the scope `all_documents`.
EVERYTHING = Sight(None)
