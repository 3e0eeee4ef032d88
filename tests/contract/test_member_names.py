"""Whatever a container calls its members, their paths stay in it, can be stored, and are their own."""

from __future__ import annotations

import io
import re
import tarfile
import zipfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.compound import outlook
from worker.parse.containers import Opener
from worker.parse.containers.mail import open_mail
from worker.parse.containers.outlook import open_outlook
from worker.parse.containers.tar import open_tar
from worker.parse.containers.zip import open_zip

DATA = b"text"
LIMIT = 10_000
#: What a name must not keep, and what may become that once something else is removed.
PARTS = [
    *("..", ".", "", "a", "C:", "c:", "C:a", "D:C:", "..\0", "\0", "\0..", "a ", " ", "~", "?", "a.md", "(2)", "a (2)"),
    *("%2e%2e", "\u2024\u2024", "\ud800", "\udce9", "\udfff", "\n", "\r\n", "\u202e", "\u00e9", "e\u0301"),
    *("x" * 401, '"', ";"),
]
SEPARATORS = ["/", "\\", "//", "\\\\", "/\\", "", "\\\\?\\", "\u2215"]
names = st.lists(st.tuples(st.sampled_from(SEPARATORS), st.sampled_from(PARTS) | st.text(max_size=4)), max_size=5).map(
    lambda pairs: "".join(separator + part for separator, part in pairs)
)
all_names = st.lists(names, min_size=1, max_size=8)


def as_zip(named: Sequence[str]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name in named:
            member = zipfile.ZipInfo("x")
            member.filename = name  # the constructor would clean it
            archive.writestr(member, DATA)
    return packed.getvalue()


def as_tar(format_: int) -> Callable[[Sequence[str]], bytes]:
    def pack(named: Sequence[str]) -> bytes:
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w", format=format_, errors="surrogateescape") as archive:
            for name in named:
                member = tarfile.TarInfo(name)
                member.size = len(DATA)
                archive.addfile(member, io.BytesIO(DATA))
        return packed.getvalue()

    return pack


def as_mail(charset: str) -> Callable[[Sequence[str]], bytes]:
    def pack(named: Sequence[str]) -> bytes:
        parts = [
            f"--b\r\nContent-Disposition: attachment; filename*={charset}''{quote(name.encode(charset), safe='')}"
            "\r\n\r\ntext\r\n"
            for name in named
        ]
        head = 'MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary="b"\r\n\r\n'
        return (head + "".join(parts) + "--b--\r\n").encode()

    return pack


def as_subjects(named: Sequence[str]) -> bytes:
    """Attached messages, which are named after their subjects."""
    parts = [
        "--b\r\nContent-Type: message/rfc822\r\nContent-Disposition: attachment\r\n\r\n"
        f"Subject: =?utf-8?q?{quote(name.encode(), safe='').replace('%', '=')}?=\r\n\r\ntext\r\n"
        for name in named
    ]
    head = 'MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary="b"\r\n\r\n'
    return (head + "".join(parts) + "--b--\r\n").encode()


def as_msg(named: Sequence[str]) -> bytes:
    return outlook({}, tuple(named), (DATA,) * len(named))


FORMATS: dict[str, tuple[Callable[[Sequence[str]], bytes], Opener]] = {
    "zip": (as_zip, open_zip),
    "pax": (as_tar(tarfile.PAX_FORMAT), open_tar),
    "gnu": (as_tar(tarfile.GNU_FORMAT), open_tar),
    "mail": (as_mail("utf-8"), open_mail),
    "mail in another charset": (as_mail("utf-7"), open_mail),
    "mail with escapes": (as_mail("raw_unicode_escape"), open_mail),
    "subjects": (as_subjects, open_mail),
    "msg": (as_msg, open_outlook),
}


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("format_", FORMATS)
@given(named=all_names)
def test_the_path_of_a_member_stays_in_its_container(format_: str, named: list[str]) -> None:
    pack, open_ = FORMATS[format_]
    data = b""
    with suppress(UnicodeEncodeError):  # a name that this format cannot have
        data = pack(named)
    if not data:
        return
    opened = open_(data)
    members = [*opened.members()]
    paths = [member.path for member in members]
    assert len({*paths}) == len(paths)
    for path in paths:
        assert not {"", ".", ".."} & {*path.split("/")}, path
        assert not re.search(r"[\\\0]|^[A-Za-z]:", path), path
        assert path.encode().decode() == path
        assert opened.read(path, LIMIT).strip().endswith(DATA)
    # attachments with the same name get others; members of archives replace each other, as where they are unpacked
    assert len(members) == len(named) or open_ in {open_zip, open_tar}
