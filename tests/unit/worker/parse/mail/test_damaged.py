"""Mail without a boundary, cut mail, and mail with a part that cannot be read."""

from __future__ import annotations

import base64
import time

import pytest

from schemas.errors import FileError
from tests.parsing import parse
from worker.parse import Limits
from worker.parse.containers.mail import open_mail
from worker.parse.mail.mended import mend
from worker.parse.mail.parts import message_of

pytestmark = pytest.mark.usefixtures("helper")
LIMITS = Limits()
HEAD = "From: a@x\nSubject: Harbour\nMIME-Version: 1.0\n"
PARTS = (
    "--b1\nContent-Type: text/plain; charset=utf-8\n\nFirst part.\n\n--b1\nContent-Type: text/html\n\n"
    "<p>Second <b>part</b>.</p>\n--b1\nContent-Type: application/pdf\n"
    'Content-Disposition: attachment; filename="x.pdf"\nContent-Transfer-Encoding: base64\n\nSGVsbG8gd29ybGQ=\n--b1--\n'
)
KINDS = ("multipart/mixed", 'multipart/mixed; boundary="zz"', 'multipart/related; type="text/html"')


def read(text: str) -> tuple[str, str]:
    document = parse("a.eml", text.encode(), LIMITS)
    return document.text.partition("\n\n")[2], document.note


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("boundary", ["--b1", "------=_Part_1_2", "----_NextPart 3", "--0000000000005a", "--"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_parts_without_their_boundary_are_read(kind: str, boundary: str, end: str) -> None:
    parts = PARTS.replace("--b1", boundary if boundary != "--" else "----x")
    text = f"{HEAD}Content-Type: {kind}\n\n{parts}".replace("\n", end)
    shown, note = read(text)
    assert (shown, "boundary" in note) == ("First part.\n\nSecond part.", True)
    container = open_mail(text.encode())
    assert [member.path for member in container.members()] == ["x.pdf"]
    assert container.read("x.pdf", 100) == b"Hello world"


UNDIVIDED = {
    "Just text.\nMore.\n": "Just text.\nMore.",
    "<html><body><p>A <b>page</b></p></body></html>": "A page",
    "-- \nA signature\n": "--\nA signature",
    "--\n": "--",
}


@pytest.mark.parametrize("body", UNDIVIDED)
@pytest.mark.parametrize("kind", KINDS)
def test_a_body_without_parts_is_its_text(kind: str, body: str) -> None:
    shown, note = read(f"{HEAD}Content-Type: {kind}\n\n{body}")
    assert (shown.replace("-- \n", "--\n"), "boundary" in note) == (UNDIVIDED[body], True)


def test_an_encoded_body_without_parts_is_decoded() -> None:
    head = f"{HEAD}Content-Type: multipart/mixed\nContent-Transfer-Encoding: "
    assert read(f"{head}quoted-printable\n\nGr=C3=BC=C3=9Fe\n")[0] == "Grüße"
    assert read(f"{head}base64\n\nR3LDvMOfZQ==\n")[0] == "Grüße"


@pytest.mark.parametrize("cut", range(4))
def test_a_text_in_base64_keeps_what_is_before_the_cut(cut: int) -> None:
    encoded = base64.encodebytes(b"The third plank is loose, and nobody mends it. " * 9).decode().rstrip()
    shown, note = read(
        f"{HEAD}Content-Type: text/plain\nContent-Transfer-Encoding: base64\n\n{encoded[: -cut or None]}"
    )
    assert "and nobody mends" in shown
    assert bool(note) == (len("".join(encoded[: -cut or None].split())) % 4 == 1)


def test_parts_within_parts_without_their_boundary_are_read() -> None:
    inner = f"--o\nContent-Type: multipart/alternative\n\n{PARTS}\n--o--\n"
    outer = f'{HEAD}Content-Type: multipart/mixed; boundary="o"\n\n{inner}'
    assert "First part." in read(outer)[0]


WHOLE = f'{HEAD}Content-Type: multipart/mixed; boundary="b1"\n\n{PARTS}'


def test_a_whole_message_has_no_note() -> None:
    assert read(WHOLE) == ("First part.\n\nSecond part.", "")
    assert read(f"{HEAD}\nText.") == ("Text.", "")


@pytest.mark.parametrize(
    "end", ["part.", "part.\n\n--b1", "part.\n\n--b1\nContent-Type: text/html\n\n<p>Se", "SGVs", "SGVsbG8gd29ybGQ=\n"]
)
def test_a_cut_message_keeps_what_is_before_the_cut(end: str) -> None:
    shown, note = read(WHOLE[: WHOLE.index(end) + len(end)])
    assert (shown.startswith("First part."), "its end" in note) == (True, True)


BROKEN = "--b1\nContent-Type: text/plain\nContent-Transfer-Encoding: base64\n\nf0VMRgIBAQAAAAAAAAAAAP8A/wD/AP8=\n"


def test_a_part_that_is_no_text_loses_no_other() -> None:
    shown, note = read(WHOLE.replace("--b1\n", f"{BROKEN}--b1\n", 1))
    assert (shown, "1 of its parts" in note) == ("First part.\n\nSecond part.", True)
    with pytest.raises(FileError):
        parse("a.eml", f'{HEAD}Content-Type: multipart/mixed; boundary="b1"\n\n{BROKEN}--b1--\n'.encode(), LIMITS)


def test_a_message_that_cannot_be_read_loses_no_other_of_a_mailbox() -> None:
    start = "From a@x Mon Mar  5 10:00:00 2024\n"
    broken = f'{HEAD}Content-Type: multipart/mixed; boundary="b1"\n\n{BROKEN}--b1--\n'
    document = parse("a.mbox", f"{start}{HEAD}\nOne.\n\n{start}{broken}\n{start}{HEAD}\nThree.\n".encode(), LIMITS)
    assert ("One." in document.text, "Three." in document.text, "1 message" in document.note) == (True, True, True)


def test_hostile_messages_are_mended_in_linear_time() -> None:
    started = time.process_time()
    nested = "--x\nContent-Type: multipart/mixed\n\n" * 5_000
    for body in (
        nested,
        "--a\n" * 200_000,
        "-" * 500_000,
        "--x\nContent-" * 50_000,
        "--" + "-a" * 200_000,
        "<" * 200_000,
    ):
        message = message_of(f"Content-Type: multipart/mixed\n\n{body}".encode())
        mend(message, message.policy)
    assert time.process_time() - started < 20
