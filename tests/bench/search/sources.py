"""Sources of installed packages, with and without their docstrings."""

from __future__ import annotations

import ast
import re
import sysconfig
from collections.abc import Iterator
from functools import cache
from pathlib import Path

PURELIB = Path(sysconfig.get_paths()["purelib"])
PACKAGES = ("celery", "click", "flask", "httpx", "jinja2", "kombu", "limits", "starlette", "structlog", "uvicorn")
LARGEST = 20_000

Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
DEFINITIONS = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


@cache
def sources() -> dict[str, str]:
    """The text of all Python files that are neither empty nor long, by path."""
    found = sorted(path for name in PACKAGES for path in (PURELIB / name).rglob("*.py"))
    return {str(path.relative_to(PURELIB)): path.read_text() for path in found if 0 < path.stat().st_size <= LARGEST}


def definitions() -> Iterator[tuple[str, Definition]]:
    """Every class, function and method with the path of its file."""
    for path, source in sources().items():
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, DEFINITIONS):
                yield path, node


def fill(folder: Path) -> None:
    """Write all sources unchanged."""
    for path, source in sources().items():
        write(folder / path, source)


def fill_bare(folder: Path) -> None:
    """Write all sources without docstrings."""
    for path, source in sources().items():
        write(folder / path, without_docstrings(source))


def without_docstrings(source: str) -> str:
    """The source with `...` in place of each docstring."""
    raw = source.encode()
    starts = [0, *(match.end() for match in re.finditer(rb"\n", raw))]
    spans = [
        (starts[said.lineno - 1] + said.col_offset, starts[(said.end_lineno or 0) - 1] + (said.end_col_offset or 0))
        for said in _docstrings(source)
    ]
    for begin, end in sorted(spans, reverse=True):
        raw = raw[:begin] + b"..." + raw[end:]
    return raw.decode()


def _docstrings(source: str) -> Iterator[ast.stmt]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and ast.get_docstring(
            node
        ):
            yield node.body[0]


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
