"""Answers requests for the beginning of a file's text, before it is indexed."""

from __future__ import annotations

from schemas.errors import FileError
from schemas.reason import Reason
from worker.formats.detect import detect
from worker.formats.generated import generated_reason
from worker.formats.secrets import is_secret, may_be_secret
from worker.parse.limits import Limits
from worker.parse.sandbox.read import read
from worker.sandbox.protocol import Head


def sample(ask: Head, data: bytes, limits: Limits) -> tuple[Head, bytes]:
    """Return the beginning of a text that would be indexed, and its number of characters. Raises `FileError` otherwise.

    With `documents`, other formats than text are parsed.
    """
    file = detect(ask["name"], data)
    is_document = ask["documents"] and not file.format.as_written
    failure = file.failure or (FileError(Reason.BINARY) if file.is_binary and not is_document else None)
    reason = generated_reason(file, data)
    if "secrets" not in ask["keep"] and may_be_secret(file.name, data) and is_secret(file.name, data):
        raise FileError(Reason.SECRET)
    if failure or (reason and reason.value not in ask["keep"]):
        raise failure or FileError(reason or Reason.GENERATED)
    decoded = read(file.format, data, limits).text if is_document else data.decode(errors="replace")
    if not decoded or decoded.isspace():
        raise FileError(Reason.NO_TEXT)
    return {"type": file.format.type, "characters": len(decoded)}, decoded[: ask["characters"]].encode()
