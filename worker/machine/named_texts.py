"""Reads files of queries and scripts, in which a line `-- name: …` names the text below it."""

from __future__ import annotations

import functools
import re
from importlib import resources

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)


@functools.cache
def named_texts(package: str, file: str) -> dict[str, str]:
    """Return the texts of a package's file, by name."""
    _, *parts = _NAME.split(resources.files(package).joinpath(file).read_text())
    return {key: text.strip() for key, text in zip(parts[::2], parts[1::2], strict=True)}
