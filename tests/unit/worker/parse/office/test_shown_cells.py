"""Cells with a percentage, an amount or a date are found as they are shown and as they are stored."""

from __future__ import annotations

import struct
import time
from datetime import date, datetime, timedelta
from datetime import time as clock
from io import BytesIO
from zipfile import ZipFile

import openpyxl
import pytest

from tests.compound import compound, workbook
from tests.contract.samples import zipped
from tests.parsing import parse
from tests.unit.worker.parse.office.saving import saved
from worker.parse import Limits
from worker.parse.office import xls_formats
from worker.parse.office.number_formats import as_shown

pytestmark = pytest.mark.usefixtures("helper")
LIMITS = Limits()
EUROS = '_-* #,##0.00\\ "€"_-;\\-* #,##0.00\\ "€"_-;_-* "-"??\\ "€"_-;_-@_-'
DOLLARS = '"$"#,##0.00_);[Red]("$"#,##0.00)'
DAY, MOMENT = datetime(2024, 3, 5), datetime(2024, 3, 5, 14, 7, 9)  # noqa: DTZ001 - cells have no time zone

NUMBERS: list[tuple[float, str, str]] = [
    (0.256, "0.0%", "25.6% (0.256)"),
    (0.256, "0.0 %", "25.6 % (0.256)"),
    (0.256, "0%", "26% (0.256)"),
    (-0.07, "0%;[Red]-0%", "-7% (-0.07)"),
    (2.5, "0.00%", "250.00% (2.5)"),
    (0.005, "0%", "1% (0.005)"),
    (0.125, "#.0#%", "12.5% (0.125)"),
    (1234.5, "#,##0.00 €", "1,234.50 € (1234.5)"),
    (1234.5, DOLLARS, "$1,234.50 (1234.5)"),
    (-1234.5, DOLLARS, "($1,234.50) (-1234.5)"),
    (1234567, EUROS, "1,234,567.00 € (1234567)"),
    (0, EUROS, "- € (0)"),
    (1234.5, "[$€-407] #,##0.00", "€ 1,234.50 (1234.5)"),
    (1234.5, "[$CHF] #,##0.00", "CHF 1,234.50 (1234.5)"),
    (5, '0 "€"', "5 €"),
    (-5, "$0", "-$5 (-5)"),
    (-0.001, "$0", "$0 (-0.001)"),
    (1234567, "#,##0", "1,234,567 (1234567)"),
    (1234567, '0.0,," M"', "1.2 M (1234567)"),
    (12.345, '0.00 "kg"', "12.35 kg (12.345)"),
    (12, "00000", "00012 (12)"),
    (0.256, "0.00", "0.256"),
    (0.5, "# ?/?", "1/2 (0.5)"),
    (2.25, "# ??/??", "2 1/4 (2.25)"),
    (-2.75, '#" "?/8', "-2 6/8 (-2.75)"),
    (2.999, "# ?/?", "3 (2.999)"),
    (0.001, "# ?/?", "0 (0.001)"),
    (5, "000-0000", "000-0005 (5)"),
    (4155552671, "(000) 000-0000", "(415) 555-2671 (4155552671)"),
    (123456789, "000-00-0000", "123-45-6789 (123456789)"),
    (14155552671, "000-0000", "1415555-2671 (14155552671)"),
    (5552671, '[<=9999999]###-####;"("###") "###-####', "555-2671 (5552671)"),
    (4155552671, '[<=9999999]###-####;"("###") "###-####', "(415) 555-2671 (4155552671)"),
    (1.5, "0-0.0", "1.5"),
    (12345.678, "0.00E+00", "1.23E+04 (12345.678)"),
    (0.00012, "0.0E+0", "1.2E-4 (0.00012)"),
    (-12345, "##0.0E+0", "-12.3E+3 (-12345)"),
    (9.996, "0.00E-00", "1.00E01 (9.996)"),
    (999.96, "##0.0E+0", "1.0E+3 (999.96)"),
    (0, "0E+0", "0E+0 (0)"),
    (7, "0.0E+0.0", "7"),
    (1234.5, "[$€-de-DE] #,##0.00", "€ 1,234.50 (1234.5)"),
    (1234.5, "#,##0.00 [$€-x-euro2]", "1,234.50 € (1234.5)"),
    (3, '[>2]"many";0', "many (3)"),
    (1, '"Yes";"Yes";"No"', "Yes (1)"),
    (0, '"Yes";"Yes";"No"', "No (0)"),
    (1, '[=1]"ja";[=0]"nein";General', "ja (1)"),
    (0, '0;-0;"-"', "0"),
    (0, "0;-0;;@", "0"),
    (5, 'General" Stück"', "5 Stück"),
    (-5.5, 'General\\ "kg"', "-5.5 kg"),
    (5.25, '# ??/??" Zoll"', "5 1/4 Zoll (5.25)"),
    (1e300, "#,##0 €", "1e+300"),
    (7, "General", "7"),
    (7, '"', "7"),
    (7, "[", "7"),
    (7, ";;;", "7"),
    (7, "0" * 300, "7"),
]
DATES: list[tuple[date | clock | timedelta, str, str]] = [
    (DAY, "dd.mm.yyyy", "05.03.2024 (2024-03-05)"),
    (DAY, "d. mmmm yyyy", "5. March 2024 (2024-03-05)"),
    (DAY, "[$-409]mmm-yy", "Mar-24 (2024-03-05)"),
    (DAY, "[$-407]d. mmmm yyyy", "5. März 2024 (2024-03-05)"),
    (DAY, "[$-407]ddd, d. mmm yy;@", "Di, 5. Mrz 24 (2024-03-05)"),
    (DAY, "[$-40C]dddd d mmmm yyyy", "mardi 5 mars 2024 (2024-03-05)"),
    (DAY, "[$-C0A]d \\d\\e mmmm \\d\\e yyyy", "5 de marzo de 2024 (2024-03-05)"),
    (DAY, "[$-410]d mmm yyyy", "5 mar 2024 (2024-03-05)"),
    (DAY, "[$-413]ddd d mmm yyyy", "di 5 mrt 2024 (2024-03-05)"),
    (DAY, "[$-41D]ddd d mmm yyyy", "tis 5 mar 2024 (2024-03-05)"),
    (DAY, "[$-F800]dddd\\, mmmm dd\\, yyyy", "Tuesday, March 05, 2024 (2024-03-05)"),
    (DAY, "[$-419]d mmmm yyyy", "2024-03-05"),
    (DAY, "[$-407]dd.mm.yyyy", "05.03.2024 (2024-03-05)"),
    (DAY, "[$-en-US]d-mmm-yy;@", "5-Mar-24 (2024-03-05)"),
    (DAY, "[$-de-DE]d. mmmm yyyy", "5. März 2024 (2024-03-05)"),
    (DAY, "[$-pl-PL]d mmmm yyyy", "2024-03-05"),
    (DAY, "dddd, d mmm", "Tuesday, 5 Mar (2024-03-05)"),
    (DAY, 'yyyy"年"m"月"d"日"', "2024年3月5日 (2024-03-05)"),
    (DAY, "mm-dd-yy", "3/5/2024 (2024-03-05)"),
    (DAY, "yyyy-mm-dd", "2024-03-05"),
    (MOMENT, "yyyy-mm-dd h:mm:ss", "2024-03-05 14:07:09"),
    (clock(6, 30), "h:mm:ss", "06:30:00"),
    (MOMENT, "m/d/yy h:mm AM/PM", "3/5/24 2:07 PM (2024-03-05 14:07:09)"),
    (MOMENT, "dd.mm.yyyy hh:mm:ss", "05.03.2024 14:07:09 (2024-03-05 14:07:09)"),
    (clock(14, 30), "h:mm", "14:30 (14:30:00)"),
    (timedelta(hours=26, minutes=5), "[h]:mm", "26:05 (1 day, 2:05:00)"),
]


