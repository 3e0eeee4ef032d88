"""Reads Jupyter notebooks: cells as Markdown, code in fences, outputs shortened, pictures left out."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from schemas.document import Document
from schemas.errors import FileError
from schemas.status import Reason
from worker.parse.limits import Limits
from worker.parse.text.encodings import decode
from worker.parse.text.markdown import fenced, title_of
from worker.parse.text.markdown_blocks import heading

#: Characters kept of a cell's outputs: the rest is data rather than text.
_MAX_OUTPUT_CHARS = 2000

#: Maximum digits of a number that is read.
_MAX_DIGITS = 3

#: Terminal escape sequences for colours and cursor movements.
_ESCAPES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")


def read(data: bytes, _limits: Limits) -> Document:
    """The document of a notebook of format 3 or 4. Raises `FileError` (`parse_failed`) if it is not one.

    Character offsets count in the text built here, not in the file.
    """
    content = _loaded(decode(data))
    language = _language(content)
    text = "\n\n".join(block for cell in _cells(content) for block in _blocks(cell, language))
    return Document(text, "notebook", language, title_of(text), markup="markdown")


def _loaded(text: str) -> dict[str, Any]:
    try:
        content = json.loads(text, parse_int=_small, parse_float=len)
    except json.JSONDecodeError as error:
        position = f"line {error.lineno}, column {error.colno}"
        raise _failure(f"is not well-formed JSON at {position}: {error.msg}") from None
    except RecursionError:
        raise _failure("is nested too deep") from None
    if not isinstance(content, dict) or not isinstance(content.get("cells", content.get("worksheets")), list):
        raise _failure("has no list of cells")
    return content


def _small(digits: str) -> int:
    """A number that may be a heading level. Long ones are slow to convert and never needed."""
    return int(digits) if len(digits) <= _MAX_DIGITS else 0


def _failure(problem: str) -> FileError:
    return FileError(Reason.PARSE_FAILED, f"The notebook {problem}; save it again with Jupyter, or rename it to .txt.")


def _language(content: dict[str, Any]) -> str:
    metadata = _mapping(content.get("metadata"))
    name = _mapping(metadata.get("kernelspec")).get("language") or _mapping(metadata.get("language_info")).get("name")
    return name.lower() if isinstance(name, str) and re.fullmatch(r"[\w+#.-]{1,30}", name) else "python"


def _cells(content: dict[str, Any]) -> Iterator[dict[str, Any]]:
    sheets = [content] if "cells" in content else content["worksheets"]
    for sheet in sheets:
        cells = _mapping(sheet).get("cells")
        yield from (_mapping(cell) for cell in cells or [] if isinstance(cells, list))


def _blocks(cell: dict[str, Any], language: str) -> Iterator[str]:
    """The Markdown blocks of a cell."""
    source = _text(cell.get("source", cell.get("input"))).strip("\n")
    if cell.get("cell_type") != "code":
        level = cell.get("level")
        yield heading(level, source) if cell.get("cell_type") == "heading" and isinstance(level, int) else source
        return
    if source.strip():
        yield fenced(source, language)
    outputs = cell.get("outputs")
    shown = _outputs(outputs if isinstance(outputs, list) else [])
    if shown:
        yield fenced(shown)


def _outputs(outputs: list[Any]) -> str:
    """The text of a cell's outputs, cut off if it is long."""
    parts: list[str] = []
    room = _MAX_OUTPUT_CHARS
    for output in map(_mapping, outputs):
        part = _ESCAPES.sub("", _output(output)[: room * 2]).strip("\n")
        if part.strip():
            parts.append(part if len(part) <= room else part[:room].rstrip() + " …")
            room -= len(part)
        if room <= 0:
            break
    return "\n".join(parts)


def _output(output: dict[str, Any]) -> str:
    if output.get("output_type") in ("error", "pyerr"):
        return f"{_text(output.get('ename'))}: {_text(output.get('evalue'))}"
    plain = _mapping(output.get("data")).get("text/plain")
    return _text(output.get("text") or plain)


def _text(value: object) -> str:
    """Text in a notebook: a string, or a list of lines."""
    if isinstance(value, list):
        return "".join(part for part in value if isinstance(part, str))
    return value if isinstance(value, str) else ""


def _mapping(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
