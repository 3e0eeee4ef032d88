"""The helper keeps the memory of a page for the next one."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

from tests.parsing import parse
from tests.pdfs import drawn, paragraph
from worker.parse import Limits
from worker.parse.sandbox import client as sandbox

pytestmark = pytest.mark.usefixtures("helper")
#: Of its fields after the name, the number of the one that counts pages of memory taken from the system.
TAKEN = 7


def taken() -> int:
    """Pages of memory that the helper has taken from the system since its start."""
    assert sandbox.parser.running
    stat = Path(f"/proc/{sandbox.parser.running.process.pid}/stat").read_text()
    return int(stat.rpartition(")")[2].split()[TAKEN])


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="run with glibc: others have no such settings")
def test_pages_of_a_pdf_use_the_same_memory() -> None:
    pages = 20
    data = drawn([paragraph(780, ["words of a line " * 20] * 60, 4, 6)] * pages)
    for _ in range(3):
        parse("a.pdf", data, Limits())
    before = taken()
    parse("a.pdf", data, Limits())
    assert taken() - before < 50 * pages