def cells(text: str) -> list[str]:
    """The last cells of the rows."""
    return [line.split(" | ")[-1].removesuffix(" |") for line in text.splitlines() if line.startswith("| n")]


def test_cells_of_a_workbook_are_found_as_shown_and_as_stored() -> None:
    book = openpyxl.Workbook()
    for number, (value, code, _) in enumerate([*NUMBERS, *DATES], 1):
        if len(code) < 256:
            book.active.cell(number, 1, f"n{number}")
            book.active.cell(number, 2, value).number_format = code
    expected = [shown for _, code, shown in [*NUMBERS, *DATES] if len(code) < 256]
    assert [
        cell.replace("1" + "0" * 300, "1e+300") for cell in cells(parse("a.xlsx", saved(book), LIMITS).text)
    ] == expected


@pytest.mark.parametrize("name", ["a.xls", "b.XLS"])
def test_cells_of_old_workbooks_are_found_as_shown_and_as_stored(name: str) -> None:
    known = [case for case in NUMBERS if case[1] and abs(case[0]) < 1e9]
    rows: list[list[str | float]] = [[f"n{number}", value] for number, (value, _, _) in enumerate(known)]
    data = compound({"Workbook": workbook("Sheet", rows, [code for _, code, _ in known])})
    assert cells(parse(name, data, LIMITS).text) == [shown for _, _, shown in known]


