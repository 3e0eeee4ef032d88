"""Images of text, read by the real Tesseract, and old documents, read by the real converters."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from difflib import SequenceMatcher
from email.message import EmailMessage
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import Any

import pptx
import psutil
import pytest
from docx import Document as WordDocument

from schemas.content.document import Document
from schemas.errors import FileError
from schemas.reason import Reason
from tests.compound import outlook
from tests.contract.samples import DATA, LIMITS, ROOT, helper, of, refused
from tests.parsing import parse
from worker.formats import unsupported
from worker.parse import Limits
from worker.parse.ocr import image
from worker.parse.office import doc
from worker.parse.office import pptx as pptx_reader
from worker.parse.pdf import pdf
from worker.parse.sandbox import client as sandbox

__all__ = ["helper"]
PILLOW = "install pillow (extra `ocr`) to run"
Image = pytest.importorskip("PIL.Image", reason=PILLOW)
ImageDraw = pytest.importorskip("PIL.ImageDraw", reason=PILLOW)
ImageFont = pytest.importorskip("PIL.ImageFont", reason=PILLOW)
WORDS = "The ferry leaves the harbour at noon.\nPassengers with bicycles board first,\nthen those on foot."
WHITE, BLACK, NOTHING = (255, 255, 255, 255), (0, 0, 0, 255), (0, 0, 0, 0)

needs_tesseract = pytest.mark.skipif(not unsupported.programs(("tesseract",)), reason="install tesseract-ocr to run")


def drawn(text: str = WORDS, *, ink: object = 0, ground: object = 255, mode: str = "L", size: int = 30) -> Any:
    """An image of text, with a height that fits its letters."""
    picture = Image.new(mode, (25 * size, (3 + 2 * len(text.splitlines())) * size), ground)
    ImageDraw.Draw(picture).multiline_text((size, size), text, ink, ImageFont.load_default(size), spacing=size // 2)
    return picture


def saved(picture: Any, kind: str, **more: Any) -> bytes:
    out = BytesIO()
    picture.save(out, kind, **more)
    return out.getvalue()


def read(name: str, data: bytes) -> str:
    return " ".join(parse(name, data, LIMITS).text.split())


def seen(document: Document) -> list[str]:
    """The text of each page."""
    return [document.text[start:end].strip() for start, end in pairwise((*document.pages, len(document.text)))]


@needs_tesseract
@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("plain.png", saved(drawn(), "PNG")),
        ("fax.tiff", saved(drawn().convert("1"), "TIFF", compression="group4")),
        ("print.jpg", saved(drawn().convert("CMYK"), "JPEG")),
        ("colours.gif", saved(drawn(mode="RGB", ink=(0, 0, 120), ground=(255, 255, 220)).convert("P"), "GIF")),
        ("pale.png", saved(drawn(ink=170, ground=200), "PNG")),
        ("dark.png", saved(drawn(ink=255, ground=0), "PNG")),
        ("screen.png", saved(drawn(size=13), "PNG")),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_picture_of_text_is_read(name: str, data: bytes) -> None:
    assert read(name, data) == " ".join(WORDS.split())


@needs_tesseract
@pytest.mark.parametrize("ink", [BLACK, WHITE], ids=["black", "white"])
def test_text_on_nothing_is_read_whatever_its_colour(ink: object) -> None:
    assert read("a.png", saved(drawn(mode="RGBA", ink=ink, ground=NOTHING), "PNG")) == " ".join(WORDS.split())


@needs_tesseract
@pytest.mark.parametrize("degrees", [90, 180, 270])
def test_a_picture_may_lie_on_its_side_or_head(degrees: int) -> None:
    turned = drawn(WORDS, size=40).rotate(degrees, expand=True)
    assert read("a.png", saved(turned, "PNG")) == " ".join(WORDS.split())


@needs_tesseract
@pytest.mark.parametrize(("degrees", "kind"), [(-15, "PNG"), (-5, "PNG"), (3, "PNG"), (8, "PDF"), (12, "PNG")])
def test_a_page_may_lie_askew(degrees: int, kind: str) -> None:
    text = f"{WORDS}\nThe lamps of the pier are lit when fog comes in."
    askew = drawn(text, size=40).rotate(degrees, Image.Resampling.BICUBIC, expand=True, fillcolor=255)
    found = read(f"a.{kind.lower()}", saved(askew, kind, **({"resolution": 200} if kind == "PDF" else {})))
    assert SequenceMatcher(None, found, " ".join(text.split())).ratio() > 0.97


@needs_tesseract
def test_what_is_straight_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    readings = iter(["once", "twice"] * 4)
    monkeypatch.setattr(image, "_recognise_words", lambda *_: next(readings))
    for picture in (drawn(), drawn().rotate(90, expand=True), drawn(""), Image.effect_noise((900, 700), 90)):
        assert image.recognise(picture, 0.0, LIMITS) == "once"
        next(readings)


@needs_tesseract
def test_a_camera_says_how_it_was_held() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    photo = saved(drawn("Buoy seven").rotate(90, expand=True), "JPEG", exif=exif)
    assert read("a.jpg", photo) == "Buoy seven"


@needs_tesseract
def test_every_page_of_a_scan_is_read_in_its_place() -> None:
    pages = [drawn("Page one is here."), drawn("Page two is there.").rotate(180), drawn("Page three is nowhere.")]
    many: dict[str, Any] = {"save_all": True, "append_images": pages[1:]}
    words = ["Page one is here.", "Page two is there.", "Page three is nowhere."]
    fax = parse("a.tiff", saved(pages[0], "TIFF", **many), LIMITS)
    # one line is not enough to detect that a page stands on its head
    assert (seen(fax)[0], seen(fax)[2]) == (words[0], words[2])
    scan = parse("a.pdf", saved(pages[0], "PDF", resolution=200, **many), LIMITS)
    assert (seen(scan)[0], seen(scan)[2]) == (words[0], words[2])
    assert len(scan.pages) == len(fax.pages) == 3


@needs_tesseract
def test_the_samples_are_read() -> None:
    notice = "NOTICE TO MARINERS Buoy seven is out of place"
    assert read("a.pdf", of("pdf/scanned.pdf")) == notice
    assert all(read(path.name, path.read_bytes()) in {notice, f"{notice} {notice}"} for path in pictures())


def pictures() -> list[Path]:
    return [path for path in sorted((DATA / "image").iterdir()) if path.suffix != ".expected"]


@needs_tesseract
def test_a_picture_without_text_says_so() -> None:
    for name, data in (("a.png", saved(drawn(""), "PNG")), ("a.pdf", saved(drawn(""), "PDF"))):
        failure = refused(name, data)
        assert (failure.reason, "finds no text" in failure.message) == (Reason.NO_TEXT, True)


@needs_tesseract
def test_a_language_that_is_not_installed_is_named_with_its_remedy() -> None:
    failure = refused("a.png", saved(drawn(), "PNG"), Limits(ocr_languages="eng+tlh"))
    assert failure.reason is Reason.NEEDS_OCR
    assert "tlh (OCR_LANGUAGES)" in failure.message


@needs_tesseract
def test_a_picture_longer_than_tesseract_takes_is_too_large() -> None:
    failure = refused("a.png", saved(Image.new("1", (100, 40_000)), "PNG"))
    assert (failure.reason, "100 by 40,000" in failure.message) == (Reason.TOO_LARGE, True)


@needs_tesseract
def test_a_low_picture_is_not_enlarged_beyond_that() -> None:
    long = Image.new("L", (20_000, 40), 255)
    long.paste(drawn("Ferry at noon", size=20).crop((0, 15, 500, 45)), (0, 5))
    assert read("long.png", saved(long, "PNG")).startswith("Ferry")


#: Replaces Tesseract, and takes time to answer.
WAITING = """#!/bin/sh
case "$*" in
*--version*) echo "tesseract 5.0.0" ;;
*--list-langs*) printf "List of languages (1):\\neng\\n" ;;
*) {waits}; echo words > "$2.txt" ;;
esac
"""


def _forget() -> None:
    """What the helper and this process know about the programs of this machine."""
    unsupported.programs.cache_clear()
    image._languages_and_layout.cache_clear()
    sandbox.stop()


@pytest.fixture
def waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Replaces Tesseract with a program that waits in the given way."""
    pytest.importorskip("PIL", reason="install pillow (extra `ocr`) to run")

    def put(waits: str) -> None:
        program = tmp_path / "tesseract"
        program.write_text(WAITING.format(waits=waits))
        program.chmod(0o755)

    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    _forget()
    yield put
    _forget()


