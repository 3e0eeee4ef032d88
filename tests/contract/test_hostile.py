"""Harmful files, and the helper process that reads them."""

from __future__ import annotations

import os
import re
import signal
import stat
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import psutil
import pytest

from schemas.errors import FileError
from schemas.reason import Reason
from tests.contract.samples import (
    DATA,
    LIMITS,
    PACKAGES,
    ROOT,
    endless_sheet,
    helper,
    of,
    png,
    refused,
    with_member,
    zipped,
)
from tests.parsing import parse
from worker.formats import unsupported
from worker.formats.detect import detect
from worker.parse import Limits, max_seconds, version
from worker.parse.sandbox import client as sandbox
from worker.sandbox import process
from worker.sources.local import LocalFolder

__all__ = ["helper"]
#: The beginning of a picture, which no format takes for text.
PICTURE = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + bytes(range(256))

#: Replaces Tesseract and reports whether it was given an image.
TESSERACT = f"""#!{sys.executable}
import sys
from PIL import Image
if "--version" in sys.argv:
    print("tesseract 5.0.0")
elif "--list-langs" in sys.argv:
    print("List of available languages in /nowhere/ (1):\\neng")
else:
    with Image.open(sys.argv[1]) as image:
        width, height = image.size
    with open(sys.argv[2] + ".txt", "w") as output:
        output.write(f"seen {{width > 100 and height > 100}}\\n")
"""
#: Ends some helpers of a process by a signal while they read.
KILLER = """
import psutil, sys, time
parent, killed = psutil.Process(int(sys.argv[1])), set()
while len(killed) < int(sys.argv[2]):
    for child in set(parent.children()) - killed:
        try:
            if "worker.parse.sandbox.child" in child.cmdline() and child.cpu_times().user > 0.5:
                child.send_signal(int(sys.argv[3]))
                killed.add(child)
        except psutil.Error:
            pass  # it has ended meanwhile
    time.sleep(0.02)
"""


def laughing(root: str) -> str:
    entities = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 12))
    return f'<!DOCTYPE x [<!ENTITY l0 "lol">{entities}]><{root}>&l11;</{root}>'


@pytest.mark.parametrize("path", PACKAGES)
def test_a_bomb_is_too_large(path: str) -> None:
    failure = refused(path, with_member(path, "media/zeros.bin", bytes(120_000_000)))
    assert failure.reason is Reason.TOO_LARGE
    assert "decompress" in failure.message


@pytest.mark.parametrize("path", PACKAGES)
def test_a_bomb_that_lies_about_its_size_is_not_inflated(path: str) -> None:
    data = bytearray(with_member(path, "media/zeros.bin", bytes(120_000_000)))
    entry = data.rfind(b"PK\1\2")
    data[entry + 24 : entry + 28] = (1000).to_bytes(4, "little")
    document = parse(path, bytes(data), LIMITS)
    assert (document.text, "media/zeros.bin" in document.note) == (parse(path, of(path), LIMITS).text, True)


#: Documents whose text is all in the part that laughs.
ALONE = {"docx/handbook.docx", "odt/garden.odt"}


