"""What documents say of themselves."""

from __future__ import annotations

from io import BytesIO

import docx
import pytest

from schemas.content.document import DocumentProperties
from tests.contract.samples import of
from tests.parsing import parse
from worker.parse import Limits
from worker.parse.office.stated import summary
from worker.parse.opening import MAX_LINE_CHARS
from worker.parse.properties import MAX_TITLE_CHARS, of_pdf, properties_of

LIMITS = Limits()


@pytest.mark.parametrize(
    ("title", "kept"),
    [
        ("  Tides \n of 1907 ", "Tides of 1907"),
        ("PowerPoint Presentation", ""),
        ("PowerPoint presentations that work", "PowerPoint presentations that work"),
        ("Document3", ""),
        ("Document 3 of the trial", "Document 3 of the trial"),
        ("tides_final.docx", ""),
        ("How to read tides.docx", "How to read tides.docx"),
        ("x" * MAX_TITLE_CHARS, "x" * MAX_TITLE_CHARS),
        ("x" * (MAX_TITLE_CHARS + 1), "x" * MAX_TITLE_CHARS),
    ],
)
def test_a_title_is_one_short_line_that_a_person_wrote(title: str, kept: str) -> None:
    assert properties_of(title=title).title == kept


@pytest.mark.parametrize(
    ("written", "day"),
    [
        ("D:20260301123000Z", "2026-03-01"),
        ("D:2026", "2026"),
        ("2026-03-01T12:30:00Z", "2026-03-01"),
        ("2026-03", "2026-03"),
        ("1907", "1907"),
        ("Sun, 1 Mar 2026 12:30:00 +0100", "2026-03-01"),
        ("2026-02-30", ""),
        ("2026-3-1", ""),
        ("19071", ""),
        ("soon", ""),
        ("", ""),
    ],
)
def test_dates_are_days(written: str, day: str) -> None:
    assert properties_of(created=written).created == day


def test_front_matter_and_the_head_of_a_page_state_properties() -> None:
    stated = DocumentProperties("Tides", "Ada", "When it ebbs", "sea, moon", "2026-03-01", "2026-04-01")
    front = (
        "---\ntitle: 'Tides'\nauthor: Ada\ndescription: When it ebbs\ntags: [sea, moon]\ndate: 2026-03-01\n"
        "lastmod: 2026-04-01\n---\n# Heading\n"
    )
    assert parse("a.md", front.encode(), LIMITS).properties == stated
    page = (
        "<head><title>Tides</title><meta name=Author content=Ada><meta name=description content='When it ebbs'>"
        "<meta name=keywords content='sea, moon'><meta property='article:published_time' content='2026-03-01T08:00'>"
        "<meta property='article:modified_time' content='2026-04-01T08:00'></head><body><h1>Heading</h1>x"
    )
    assert parse("a.html", page.encode(), LIMITS).properties == stated


def test_a_heading_is_no_property() -> None:
    for name, text in (("a.md", "# Heading\nx"), ("a.html", "<h1>Heading</h1>x")):
        document = parse(name, text.encode(), LIMITS)
        assert (document.title, document.properties) == ("Heading", DocumentProperties())


def test_an_office_document_states_what_its_author_wrote() -> None:
    document = docx.Document()
    document.add_paragraph("ebb")
    core = document.core_properties
    core.title, core.author, core.comments, core.keywords, core.category = "Tides", "Ada", "When", "sea", "nature"
    file = BytesIO()
    document.save(file)
    read = parse("a.docx", file.getvalue(), LIMITS).properties
    assert read == DocumentProperties("Tides", "Ada", "When", "sea, nature", "2013-12-23", "2013-12-23", "ebb")


@pytest.mark.parametrize(
    ("lines", "above"),
    [
        (
            ["Norvik Shipping AG", "Quarterly  statement", "Q2 2023", "We grew"],
            "Norvik Shipping AG Quarterly statement Q2 2023",
        ),
        (["Norvik Shipping AG", "We grew in all regions.", "Q2 2023"], "Norvik Shipping AG"),
        (["x" * MAX_LINE_CHARS, "y"], "x" * MAX_LINE_CHARS + " y"),
        (["x" * (MAX_LINE_CHARS + 1), "y"], ""),
        (["", "* * *", "Pier"], "Pier"),
    ],
)
def test_short_lines_above_the_text_of_a_document_on_pages_are_its_opening(lines: list[str], above: str) -> None:
    document, file = docx.Document(), BytesIO()
    for line in lines:
        document.add_paragraph(line)
    document.save(file)
    assert parse("a.docx", file.getvalue(), LIMITS).properties.opening == above
    assert parse("a.txt", "\n\n".join(lines).encode(), LIMITS).properties.opening == ""


def test_an_old_office_document_states_properties_unless_it_is_damaged() -> None:
    data = of("pier.doc")
    assert summary(data).created == "2013-12-23"
    assert summary(data[: len(data) // 2]) == summary(b"") == DocumentProperties()


def test_books_and_open_documents_state_properties() -> None:
    found = {name: parse(name, of(name), LIMITS).properties.title for name in ("epub/tales.epub", "odt/garden.odt")}
    assert found == {"epub/tales.epub": "Three short tales", "odt/garden.odt": "Garden book"}


def test_a_pdf_states_properties() -> None:
    metadata = {"Title": "Tides", "Author": "Ada", "Subject": "When", "Keywords": "sea", "CreationDate": "D:20260301"}
    assert of_pdf(metadata) == DocumentProperties("Tides", "Ada", "When", "sea", "2026-03-01")


def test_mail_states_its_sender_and_day() -> None:
    mail = b"Subject: Pier\nFrom: Ada <ada@example.org>\nDate: Sun, 1 Mar 2026 12:30:00 +0100\n\nebb"
    expected = DocumentProperties("Pier", "Ada <ada@example.org>", created="2026-03-01")
    assert parse("a.eml", mail, LIMITS).properties == expected


def test_all_that_is_stated_is_found_and_the_title_comes_first() -> None:
    stated = DocumentProperties("Tides", "Ada", "When it ebbs", "sea, moon", "2026-03-01", "2026-04-01")
    assert stated.words.split("\n") == ["Tides", "sea, moon", "Ada", "2026-03-01", "2026-04-01", "When it ebbs"]
    assert DocumentProperties().words == ""
    assert DocumentProperties("Tides", "Ada", opening="Pier").words == "Tides\nPier\nAda"
    assert DocumentProperties("Tides", "Ada", opening="Tides").words == "Tides\nAda"


@pytest.mark.parametrize(("length", "kept"), [(500, 500), (501, 499)])
def test_words_of_long_properties_are_cut_between_words(length: int, kept: int) -> None:
    assert (
        len(DocumentProperties(description=("w" * 9 + " ") * 49 + "w" * 9 + " " + "x" * (length - 500)).words) == kept
    )