@pytest.mark.parametrize(("name", "reader"), [("image/notice.tiff", image), ("pdf/scanned.pdf", pdf)])
def test_a_scan_may_wait_for_the_processor(waiting: Callable[[str], None], name: str, reader: Any) -> None:
    waiting("sleep 1")
    assert "words" in reader.read(of(name), Limits(seconds=0.9)).text


@pytest.mark.parametrize(("name", "reader"), [("image/notice.tiff", image), ("pdf/scanned.pdf", pdf)])
def test_a_scan_does_not_wait_for_ever(waiting: Callable[[str], None], name: str, reader: Any) -> None:
    waiting("sleep 600")
    with pytest.raises(Exception, match="PARSE_SECONDS"):
        reader.read(of(name), Limits(seconds=0.05))


def test_a_picture_that_keeps_the_processor_busy_is_given_up(waiting: Callable[[str], None]) -> None:
    waiting("while :; do :; done")
    assert "PARSE_SECONDS" in refused("a.png", saved(drawn(), "PNG"), Limits(seconds=2)).message


@needs_tesseract
def test_the_processor_time_of_all_pages_counts() -> None:
    pages = [drawn("Page one is here.")] * 20
    scan = saved(pages[0], "TIFF", save_all=True, append_images=pages[1:])
    with pytest.raises(Exception, match="PARSE_SECONDS"):
        image.read(scan, Limits(seconds=0.05))