@pytest.mark.parametrize(
    ("path", "name", "root"),
    [
        ("docx/handbook.docx", "word/document.xml", "document"),
        ("pptx/lighthouse.pptx", "ppt/presentation.xml", "presentation"),
        ("xlsx/catches.xlsx", "xl/workbook.xml", "workbook"),
        ("odt/garden.odt", "content.xml", "content"),
        ("epub/tales.epub", "OPS/book.opf", "package"),
    ],
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_a_billion_laughs_are_not_laughed(path: str, name: str, root: str, encoding: str) -> None:
    data = with_member(path, name, laughing(root).encode(encoding))
    if path in ALONE:
        assert refused(path, data).reason is Reason.PARSE_FAILED
    else:
        document = parse(path, data, LIMITS)
        assert (name in document.note, "lol" in document.text, len(document.text) < 10_000) == (True, False, True)


def test_depth_is_an_outcome() -> None:
    deep = b"<a>" * 200_000 + b"</a>" * 200_000
    office = b'<x xmlns:o="urn:oasis:names:tc:opendocument:xmlns:office:1.0"><o:body>' + deep + b"</o:body></x>"
    assert refused("a.odt", with_member("odt/garden.odt", "content.xml", office)).reason is Reason.PARSE_FAILED
    assert refused("a.docx", with_member("docx/handbook.docx", "word/document.xml", deep)).reason is Reason.PARSE_FAILED


@pytest.mark.parametrize("tags", [b"<div>", b"<b><p>", b"<table><tr><td>", b"<FONT color='>'><li>"])
def test_a_page_nested_as_no_page_is_takes_no_time(tags: bytes) -> None:
    """The parser's time grows with the square of the depth: a megabyte would take a minute."""
    deep = tags * 100_000
    message = b"Subject: s\nContent-Type: text/html\n\n"
    for name, data in (("a.html", deep), ("a.eml", message + deep)):
        failure = refused(name, data, Limits(seconds=4))
        assert (failure.reason, "in each other" in failure.message) == (Reason.PARSE_FAILED, True)
    book = with_member("epub/tales.epub", "OPS/one.xhtml", b"<html><body>" + deep)
    assert parse("a.epub", book, Limits(seconds=4)).text


@pytest.mark.parametrize("chapter", [PICTURE, b"\xef\xbb\xbf  \n"])
def test_a_chapter_that_cannot_be_read_is_left_out_of_its_book(chapter: bytes) -> None:
    whole = parse("a.epub", of("epub/tales.epub"), LIMITS).text
    rest = parse("a.epub", with_member("epub/tales.epub", "OPS/one.xhtml", chapter), LIMITS).text
    assert rest
    assert whole.endswith(rest)


def test_a_book_without_a_chapter_that_can_be_read_says_why() -> None:
    book = of("epub/tales.epub")
    with ZipFile(BytesIO(book)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    broken = {name: PICTURE if name.endswith("html") else data for name, data in members.items()}
    assert refused("a.epub", zipped(broken)).reason is Reason.BINARY


@pytest.mark.parametrize("mark", [b"<!DOCTYPE x>", b'<!ENTITY a "b">'])
@pytest.mark.parametrize("at", [0, 1, 5, 8, 9])
def test_a_declaration_is_found_wherever_it_stands(mark: bytes, at: int) -> None:
    data = with_member("docx/handbook.docx", "word/document.xml", b" " * ((1 << 16) - at) + mark + b"<document/>")
    assert "declares XML entities" in refused("a.docx", data).message


def test_a_container_of_too_many_members_says_how_many_are_read() -> None:
    failure = refused("a.docx", zipped({str(number): b"" for number in range(20_001)}))
    assert failure.reason is Reason.TOO_LARGE
    assert failure.message == "The file contains more than 20,000 entries; extract it or split it."


def test_ends_that_a_page_leaves_out_are_no_depth() -> None:
    cells = b"<table>" + b"<tr><td>one<td>two<br>" * 15_000 + b"</table>"
    page = b"<ul>" + b"<li>word<p>more" * 15_000 + b"</ul>" + cells + b"<svg>" + b"<path d='m'/>" * 30_000 + b"</svg>"
    assert parse("a.html", page + b"<p>the end", LIMITS).text.endswith("the end")


def test_ten_thousand_pages_are_bounded_by_a_setting() -> None:
    one = of("pdf/open-password.pdf").replace(b"/Encrypt 1000 0 R ", b"")
    many = one.replace(b"/Kids [5 0 R] /Count 1", b"/Kids [" + b"5 0 R " * 10_000 + b"] /Count 10000")
    assert "pages, more than 5,000" in refused("a.pdf", many).message
    loop = one.replace(b"/Kids [5 0 R] /Count 1", b"/Kids [2 0 R] /Count 1")
    assert refused("a.pdf", loop).reason in {Reason.PARSE_FAILED, Reason.NO_TEXT}


def test_a_damaged_page_is_left_out_of_its_document() -> None:
    whole = of("pdf/tides.pdf")
    document = parse("a.pdf", whole.replace(b"/Kids [5 0 R", b"/Kids [0 0 R"), LIMITS)
    before = parse("a.pdf", whole, LIMITS)
    assert document.text == before.text[before.pages[1] :].lstrip()
    assert len(document.pages) == 4
    kids = b"/Kids [5 0 R 7 0 R 9 0 R 11 0 R]"
    assert refused("a.pdf", whole.replace(kids, b"/Kids [0 0 R 0 0 R 0 0 R 0 0 R]")).reason is Reason.PARSE_FAILED


def test_a_huge_picture_is_refused_before_it_is_made() -> None:
    failure = refused("a.png", png(50_000, 50_000))
    assert failure.reason is Reason.TOO_LARGE
    assert "50,000 by 50,000" in failure.message


def test_what_is_exactly_at_a_limit_is_read() -> None:
    text = b"text " * 100
    assert parse("a.txt", text, Limits(max_characters=len(text))).text == text.decode()
    assert "characters; split it" in refused("a.txt", text, Limits(max_characters=len(text) - 1)).message
    docx = of("docx/handbook.docx")
    length = len(parse("a.docx", docx, LIMITS).text)
    assert parse("a.docx", docx, Limits(max_characters=length)).text
    assert "characters; split it" in refused("a.docx", docx, Limits(max_characters=length - 1)).message


@pytest.mark.parametrize(
    ("sample", "unit"),
    [
        ("xlsx/catches.xlsx", "sheets"),
        ("xls/moorings.xls", "sheets"),
        ("xls/lamps.xlsb", "sheets"),
        ("odt/walk.odp", "slides"),
        ("epub/tales.epub", "chapters"),
        ("pptx/lighthouse.pptx", "slides"),
        ("pdf/tides.pdf", "pages"),
    ],
)
def test_a_document_has_as_many_parts_as_the_setting_allows(sample: str, unit: str) -> None:
    data = of(sample)
    counted = re.search(rf"has (\d+) {unit}, more than 0", refused(sample, data, Limits(max_pages=0)).message)
    assert counted is not None
    number = int(counted[1])
    assert parse(sample, data, Limits(max_pages=number)).text
    assert f"more than {number - 1:,};" in refused(sample, data, Limits(max_pages=number - 1)).message


def test_limits_name_their_setting() -> None:
    docx = of("docx/handbook.docx")
    assert "characters; split it" in refused("a.docx", docx, Limits(max_characters=100)).message
    assert "characters; split it" in refused("a.txt", b"text " * 100, Limits(max_characters=100)).message


def test_a_file_that_takes_too_long_is_given_up() -> None:
    assert "PARSE_SECONDS" in refused("a.xlsx", endless_sheet(), Limits(seconds=1)).message
    assert parse("a.xlsx", of("xlsx/catches.xlsx"), LIMITS).text


def test_a_file_that_takes_too_much_memory_is_given_up() -> None:
    main = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
    runs = "".join(f"<w:p><w:r><w:t>{n:x}</w:t></w:r></w:p>" for n in range(600_000))
    body = f"<w:document {main}><w:body>{runs}</w:body></w:document>".encode()
    small = Limits(memory_bytes=256 << 20)
    assert (
        "PARSE_MEMORY_MB"
        in refused("a.docx", with_member("docx/handbook.docx", "word/document.xml", body), small).message
    )
    assert parse("a.docx", of("docx/handbook.docx"), small).text


def test_what_postgres_refuses_never_leaves_a_parser() -> None:
    markup = b"<html><head><title>a&#0;b</title></head><body><p>one&#xD800;two&#0;three</p></body></html>"
    for name, data in (("a.html", markup), ("a.epub", with_member("epub/tales.epub", "OPS/one.xhtml", markup))):
        document = parse(name, data, LIMITS)
        assert "\0" not in f"{document.text}{document.title}"
        assert f"{document.text}{document.title}".encode()


# memory of the worker itself

#: Reads a file built by an expression, and prints its outcome and the peak growth of the process in MiB.
READER = """
import sys
from schemas.errors import FileError
from tests.parsing import parse
from worker.parse import Limits
from worker.parse.sandbox import client as sandbox
import worker.parse.data.json, worker.parse.text.markdown, worker.parse.data.csv, worker.parse.xml.xml

def most():
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) >> 10 for line in lines if line.startswith("VmHWM"))

name, data = sys.argv[1], eval(sys.argv[2])
with open("/proc/self/clear_refs", "w") as peak:
    peak.write("5")
before = most()
try:
    said = parse(name, data, Limits()).type
except FileError as failure:
    said = failure.reason + " " + failure.message
sandbox.stop()
print(most() - before, said)
"""


@pytest.mark.skipif(
    not Path("/proc/self/clear_refs").exists(), reason="run on Linux: only it tells what a process held"
)
@pytest.mark.parametrize(
    ("name", "expression", "megabytes", "outcome"),
    [
        # thirty times its size when lists are built in the worker
        ("lists.json", "b'[' + b'[],' * 4_000_000 + b'1]'", 40, "json"),
        ("records.json", "b'[' + b'{\"a\":1},' * 2_000_000 + b'1]'", 60, "json"),
        ("cells.ipynb", "b'{\"nbformat\":4,\"cells\":[' + b'{},' * 800_000 + b'{}]}'", 10, "no_text"),
        ("deep.json", "b'[' * 20_000_000 + b']' * 20_000_000", 20, "nested"),
        # more than is decoded at all
        ("line.txt", "b'a ' * 100_000_000", 20, "characters; split it"),
        ("line.csv", "b'a,' * 100_000_000", 20, "characters; split it"),
        ("quotes.csv", "b'\"' * 40_000_000", 120, "csv"),
        ("front.md", "b'---\\n' + b'a: &x [*x,*x]\\n' * 2_000_000", 120, "markdown"),
        # quadratic time for what could have closed the heading
        ("blanks.md", "b'# a' + b' ' * 20_000_000 + b'x'", 120, "markdown"),
        ("entities.xml", "b'<!DOCTYPE x [' + b'<!ENTITY a \"b\">' * 500_000 + b']><x/>'", 200, "xml"),
    ],
)
def test_a_worker_stays_small_whatever_it_reads(name: str, expression: str, megabytes: int, outcome: str) -> None:
    command = [sys.executable, "-c", READER, name, expression]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=110)
    grown, _, said = done.stdout.partition(" ")
    assert outcome in said
    assert int(grown) < megabytes, said


def test_a_gigabyte_in_one_line_is_listed_and_refused_without_being_read(tmp_path: Path) -> None:
    with (tmp_path / "line.txt").open("wb") as file:
        file.truncate(1 << 30)
    folder = LocalFolder(str(tmp_path), [tmp_path])
    (entry,) = folder.list(None).entries
    assert entry.size == 1 << 30
    tracemalloc.start()
    with pytest.raises(FileError) as caught:
        # the listing already knows it; a direct read gets no further than the limit
        folder.read(entry.key, 1_000_000)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert caught.value.reason is Reason.TOO_LARGE
    assert most < 4_000_000


# the helper process


def helpers() -> list[psutil.Process]:
    return [p for p in psutil.Process().children() if "worker.parse.sandbox.child" in p.cmdline()]


def test_one_helper_reads_many_files_and_is_replaced_when_it_dies() -> None:
    parse("a.pdf", of("pdf/tides.pdf"), LIMITS)
    (first,) = helpers()
    parse("a.odt", of("odt/garden.odt"), LIMITS)
    assert helpers() == [first]
    first.kill()
    assert parse("a.pdf", of("pdf/tides.pdf"), LIMITS).type == "pdf"
    (second,) = helpers()
    assert second != first


def test_a_helper_that_dies_while_a_file_is_sent_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    parse("a.odt", of("odt/garden.odt"), LIMITS)
    (first,) = helpers()
    send = process._write

    def send_too_late(*request: Any) -> None:
        monkeypatch.setattr(process, "_write", send)
        first.kill()
        os.waitid(os.P_PID, first.pid, os.WEXITED | os.WNOWAIT)
        send(*request)

    monkeypatch.setattr(process, "_write", send_too_late)
    assert parse("a.pdf", of("pdf/tides.pdf"), LIMITS).type == "pdf"


@pytest.mark.parametrize(
    ("times", "how", "reason"), [(3, signal.SIGKILL, Reason.CRASHED), (1, signal.SIGABRT, Reason.PARSE_FAILED)]
)
def test_a_helper_that_dies_three_times_or_gives_up_is_an_outcome(
    times: int, how: signal.Signals, reason: Reason
) -> None:
    """The sheet would keep the helper busy forever."""
    killer = subprocess.Popen([sys.executable, "-c", KILLER, str(os.getpid()), str(times), str(int(how))])
    sandbox.stop()
    try:
        assert refused("a.xlsx", endless_sheet(), Limits(seconds=30)).reason is reason
    finally:
        killer.kill()
        killer.wait()
    assert parse("a.pdf", of("pdf/tides.pdf"), LIMITS).text


def test_a_helper_that_does_not_answer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    sandbox.stop()
    with monkeypatch.context() as patched:
        patched.setattr(sandbox, "BUSY", 0)
        patched.setattr(process, "PIPE_SECONDS", 0.5)
        failure = refused("a.xlsx", endless_sheet(), Limits(seconds=30))
    assert (failure.reason, "does not finish" in failure.message) == (Reason.CRASHED, True)
    assert helpers() == []


def test_an_answer_that_nobody_took_is_not_the_next_files(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    parse("a.pdf", of("pdf/tides.pdf"), LIMITS)
    with monkeypatch.context() as patched:
        patched.setattr(process, "_read", interrupted)
        with pytest.raises(KeyboardInterrupt):
            parse("a.pdf", of("pdf/tides.pdf"), LIMITS)
    assert parse("a.odt", of("odt/garden.odt"), LIMITS).type == "odt"


def test_the_helper_has_no_sockets_no_secrets_and_no_heavy_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EMBEDDING_API_KEY", "made-up")
    sandbox.stop()
    parse("a.docx", of("docx/handbook.docx"), LIMITS)
    (process,) = helpers()
    assert process.net_connections() == []
    assert "EMBEDDING_API_KEY" not in process.environ()
    handles = [str(handle.readlink()) for handle in Path(f"/proc/{process.pid}/fd").iterdir()]
    assert not [handle for handle in handles if handle.startswith("socket")]
    maps = Path(f"/proc/{process.pid}/maps").read_text()
    assert "psycopg" not in maps
    modules = "import worker.parse.sandbox.child, sys; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", modules], cwd=ROOT, capture_output=True, text=True, check=True)
    assert not {"litellm", "psycopg", "celery", "numpy"} & set(loaded.stdout.split())


