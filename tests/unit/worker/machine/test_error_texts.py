"""Errors that tell what happened by their text alone."""

from __future__ import annotations

import ast
from pathlib import Path

import lancedb
import pytest
from pydantic import ValidationError

from schemas.queries.grep import Grep
from worker.machine.error_texts import knows_no_field, lacks_file, lacks_space

ROOT = Path(__file__).parents[4]
MODULES = [path for folder in ("api", "worker") for path in sorted((ROOT / folder).rglob("*.py"))]


def test_lancedb_misses_a_table(tmp_path: Path) -> None:
    with pytest.raises((RuntimeError, ValueError)) as caught:
        lancedb.connect(tmp_path).open_table("none")
    assert lacks_file(caught.value)


def test_lancedb_misses_a_file_of_a_table(tmp_path: Path) -> None:
    table = lancedb.connect(tmp_path).create_table("t", [{"id": 1}])
    (file,) = (tmp_path / "t.lance" / "data").iterdir()
    file.unlink()
    with pytest.raises((RuntimeError, ValueError)) as caught:
        table.to_arrow()
    assert lacks_file(caught.value)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (RuntimeError("lance error: LanceError(IO): No space left on device (os error 28)"), True),
        (OSError("No space left on device"), True),
        (RuntimeError("lance error: LanceError(IO): Permission denied"), False),
        (ValueError("No space left on device"), False),
    ],
)
def test_lancedb_finds_no_space(error: Exception, expected: bool) -> None:
    assert lacks_space(error) is expected
    assert not lacks_file(error)


@pytest.mark.parametrize(("field", "value", "expected"), [("new", 1, True), ("head_limit", "many", False)])
def test_a_request_with_a_field_of_a_later_release(field: str, value: object, expected: bool) -> None:
    with pytest.raises(ValidationError) as caught:
        Grep.model_validate({"pattern": "x", field: value})
    (error,) = caught.value.errors()
    assert knows_no_field(f"{field}: {error['msg']}. See /docs for what this call accepts.") is expected


def reads_text(tree: ast.AST) -> bool:
    """Whether a comparison or a search looks into `str(…)` or `repr(…)` of something."""
    texts = {
        id(node) for node in ast.walk(tree) if isinstance(node, ast.Call) and ast.unparse(node.func) in {"str", "repr"}
    }
    deciding = [
        side
        for node in ast.walk(tree)
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In | ast.NotIn)
        for side in node.comparators
    ]
    return any(id(part) in texts for side in deciding for part in ast.walk(side))


def test_nothing_else_looks_into_the_text_of_an_error() -> None:
    reading = [path.relative_to(ROOT).as_posix() for path in MODULES if reads_text(ast.parse(path.read_text()))]
    assert reading == ["worker/machine/error_texts.py"]
