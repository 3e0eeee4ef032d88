"""Sheets that contain more than one table: each has its own header."""

from __future__ import annotations

import struct
from io import BytesIO
from typing import Any
from zipfile import ZipFile

import pytest
import python_calamine
from openpyxl import Workbook
from openpyxl.comments import Comment

from schemas.errors import FileError
from schemas.reason import Reason
from tests.compound import compound, workbook
from tests.contract.samples import of, zipped
from tests.parsing import parse
from worker.parse import Limits
from worker.parse.office import xls

LIMITS = Limits()
OFFICE = "urn:oasis:names:tc:opendocument:xmlns:"
BOATS = [["Boat", "Metres"], ["Anna", 9], ["Möwe", 12]]
CREWS = [["Name", "Since"], ["Bo", "2019-05-01"]]
SHOWN = [
    "| Boat | Metres |\n| --- | --- |\n| Anna | 9 |\n| Möwe | 12 |",
    "| Name | Since |\n| --- | --- |\n| Bo | 2019-05-01 |",
]

pytestmark = pytest.mark.usefixtures("helper")


def excel(rows: list[list[Any]]) -> str:
    book = Workbook()
    for row in rows:
        book.active.append(row)
    out = BytesIO()
    book.save(out)
    return parse("a.xlsx", out.getvalue(), LIMITS).text


def open_sheet(rows: list[list[Any]]) -> str:
    cells = [[f"<b:table-cell><t:p>{value}</t:p></b:table-cell>" for value in row] for row in rows]
    lines = "".join(f"<b:table-row>{''.join(row)}</b:table-row>" for row in cells)
    content = (
        f'<o:document-content xmlns:o="{OFFICE}office:1.0" xmlns:t="{OFFICE}text:1.0" xmlns:b="{OFFICE}table:1.0">'
        f'<o:body><o:spreadsheet><b:table b:name="Sheet">{lines}</b:table></o:spreadsheet></o:body>'
        "</o:document-content>"
    )
    kind = "application/vnd.oasis.opendocument.spreadsheet"
    return parse("a.ods", zipped({"mimetype": kind.encode(), "content.xml": content.encode()}), LIMITS).text


@pytest.mark.parametrize("shown", [excel, open_sheet])
@pytest.mark.parametrize(
    ("rows", "blocks"),
    [
        ([*BOATS, [], *CREWS], SHOWN),
        (
            [["Harbour | 2024"], *BOATS, [], [], ["Crews"], *CREWS],
            ["Harbour | 2024", SHOWN[0], "Crews", SHOWN[1]],
        ),
        ([["Harbour"], [], *BOATS], ["Harbour", SHOWN[0]]),
        ([*BOATS, [], ["Sum", 21]], [SHOWN[0] + "\n| Sum | 21 |"]),
        (
            [["Boat", "Home"], ["Anna", "Kiel"], [], ["Bo", "Bonn"], ["Cy", "Ulm"]],
            ["| Boat | Home |\n| --- | --- |\n| Anna | Kiel |\n| Bo | Bonn |\n| Cy | Ulm |"],
        ),
        ([["Names"], ["Anna"], ["Bo"]], ["| Names |\n| --- |\n| Anna |\n| Bo |"]),
    ],
    ids=["two tables", "a title in the middle", "a title", "a sum", "groups of text", "one column"],
)
def test_a_table_begins_with_names_above_values(shown: Any, rows: list[list[Any]], blocks: list[str]) -> None:
    assert shown(rows) == "\n\n".join(["# Sheet", *blocks])


def test_what_is_printed_at_the_edges_of_pages_is_read_once_without_its_codes() -> None:
    book = Workbook()
    for sheet in (book.active, book.create_sheet("Other")):
        assert sheet is not None
        sheet["A1"] = "x"
        sheet.oddHeader.left.text, sheet.oddHeader.right.text = '&"Arial,Bold"&12Draft of R&&D &K000000<2>', "&P/&N"
        sheet.oddFooter.center.text = "Page &P of &N"
        sheet.evenFooter.left.text = "Kept by &A"
    out = BytesIO()
    book.save(out)
    text = parse("a.xlsx", out.getvalue(), LIMITS).text
    assert text.partition("Page header: ")[2] == "Draft of R&D <2> /\n\nPage footer: Kept by"


