"""One bad part does not lose the document: each part of a package is damaged in each way, and the others are read."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from io import BytesIO
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile

import docx
import openpyxl
import pptx
import pytest
from openpyxl.comments import Comment

from schemas.errors import FileError
from schemas.reason import Reason
from tests.contract.samples import of
from tests.parsing import parse
from tests.pumps import grows_too_fast
from tests.unit.worker.parse.office.saving import saved
from worker.parse import Limits
from worker.parse.office import recovered_xml, zip_container

pytestmark = pytest.mark.usefixtures("helper")
LIMITS = Limits(seconds=20)
Members = dict[str, bytes]
WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
RELATIONS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
OFFICE = "urn:oasis:names:tc:opendocument:xmlns:"


def members_of(data: bytes) -> Members:
    with ZipFile(BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def packed(members: Members, method: int = ZIP_STORED) -> bytes:
    out = BytesIO()
    with ZipFile(out, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return out.getvalue()


def word() -> Members:
    document = docx.Document()
    document.add_heading("bodyword heading")
    document.add_paragraph("bodyword in a paragraph of the body.")
    document.sections[0].header.paragraphs[0].text = "headerword"
    document.sections[0].footer.paragraphs[0].text = "footerword"
    document.add_comment(document.paragraphs[1].runs, text="commentword", author="Bo")
    members = members_of(saved(document))
    note = f'<w:footnotes xmlns:w="{WORD}"><w:footnote w:id="2"><w:p><w:r><w:t>noteword</w:t></w:r></w:p></w:footnote>'
    members["word/footnotes.xml"] = f"{note}</w:footnotes>".encode()
    return with_relation(members, "word/_rels/document.xml.rels", "footnotes", "footnotes.xml")


def slides() -> Members:
    presentation = pptx.Presentation()
    for number in ("one", "two", "three"):
        slide = presentation.slides.add_slide(presentation.slide_layouts[1])
        slide.shapes.title.text = f"slide{number}"
        slide.placeholders[1].text = f"text of {number}"
        slide.notes_slide.notes_text_frame.text = f"note{number}"
    return members_of(saved(presentation))


def sheets() -> Members:
    book = openpyxl.Workbook()
    book.active.title = "First"
    for number, sheet in enumerate((book.active, book.create_sheet("Second"), book.create_sheet("Third")), 1):
        sheet.append(["name", "amount"])
        sheet.append(["row", 1000 + number])
        sheet["A2"].comment = Comment(f"comment{number}", "Bo")
    return members_of(saved(book))


def text() -> Members:
    names = f'xmlns:office="{OFFICE}office:1.0" xmlns:text="{OFFICE}text:1.0" xmlns:style="{OFFICE}style:1.0"'
    header = "<style:master-page><style:header><text:p>headerword</text:p></style:header></style:master-page>"
    paths = ("content.xml", "styles.xml", "meta.xml", "Pictures/a.png")
    entries = "".join(f'<m:file-entry m:full-path="{path}"/>' for path in ("/", *paths))
    return {
        "mimetype": b"application/vnd.oasis.opendocument.text",
        "content.xml": (
            f"<office:document-content {names}><office:body><office:text><text:h>bodyword</text:h>"
            "<text:p>bodyword more</text:p></office:text></office:body></office:document-content>"
        ).encode(),
        "styles.xml": f"<office:document-styles {names}>{header}</office:document-styles>".encode(),
        "meta.xml": f"<office:document-meta {names}><office:meta/></office:document-meta>".encode(),
        "Pictures/a.png": b"\x89PNG",
        "META-INF/manifest.xml": f'<m:manifest xmlns:m="{OFFICE}manifest:1.0">{entries}</m:manifest>'.encode(),
    }


def book() -> Members:
    chapters = ("one", "two", "three")
    items = "".join(f'<item id="{n}" href="{n}.xhtml" media-type="application/xhtml+xml"/>' for n in chapters)
    spine = "".join(f'<itemref idref="{n}"/>' for n in chapters)
    rootfile = '<rootfile full-path="OPS/book.opf" media-type="application/oebps-package+xml"/>'
    container = f'<container xmlns="{OFFICE}container"><rootfiles>{rootfile}</rootfiles></container>'
    return {
        "mimetype": b"application/epub+zip",
        "META-INF/container.xml": container.encode(),
        "OPS/book.opf": (
            f'<package xmlns="http://www.idpf.org/2007/opf"><manifest>{items}</manifest><spine>{spine}</spine></package>'
        ).encode(),
        **{f"OPS/{n}.xhtml": f"<html><body><h1>chapter{n}</h1><p>end{n}</p></body></html>".encode() for n in chapters},
    }


def with_relation(members: Members, path: str, kind: str, target: str, mode: str = "") -> Members:
    row = f'<Relationship Id="x{kind}" Type="{RELATIONS}/{kind}" Target="{target}"{mode}/></Relationships>'
    return {**members, path: members[path].replace(b"</Relationships>", row.encode())}


#: Each document with the words of its parts.
MADE: dict[str, tuple[Callable[[], Members], dict[str, tuple[str, ...]]]] = {
    "a.docx": (
        word,
        {
            "word/document.xml": ("bodyword",),
            "word/header1.xml": ("headerword",),
            "word/footer1.xml": ("footerword",),
            "word/comments.xml": ("commentword",),
            "word/footnotes.xml": ("noteword",),
        },
    ),
    "a.pptx": (
        slides,
        {
            **{
                f"ppt/slides/slide{n}.xml": (f"slide{t}", f"text of {t}")
                for n, t in ((1, "one"), (2, "two"), (3, "three"))
            },
            **{f"ppt/notesSlides/notesSlide{n}.xml": (f"note{t}",) for n, t in ((1, "one"), (2, "two"), (3, "three"))},
        },
    ),
    "a.xlsx": (
        sheets,
        {
            **{f"xl/worksheets/sheet{n}.xml": (f"{1000 + n}",) for n in (1, 2, 3)},
            **{f"xl/comments/comment{n}.xml": (f"comment{n}",) for n in (1, 2, 3)},
            "xl/sharedStrings.xml": ("row", "amount"),
        },
    ),
    "a.odt": (text, {"content.xml": ("bodyword",), "styles.xml": ("headerword",)}),
    "a.epub": (book, {f"OPS/{n}.xhtml": (f"chapter{n}", f"end{n}") for n in ("one", "two", "three")}),
}


@cache
def made(name: str) -> Members:
    return MADE[name][0]()


def damaged_data(members: Members, name: str) -> bytes:
    """The data of a member is overwritten, so that it neither inflates nor has its checksum."""
    data = bytearray(packed(members, ZIP_DEFLATED))
    with ZipFile(BytesIO(bytes(data))) as archive:
        info = archive.getinfo(name)
        begin = info.header_offset + 30 + len(name.encode())
    size = min(info.compress_size, 16)
    data[begin : begin + size] = b"\xff" * size
    return bytes(data)


def wrong_checksum(members: Members, name: str) -> bytes:
    data = bytearray(packed(members))
    with ZipFile(BytesIO(bytes(data))) as archive:
        info = archive.getinfo(name)
    checksum = info.CRC.to_bytes(4, "little")
    return bytes(data).replace(checksum, (info.CRC ^ 1).to_bytes(4, "little"))


DAMAGE: dict[str, Callable[[Members, str], bytes]] = {
    "missing": lambda members, name: packed({each: part for each, part in members.items() if each != name}),
    "empty": lambda members, name: packed({**members, name: b""}),
    "garbage": lambda members, name: packed({**members, name: bytes(range(256))}),
    "cut": lambda members, name: packed({**members, name: members[name][: len(members[name]) * 2 // 3]}),
    "an open tag": lambda members, name: packed({**members, name: members[name] + b"<x"}),
    "a sign": lambda members, name: packed({**members, name: members[name].replace(b"</", b"&\0</", 3)}),
    "declares": lambda members, name: packed({**members, name: b'<!DOCTYPE a [<!ENTITY b "c">]>' + members[name]}),
    "wrong data": damaged_data,
    "wrong checksum": wrong_checksum,
}
#: Parts without which no other has text, and damage that readers do not notice in them, as they do not need them.
ALONE = {("a.odt", "content.xml")}


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("name", MADE)
def test_a_bad_part_loses_no_other(name: str, damage: str) -> None:
    members, words = made(name), MADE[name][1]
    for part in members:
        # layouts and themes have neither text nor relations that matter: one kind of damage will do
        if (name, part) in ALONE or (re.search("Layout|Master|theme|docProps|Props", part) and damage != "garbage"):
            continue
        data = DAMAGE[damage](members, part)
        document = parse(name, data, LIMITS)
        kept = [word for other, of_other in words.items() if other != part for word in of_other]
        assert [word for word in kept if word not in document.text] == [], (part, document.note)
        lost = [word for word in words.get(part, ()) if word not in document.text]
        assert not lost or part in document.note or part.rpartition("/")[2] in document.note, (part, document.note)


@pytest.mark.parametrize("name", MADE)
def test_a_whole_document_has_no_note(name: str) -> None:
    document = parse(name, packed(made(name)), LIMITS)
    assert document.note == ""
    assert [word for words in MADE[name][1].values() for word in words if word not in document.text] == []


@pytest.mark.parametrize("name", MADE)
@pytest.mark.parametrize("method", [ZIP_STORED, ZIP_DEFLATED])
def test_a_cut_document_keeps_what_is_before_the_cut(name: str, method: int) -> None:
    members, words = made(name), MADE[name][1]
    # text comes first in this one
    ordered = dict(sorted(members.items(), key=lambda member: (member[0] != "mimetype", member[0] not in words)))
    data = packed(ordered, method)
    with ZipFile(BytesIO(data)) as archive:
        starts = {info.filename: info.header_offset for info in archive.infolist()}
    first_without = next(start for part, start in starts.items() if part not in words and part != "mimetype")
    for end in (len(data) - 10, data.rindex(b"PK\5\6"), data.index(b"PK\1\2") + 5, first_without + 3):
        document = parse(name, data[:end], LIMITS)
        assert "the end of the file" in document.note
        assert [word for of_part in words.values() for word in of_part if word not in document.text] == [], end


RELATED = [
    ("image", "NULL", ""),
    ("image", "../NULL", ""),
    ("hyperlink", "#anchor", ""),
    ("hyperlink", "#anchor", ' TargetMode="Internal"'),
    ("image", "media/gone.png", ""),
    ("image", "/word/media/gone.png", ""),
    ("header", "header9.xml", ""),
    ("footnotes", "footnotes9.xml", ""),
    ("oleObject", "embeddings/gone.bin", ""),
    ("chart", "charts/chart9.xml", ""),
    ("customXml", "", ""),
]


@pytest.mark.parametrize(("kind", "target", "mode"), RELATED)
@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("a.docx", "word/_rels/document.xml.rels"),
        ("a.pptx", "ppt/slides/_rels/slide1.xml.rels"),
        ("a.pptx", "ppt/_rels/presentation.xml.rels"),
        ("a.xlsx", "xl/_rels/workbook.xml.rels"),
        ("a.xlsx", "xl/worksheets/_rels/sheet1.xml.rels"),
        ("a.docx", "_rels/.rels"),
    ],
)
def test_relations_that_lead_nowhere_lose_nothing(name: str, path: str, kind: str, target: str, mode: str) -> None:
    document = parse(name, packed(with_relation(made(name), path, kind, target, mode)), LIMITS)
    words = [word for of_part in MADE[name][1].values() for word in of_part]
    assert [word for word in words if word not in document.text] == []
    assert target.rpartition("/")[2] in document.note
    assert document.note.endswith(".")


@pytest.mark.parametrize("name", ["a.docx", "a.pptx", "a.xlsx"])
@pytest.mark.parametrize("change", ["types", "case", "backslashes"])
def test_packages_of_careless_programs_are_read(name: str, change: str) -> None:
    members = made(name)
    if change == "types":
        types = re.sub(rb'ContentType="[^"]*main\+xml"', b'ContentType="text/xml"', members["[Content_Types].xml"])
        types = re.sub(rb"(styles|slide|worksheet)\+xml", b"x+xml", types)
        members = {**members, "[Content_Types].xml": types}
    elif change == "case":
        members = {part.replace("document", "Document").replace("heet", "HEET"): data for part, data in members.items()}
    data = packed(members)
    if change == "backslashes":
        for part in members:
            data = data.replace(part.encode(), part.replace("/", "\\").encode()) if "/" in part else data
    text_ = parse(name, data, LIMITS).text
    assert [word for of_part in MADE[name][1].values() for word in of_part if word not in text_] == []


@pytest.mark.parametrize(
    ("name", "part"), [("a.xlsx", "xl/workbook.xml"), ("a.pptx", "ppt/presentation.xml"), ("a.epub", "OPS/book.opf")]
)
def test_a_list_of_parts_that_is_another_file_loses_none(name: str, part: str) -> None:
    document = parse(name, packed({**made(name), part: b"<html><body>404 Not Found</body></html>"}), LIMITS)
    assert [word for of_part in MADE[name][1].values() for word in of_part if word not in document.text] == []
    assert part in document.note


CELLS = [
    '<c r="B2" s="99" t="n"><v>abc</v></c>',
    '<c r="B2" s="x"><v>1</v></c>',
    '<c r="?!"><v>1</v></c>',
    '<c r="B2"><v>#N/A</v></c>',
    '<c r="B2"><v>nan</v></c>',
    '<c r="B2" t="s"><v>one</v></c>',
    '<c r="B2" t="s"><v>999</v></c>',
    '<c r="B2" t="b"><v>true</v></c>',
    '<c r="B2" t="d"><v>gestern</v></c>',
    '<c r="B2" t="x"><v>1</v></c>',
    '<c r="B2"><f>A1</f><v>1,5</v></c>',
    '</row><row r="x"><c><v>1</v></c>',
]


@pytest.mark.parametrize("cell", CELLS)
def test_a_bad_cell_loses_no_other(cell: str) -> None:
    members = made("a.xlsx")
    sheet = members["xl/worksheets/sheet1.xml"].decode()
    damaged = re.sub('<c r="B2".*?</c>', lambda _: cell, sheet, count=1)
    assert damaged != sheet
    text_ = parse("a.xlsx", packed({**members, "xl/worksheets/sheet1.xml": damaged.encode()}), LIMITS).text
    assert [
        word for word in ("name", "amount", "row", "1002", "1003", "comment1", "# Third") if word not in text_
    ] == []
    assert [word for word in ("abc", "#N/A", "gestern", "1,5") if word in cell and word not in text_] == []


#: What libraries refuse in a sheet around its cells, and in their XML.
AROUND_CELLS = [
    '</sheetData><mergeCells><mergeCell ref="A1:ZZ"/></mergeCells>',
    '</sheetData><hyperlinks><hyperlink ref="?" r:id="x"/></hyperlinks>',
    '</sheetData><conditionalFormatting sqref="A:"><cfRule type="none"/></conditionalFormatting>',
    '<row r="9"><c r="A9"><zz:v>1</zz:v></c></row></sheetData>',
    '<row r="9"><c r="A9" t="inlineStr"><is><t>a<b/></t></is></c></row></sheetData>',
]


@pytest.mark.parametrize("around", AROUND_CELLS)
def test_what_is_around_cells_loses_none(around: str) -> None:
    members = made("a.xlsx")
    sheet = members["xl/worksheets/sheet1.xml"].decode().replace("</sheetData>", around)
    text_ = parse("a.xlsx", packed({**members, "xl/worksheets/sheet1.xml": sheet.encode()}), LIMITS).text
    words = ("name", "amount", "row", "1001", "1002", "1003", "comment1")
    assert [word for word in words if word not in text_] == []


@pytest.mark.parametrize("header", [b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", b"<br />\n<b>Warning</b>: x\n"])
@pytest.mark.parametrize("name", MADE)
def test_a_document_behind_a_header_of_a_server_is_read(name: str, header: bytes) -> None:
    data = header + packed(made(name))
    assert [
        word for words in MADE[name][1].values() for word in words if word not in parse(name, data, LIMITS).text
    ] == []


def test_zeros_in_a_chapter_lose_none() -> None:
    members = made("a.epub")
    document = parse("a.epub", packed({**members, "OPS/one.xhtml": members["OPS/one.xhtml"] + bytes(99)}), LIMITS)
    assert "chapterone" in document.text
    assert "OPS/one.xhtml" in document.note


def test_a_document_without_readable_text_fails() -> None:
    members = {part: data for part, data in made("a.docx").items() if part not in MADE["a.docx"][1]}
    with pytest.raises(FileError) as refused:
        parse("a.docx", packed(members), LIMITS)
    assert refused.value.reason is Reason.PARSE_FAILED
    with pytest.raises(FileError):
        parse("a.docx", packed(made("a.docx"))[:100], LIMITS)


def test_a_missing_picture_of_an_open_document_is_named() -> None:
    members = {part: data for part, data in made("a.odt").items() if part != "Pictures/a.png"}
    document = parse("a.odt", packed(members), LIMITS)
    assert "Pictures/a.png" in document.note


XML = {
    "<a><b>one</b>": "one",
    "<a>AT&T & &nbsp;&auml;<b>x</b></a>": "AT&T & \xa0äx",
    "<a>1 < 2<b>x</b></a>": "1 < 2x",
    "<a>one</a><b>two</b>": "onetwo",
    "<a>o\0ne&#0;&#x1f;</a>": "one",
    "<a><b>one</c>two</a>": "onetwo",
    "<a>\xff</a>": "ÿ",
    "<a><x:b y:c='1'>one x:b</x:b></a>": "one x:b",
}


@pytest.mark.parametrize("content", XML)
def test_what_can_be_read_of_xml_is_kept(content: str) -> None:
    found = recovered_xml.sound(content.encode())
    assert found is not None
    root = recovered_xml._parse(found, recover=False)
    assert root is not None
    assert "".join(str(text) for text in root.itertext()) == XML[content]


@pytest.mark.parametrize("content", ["", "text", "<", "<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>", "<a/>", "<a"])
def test_what_has_no_text_or_declares_entities_is_lost(content: str) -> None:
    if content == "<a/>":
        assert recovered_xml.sound(content.encode()) == b"<a/>"
    else:
        assert recovered_xml.sound(content.encode()) is None


@pytest.mark.parametrize(
    "sign", [" ", "&", "<", "<a", "<a ", "<a>", "</a>", "&#0;", "\0", "<!--", "<a b='", "]]>", "<?", "<?xml ", "<!["]
)
@pytest.mark.parametrize(("begin", "end"), [("", ""), ("<r>", ""), ("", "</r>")])
def test_hostile_xml_takes_linear_time(sign: str, begin: str, end: str) -> None:
    def look(content: str) -> None:
        recovered_xml.sound(content.encode())
        recovered_xml.plain_text(content.encode())
        recovered_xml.plain_text(content.encode(), is_open_document=True)

    assert not grows_too_fast(look, lambda size: f"{begin}{sign * (size // len(sign))}{end}", 100_000)


def test_pictures_of_a_damaged_document_are_still_known() -> None:
    data = of("docx/handbook.docx")
    assert zip_container.read(data[:-30], LIMITS).text == zip_container.read(data, LIMITS).text


def without(sample: str, name: str) -> Members:
    members = members_of(of(sample))
    del members[name]
    return members


@pytest.mark.parametrize(
    ("sample", "name", "kept"),
    [
        ("docx/berth.docx", "word/_rels/document.xml.rels", ("The end.", "Chart: Ships by season", "Harbour office")),
        ("odt/rain.odt", "content.xml", ("Chart: Rain by month", "Page header: Garden", "Page footer: Printed")),
        ("epub/tales.epub", "OPS/book.opf", ("A crow", "Two foxes")),
    ],
)
def test_what_a_lost_part_refers_to_is_read_and_the_part_is_named(
    sample: str, name: str, kept: tuple[str, ...]
) -> None:
    document = parse(sample, packed(without(sample, name)), LIMITS)
    for words in kept:
        assert words in document.text
    assert f"({name})" in document.note
