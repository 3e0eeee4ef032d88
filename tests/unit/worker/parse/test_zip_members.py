"""ZIP files that are cut or damaged, and names in archives that do not state their encoding."""

from __future__ import annotations

import io
import struct
import time
from random import Random
from typing import Any
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

import pytest

from schemas.errors import FileError
from schemas.reason import Reason
from tests.containers import tarred
from worker.parse import zip_members
from worker.parse.containers import Container
from worker.parse.containers.tar import open_tar
from worker.parse.containers.zip import open_zip

FILES = {f"{name}.md": f"{name} has a text of its own. ".encode() * 40 for name in ("one", "two", "three")}
LIMIT = 10_000_000


class _Stream(io.RawIOBase):
    """Takes what is written in order, so that sizes stand behind the data of a member."""

    def __init__(self) -> None:
        self.data = b""

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        self.data += bytes(data)
        return len(data)


def seekable(method: int) -> bytes:
    out = io.BytesIO()
    with ZipFile(out, "w", method) as archive:
        for name, data in FILES.items():
            archive.writestr(name, data)
    return out.getvalue()


def streamed(method: int) -> bytes:
    out = _Stream()
    with ZipFile(out, "w", method) as archive:
        for name, data in FILES.items():
            archive.writestr(name, data)
    return out.data


def large(method: int) -> bytes:
    out = io.BytesIO()
    with ZipFile(out, "w", method) as archive:
        for name, data in FILES.items():
            with archive.open(name, "w", force_zip64=True) as member:
                member.write(data)
    return out.getvalue()


MADE = [seekable, streamed, large]


@pytest.mark.parametrize("made", MADE)
@pytest.mark.parametrize("method", [ZIP_DEFLATED, ZIP_STORED])
@pytest.mark.parametrize("cut", ["end record", "directory", "last member", "second member"])
def test_a_cut_archive_has_the_members_before_the_cut(made: object, method: int, cut: str) -> None:
    data = made(method)  # type: ignore[operator]
    third = data.index(b"three.md")
    ends = {
        "end record": data.rindex(b"PK\5\6"),
        "directory": data.index(b"PK\1\2") + 20,
        "last member": third + 30,
        "second member": data.index(b"two.md") + 40,
    }
    opened = open_zip(data[: ends[cut]])
    whole = {"last member": 2, "second member": 1}.get(cut, 3)
    paths = [member.path for member in opened.members()]
    assert paths[:whole] == list(FILES)[:whole]
    assert {path: opened.read(path, LIMIT) for path in paths[:whole]} == dict(list(FILES.items())[:whole])
    for path in paths[whole:]:
        with pytest.raises(FileError) as refused:
            opened.read(path, LIMIT)
        assert refused.value.reason is Reason.PARSE_FAILED


def test_a_damaged_member_loses_no_other() -> None:
    data = bytearray(seekable(ZIP_STORED))
    data[data.index(b"two has") + 3] ^= 1
    opened = open_zip(bytes(data))
    assert (opened.read("one.md", LIMIT), opened.read("three.md", LIMIT)) == (FILES["one.md"], FILES["three.md"])
    with pytest.raises(FileError):
        opened.read("two.md", LIMIT)