def test_the_helper_dies_with_its_parent() -> None:
    code = (
        "import os, sys, time; from tests.parsing import Limits, parse; from worker.parse.sandbox import client\n"
        "parse('a.pdf', open(sys.argv[1], 'rb').read(), Limits())\n"
        "print(client.parser.running.process.pid, flush=True); time.sleep(600)\n"
    )
    command = [sys.executable, "-c", code, str(DATA / "pdf" / "tides.pdf")]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = psutil.Process(int(parent.stdout.readline()))
        parent.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 20
    while child.is_running() and child.status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_fork_has_a_helper_of_its_own() -> None:
    parse("a.pdf", of("pdf/tides.pdf"), LIMITS)
    (first,) = helpers()
    child = os.fork()
    if child == 0:
        good = parse("a.pdf", of("pdf/tides.pdf"), LIMITS).type == "pdf" and helpers() != [first]
        sandbox.stop()
        os._exit(0 if good else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert parse("a.pdf", of("pdf/tides.pdf"), LIMITS).type == "pdf"
    assert helpers() == [first]


def test_only_isolated_files_may_take_longer() -> None:
    assert max_seconds(detect("a.txt", b"text"), 4, LIMITS) is None
    pdf = of("pdf/tides.pdf")
    assert (max_seconds(detect("a.txt", pdf), len(pdf), LIMITS) or 0) > 3 * LIMITS.seconds


# images of text


@pytest.fixture
def tesseract(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A fake program of that name on PATH. Libraries, images and processes are real; test_ocr.py tests real reading."""
    pytest.importorskip("PIL", reason="install pillow (extra `ocr`) to run")
    program = tmp_path / "tesseract"
    program.write_text(TESSERACT)
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    sandbox.stop()
    unsupported.programs.cache_clear()
    yield
    unsupported.programs.cache_clear()
    sandbox.stop()


@pytest.mark.usefixtures("tesseract")
def test_scanned_pages_and_pictures_are_recognised() -> None:
    assert parse("a.pdf", of("pdf/scanned.pdf"), LIMITS).text == "seen True"
    assert parse("a.png", of("image/notice.png"), LIMITS).text == "seen True"
    document = parse("a.tiff", of("image/notice.tiff"), LIMITS)
    assert (document.text, document.pages) == ("seen True\n\nseen True", (0, 11))
    assert version("a.pdf").endswith(" tesseract")
    assert refused("a.png", png(50_000, 50_000)).reason is Reason.TOO_LARGE
