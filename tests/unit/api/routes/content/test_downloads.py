"""A download is saved under its own name, never shown, and sent again only if it changed."""

from __future__ import annotations

from email.message import Message

import pytest

from api.routes.content.downloads import disposition, headers, is_known, part
from schemas.errors import RangeNotSatisfiable


@pytest.mark.parametrize(
    ("name", "plain", "whole"),
    [
        ("a.md", "a.md", "a.md"),
        ('a"; filename="b.exe', "a__ filename=_b.exe", 'a"; filename="b.exe'),
        ("a\r\nSet-Cookie: b", "a__Set-Cookie: b", "a__Set-Cookie: b"),
        ("../../etc/passwd", ".._.._etc_passwd", ".._.._etc_passwd"),
        ("C:\\a", "C:_a", "C:_a"),
        ("größe 100%.txt", "gr__e 100_.txt", "größe 100%.txt"),
        ("a\u202egnp.exe", "a_gnp.exe", "a_gnp.exe"),
        ("日本", "__", "日本"),
        ("..", "_", "_"),
        ("", "_", "_"),
    ],
)
def test_a_name_can_neither_leave_its_place_nor_end_its_header(name: str, plain: str, whole: str) -> None:
    header = disposition(name)
    assert header.isascii()
    assert header.isprintable()
    assert header.startswith(f'attachment; filename="{plain}"; ')
    message = Message()
    message["content-disposition"] = header.partition("; ")[0] + "; " + header.rpartition("; ")[2]
    assert message.get_filename() == whole


@pytest.mark.parametrize(
    "type_", ["text/html", "image/svg+xml", "application/xml", "text/javascript", "message/rfc822"]
)
def test_what_a_browser_could_run_has_no_type_of_its_own(type_: str) -> None:
    shown = headers("a", type_, '"1"', 5)
    assert (shown["Content-Type"], shown["X-Content-Type-Options"]) == ("application/octet-stream", "nosniff")
    assert headers("a", "text/markdown", '"1"', 5)["Content-Type"] == "text/markdown"


@pytest.mark.parametrize(
    ("sent", "known"),
    [(None, False), ("", False), ('"1"', True), ('W/"1"', True), ('"0", "1"', True), ("*", True), ('"11"', False)],
)
def test_a_content_that_the_caller_has_is_known(sent: str | None, known: bool) -> None:
    assert is_known('"1"', sent) is known


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        (None, None),
        ("bytes=0-0", range(1)),
        ("bytes=2-4", range(2, 5)),
        ("Bytes = 2 - 9", range(2, 10)),
        ("bytes=2-10", range(2, 10)),
        ("bytes=9-", range(9, 10)),
        ("bytes=-3", range(7, 10)),
        ("bytes=-11", range(10)),
        # several ranges, other units, and nonsense are answered with everything
        ("bytes=4-3", None),
        ("bytes=0-1,3-4", None),
        ("bytes=-", None),
        ("lines=0-1", None),
        ("bytes=2-4".ljust(200), None),
        # a pattern would take the product of both runs of spaces
        (f"bytes={' ' * 30_000}-{' ' * 30_000}x", None),
    ],
)
def test_a_range_of_bytes_is_answered(asked: str | None, found: range | None) -> None:
    assert part(asked, None, '"1"', 10) == found
    assert part(asked, ' "1" ', '"1"', 10) == found
    assert part(asked, '"2"', '"1"', 10) is None


@pytest.mark.parametrize("asked", ["bytes=10-", "bytes=10-12", "bytes=-0"])
def test_a_range_behind_the_end_is_refused(asked: str) -> None:
    with pytest.raises(RangeNotSatisfiable) as refused:
        part(asked, None, '"1"', 10)
    assert refused.value.size == 10


def test_the_headers_of_a_part_tell_its_place_and_the_whole_size() -> None:
    shown = headers("a", "text/plain", '"1"', 10, range(2, 5))
    assert (shown["Content-Range"], shown["Content-Length"]) == ("bytes 2-4/10", "3")
    whole = headers("a", "text/plain", '"1"', 10)
    assert ("Content-Range" in whole, whole["Content-Length"]) == (False, "10")
