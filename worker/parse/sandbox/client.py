"""Reads files in a helper process, so that the worker survives libraries that crash, hang or use excessive memory."""

from __future__ import annotations

import compileall
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from schemas.content.document import Document, DocumentProperties
from schemas.errors import FileError
from worker.formats.registry import Format
from worker.parse.limits import BUSY, Limits, too_large
from worker.parse.sandbox import confine
from worker.sandbox import process
from worker.sandbox.helper import ATTEMPTS, Helper
from worker.sandbox.protocol import Answer, Bounds
from worker.tokens import MAX_CHARACTER_BYTES

if TYPE_CHECKING:
    from worker.parse.code.syntax import Syntax

#: Reads the files of this process's runs.
parser = Helper()


def read(format_: Format, data: bytes, limits: Limits) -> Document:
    """Return the document in `data`. Raises `FileError` as the format's reader does, and `crashed` or `too_large`."""
    return _document(parser.ask({"type": format_.type, "limits": limits}, data, _bounds(limits)))


def syntax(data: bytes, language: str, limits: Limits) -> Syntax | None:
    """Return the syntax of UTF-8 source code; None if there is none, or if it exceeds the limits."""
    with suppress(FileError):
        answer = parser.ask({"language": language, "limits": limits}, data, _bounds(limits))
        columns: Syntax | None = answer.head.get("syntax")
        return columns
    return None


def is_secret(name: str, data: bytes, limits: Limits) -> bool:
    """Return whether a file contains only secrets. Raises `FileError` as `read` does."""
    answer = parser.ask({"operation": "secret", "name": name, "limits": limits}, data, _bounds(limits))
    return bool(answer.head.get("secret"))


def max_seconds(limits: Limits) -> float:
    """Maximum wall-clock seconds until `read` gives up, over all attempts."""
    return ATTEMPTS * process.seconds_of(_bounds(limits)) + process.PIPE_SECONDS


def prepare() -> str:
    """Compile modules for helpers, because helpers cannot write. Returns the measures that the system refused."""
    if not sys.dont_write_bytecode:
        compileall.compile_dir(Path(__file__).parents[1], quiet=2)
    command = [sys.executable, "-I", "-S", confine.__file__]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def stop(*, wait: bool = True) -> None:
    """End the helper; the next file starts another. Without `wait`, a helper in use by a thread is left alone."""
    parser.stop(wait=wait)


def _bounds(limits: Limits) -> Bounds:
    megabytes = limits.memory_bytes >> 20
    return Bounds(
        limits.seconds,
        limits.memory_bytes,
        MAX_CHARACTER_BYTES * limits.max_characters,
        BUSY,
        too_large(f"Reading the file takes longer than PARSE_SECONDS ({limits.seconds:g} s)").message,
        too_large(f"Reading the file takes more memory than PARSE_MEMORY_MB ({megabytes:,} MB)").message,
    )


def _document(answer: Answer) -> Document:
    fields = answer.head["document"]
    lists = {name: tuple(value) for name, value in fields.items() if isinstance(value, list)}
    text = answer.payload.decode()
    return Document(**{**fields, **lists, "text": text, "properties": DocumentProperties(**fields["properties"])})
