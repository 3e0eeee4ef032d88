"""Files with the name of an office document or a mail are read as what they are."""

from __future__ import annotations

import time

import pytest

from tests.compound import outlook
from tests.contract.samples import of
from tests.parsing import parse
from worker.formats import disguised
from worker.formats.registry import BY_TYPE
from worker.parse import Limits

pytestmark = pytest.mark.usefixtures("helper")
LIMITS = Limits()
NAMES = ["a.doc", "a.docx", "a.xls", "a.xlsx", "a.rtf", "a.odt", "a.pptx", "a.pdf", "a.epub", "a.msg"]
PAGE_IN_MAIL = (
    b'MIME-Version: 1.0\nContent-Type: multipart/related; boundary="b"\n\n--b\nContent-Type: text/html; charset=utf-8\n'
    b"Content-Transfer-Encoding: quoted-printable\nContent-Location: file:///C:/exported.html\n\n"
    b"<html><body><h1>Harbour</h1><p>Gr=C3=BC=C3=9Fe</p></body></html>\n--b--\n"
)
SHEET = (
    '<?xml version="1.0"?><?mso-application progid="Excel.Sheet"?><Workbook xmlns="urn:schemas-microsoft-com:office:'
    'spreadsheet"><Worksheet><Table><Row><Cell><Data>Grüße</Data></Cell></Row></Table></Worksheet></Workbook>'
)
FLAT = (
    '<?xml version="1.0"?><office:document xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0" '
    'xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0"><office:body><office:text><text:p>Grüße</text:p>'
    "</office:text></office:body></office:document>"
)
CONTENT = {
    "a mail": (PAGE_IN_MAIL, "email"),
    "a mail of Confluence": (
        b"Date: Mon, 5 Mar 2024 10:00:00 +0000 (UTC)\r\nMessage-ID: <1@x>\r\nSubject: Exported From Confluence\r\n"
        + PAGE_IN_MAIL.replace(b"\n", b"\r\n"),
        "email",
    ),
    "rich text": (b"{\\rtf1\\ansi Gr\\'fc\\'dfe}", "rtf"),
    "rich text below a blank line": (b"\r\n{\\rtf1\\ansi Gr\\'fc\\'dfe}", "rtf"),
    "a page": ("<!DOCTYPE html><p>Grüße".encode(), "html"),
    "a page of Word": ('<html xmlns:w="urn:x"><body><p>Grüße</p>'.encode(), "html"),
    "a page without a head": ("\ufeff<!-- made -->\n<body><p>Grüße".encode(), "html"),
    "a page in UTF-16": ("<html><body>Grüße".encode("utf-16"), "html"),
    "a page in XML": (
        '<?xml version="1.0"?>\n<!DOCTYPE html PUBLIC "x">\n<html><body>Grüße</body></html>'.encode(),
        "html",
    ),
    "a table": ("<table><tr><td>Grüße</td></tr></table>".encode(), "html"),
    "XML of Excel": (SHEET.encode(), "xml"),
    "a flat document": (FLAT.encode(), "fodt"),
    "text": ("Grüße: a note\nand no more".encode(), "text"),
    "a letter": ("From: me\nSubject: x\n\nGrüße".encode(), "text"),
    "a sign": ("<3 Grüße".encode(), "text"),
}


@pytest.mark.parametrize("content", CONTENT)
@pytest.mark.parametrize("name", NAMES)
def test_a_text_is_read_as_what_it_is(name: str, content: str) -> None:
    data, type_ = CONTENT[content]
    document = parse(name, data, LIMITS)
    assert (document.type, "Grüße" in document.text) == (type_, True)
    if type_ == "email":
        assert "# Harbour" in document.text


@pytest.mark.parametrize("sign", ["\t", ";", ","])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "cp1252"])
def test_a_table_under_the_name_of_a_sheet_repeats_its_columns(sign: str, encoding: str) -> None:
    rows = [["name", "amount", "paid"], ["Möwe", "5", "yes"], ["Anna", "6", "no"]]
    data = "\n".join(sign.join(row) for row in rows).encode(encoding)
    assert {parse(name, data, LIMITS).type for name in ("a.xls", "a.xlsx", "a.ods")} == {"csv"}
    assert {parse(name, data, LIMITS).type for name in ("a.doc", "a.pptx")} == {"text"}


@pytest.mark.parametrize("name", ["a.htm", "a.html"])
def test_a_page_saved_in_one_file_is_read(name: str) -> None:
    document = parse(name, PAGE_IN_MAIL, LIMITS)
    assert (document.type, document.text) == ("email", "# Harbour\n\nGrüße")
    assert parse(name, "Grüße: none\n<p>x".encode(), LIMITS).type == "html"


@pytest.mark.parametrize("name", [*NAMES, "a.eml", "a.txt", "a.html"])
@pytest.mark.parametrize(
    "sample", ["docx/handbook.docx", "odt/rain.odt", "pdf/tides.pdf", "xls/moorings.xls", "epub/tales.epub"]
)
def test_a_document_is_read_under_the_name_of_another(name: str, sample: str) -> None:
    assert parse(name, of(sample), LIMITS) == parse(sample, of(sample), LIMITS)


@pytest.mark.parametrize("name", ["a.eml", "a.doc", "a.docx", "a.txt"])
def test_a_message_of_outlook_is_read_under_the_name_of_another(name: str) -> None:
    data = outlook({"0037": "Report", "1000": "All is well."})
    assert parse(name, data, LIMITS).type == "msg"


def test_what_is_told_of_a_text_takes_linear_time() -> None:
    started = time.process_time()
    for part in ("<!--", "<!-- -->", "<?xml ", "<?xml ?>", " ", "a:\n", "a: b\n c\n", "\n", ";", "<html", "a\t"):
        disguised.format_of_text(BY_TYPE["xls"], (part * 100_000).encode())
    assert time.process_time() - started < 5