def test_cells_of_old_workbooks_below_gaps_keep_their_formats() -> None:
    stream = workbook("Sheet", [["", "", ""], ["", "nx", 0.256]], ["0.0%"])
    assert "25.6% (0.256)" in parse("a.xls", compound({"Workbook": stream}), LIMITS).text


def binary(kind: int, data: bytes = b"") -> bytes:
    head = bytes([kind]) if kind < 128 else bytes([kind & 127 | 128, kind >> 7])
    return head + bytes([len(data)]) + data


def wide(text: str) -> bytes:
    return struct.pack("<I", len(text)) + text.encode("utf-16-le")


def test_cells_of_binary_workbooks_have_formats() -> None:
    looks = binary(47, struct.pack("<HH", 0, 0)) + binary(47, struct.pack("<HH", 0, 164))
    styles = binary(44, struct.pack("<H", 164) + wide("0.0%")) + binary(617, b"\2\0\0\0") + looks + binary(618)
    real = struct.pack("<II", 1, 1) + struct.pack("<d", 0.256)
    sheet = binary(0, struct.pack("<I", 4)) + binary(5, real) + binary(5, struct.pack("<IId", 2, 0, 0.5))
    relation = '<Relationship Id="rId1" Type="http://x/worksheet" Target="worksheets/sheet1.bin"/>'
    members = {
        "xl/workbook.bin": binary(156, struct.pack("<II", 0, 1) + wide("rId1") + wide("Sheet")),
        "xl/_rels/workbook.bin.rels": f"<Relationships>{relation}</Relationships>".encode(),
        "xl/styles.bin": styles,
        "xl/worksheets/sheet1.bin": sheet,
    }
    with ZipFile(BytesIO(zipped(members))) as archive:
        assert xls_formats.binary(archive) == {"Sheet": {(4, 1): "0.0%"}}


OFFICE = "urn:oasis:names:tc:opendocument:xmlns:"
OPEN = {
    'office:value-type="percentage" office:value="0.256"': ("25,6 %", "25,6 % (0.256)"),
    'office:value-type="currency" office:value="1234.5"': ("1.234,50 €", "1.234,50 € (1234.5)"),
    'office:value-type="date" office:date-value="2024-03-05"': ("05.03.24", "05.03.24 (2024-03-05)"),
    'office:value-type="float" office:value="0.2561"': ("0,26", "0,26"),
    'office:value-type="float" office:value="1234567"': ("1.234.567", "1.234.567 (1234567)"),
    'office:value-type="float" office:value="5"': ("5 kg", "5 kg"),
    'office:value-type="percentage" office:value="0.5"': ("", "0.5"),
    'office:value-type="string" office:value="x"': ("text", "text"),
}


@pytest.mark.parametrize("cell", OPEN)
@pytest.mark.parametrize("name", ["a.ods", "a.fods"])
def test_cells_of_open_spreadsheets_are_found_as_shown_and_as_stored(name: str, cell: str) -> None:
    shown, expected = OPEN[cell]
    text = f"<t:p>{shown}</t:p>" if shown else ""
    content = (
        f'<office:document xmlns:office="{OFFICE}office:1.0" xmlns:t="{OFFICE}text:1.0" xmlns:b="{OFFICE}table:1.0">'
        "<office:body><office:spreadsheet><b:table><b:table-row><b:table-cell><t:p>n</t:p></b:table-cell>"
        f"<b:table-cell {cell}>{text}</b:table-cell></b:table-row></b:table></office:spreadsheet></office:body>"
        "</office:document>"
    )
    kind = b"application/vnd.oasis.opendocument.spreadsheet"
    data = content.encode() if name == "a.fods" else zipped({"mimetype": kind, "content.xml": content.encode()})
    assert cells(parse(name, data, LIMITS).text) == [expected]


def test_a_table_below_another_one_begins_where_its_shown_values_do() -> None:
    book = openpyxl.Workbook()
    for row in [["Boat", "Share"], ["Anna", 0.256], [], ["Crew", "Paid (2024)"], ["Bo", 1234.5]]:
        book.active.append(row)
    book.active["B2"].number_format, book.active["B5"].number_format = "0.0%", "#,##0.00 €"
    assert parse("a.xlsx", saved(book), LIMITS).text.count("| --- | --- |") == 2


def test_formats_of_any_length_take_linear_time() -> None:
    started = time.process_time()
    for sign in ("0", "#,", "?", ",", "[", '"', "\\", "_", "m", "0,,", "AM", "*"):
        for count in range(40, 120, 4):
            as_shown("7", 7.0, (sign * count)[:250] + "%")
            as_shown("7", DAY, (sign * count)[:250])
    assert time.process_time() - started < 5