def test_a_comment_whose_author_is_blank_is_nobodys() -> None:
    book = Workbook()
    assert book.active is not None
    book.active["A1"] = "x"
    book.active["A1"].comment = Comment("Why?", " ")
    out = BytesIO()
    book.save(out)
    assert parse("a.xlsx", out.getvalue(), LIMITS).text.endswith("Comment on A1: Why?")


@pytest.mark.parametrize("enough", [True, False])
def test_old_sheets_that_span_more_than_memory_are_refused(enough: bool) -> None:
    narrow = compound({"Workbook": workbook("Boats", [["Boat", "Metres"], ["Anna", 9.0], ["Möwe", 12.0]])})
    cell = struct.Struct("<II")
    with ZipFile(BytesIO(of("xls/lamps.xlsb"))) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    sheet = members["xl/worksheets/sheet1.bin"]
    far = sheet.replace(cell.pack(1, 0) + struct.pack("<d", 100), cell.pack(16_383, 0) + struct.pack("<d", 100))
    assert far != sheet
    for data, cells in ((narrow, 3 * 2), (zipped({**members, "xl/worksheets/sheet1.bin": far}), 3 * 16_384)):
        limits = Limits(memory_bytes=cells * xls._CELL_BYTES - (not enough))
        if enough:
            assert xls.read(data, limits).text.startswith("# ")
        else:
            with pytest.raises(FileError) as caught:
                xls.read(data, limits)
            assert caught.value.reason is Reason.TOO_LARGE


@pytest.mark.parametrize(("successor", "is_read"), [(1, True), (0, False)])
def test_old_sheets_whose_sectors_never_end_are_damage(successor: int, is_read: bool) -> None:
    rows: list[list[str | float]] = [[f"Boat {number} of the harbour", float(number)] for number in range(200)]
    whole = compound({"Workbook": workbook("Boats", rows)})
    chain = struct.pack("<III", 1, 2, 3)
    assert whole.count(chain) == 1
    data = whole.replace(chain, struct.pack("<III", successor, 2, 3))
    if is_read:
        assert "Boat 199" in parse("a.xls", data, LIMITS).text
    else:
        with pytest.raises(FileError) as caught:
            parse("a.xls", data, LIMITS)
        assert caught.value.reason is Reason.PARSE_FAILED
        assert "a chain of sectors has no end" in caught.value.message


@pytest.mark.parametrize(("row", "reason"), [((1 << 20) - 1, None), (1 << 20, Reason.PARSE_FAILED)])
def test_rows_that_no_sheet_has_are_damage(row: int, reason: Reason | None) -> None:
    with ZipFile(BytesIO(of("xls/lamps.xlsb"))) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    sheet, head = members["xl/worksheets/sheet1.bin"], struct.Struct("<BBI")
    assert sheet.count(head.pack(0, 17, 2)) == 1
    members["xl/worksheets/sheet1.bin"] = sheet.replace(head.pack(0, 17, 2), head.pack(0, 17, row))
    limits = Limits(memory_bytes=1 << 40)
    if reason is None:
        xls._check_sheets(zipped(members), limits)
    else:
        with pytest.raises(ValueError, match="a cell in row 1,048,577"):
            xls._check_sheets(zipped(members), limits)


def test_a_panic_of_the_library_is_damage(monkeypatch: pytest.MonkeyPatch) -> None:
    class PanicError(BaseException):
        pass

    def panicking(_: object) -> None:
        raise PanicError

    monkeypatch.setattr(python_calamine, "load_workbook", panicking)
    with pytest.raises(ValueError, match=r"^$"):
        xls.read(compound({"Workbook": b""}), LIMITS)
