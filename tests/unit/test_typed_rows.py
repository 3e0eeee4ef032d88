"""Rows have types, so that mypy sees where they become answers. What stays a dictionary of anything has its reason."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]

#: Modules of the workers with such a dictionary, each with the reason.
REASONS = {
    "worker/embed/known_models.py": "a table of another program, in JSON",
    "worker/sandbox/protocol.py": "the head of a message, in JSON, which depends on the operation",
    "worker/state/connections.py": "keyword arguments of psycopg",
    "worker/vectors/turbopuffer_rows.py": "a request of another program, in JSON",
}


def test_a_dictionary_of_anything_has_a_reason() -> None:
    texts = {path: path.read_text() for path in (ROOT / "worker").rglob("*.py")}
    found = {str(path.relative_to(ROOT)): len(re.findall(r"dict\[str, Any\]", text)) for path, text in texts.items()}
    assert {name: number for name, number in found.items() if number} == dict.fromkeys(REASONS, 1)
