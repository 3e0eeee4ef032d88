"""The number of this release."""

from __future__ import annotations

#: A test compares it with the one in `pyproject.toml`.
RELEASE = "1.0.0"