# old documents


@pytest.mark.parametrize("program", ["catdoc", "antiword"])
def test_each_converter_reads_the_sample_each_time(program: str, tmp_path: Path) -> None:
    if not unsupported.programs((program,)):
        pytest.skip(f"install {program} to run")
    wanted = of("doc/diary.doc.expected").decode().partition("\n\n")[2].split()
    file = tmp_path / "file.doc"
    file.write_bytes(of("doc/diary.doc"))
    for _ in range(10):
        text = doc._convert(program, file, LIMITS)
        assert text is not None
        assert text.split() == wanted


def test_text_before_pictures_comments_and_breaks_of_columns_is_read_by_catdoc() -> None:
    if "catdoc" not in unsupported.programs(("catdoc",)):
        pytest.skip("install catdoc to run")
    lines = [" ".join(line.split()) for line in doc.read(of("pier.doc"), LIMITS).text.split("\n")]
    assert lines[1] == "In winter the lower planks are under water at high tide, and boats keep away. Żółw says: wait."
    assert lines[2:4] == ["Left column of notes", "Right column of notes"]
    assert {"Which ones exactly?", "Until spring."} <= {*lines}


def test_a_converter_that_does_not_stop_writing_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "catdoc"
    program.write_text("#!/bin/sh\nexec yes\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    (tmp_path / "file.doc").write_bytes(of("doc/diary.doc"))
    with pytest.raises(Exception, match="characters; split it"):
        doc._convert("catdoc", tmp_path / "file.doc", Limits(max_characters=1000))


#: A launcher like that of the office suite, whose child does the work.
LAUNCHER = "#!/bin/sh\nsleep 600 &\necho $! > {mark}.new\nmv {mark}.new {mark}\nwait\n"
CONVERTS = """
import sys
from pathlib import Path
from worker.parse import Limits
from worker.parse.office import doc
from worker.parse.office import pptx as pptx_reader
doc._convert("soffice", Path(sys.argv[1]), Limits(seconds=600, memory_bytes=1 << 40))
"""


@pytest.fixture
def launched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file in which the launcher's child writes its process id."""
    mark, program = tmp_path / "mark", tmp_path / "soffice"
    program.write_text(LAUNCHER.format(mark=mark))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    (tmp_path / "file.doc").write_bytes(b"text")
    return mark


def ended(process: psutil.Process) -> bool:
    deadline = time.monotonic() + 20
    while process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
        if time.monotonic() > deadline:
            process.kill()
            return False
        time.sleep(0.01)
    return True


def test_a_converter_that_takes_too_long_ends_with_its_children(launched: Path) -> None:
    with pytest.raises(Exception, match="PARSE_SECONDS"):
        doc._convert("soffice", launched.with_name("file.doc"), Limits(seconds=2, memory_bytes=1 << 40))
    with suppress(psutil.NoSuchProcess):
        assert ended(psutil.Process(int(launched.read_text())))


def test_a_converter_ends_with_whoever_started_it(launched: Path) -> None:
    command = [sys.executable, "-c", CONVERTS, str(launched.with_name("file.doc"))]
    with subprocess.Popen(command, cwd=ROOT) as starter:
        deadline = time.monotonic() + 20
        while not launched.exists():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        child = psutil.Process(int(launched.read_text()))
        starter.kill()
    assert ended(child)


def test_a_program_ends_with_the_process_that_started_it(launched: Path) -> None:
    launched.with_name("soffice").write_text(
        f"#!/bin/sh\necho $$ > {launched}.new\nmv {launched}.new {launched}\nexec sleep 600\n"
    )
    command = [sys.executable, "-c", CONVERTS, str(launched.with_name("file.doc"))]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL) as reader:
        deadline = time.monotonic() + 20
        while not launched.exists():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        program = psutil.Process(int(launched.read_text()))
        starter = program.parent()
        assert starter is not None
        starter.kill()
    assert reader.returncode
    assert ended(program)


