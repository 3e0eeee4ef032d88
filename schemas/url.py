"""Addresses on the web of files that hits show."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any
from urllib.parse import quote

from pydantic import AfterValidator, Field, StringConstraints

#: What a template may name.
PLACEHOLDERS = (
    *("file_path", "file_name", "file_id", "file_node_id", "file_id_path", "chunk_id"),
    *("start_line", "end_line", "page"),
)
#: Maximum characters of an address or a template.
MAX_CHARACTERS = 2048

_URL = re.compile(r"https?://[^\s\\{}/?#]+([/?#][^\s\\]*)?", re.IGNORECASE)
_PLACEHOLDER = re.compile(r"\{(\w*)\}")


def _checked_url(url: str) -> str:
    if not _URL.fullmatch(url):
        raise ValueError("a URL must begin with http:// or https:// and a host, and hold no space or backslash")
    return url


def _checked_template(template: str) -> str:
    _checked_url(template)
    unknown = [name for name in _PLACEHOLDER.findall(template) if name not in PLACEHOLDERS]
    if unknown or set("{}") & set(_PLACEHOLDER.sub("", template)):
        known = ", ".join(f"{{{name}}}" for name in PLACEHOLDERS)
        raise ValueError(f"a template may hold the placeholders {known}, and no other brace")
    return template


Url = Annotated[
    str,
    StringConstraints(max_length=MAX_CHARACTERS),
    AfterValidator(_checked_url),
    Field(examples=["https://wiki.example/handbook"]),
]
UrlTemplate = Annotated[
    str,
    StringConstraints(max_length=MAX_CHARACTERS),
    AfterValidator(_checked_template),
    Field(examples=["https://git.example/docs/blob/main/{file_path}#L{start_line}"]),
]


def filled(template: str, values: Mapping[str, Any]) -> str:
    """The address with values in place of placeholders, percent-encoded; nothing in place of None."""

    def encoded(placeholder: re.Match[str]) -> str:
        name = placeholder[1]
        value = values[name]
        # a path keeps its slashes
        return "" if value is None else quote(str(value), safe="/" if name.endswith("_path") else "", errors="replace")

    return _PLACEHOLDER.sub(encoded, template)
