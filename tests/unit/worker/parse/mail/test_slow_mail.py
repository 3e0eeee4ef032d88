"""Headers and parts that no person wrote take time in proportion to their length."""

from __future__ import annotations

import random
from collections.abc import Callable
from email.message import EmailMessage

import pytest

from tests.pumps import grows_too_fast
from worker.parse.containers.mail import open_mail
from worker.parse.limits import Limits
from worker.parse.mail import email
from worker.parse.mail.parts import MAX_HEADER_CHARS, MAX_LEVELS, MAX_SEMICOLONS

SIZE = 200_000
WORD = "=?utf-8?q?a?="
#: What a header may repeat.
PARTS = [
    *(WORD, f"{WORD} ", f"{WORD}\r\n ", "=?utf-8?b?YQ==?= ", "=?", "=?a?q?", "=?punycode?q?b9?=", ";", ";a=b", ';a="'),
    *('"', '\\"', "(", "<a@b>,", ",", " ", "\r\n ", "1 ", ":", "%41", "*", "'", "é", "\u0301\u0316", "a;", "a:b;", "/"),
]
HEADERS = ["Subject", "From", "Date", "Content-Type", "Content-Transfer-Encoding"]


def read(text: str) -> None:
    """Read a message, and what is attached to it."""
    data = text.encode()
    email.read(data, Limits())
    container = open_mail(data)
    for member in container.members():
        container.read(member.path, len(data))


def header(name: str, begin: str, part: str) -> Callable[[int], str]:
    return lambda size: f"{name}: {begin}{part * (size // len(part))}\r\n\r\nbody"


def attachment(begin: str, part: str, end: str = "") -> Callable[[int], str]:
    head = "Content-Type: multipart/mixed; boundary=x\r\n\r\n--x\r\nContent-Disposition: attachment; "
    return lambda size: f"{head}{begin}{part * (size // len(part))}{end}\r\n\r\nbody\r\n--x--\r\n"


def levels(number: int) -> str:
    return "".join(f"Content-Type: multipart/mixed; boundary={n}\r\n\r\n--{n}\r\n" for n in range(number))


def nested(size: int) -> str:
    return levels(min(size // 60, 600)) + "\r\na\r\n" * (size // 5)


#: Makers of messages by what they are made of.
MESSAGES: dict[str, Callable[[int], str]] = {
    **{
        f"{name} {begin!r} {part!r}": header(name, begin, part)
        for name in HEADERS
        for begin in ("", "text/plain;a")
        for part in PARTS
    },
    **{
        f"name {begin} {part!r}": attachment(begin, part, '"')
        for begin in ('filename="', "filename*=")
        for part in PARTS
    },
    "a name in punycode": attachment("filename*=punycode''a-", "b9"),
    "numbered parameters": lambda size: f"Content-Type: a{''.join(f';a*{n}=b' for n in range(size // 10))}\r\n\r\nbody",
    "a body in punycode": lambda size: f"Content-Type: text/plain; charset=punycode\r\n\r\n{'a' * size}-{'b9' * size}",
    "a word in punycode": lambda size: f"Subject: =?punycode?q?{'a' * size}-{'b9' * size}?=\r\n\r\nbody",
    "nested parts": nested,
    "nested messages": lambda size: (
        "Content-Type: message/rfc822\r\n\r\n" * min(size // 32, 400) + "a\r\n" * (size // 3)
    ),
    "many parts": lambda size: "Content-Type: multipart/mixed; boundary=x\r\n\r\n" + "--x\r\n\r\na\r\n" * (size // 10),
    "many headers": lambda size: "To: b\r\n" * (size // 7) + "\r\nbody",
}


@pytest.mark.parametrize("name", random.Random(1).sample(sorted(MESSAGES), len(MESSAGES)))
def test_what_no_person_wrote_takes_time_with_its_length(name: str) -> None:
    assert not grows_too_fast(read, MESSAGES[name], SIZE)


def test_a_header_is_read_up_to_its_length() -> None:
    recipients = ", ".join(f"person{number}@example.org" for number in range(100_000))
    document = email.read(f"To: {recipients}\nSubject: Pier\n\nbody".encode(), Limits())
    assert document.title == "Pier"
    assert f"To: {recipients}".startswith(document.text.split("\n")[1])
    (named,) = open_mail(attachment('filename="', "a", '"')(MAX_HEADER_CHARS * 2).encode()).members()
    assert named.path.startswith('"aaa')


@pytest.mark.parametrize("more", [0, 1])
def test_semicolons_are_read_up_to_their_number(more: int) -> None:
    text = f"Content-Type: text/plain{'; a=b' * (MAX_SEMICOLONS - 2 + more)}; name=pier.txt\n\nbody"
    assert ("pier.txt" in email.read(text.encode(), Limits()).text) == (not more)
    # those of an address are no parameters
    group = "; ".join(f"g{number}: a@b" for number in range(MAX_SEMICOLONS + 1))
    assert group in email.read(f"To: {group}\n\nbody".encode(), Limits()).text


@pytest.mark.parametrize("more", [0, 1])
def test_parts_are_parts_up_to_their_level(more: int) -> None:
    made = EmailMessage()
    made.set_content("hidden", cte="base64")
    text = levels(MAX_LEVELS - 1 + more) + "Content-Type: multipart/mixed; boundary=y\n\n--y\n" + made.as_string()
    shown = email.read(text.encode(), Limits()).text
    assert ("hidden" in shown) == (not more)
    assert ("aGlkZGVu" in shown) == bool(more)
