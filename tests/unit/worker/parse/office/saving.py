"""Office documents as the bytes of their files."""

from __future__ import annotations

from io import BytesIO
from typing import Any


def saved(document: Any) -> bytes:
    """A document of python-docx, python-pptx or openpyxl as a file."""
    out = BytesIO()
    document.save(out)
    return out.getvalue()
