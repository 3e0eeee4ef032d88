"""Messages as containers: names of attachments that are odd or missing, and what is listed beyond the limits."""

from __future__ import annotations

from pathlib import Path

import pytest

from schemas.errors import FileError
from schemas.reason import Reason
from tests.compound import compound, outlook
from tests.helpers import HELPERS
from worker.ignore import EVERYTHING
from worker.parse.containers.mail import open_mail
from worker.parse.containers.outlook import open_outlook
from worker.sandbox.members import MAX_MEMBERS
from worker.sources.local import LocalFolder
from worker.sources.opening import OpeningSource

ATTACHMENT = """--b
Content-Type: {type}
Content-Disposition: attachment{name}

{text}
"""


def mail(*names: str | None, type_: str = "application/octet-stream", text: str = "text") -> bytes:
    """A message with attachments of these names, as they are written in the header."""
    parts = [ATTACHMENT.format(type=type_, text=text, name=f'; filename="{name}"' if name else "") for name in names]
    return f"Content-Type: multipart/mixed; boundary=b\n\n{''.join(parts)}--b--\n".encode()


def paths(message: bytes) -> list[str]:
    return [member.path for member in open_mail(message).members()]


@pytest.mark.parametrize("before", [b"", b"\xef\xbb\xbf", b"\r\n\n"])
def test_a_message_begins_after_marks_and_blank_lines(before: bytes) -> None:
    assert paths(before + mail("a.md")) == ["a.md"]


@pytest.mark.parametrize("name", ["=?no-such-charset?q?a?=.md", "=?utf-8?q?=FF?=.md", "=?utf-8?b?abcde?=.md"])
def test_a_name_that_cannot_be_decoded_stays_as_it_is(name: str) -> None:
    assert paths(mail("first.md", name)) == ["first.md", name]


@pytest.mark.parametrize(
    ("subject", "path"), [("Subject: Lunch\n", "Lunch.eml"), ("Subject: \n", "1.eml"), ("X: y\n", "1.eml")]
)
def test_an_attached_message_without_a_name_has_its_subject_or_number(subject: str, path: str) -> None:
    assert paths(mail(None, type_="message/rfc822", text=f"{subject}\nInner text.")) == [path]


@pytest.mark.parametrize(
    ("names", "path"),
    [
        ({"3707001F": "long.pdf", "3704001F": "short.pdf", "3001001F": "shown.pdf"}, "long.pdf"),
        ({"3704001F": "short.pdf", "3001001F": "shown.pdf"}, "short.pdf"),
        ({"3707001F": "a.pdf\0"}, "a.pdf"),
        ({"3707001E": "caf\xe9.pdf"}, "caf\xe9.pdf"),
        ({"3707001F": " \0", "3001001F": "shown.pdf"}, "shown.pdf"),
    ],
)
def test_an_attachment_of_outlook_has_the_first_name_that_is_stated(names: dict[str, str], path: str) -> None:
    folder = "__attach_version1.0_#0"
    stated = {number: name.encode("utf-16-le" if number.endswith("F") else "cp1252") for number, name in names.items()}
    streams = {f"{folder}/__substg1.0_{number}": data for number, data in stated.items()}
    message = open_outlook(compound({**streams, f"{folder}/__substg1.0_37010102": b"x"}))
    assert [member.path for member in message.members()] == [path]


@pytest.mark.parametrize(("most", "is_open"), [(3, True), (2, False)])
def test_a_message_of_outlook_has_a_limited_number_of_attachments(
    monkeypatch: pytest.MonkeyPatch, most: int, *, is_open: bool
) -> None:
    monkeypatch.setattr("worker.parse.containers.outlook.MAX_MEMBERS", most)
    message = outlook({"0037": "Pier"}, ("a.pdf", "b.pdf", "c.pdf"), (b"1", b"2", b"3"))
    if is_open:
        assert len([*open_outlook(message).members()]) == most
    else:
        with pytest.raises(FileError) as refused:
            open_outlook(message)
        assert refused.value.reason is Reason.TOO_LARGE


def test_a_message_of_too_many_attachments_is_still_read_itself(tmp_path: Path) -> None:
    (tmp_path / "a.eml").write_bytes(mail(*(f"{number}.md" for number in range(MAX_MEMBERS + 1))))
    folder = LocalFolder(str(tmp_path), [tmp_path])
    source = OpeningSource(folder, EVERYTHING, ["attachments"], 10_000_000, HELPERS)
    assert [(entry.path, entry.reason) for entry in source.list(None).entries] == [("a.eml", None)]