def test_names_of_streams_are_in_any_case() -> None:
    data = of("doc/diary.doc")
    for name in ("WordDocument", "1Table"):
        assert name.encode("utf-16-le") in data
        data = data.replace(name.encode("utf-16-le"), name.upper().encode("utf-16-le"))
    if unsupported.programs(("catdoc", "antiword")):
        assert parse("a.doc", data, LIMITS).text == parse("a.doc", of("doc/diary.doc"), LIMITS).text
    else:
        assert "install one" in refused("a.doc", data).message


@pytest.mark.parametrize(
    ("texts", "best"),
    [
        (["a", "b"], "a"),
        (["a\ufffd", "b"], "b"),
        (["a\x01", "b\ufffd\ufffd"], "a\x01"),
        ([None, "b\x01"], "b\x01"),
        (["a\x01", None], "a\x01"),
        ([None], None),
    ],
)
def test_the_converter_with_the_fewest_signs_that_are_no_text_is_believed(
    texts: list[str | None], best: str | None
) -> None:
    assert doc._best(texts) == best


def slides(*pictures: Any, title: str = "") -> bytes:
    presentation = pptx.Presentation()
    for picture in pictures:
        slide = presentation.slides.add_slide(presentation.slide_layouts[5 if title else 6])
        if title:
            slide.shapes.title.text = title
        slide.shapes.add_picture(BytesIO(saved(picture, "PNG")), 0, 0)
    out = BytesIO()
    presentation.save(out)
    return out.getvalue()


