"""Upload bodies, as libraries build them and as nobody should."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import pytest

from api.routes.content.multipart import MAX_LINE, MAX_SEMICOLONS, Multipart
from schemas.errors import Invalid


@dataclass
class Parts:
    """What a receiver gets: name, file name and content of each field."""

    seen: list[tuple[str, str | None, bytes]] = field(default_factory=list)

    def begin(self, name: str, filename: str | None) -> None:
        self.seen.append((name, filename, b""))

    def data(self, piece: bytes) -> None:
        name, filename, content = self.seen.pop()
        self.seen.append((name, filename, content + piece))

    def end(self) -> None:
        pass


def parts(*heads: bytes, content: bytes = b"text") -> list[tuple[str, str | None, bytes]]:
    """Parse a body with a field for each head, one byte at a time."""
    receiver = Parts()
    body = Multipart("multipart/form-data; boundary=b", receiver)
    for byte in b"".join(b"--b\r\n%s\r\n\r\n%s\r\n" % (head, content) for head in heads) + b"--b--\r\n":
        body.feed(bytes([byte]))
    body.close()
    return receiver.seen


@pytest.mark.parametrize(
    ("parameters", "filename"),
    [
        (b'filename="a.md"', "a.md"),
        (b"filename=a.md", "a.md"),
        (b'filename="\xc3\xa9.md"', "\u00e9.md"),
        (b'filename="\xe9.md"', "\u00e9.md"),
        (b'filename="a;b \\"c\\".md"', 'a;b "c".md'),
        (b"filename=\"=?utf-8?B?4oKs?=\"; filename*=utf-8''%E2%82%AC.md", "\u20ac.md"),
        (b"filename*=iso-8859-1''%e9.md", "\u00e9.md"),
        (b"filename*=UTF-8'en'100%25%zz%.md; x=y", "100%%zz%.md"),
        (b'filename="a\\"b"; FILENAME*=utf-8\'\'c.md', "c.md"),
        (b"filename=\"a; filename*=utf-8''b.md\"", "a; filename*=utf-8''b.md"),
        (b'filename="a.md"; filename*' + b"9" * 5000 + b"=b.md", "a.md"),
        (b'filename="a*b.md"', "a*b.md"),
        (b'filename=""', ""),
        (b"x=y", None),
    ],
)
def test_names_are_read_however_they_are_written(parameters: bytes, filename: str | None) -> None:
    assert parts(b'Content-Disposition: form-data; name="files"; ' + parameters) == [("files", filename, b"text")]


@pytest.mark.parametrize("unit", [b"%", b"%%E2", b"%E2", b"'", b'"', b"\\", b'\\"', b" ", b"*=", b"\t'"])
def test_a_name_is_decoded_in_time_linear_in_it(unit: bytes) -> None:
    """For 50 names, which took up to 0.45 s before."""
    name = unit * ((MAX_LINE - 100) // len(unit))
    head = b"Content-Disposition: form-data; name=\"files\"; filename=a.md; filename*=utf-8''" + name
    body = Multipart("multipart/form-data; boundary=b", Parts())
    sent = b"--b\r\n%s\r\n\r\n\r\n" % head * 50 + b"--b--\r\n"
    began = time.process_time()
    body.feed(sent)
    assert time.process_time() - began < 0.3
    body.close()


def test_content_that_looks_like_a_border_is_content() -> None:
    for content in (b"", b"\r\n", b"--b", b"\r\n--", b"\r\n-b--b\r", b"--b--\r\n"):
        (part,) = parts(b'Content-Disposition: form-data; name="files"; filename="a"', content=content)
        assert part[2] == content


def test_a_long_name_and_many_lines_are_read_and_endless_ones_are_not() -> None:
    head = b'Content-Disposition: form-data; name="files"; filename="%s"'
    long = b"folder/" * (MAX_LINE // 7 - 20)
    other = b"\r\n".join(b"X-Line: 1" for _ in range(20))
    assert parts(head % long, head % b"a" + b"\r\n" + other) == [
        ("files", long.decode(), b"text"),
        ("files", "a", b"text"),
    ]
    for endless in (head % (b"n" * MAX_LINE), head % b"a" + b"\r\nX-Line: 1" * 40):
        with pytest.raises(Invalid, match="names of at most"):
            parts(endless)


def test_semicolons_of_a_name_are_bounded() -> None:
    """The library's parser takes the product of their number and of the line's length."""
    head = b'Content-Disposition: form-data; name="files"; filename="%s"'
    most = MAX_SEMICOLONS - 2
    assert parts(head % (b"a" + b";" * most)) == [("files", "a" + ";" * most, b"text")]
    for endless in (head % (b";" * (most + 1)), head % b"a" + b";" * 15_000, head % (b"*" + b'\\";' * 4000)):
        with pytest.raises(Invalid, match="semicolons"):
            parts(endless)
    with pytest.raises(Invalid, match="semicolons"):
        Multipart("multipart/form-data; boundary=b" + ";" * 60_000, Parts())


def test_each_header_line_stands_for_itself() -> None:
    head = b'Content-Disposition: form-data; name="files"; filename="a"'
    other = b"X-Line: text; filename*=utf-8''wrong;"
    assert parts(other + b"\r\n" + head, head + b"\r\n" + other) == [("files", "a", b"text")] * 2
    with pytest.raises(Invalid):
        parts(head, other)


@pytest.mark.parametrize(
    "sent",
    [None, "", "text/plain", "multipart/mixed; boundary=b", "multipart/form-data", "multipart/form-data; boundary="],
)
def test_a_body_that_names_no_boundary_is_refused(sent: str | None) -> None:
    with pytest.raises(Invalid, match="boundary"):
        Multipart(sent, Parts())


def test_a_body_that_ends_before_its_last_boundary_is_refused() -> None:
    whole = b'--b\r\nContent-Disposition: form-data; name="files"; filename="a"\r\n\r\ntext\r\n--b--'
    for end in range(len(whole)):
        body = Multipart("multipart/form-data; boundary=b", Parts())
        body.feed(whole[:end])
        with pytest.raises(Invalid, match="before its last boundary"):
            body.close()
    body.feed(whole[-1:])
    body.close()


def test_a_boundary_of_any_length_is_refused() -> None:
    with pytest.raises(Invalid):
        Multipart(f"multipart/form-data; boundary={'b' * 300}", Parts())
