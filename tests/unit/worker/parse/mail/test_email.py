"""Messages with other parts than text and pages, and pages saved as messages."""

from __future__ import annotations

from email.message import EmailMessage

import pytest

from schemas.content.document import Document
from worker.parse.limits import Limits
from worker.parse.mail import email

EVENT = "BEGIN:VCALENDAR\nBEGIN:VEVENT\nSUMMARY:Mend the pier\nLOCATION:Room 5\nEND:VEVENT\nEND:VCALENDAR\n"


def read(message: EmailMessage) -> Document:
    return email.read(message.as_bytes(), Limits())


def message(text: str, subtype: str = "plain") -> EmailMessage:
    made = EmailMessage()
    made["Subject"] = "Pier"
    made.set_content(text, subtype=subtype)
    return made


def test_an_invitation_is_read_where_it_is_all_there_is() -> None:
    assert "SUMMARY:Mend the pier" in read(message(EVENT, "calendar")).text


@pytest.mark.parametrize("first", ["plain", "html"])
def test_an_invitation_beside_a_text_says_the_same(first: str) -> None:
    invitation = message("Will you mend the pier?", first)
    invitation.add_alternative(EVENT, subtype="calendar")
    assert read(invitation).text == "Subject: Pier\n\nWill you mend the pier?"


def test_a_message_in_markdown_has_headings() -> None:
    document = read(message("# Plan\n\nMend it.\n", "markdown"))
    assert (document.markup, document.text) == ("markdown", "Subject: Pier\n\n# Plan\n\nMend it.")


@pytest.mark.parametrize("subtype", ["css", "javascript"])
def test_what_belongs_to_a_page_is_no_text(subtype: str) -> None:
    assert read(message("p { margin: 0 }", subtype)).text == "Subject: Pier"


def test_an_attached_message_is_named_by_its_subject() -> None:
    forwarded = message("See below.")
    forwarded.add_attachment(message("Planks are rotten."))
    assert read(forwarded).text == "Subject: Pier\nAttachments: Pier\n\nSee below."


def test_a_message_that_is_sent_on_within_the_text_has_its_head() -> None:
    inner = message("Planks are rotten.")
    inner.replace_header("Subject", "Planks")
    inner["From"] = "Ann <ann@example.org>"
    outer = message("See below.")
    outer.make_mixed()
    outer.attach(inner_part := EmailMessage())
    inner_part["Content-Type"] = "message/rfc822"
    inner_part.set_payload([inner])
    head = "Subject: Planks\nFrom: Ann <ann@example.org>"
    assert read(outer).text == f"Subject: Pier\n\nSee below.\n\n{head}\n\nPlanks are rotten."


def test_a_page_saved_as_one_file_is_a_message() -> None:
    page = (
        b"From: <Saved by Blink>\r\nSubject: =?utf-8?Q?F=C3=A4hre?=\r\nMIME-Version: 1.0\r\n"
        b'Content-Type: multipart/related; type="text/html"; boundary="b"\r\n\r\n--b\r\nContent-Type: text/html\r\n'
        b"Content-Transfer-Encoding: quoted-printable\r\n\r\n<html><body><h1>F=C3=A4hre</h1><p>Times</p></body></html>"
        b"\r\n--b\r\nContent-Type: text/css\r\n\r\np { margin: 0 }\r\n--b\r\nContent-Type: image/png\r\n"
        b"Content-Transfer-Encoding: base64\r\n\r\niVBORw0KGgo=\r\n--b--\r\n"
    )
    document = email.read(page, Limits())
    assert (document.title, document.markup) == ("Fähre", "markdown")
    assert document.text.endswith("\n\n# Fähre\n\nTimes")
    assert "margin" not in document.text


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-16"])
@pytest.mark.parametrize("charset", ["utf-16", "iso-8859-1"])
def test_a_message_may_be_saved_in_utf16(encoding: str, charset: str) -> None:
    text = f'Subject: Die Fähre\r\nContent-Type: text/plain; charset="{charset}"\r\n\r\nÜber die Brücke.\r\n'
    document = email.read(text.encode(encoding), Limits())
    assert (document.title, document.text) == ("Die Fähre", "Subject: Die Fähre\n\nÜber die Brücke.")


def test_a_part_of_another_encoding_is_read_in_it() -> None:
    head = b'Subject: a\r\nContent-Type: text/plain; charset="%s"\r\n\r\n'
    for charset in ("iso-8859-1", "iso-2022-jp"):
        word = "Brücke" if charset == "iso-8859-1" else "日本"
        assert email.read(head % charset.encode() + word.encode(charset), Limits()).text.endswith(word)
