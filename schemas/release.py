"""The number of this release."""

from __future__ import annotations

#: A test compares it with the one in `pyproject.toml`.
RELEASE = "0.2.0"
