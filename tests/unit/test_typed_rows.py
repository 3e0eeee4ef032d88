"""Rows have types, so that mypy sees where they become answers. What stays a dictionary of anything has its reason."""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

from pydantic import BaseModel

import worker.state

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


def rows(of: type[BaseModel] = BaseModel) -> Iterator[type[BaseModel]]:
    """The rows that are answers, with columns beside those that a caller sees."""
    for each in of.__subclasses__():
        yield from rows(each)
        if each.__module__.startswith(worker.state.__name__):
            yield each


def test_an_answer_shows_no_column_that_only_its_row_has() -> None:
    for module in pkgutil.walk_packages(worker.state.__path__, f"{worker.state.__name__}."):
        import_module(module.name)
    found = list(rows())
    assert {"TaskOfTool", "NodeRow", "SymbolRow"} < {row.__name__ for row in found}
    for row in found:
        (answer,) = row.__bases__
        assert issubclass(answer, BaseModel)
        shown = {name for name, field in row.model_fields.items() if not field.exclude}
        assert shown == answer.model_fields.keys() < row.model_fields.keys(), row