def report(pictures: list[bytes]) -> bytes:
    """A document with words and pictures."""
    document = WordDocument()
    document.add_paragraph("Report")
    for picture in pictures:
        document.add_picture(BytesIO(picture))
    out = BytesIO()
    document.save(out)
    return out.getvalue()


def letter(pictures: list[bytes]) -> bytes:
    message = EmailMessage()
    message.set_content("Report")
    for picture in pictures:
        message.add_attachment(picture, maintype="image", subtype="png")
    return bytes(message)


def mailbox(pictures: list[bytes]) -> bytes:
    """A message for each picture."""
    line = b"From a@b Mon Jan  1 10:00:00 2024\n"
    return b"\n".join(line + letter([picture]) for picture in pictures)


def outlook_letter(pictures: list[bytes]) -> bytes:
    """A message whose last attachment is a picture by content, but not by name."""
    names = [f"{at}.png" for at in range(len(pictures))]
    more = saved(drawn("unseen"), "PNG")
    return outlook({"0037": "Report"}, (*names, "unseen.dat"), (*pictures, more))


WITH_PICTURES = [("a.docx", report), ("a.eml", letter), ("a.mbox", mailbox), ("a.msg", outlook_letter)]
#: How the text before the pictures begins.
BEGINNINGS = {
    "a.docx": "Report",
    "a.eml": "Attachments: ",
    "a.mbox": "# (no subject)\n\nAttachments: ",
    "a.msg": "Subject: Report\nAttachments: ",
}


@needs_tesseract
@pytest.mark.parametrize(("name", "write"), WITH_PICTURES)
def test_pictures_within_files_have_text(name: str, write: Callable[[list[bytes]], bytes]) -> None:
    pictures = [saved(drawn(word, size=40), "PNG") for word in ("Harbour lantern", "Silver anchor")]
    found = parse(name, write(pictures), Limits(ocr_pictures=9)).text
    assert found.endswith("\n\nPicture: Harbour lantern\n\nPicture: Silver anchor")


@pytest.mark.parametrize(("name", "write"), WITH_PICTURES)
def test_pictures_within_files_are_read_if_asked_up_to_their_number(
    waiting: Callable[[str], None], name: str, write: Callable[[list[bytes]], bytes]
) -> None:
    waiting(":")
    # one is there twice, and one is too small for text
    pictures = [saved(drawn(word), "PNG") for word in ("one", "two", "three", "two")]
    data = write([*pictures, saved(drawn().crop((0, 0, 39, 200)), "PNG")])
    for number, found in ((0, 0), (2, 2), (3, 3), (9, 3)):
        document = parse(name, data, Limits(ocr_pictures=number))
        assert document.text.count("Picture: words") == found
        assert document.text.startswith(BEGINNINGS[name])
        assert document.note.startswith("Text was sought in 2 of 3 pictures;") == (number == 2)


def test_pictures_of_slides_without_other_text_are_shown_once(waiting: Callable[[str], None]) -> None:
    waiting(":")
    only, beside = slides(drawn("one")), slides(drawn("one"), title="Ferry")
    assert parse("a.pptx", only, Limits(ocr_pictures=9)).text == "# Slide 1\n\nwords"
    assert parse("a.pptx", beside, Limits(ocr_pictures=9)).text == "# Ferry\n\nPicture: words"
    assert parse("a.pptx", beside, Limits()).text == "# Ferry"


def test_slides_that_have_only_pictures_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    if unsupported.programs(("tesseract",)):
        words = " ".join(WORDS.split())
        assert read("a.pptx", slides(drawn(), drawn(""))) == f"# Slide 1 {words}"
        assert read("a.pptx", slides(drawn(), title="Ferry")) == "# Ferry"
        assert refused("a.pptx", slides(drawn(""))).reason is Reason.NO_TEXT
    monkeypatch.setattr(unsupported, "has_ocr", lambda: False)
    with pytest.raises(FileError) as caught:
        pptx_reader.read(slides(drawn()), LIMITS)
    assert caught.value.reason is Reason.NEEDS_OCR
