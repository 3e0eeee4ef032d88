"""The text of a file put together from its chunks, or a part of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from schemas.errors import Invalid, NotFound
from schemas.tool import FileText
from worker.state import Pool, chunks


def file_text(
    pool: Pool, file: dict[str, Any], start_line: int | None, end_line: int | None, pointer: str | None
) -> FileText:
    """A file's extracted text by lines (from 1, inclusive) or JSON pointer; raises `NotFound` for what is not there."""
    pieces = chunks.text(pool, file["id"])
    if not pieces:
        raise NotFound(f"{file['path']} has no indexed text; its status and reason say why.")
    whole = joined(pieces)
    if pointer is None:
        start, end = _lines(whole, start_line, end_line)
    elif start_line is None and end_line is None:
        start, end = _pointed(pieces, pointer)
    else:
        raise Invalid("Ask for lines or for a pointer, not for both.")
    first = whole.count("\n", 0, start) + 1
    text = whole[start:end]
    return FileText(
        file_id=file["id"],
        file_path=file["path"],
        text=text,
        start_line=first,
        end_line=first + text.rstrip("\n").count("\n"),
        start_char=start,
        end_char=end,
    )


def joined(pieces: Sequence[dict[str, Any]]) -> str:
    """The whole text; pieces in order of their start, the parts they share taken once."""
    parts: list[str] = []
    end = 0
    for piece in pieces:
        parts.append(piece["lead"])
        end += len(piece["lead"])
        if piece["end_char"] > end:
            parts.append(piece["chunk_text"][end - piece["start_char"] :])
            end = piece["end_char"]
    return "".join([*parts, pieces[-1]["trail"]])


def _lines(text: str, start_line: int | None, end_line: int | None) -> tuple[int, int]:
    first, last = start_line or 1, end_line
    if last is not None and last < first:
        raise Invalid("end_line comes before start_line.")
    lines = text.removesuffix("\n").split("\n")  # not splitlines: lines are counted by "\n" everywhere
    widths = [len(line) + 1 for line in lines]
    if first > len(lines):
        raise NotFound(f"The file has {len(lines)} lines; ask for lines up to that.")
    start = sum(widths[: first - 1])
    return start, min(len(text), start + sum(widths[first - 1 : last]))


def _pointed(pieces: Sequence[dict[str, Any]], pointer: str) -> tuple[int, int]:
    """The span of everything at or below a pointer, or of the smallest piece that encloses it."""
    below = [p for p in pieces if _is_below(p["json_pointer"], pointer)]
    around = [p for p in pieces if _is_below(pointer, p["json_pointer"])]
    if below:
        return min(p["start_char"] for p in below), max(p["end_char"] for p in below)
    if not around:
        raise NotFound(f"The file has no value at the pointer {pointer!r}.")
    nearest = max(around, key=lambda p: len(p["json_pointer"]))
    return nearest["start_char"], nearest["end_char"]


def _is_below(pointer: str | None, other: str | None) -> bool:
    return pointer is not None and other is not None and (pointer == other or pointer.startswith(other + "/"))
