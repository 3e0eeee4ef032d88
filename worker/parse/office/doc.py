"""Reads Word documents from before 2007 with the converters that this machine has."""

from __future__ import annotations

import os
import re
import signal
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from schemas.content.document import Document
from schemas.errors import FileError
from schemas.reason import Reason
from worker.formats import unsupported
from worker.formats.registry import BY_TYPE
from worker.parse.limits import Limits, too_large
from worker.parse.office.compound import without_signs
from worker.parse.office.stated import summary
from worker.parse.programs import OFFICE_MEMORY_FACTOR, Job, run
from worker.parse.temporary import check_disk
from worker.tokens import MAX_CHARACTER_BYTES

MISSING = "Reading a .doc document needs catdoc, antiword or LibreOffice; install one, or save it as .docx."
#: Attempts per converter: antiword sometimes crashes with a segmentation fault, and reads the same file later.
_ATTEMPTS = 8
#: Minimum for a converter's file size limit, in bytes: the office suite also writes its own settings.
_MIN_OUTPUT_BYTES = 64 << 20


def read(data: bytes, limits: Limits) -> Document:
    """Return the text of the document. Raises `FileError`: `unsupported_type` without a converter, `parse_failed`."""
    programs = unsupported.programs(BY_TYPE["doc"].programs)
    if not programs:
        raise FileError(Reason.UNSUPPORTED_TYPE, MISSING)
    # a converter's text may be as long as its document
    check_disk(2 * len(data))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file.doc"
        data = _STREAM_NAME.sub(_usual_name, data)
        text = _best(_text_by(program, data, path, limits) for program in programs)
    if text is None:
        message = f"The document is damaged: {' and '.join(programs)} cannot read it; save it as .docx."
        raise FileError(Reason.PARSE_FAILED, message)
    properties = summary(data)
    text = text.replace("\r\n", "\n").strip()
    return Document(text, "doc", title=properties.title or None, properties=properties)


def _best(texts: Iterable[str | None]) -> str | None:
    """Return the first text, unless it has invalid signs and another one has fewer.

    One converter may fail where the next succeeds.
    """
    best, fewest = None, 0
    for text in texts:
        signs = len(_NO_TEXT.findall(text or ""))
        if text is not None and (best is None or signs < fewest):
            best, fewest = text, signs
        if best is not None and not fewest:
            break
    return best


def _usual_name(name: re.Match[bytes]) -> bytes:
    return next(usual for usual in _STREAM_NAMES if usual.lower() == name[0].lower())


def _text_by(program: str, data: bytes, path: Path, limits: Limits) -> str | None:
    path.write_bytes(without_signs(data) if program == "catdoc" else data)
    return _convert(program, path, limits)


def _convert(program: str, path: Path, limits: Limits) -> str | None:
    """Return the text; None if the program fails."""
    output = path.with_suffix(".txt")
    deadline = time.monotonic() + limits.seconds
    for _ in range(_ATTEMPTS):
        code = _exit_code(program, path, output, limits, deadline)
        if code >= 0:
            return None if code or not output.exists() else _text(output, limits)
        if code == -signal.SIGXFSZ:
            limits.check_characters(limits.max_characters + 1)
    return None


def _exit_code(program: str, path: Path, output: Path, limits: Limits, deadline: float) -> int:
    """Return the program's exit code, or minus the signal that ended it."""
    is_office = program not in _COMMANDS
    command = _COMMANDS.get(program, _OFFICE)
    ended = run(
        Job(
            (program, *(part.format(file=path, folder=path.parent) for part in command)),
            max(0.01, deadline - time.monotonic()),
            # the office suite writes the file itself, under the same name
            output=os.devnull if is_office else str(output),
            memory_bytes=limits.memory_bytes * (OFFICE_MEMORY_FACTOR if is_office else 1),
            file_bytes=max(_MIN_OUTPUT_BYTES, MAX_CHARACTER_BYTES * limits.max_characters),
        )
    )
    if ended.code is None:
        raise too_large(f"Converting the file takes longer than PARSE_SECONDS ({limits.seconds:g} s)")
    return ended.code


def _text(output: Path, limits: Limits) -> str:
    limits.check_characters(output.stat().st_size // MAX_CHARACTER_BYTES)
    return _FIELD.sub("", output.read_bytes().decode("utf-8-sig", "replace"))


#: Field instructions, which catdoc writes in front of the field's visible text.
_FIELD = re.compile(
    r'HYPERLINK(?: +\\[a-z])* +"[^"\n]*"(?: +\\[a-z](?: +"[^"\n]*")?)* ?|(?:PAGE)?REF +_\w+(?: +\\[a-z*])* ?'
    r'|TOC(?: +\\[a-z](?: +"[^"\n]*")?)+ ?|(?:PAGE|NUMPAGES|SEQ +\w+)(?: +\\\* +\w+)+ ?'
)
#: Signs that a converter writes for unknown content, and that no document shows.
_NO_TEXT = re.compile("[\0-\x08\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffd]")
#: Names of streams as the converters know them, in a directory whose entries give 64 bytes to a name.
_STREAM_NAMES = [name.encode("utf-16-le").ljust(64, b"\0") for name in ("WordDocument", "0Table", "1Table")]
_STREAM_NAME = re.compile(b"|".join(map(re.escape, _STREAM_NAMES)), re.IGNORECASE)
_COMMANDS = {
    "antiword": ("-m", "UTF-8.txt", "-w", "0", "{file}"),
    "catdoc": ("-w", "-s", "cp1252", "-d", "utf-8", "{file}"),
}
_OFFICE = (
    *("-env:UserInstallation=file://{folder}/profile", "--headless", "--norestore"),
    *("--convert-to", "txt:Text (encoded):UTF8", "--outdir", "{folder}", "{file}"),
)
