"""First bytes of files without text; no text, image or document is mistaken for one of these."""

from __future__ import annotations

import marshal
import shutil
import sys
from importlib.util import MAGIC_NUMBER
from pathlib import Path

import pytest

from tests.contract.samples import SAMPLES
from worker.formats.magic import HEAD, kind_of


@pytest.mark.parametrize(
    ("head", "kind"),
    [
        (b"MZ\x90\0\3\0\0\0\4\0\0\0\xff\xff", "exe"),
        (MAGIC_NUMBER + bytes(12) + marshal.dumps(compile("1", "a", "exec")), "pyc"),
        (b"ID3\4\0\0\0\0", "mp3"),
        (b"RIFF\x24\0\0\0WAVEfmt ", "wav"),
        (b"\0\0\0\x20ftypisom\0\0\2\0", "mp4"),
        (b"\0\0\0\x14ftypqt  ", "mov"),
        (b"\0\0\0\x1cftypheic", None),
        (b"\0\0\0\x1cftyphevc", None),
        (b"\0\0\0\x18ftypcrx \0\0\0\1", None),
        (b"The ftyp box tells the brand", None),
        (b"\0\1\0\0\0\x12", "ttf"),
        (b"MZ is how the letter begins", None),
        (b"ID3 is a tag of sound files", None),
        (b"ID3\ttitle and artist", None),
        (b"ID3\nis a tag", None),
        (b"OTTO was here", None),
        (b"RIFF and WAVE", None),
        ("\ufeffUTF-16".encode("utf-16-le"), None),
        (b"ab\r\ncd", None),
        (b"", None),
    ],
)
def test_the_first_bytes_tell_the_kind_of_a_file(head: bytes, kind: str | None) -> None:
    assert kind_of(head[:HEAD]) == kind


@pytest.mark.parametrize("program", [sys.executable, shutil.which("sh")])
def test_a_program_of_this_machine(program: str) -> None:
    assert kind_of(Path(program).resolve().read_bytes()[:HEAD]) in {"so", "dylib", "exe"}


def test_samples_are_none_of_them() -> None:
    assert [path for path in SAMPLES if kind_of(path.read_bytes()[:HEAD])] == []
