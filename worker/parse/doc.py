"""Word documents of before 2007, by the first converter that the machine has."""

from __future__ import annotations

import resource
import subprocess
import tempfile
from pathlib import Path

from schemas.document import Document
from schemas.errors import FileError
from schemas.status import Reason
from worker.parse import types
from worker.parse.formats import BY_TYPE
from worker.parse.limits import Limits, too_large

MISSING = (
    "A .doc document is only read where catdoc, antiword or LibreOffice is installed; install one or save it as .docx."
)
#: The office suite reserves far more address space than it uses.
_OFFICE_SPACE = 4


def read(data: bytes, limits: Limits) -> Document:
    """The text of the document. Raises `FileError`: `unsupported_type` without a converter, `parse_failed`."""
    programs = types.programs(BY_TYPE["doc"].programs)
    if not programs:
        raise FileError(Reason.UNSUPPORTED_TYPE, MISSING)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file.doc"
        path.write_bytes(data)
        # one may fail where the next does not
        text = next((text for program in programs if (text := _converted(program, path, limits)) is not None), None)
    if text is None:
        message = f"The document is damaged: {' and '.join(programs)} cannot read it; save it as .docx."
        raise FileError(Reason.PARSE_FAILED, message)
    return Document(text.replace("\r\n", "\n").strip(), "doc")


def _converted(program: str, path: Path, limits: Limits) -> str | None:
    """The text, None if the program fails."""
    output = path.with_suffix(".txt")
    with output.open("wb") as stream:
        command = _COMMANDS.get(program, _OFFICE)
        try:
            done = subprocess.run(
                [program, *(part.format(file=path, folder=path.parent) for part in command)],
                stdin=subprocess.DEVNULL,
                # the office suite writes the file itself, under the same name
                stdout=subprocess.DEVNULL if command is _OFFICE else stream,
                stderr=subprocess.DEVNULL,
                timeout=limits.seconds,
                check=False,
                preexec_fn=(lambda: _widen(limits)) if command is _OFFICE else None,
            )
        except subprocess.TimeoutExpired:
            raise too_large(f"Converting the file takes longer than PARSE_SECONDS ({limits.seconds:g} s)") from None
    return None if done.returncode or not output.exists() else _text(output, limits)


def _text(output: Path, limits: Limits) -> str:
    # a character takes four bytes at most
    limits.check_characters(output.stat().st_size // 4)
    return output.read_bytes().decode("utf-8-sig", "replace")


def _widen(limits: Limits) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (_OFFICE_SPACE * limits.memory_bytes, resource.RLIM_INFINITY))


_COMMANDS = {
    "antiword": ("-m", "UTF-8.txt", "-w", "0", "{file}"),
    "catdoc": ("-w", "-s", "cp1252", "-d", "utf-8", "{file}"),
}
_OFFICE = (
    *("-env:UserInstallation=file://{folder}/profile", "--headless", "--norestore"),
    *("--convert-to", "txt:Text (encoded):UTF8", "--outdir", "{folder}", "{file}"),
)
