"""A download is saved under its own name, never shown, and sent again only if it changed."""

from __future__ import annotations

from email.message import Message

import pytest

from api.http.downloads import disposition, headers, is_known


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
