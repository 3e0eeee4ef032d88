"""Reads Jupyter notebooks: cells as Markdown, code in fences, outputs shortened, pictures left out.

Of a notebook that is not well-formed, the cells up to the damage are read. Without any, it is read as other JSON is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeGuard

from schemas.content.document import Document
from schemas.errors import FileError
from schemas.reason import Reason
from worker.parse.data import json as json_
from worker.parse.encodings import decode
from worker.parse.limits import Limits
from worker.parse.text.markdown import fenced, title_of
from worker.parse.text.markdown_blocks import heading
from worker.tokens.invisible import TERMINAL

#: Characters kept of a cell's outputs: the rest is data rather than text.
_MAX_OUTPUT_CHARS = 2000

_NO_CELLS = "The notebook has no list of cells. It is read as other JSON; save it again with Jupyter."

#: Maximum digits of a number that is read.
_MAX_DIGITS = 3

#: The beginning of the list of cells, and the separator of two cells.
_CELLS_START = re.compile(r'"cells"\s*:\s*\[\s*')
_BETWEEN = re.compile(r"\s*,\s*")


def read(data: bytes, limits: Limits) -> Document:
    """Return the document of a notebook of format 3 or 4. Raises `FileError` (`parse_failed`) if it is nested too deep.

    Character offsets count in the text built here, not in the file.
    """
    written, note = decode(data), ""
    try:
        content = json.loads(written, parse_int=_small, parse_float=len)
    except json.JSONDecodeError as error:
        cells = _cells_before_damage(written)
        content = {"cells": cells} if cells else None
        place = f"line {error.lineno}, column {error.colno} ({error.msg})"
        note = f"Not well-formed JSON at {place}. Only the cells above are read; save the notebook again with Jupyter."
    except RecursionError:
        message = "The notebook is nested too deep; save it again with Jupyter, or rename it to .txt."
        raise FileError(Reason.PARSE_FAILED, message) from None
    if not _is_notebook(content):
        document = json_.read(data, limits)
        return replace(document, type="notebook", note=document.note or _NO_CELLS)
    language = _language(content)
    text = "\n\n".join(block for cell in _cells(content) for block in _blocks(cell, language))
    return Document(text, "notebook", language, title_of(text), markup="markdown", note=note)


def _cells_before_damage(text: str) -> list[Any]:
    """Return the intact cells before the first damaged one."""
    cells: list[Any] = []
    separator = _CELLS_START.search(text)
    decoder = json.JSONDecoder(parse_int=_small, parse_float=len)
    with suppress(json.JSONDecodeError, RecursionError):
        while separator:
            cell, end = decoder.raw_decode(text, separator.end())
            cells.append(cell)
            separator = _BETWEEN.match(text, end)
    return cells


def _is_notebook(content: object) -> TypeGuard[dict[str, object]]:
    """Return whether there is a list of cells. One that ends before its first cell does not count."""
    cells = content.get("cells", content.get("worksheets")) if isinstance(content, dict) else None
    return isinstance(cells, list)


def _small(digits: str) -> int:
    """Return a number that may be a heading level. Long ones are slow to convert and never needed."""
    return int(digits) if len(digits) <= _MAX_DIGITS else 0


def _language(content: dict[str, object]) -> str:
    metadata = _mapping(content.get("metadata"))
    name = _mapping(metadata.get("kernelspec")).get("language") or _mapping(metadata.get("language_info")).get("name")
    return name.lower() if isinstance(name, str) and re.fullmatch(r"[\w+#.-]{1,30}", name) else "python"


def _cells(content: dict[str, object]) -> Iterator[dict[str, object]]:
    sheets = [content] if "cells" in content else content.get("worksheets")
    for sheet in sheets if isinstance(sheets, list) else ():
        cells = _mapping(sheet).get("cells")
        yield from map(_mapping, cells if isinstance(cells, list) else ())


def _blocks(cell: dict[str, object], language: str) -> Iterator[str]:
    """Yield the Markdown blocks of a cell."""
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
    """Return the text of a cell's outputs, cut off if it is long."""
    parts: list[str] = []
    room = _MAX_OUTPUT_CHARS
    for output in map(_mapping, outputs):
        part = TERMINAL.sub("", _output(output)[: room * 2]).strip("\n")
        if part.strip():
            parts.append(part if len(part) <= room else part[:room].rstrip() + " …")
            room -= len(part)
        if room <= 0:
            break
    return "\n".join(parts)


def _output(output: dict[str, object]) -> str:
    if output.get("output_type") in ("error", "pyerr"):
        return f"{_text(output.get('ename'))}: {_text(output.get('evalue'))}"
    plain = _mapping(output.get("data")).get("text/plain")
    return _text(output.get("text") or plain)


def _text(value: object) -> str:
    """Text in a notebook: a string, or a list of lines."""
    if isinstance(value, list):
        return "".join(part for part in value if isinstance(part, str))
    return value if isinstance(value, str) else ""


def _mapping(value: object) -> dict[str, object]:
    return value if isinstance(value, dict) else {}
