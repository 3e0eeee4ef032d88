"""Attachments of mail: the names and sizes that they are listed with, and what is read of them."""

from __future__ import annotations

from email.message import EmailMessage
from email.mime.message import MIMEMessage

import pytest

from schemas.errors import FileError
from schemas.reason import Reason
from tests.compound import compound, outlook
from worker.parse.containers import outlook as outlook_container
from worker.parse.containers.mail import open_mail
from worker.parse.containers.outlook import open_outlook

LIMIT = 1_000_000


def test_attachments_have_names_of_their_own() -> None:
    message = EmailMessage()
    message.set_content("Text.")
    for name in ("a.pdf", "a.pdf", "=?utf-8?q?=C3=BC.md?=", "../x/y.md"):
        message.add_attachment(b"data", maintype="application", subtype="pdf", filename=name)
    inner = EmailMessage()
    inner["Subject"] = "Forwarded"
    inner.set_content("Inner text.")
    part = MIMEMessage(inner)
    part.add_header("Content-Disposition", "attachment")
    message.attach(part)  # type: ignore[arg-type]  # the stubs allow its own class only
    message.add_attachment(b"data", maintype="image", subtype="png")
    opened = open_mail(bytes(message))
    paths = [member.path for member in opened.members()]
    assert paths == ["a.pdf", "a (2).pdf", "ü.md", ".._x_y.md", "Forwarded.eml", "attachment 6.png"]
    assert b"Inner text." in opened.read("Forwarded.eml", LIMIT)
    with pytest.raises(FileError):
        opened.read("a.pdf", 3)
    assert opened.read("a.pdf", 4) == b"data"


def test_attachments_of_outlook_have_names_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    message = outlook(
        {"0037": "Pier"}, ("a.pdf", "a.pdf", "../x\\y.md", "named only"), (b"data", b"more", b"\xff" * 9_000)
    )
    opened = open_outlook(message)
    assert [(member.path, member.size) for member in opened.members()] == [
        ("a.pdf", 4),
        ("a (2).pdf", 4),
        (".._x_y.md", 9_000),
    ]
    assert opened.read("a (2).pdf", LIMIT) == b"more"
    assert opened.read(".._x_y.md", 9_000) == b"\xff" * 9_000
    for path, limit, reason in ((".._x_y.md", 8_999, Reason.TOO_LARGE), ("named only", LIMIT, Reason.UNREADABLE)):
        with pytest.raises(FileError) as caught:
            opened.read(path, limit)
        assert caught.value.reason is reason
    (unnamed,) = open_outlook(compound({"__attach_version1.0_#0/__substg1.0_37010102": b"x"})).members()
    assert unnamed.path == "attachment 1"
    assert [*open_outlook(b"only text").members()] == []
    monkeypatch.setattr(outlook_container, "MAX_INFLATED_BYTES", 9_008)
    assert len([*open_outlook(message).members()]) == 3
    monkeypatch.setattr(outlook_container, "MAX_INFLATED_BYTES", 9_007)
    with pytest.raises(FileError) as caught:
        open_outlook(message)
    assert caught.value.reason is Reason.TOO_LARGE


@pytest.mark.parametrize("encoding", ["base64", "quoted-printable", "8bit"])
@pytest.mark.parametrize("size", [0, 1, 2, 3, 56, 57, 58, 1000])
def test_sizes_of_attachments_are_told_as_they_are(encoding: str, size: int) -> None:
    message = EmailMessage()
    message.set_content("Text.")
    message.add_attachment(("a=" * size)[:size].encode(), maintype="text", subtype="x", filename="a", cte=encoding)
    opened = open_mail(bytes(message))
    assert [member.size for member in opened.members()] == [len(opened.read("a", LIMIT))]