def test_what_is_left_of_a_damaged_member_is_read() -> None:
    content = b" ".join(b"word%d" % number for number in range(20_000))
    out = io.BytesIO()
    with ZipFile(out, "w", ZIP_DEFLATED) as archive:
        archive.writestr("a", content)
    data = bytearray(out.getvalue())
    data[len(data) // 2 : len(data) // 2 + 8] = bytes(8)
    with ZipFile(io.BytesIO(bytes(data))) as archive:
        left, is_whole = zip_members.read_what_is_left(bytes(data), archive, archive.infolist()[0], LIMIT)
    assert not is_whole
    assert left[:10_000] == content[:10_000]
    with ZipFile(io.BytesIO(out.getvalue())) as archive:
        assert zip_members.read_what_is_left(out.getvalue(), archive, archive.infolist()[0], LIMIT) == (content, True)
        with pytest.raises(zip_members.TooMuchError):
            zip_members.read_what_is_left(out.getvalue(), archive, archive.infolist()[0], len(content) - 1)


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz"])
@pytest.mark.parametrize("share", [0.97, 0.8])
def test_a_cut_tar_has_the_members_before_the_cut(mode: str, share: float) -> None:
    # blocks of bzip2 have 900,000 bytes
    size = 250_000 if mode == "w:bz2" else 60_000
    files = {f"{number}.md": Random(number).randbytes(size) for number in range(9)}
    data = tarred(files, mode)
    opened = open_tar(data[: int(len(data) * share)])
    paths = [member.path for member in opened.members()]
    whole = [path for path in paths if read_or_none(opened, path) == files[path]]
    assert len(whole) >= (4 if mode == "w:bz2" else 6)
    assert len(paths) - len(whole) <= 1


def read_or_none(opened: Container, path: str) -> bytes | None:
    try:
        return opened.read(path, LIMIT)
    except FileError:
        return None


# names

NAMES = {
    "utf-8": [
        ["Übersicht.txt"],
        ["报告.docx"],
        ["日本語/テスト.md", "plain.md"],
        ["Zürich und Москва.txt", "5 µΩ.md"],
        # signs that are not shown
        ["می\u200cخو\u0627\u0647م.txt"],
        ["Übersicht.txt", "Größe.xlsx", "👩\u200d💻.png"],
        ["\u200eשל\u05d5ם.txt"],
        ["Schif\u00adfahrt über.txt"],
        ["résumé\u200b.txt"],
        # an emoji that is newer than the table of signs
        ["\U0001fae8 é.txt"],
        ["Straße.md", "x\U0001fadf.png"],
        # two alphabets side by side
        ["Л\u0435кцияΔx.txt"],
        ["Müller.docx", "Größe.xlsx", "Öl.md", "βéta.txt"],
    ],
    "gb18030": [
        ["报告.docx"],
        ["中文文件.txt", "数据/说明.md"],
        ["《红楼梦》.txt"],
        ["报告\uff08终稿\uff09.docx"],
        ["图片/照片1.jpg"],
        ["合同.doc"],
    ],
    "cp932": [
        ["日本語.txt"],
        ["資料/テスト.docx"],
        ["報告書2024.pdf", "メモ.txt"],
        ["ソース.txt"],
        ["「夢」.txt"],
        ["はじめにお読みください.txt"],
        ["新しいフォルダ/SJIS_835C_ソ.txt", "新しいフォルダ/新しいテキスト ドキュメント.txt"],
    ],
    "cp437": [["Übersicht.txt"], ["Größe/Prüfung.txt", "Straße.md"], ["café.md"], ["niño.txt"], ["Ärger.md"]],
    "cp850": [["São Paulo.md"], ["Málaga/ação.txt"]],
    "cp852": [["Příliš žluťoučký kůň.txt"], ["Žádost.docx", "Smlouva č. 5.pdf"], ["Święta.txt"], ["Működési rend.doc"]],
    "cp866": [["отчёт.docx"], ["Новая папка/Документ.txt"]],
    "cp1251": [["Новая папка/Документ.txt"], ["Отчет 2023.xlsx"]],
    "big5": [["報告.docx"], ["會議記錄.txt", "資料/說明.md"]],
    "cp949": [["한국어.txt"], ["보고서/회의록.docx"]],
    "cp1250": [["Zażółć gęślą jaźń.txt"], ["Árvíztűrő tükörfúrógép.txt"], ["Řízení jakosti.txt", "Příloha č. 1.txt"]],
    "cp1252": [["Prêt à porter.txt"], ["Año nuevo señor.pdf"], ["Måned rød æble.txt"]],
    "cp1253": [["Νέος φάκελος.txt"], ["Έγγραφα/αναφορά.txt"]],
    "cp737": [["Συμβόλαιο.doc"], ["Έγγραφα/αναφορά.txt"]],
    "cp1254": [["Sözleşme örneği.doc"], ["İş ak\u0131ş\u0131/çal\u0131şma.txt"]],
    "cp857": [["Günlük iş plan\u0131.txt"], ["İş ak\u0131ş\u0131/çal\u0131şma.txt"]],
    "cp1255": [["חוזה שכירות.doc"], ["מסמכים/דוח שנתי.txt"]],
    "cp862": [["תמונות.jpg"], ["מסמכים/דוח שנתי.txt"]],
    "cp1256": [["عقد إيجار.doc"], ["تقرير سنوي.txt"]],
    "cp874": [["สัญญาเช่า.doc"], ["รายงานประจำปี.txt"]],
    "koi8-r": [["Отчет.txt"], ["Договор аренды 2019.doc", "Фото/список.txt"]],
    "euc_jp": [["テスト.txt"], ["売上データ2020.xlsx"]],
}

#: Names that are UTF-8 by chance, too.
BY_CHANCE = [
    ("gb18030", ["图片"]),
    ("cp866", ["резюме.doc"]),
    ("gb18030", ["图片/a.jpg", "图片/b.jpg", "图片/c.jpg"]),
    ("cp866", ["резюме.doc", "резюме 2.doc"]),
]


def flagless(names: list[bytes]) -> bytes:
    """An archive whose names have no flag for their encoding."""
    out = io.BytesIO()
    with ZipFile(out, "w") as archive:
        for number, _ in enumerate(names):
            archive.writestr(f"{number:03}".ljust(len(names[number]), "x"), b"text %d" % number)
    data = out.getvalue()
    for number, name in enumerate(names):
        data = data.replace(f"{number:03}".ljust(len(name), "x").encode(), name)
    return data


@pytest.mark.parametrize(
    ("encoding", "names"), [*((key, names) for key, lists in NAMES.items() for names in lists), *BY_CHANCE]
)
def test_names_are_guessed_for_the_archive_as_a_whole(encoding: str, names: list[str]) -> None:
    data = flagless([name.encode(encoding) for name in names])
    for packed in (data, data[: data.index(b"PK\1\2")]):
        opened = open_zip(packed)
        assert [member.path for member in opened.members()] == names
        assert [opened.read(name, LIMIT) for name in names] == [b"text %d" % number for number in range(len(names))]


@pytest.mark.parametrize(("encoding", "names"), [(key, names) for key, lists in NAMES.items() for names in lists])
def test_names_in_a_tar_archive_are_guessed_too(encoding: str, names: list[str]) -> None:
    files = {name: name.encode() for name in names}
    raw = [name.encode(encoding) for name in names]
    placeholders = {f"{number:03}".ljust(len(name), "x"): name for number, name in enumerate(raw)}
    data = tarred(dict(zip(placeholders, files.values(), strict=True)), "w:")
    for placeholder, name in placeholders.items():
        at = data.index(placeholder.encode() + b"\0")
        data = data[:at] + _renamed(data[at : at + 512], name) + data[at + 512 :]
    opened = open_tar(data)
    assert [member.path for member in opened.members()] == names
    assert [opened.read(name, LIMIT) for name in names] == [*files.values()]


def _renamed(head: bytes, name: bytes) -> bytes:
    """The head of a member in a tar archive with another name and the sum that fits it."""
    summed = name.ljust(100, b"\0") + head[100:148] + b" " * 8 + head[156:]
    return summed[:148] + b"%06o\0 " % sum(summed) + summed[156:]


def test_a_name_in_an_extra_field_counts() -> None:
    info = ZipInfo("a?.txt")
    stated = "aé.txt".encode()
    info.extra = struct.pack("<HHBL", 0x7075, 5 + len(stated), 1, 0) + stated
    out = io.BytesIO()
    with ZipFile(out, "w") as archive:
        archive.writestr(info, b"text")
    data = out.getvalue().replace(b"a?.txt", b"a\xff.txt")
    assert [member.path for member in open_zip(data).members()] == ["aé.txt"]


# hostile files


def test_heads_without_end_are_refused_or_read_in_linear_time() -> None:
    head = struct.pack("<4s5H3L2H", b"PK\3\4", 20, 8, 8, 0, 0, 0, 0, 0, 1, 0) + b"a"
    started = time.process_time()
    for data in (head * 100_000, b"PK\3\4" * 1_000_000, head.replace(b"\x08\0\x08\0", b"\x08\0\0\0") * 15_000):
        try:
            zip_members.open_zip(data, LIMIT)
        except (zip_members.TooMuchError, BadZipFile):
            continue
    assert time.process_time() - started < 20
    with pytest.raises(FileError) as refused:
        open_zip(head * (zip_members.MAX_RECOVERED + 1))
    assert refused.value.reason is Reason.TOO_LARGE


def test_a_bomb_without_a_directory_is_refused() -> None:
    out = _Stream()
    with ZipFile(out, "w", ZIP_DEFLATED) as archive:
        archive.writestr("zeros", bytes(LIMIT + 1))
    data = out.data[: out.data.index(b"PK\1\2")]
    with pytest.raises(zip_members.TooMuchError):
        zip_members.open_zip(data, LIMIT)
    zip_members.open_zip(data, LIMIT + 1)
