"""Other content of documents than paragraphs, tables and sheets: formulas, columns, comments, newer kinds of charts."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from zipfile import ZipFile

import docx
import pptx
import pytest
from docx.oxml import parse_xml
from openpyxl import Workbook
from pptx.opc.package import Part
from pptx.opc.packuri import PackURI

from schemas.errors import FileError
from tests.contract.samples import of, zipped
from tests.parsing import parse
from tests.unit.worker.parse.office.saving import saved
from worker.parse import Limits
from worker.parse.office import drawing
from worker.parse.text.markdown_blocks import joined, laid_out, table

LIMITS = Limits()
WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
MATH = "http://schemas.openxmlformats.org/officeDocument/2006/math"
MAIN = "http://schemas.openxmlformats.org/drawingml/2006/main"
SLIDES = "http://schemas.openxmlformats.org/presentationml/2006/main"
MODERN = "http://schemas.microsoft.com/office/powerpoint/2018/8/main"
CHART = "http://schemas.microsoft.com/office/drawing/2014/chartex"
RELATIONS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
OFFICE = "urn:oasis:names:tc:opendocument:xmlns:"

pytestmark = pytest.mark.usefixtures("helper")


def word(body: str) -> str:
    document = docx.Document()
    for element in parse_xml(f'<w:body xmlns:w="{WORD}" xmlns:m="{MATH}">{body}</w:body>'):
        document.element.body.insert_element_before(element, "w:sectPr")
    return parse("a.docx", saved(document), LIMITS).text


def run(text: str) -> str:
    return f"<m:r><m:t>{text}</m:t></m:r>"


def cell(text: str, span: int = 1) -> str:
    return f'<w:tc><w:tcPr><w:gridSpan w:val="{span}"/></w:tcPr><w:p><w:r><w:t>{text}</w:t></w:r></w:p></w:tc>'


def test_formulas_in_word_are_text() -> None:
    half = f"<m:oMath><m:f><m:num>{run('a')}</m:num><m:den>{run('b')}</m:den></m:f></m:oMath>"
    square = f"<m:oMath><m:sSup><m:e>{run('x')}</m:e><m:sup>{run('2')}</m:sup></m:sSup></m:oMath>"
    beside = f"<w:p><w:r><w:t>It is </w:t></w:r>{half}<w:r><w:t>.</w:t></w:r></w:p>"
    assert word(f"{beside}<m:oMathPara>{square}</m:oMathPara>") == "It is a/b.\n\nx^2"


def test_a_formula_without_exponents_has_no_sign_for_them() -> None:
    assert word(f"<w:p><m:oMath><m:nary><m:sub/><m:sup/><m:e>{run('n')}</m:e></m:nary></m:oMath></w:p>") == "n"


def test_cells_in_word_stand_below_their_columns() -> None:
    rows = f"<w:tr>{cell('A')}{cell('B')}{cell('C')}</w:tr><w:tr>{cell('both', 2)}{cell('c')}</w:tr>"
    rows += f'<w:tr><w:trPr><w:gridBefore w:val="1"/></w:trPr>{cell("b")}{cell("c")}</w:tr>'
    rows += f"<w:tr>{cell('far', 10**9)}{cell('x')}</w:tr>"
    lines = word(f"<w:tbl>{rows}</w:tbl>").split("\n")
    assert lines[2:4] == ["| both |  | c |", "|  | b | c |"]
    assert len(lines[4]) < 400


def test_a_paragraph_may_say_itself_that_it_is_a_heading() -> None:
    text = word('<w:p><w:pPr><w:outlineLvl w:val="1"/></w:pPr><w:r><w:t>Said</w:t></w:r></w:p>')
    assert text == "## Said"


@pytest.mark.parametrize(("outline", "shown"), [("0", "# Said"), ("5", "###### Said"), ("6", "Said"), ("9", "Said")])
def test_a_style_may_say_that_it_is_for_headings(outline: str, shown: str) -> None:
    document = docx.Document()
    style = document.styles.add_style("Clause", 1)
    style.element.get_or_add_pPr().append(parse_xml(f'<w:outlineLvl xmlns:w="{WORD}" w:val="{outline}"/>'))
    document.add_paragraph("Said", style="Clause")
    assert parse("a.docx", saved(document), LIMITS).text == shown


def test_a_document_without_a_title_has_its_first_heading() -> None:
    document = docx.Document()
    document.add_paragraph("Before")
    document.add_heading("What it is about", 1)
    assert parse("a.docx", saved(document), LIMITS).title == "What it is about"


@pytest.mark.parametrize("style", ["HTML Preformatted", "Source Code"])
def test_lines_of_code_in_word_are_one_block(style: str) -> None:
    document = docx.Document()
    document.styles.add_style(style, 1)
    document.add_paragraph("Before")
    for line in ("def f():", "    # not a heading", "", "    return '```'", "    pass"):
        document.add_paragraph(line, style=style)
    document.add_paragraph("After")
    text = parse("a.docx", saved(document), LIMITS).text
    code = "def f():\n    # not a heading\n    return '```'\n    pass"
    assert text == f"Before\n\n```\n{code}\n```\n\nAfter"


def test_lines_of_code_in_open_text_are_one_block() -> None:
    line = '<t:p t:style-name="{}">{}</t:p>'
    style = '<s:style xmlns:s="' + OFFICE + 'style:1.0" s:name="P1" s:parent-style-name="Preformatted_20_Text"/>'
    body = line.format("P1", 'if x:<t:line-break/><t:s t:c="4"/>y()') + line.format("Preformatted_20_Text", "z()")
    assert open_text(style + body) == "```\nif x:\n    y()\nz()\n```"


def test_a_sheet_with_a_chart_only_is_no_damage() -> None:
    book = Workbook()
    book.active.append(["a", "b"])
    book.create_chartsheet("Chart")
    assert parse("a.xlsx", saved(book), LIMITS).text == "# Sheet\n\n| a | b |\n| --- | --- |"


def test_a_chart_in_a_sheet_of_its_own_is_read() -> None:
    with ZipFile(BytesIO(of("xlsx/catches.xlsx"))) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    book = members["xl/workbook.xml"]
    at = book.index(b"<sheet ")
    sheet = f'<sheet xmlns:r="{RELATIONS}" name="Picture" sheetId="99" r:id="rIdX"/>'.encode()
    relations = members["xl/_rels/workbook.xml.rels"]
    place = b'<Relationship Id="rIdX" Target="chartsheets/sheet1.xml" Type="%s/chartsheet"/>' % RELATIONS.encode()
    drawn = '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">{}</Relationships>'
    link = '<Relationship Id="rId1" Target="{}" Type="' + RELATIONS + '/{}"/>'
    title = (
        f'<c:title xmlns:c="{drawing._CHART[1:-1]}" xmlns:a="{MAIN}"><a:p><a:r><a:t>Tides</a:t></a:r></a:p></c:title>'
    )
    members |= {
        "xl/workbook.xml": book[:at] + sheet + book[at:],
        "xl/_rels/workbook.xml.rels": relations.replace(b"</Relationships>", place + b"</Relationships>"),
        "xl/chartsheets/sheet1.xml": b"<chartsheet/>",
        "xl/chartsheets/_rels/sheet1.xml.rels": drawn.format(link.format("../drawings/d9.xml", "drawing")).encode(),
        "xl/drawings/d9.xml": b"<x/>",
        "xl/drawings/_rels/d9.xml.rels": drawn.format(link.format("../charts/c9.xml", "chart")).encode(),
        "xl/charts/c9.xml": f"<c>{title}</c>".encode(),
    }
    assert parse("a.xlsx", zipped(members), LIMITS).text.startswith("# Picture\n\nChart: Tides\n\n# ")


def test_a_cell_far_away_does_not_fill_the_text_with_bars() -> None:
    assert table([["a", "b"], ["x", *[""] * 16_000, "y"]], LIMITS).split("\n")[2] == "| x |  | y |"
    assert table([["x", *[""] * 20, "y"]], LIMITS).split("\n")[0].count("|") == 23


def comments(part: bytes, authors: bytes, kinds: tuple[str, str]) -> str:
    presentation = pptx.Presentation()
    slide = presentation.slides.add_slide(presentation.slide_layouts[5])
    slide.shapes.title.text = "Plan"
    package = presentation.part.package
    for holder, kind, data in ((slide.part, kinds[0], part), (presentation.part, kinds[1], authors)):
        name = PackURI(f"/ppt/{kind.rpartition('/')[2]}/one.xml")
        holder.relate_to(Part(name, "application/xml", package, data), kind)
    return parse("a.pptx", saved(presentation), LIMITS).text


def test_comments_on_slides_are_read() -> None:
    old = f'<p:cmLst xmlns:p="{SLIDES}"><p:cm authorId="0"><p:text>Too long</p:text></p:cm></p:cmLst>'
    authors = f'<p:cmAuthorLst xmlns:p="{SLIDES}"><p:cmAuthor id="0" name="Ada"/></p:cmAuthorLst>'
    kinds = (f"{RELATIONS}/comments", f"{RELATIONS}/commentAuthors")
    assert comments(old.encode(), authors.encode(), kinds) == "# Plan\n\nComment by Ada: Too long"


def test_threads_of_comments_on_slides_are_read_in_order() -> None:
    def body(text: str) -> str:
        return f'<m:txBody><a:p xmlns:a="{MAIN}"><a:r><a:t>{text}</a:t></a:r></a:p></m:txBody>'

    replies = f'<m:replyLst><m:reply authorId="{{B}}">{body("Shorter now")}</m:reply></m:replyLst>'
    new = f'<m:cmLst xmlns:m="{MODERN}"><m:cm authorId="{{A}}">{replies}{body("Too long")}</m:cm></m:cmLst>'
    authors = f'<m:authorLst xmlns:m="{MODERN}"><m:author id="{{A}}" name="Ada"/></m:authorLst>'
    newer = "http://schemas.microsoft.com/office/2018/10/relationships"
    kinds = (f"{newer}/comments", f"{newer}/authors")
    text = comments(new.encode(), authors.encode(), kinds)
    assert text == "# Plan\n\nComment by Ada: Too long\n\nComment: Shorter now"


def test_formulas_on_slides_are_text() -> None:
    presentation = pptx.Presentation()
    slide = presentation.slides.add_slide(presentation.slide_layouts[5])
    frame = slide.shapes.title.text_frame
    frame.text = "Energy "
    formula = f'<a14:m xmlns:a14="http://schemas.microsoft.com/office/drawing/2010/main" xmlns:m="{MATH}">'
    frame.paragraphs[0]._p.append(parse_xml(f"{formula}<m:oMath>{run('E=mc')}</m:oMath></a14:m>"))
    assert parse("a.pptx", saved(presentation), LIMITS).text == "# Energy E=mc"


def test_charts_of_newer_kinds_are_read() -> None:
    def level(*values: str) -> str:
        return "<c:lvl>" + "".join(f'<c:pt idx="{at}">{value}</c:pt>' for at, value in enumerate(values)) + "</c:lvl>"

    names = f"<c:strDim>{level('North', 'South')}{level('Coast', 'Coast')}</c:strDim>"
    data = (
        f"<c:chartData><c:data>{names}<c:numDim>{level('1', '0.30000000000000004')}</c:numDim></c:data></c:chartData>"
    )
    title = f'<c:title><a:p xmlns:a="{MAIN}"><a:r><a:t>Ferries</a:t></a:r></a:p></c:title>'
    series = "<c:series><c:tx><c:txData><c:v>Count</c:v></c:txData></c:tx></c:series>"
    part = f'<c:chartSpace xmlns:c="{CHART}">{data}<c:chart>{title}{series}</c:chart></c:chartSpace>'.encode()
    shown = joined(drawing.read(drawing.CHART_EX, part, LIMITS), LIMITS)
    assert shown.split("\n")[:3] == ["Chart: Ferries", "", "Series: Count"]
    assert shown.split("\n")[4:] == ["| Coast | North | 1 |", "| --- | --- | --- |", "| Coast | South | 0.3 |"]
    assert "North" not in joined(drawing.chart(part, LIMITS, values=False), LIMITS)


def open_text(body: str, **members: bytes) -> str:
    spaces = " ".join(
        f'xmlns:{short}="{OFFICE}{name}:1.0"'
        for short, name in (("o", "office"), ("t", "text"), ("table", "table"), ("draw", "drawing"))
    )
    content = f'<o:document-content {spaces} xmlns:x="http://www.w3.org/1999/xlink"><o:body><o:text>{body}</o:text></o:body></o:document-content>'
    others = {f"{name}/content.xml": data for name, data in members.items()}
    mimetype = {"mimetype": b"application/vnd.oasis.opendocument.text"}
    return parse("a.odt", zipped({**mimetype, "content.xml": content.encode(), **others}), LIMITS).text


def test_the_made_up_name_of_a_table_in_a_text_is_no_heading() -> None:
    cells = '<table:table-cell o:value-type="string"><t:p>a</t:p></table:table-cell>' * 2
    text = open_text(f'<table:table table:name="Table1"><table:table-row>{cells}</table:table-row></table:table>')
    assert text == "| a | a |\n| --- | --- |"


def test_a_heading_with_a_number_stays_one() -> None:
    numbered = '<t:list><t:list-item><t:h t:outline-level="2">Second</t:h></t:list-item></t:list>'
    assert open_text(numbered) == "## Second"


def test_formulas_in_open_text_are_as_they_were_typed() -> None:
    formula = '<math xmlns="http://www.w3.org/1998/Math/MathML"><semantics><mi>x</mi>{}</semantics></math>'
    shown = '<t:p>So <draw:frame><draw:object x:href="./One"/></draw:frame>.</t:p>'
    typed = formula.format('<annotation encoding="StarMath 5.0">x over 2</annotation>').encode()
    assert open_text(shown, One=typed) == "So x over 2."
    assert open_text(shown, One=formula.format("<mn>2</mn>").encode()) == "So x2."


@pytest.mark.parametrize("written", ["a b/book.opf", "a%20b/book.opf"])
def test_a_books_package_is_found_where_blanks_are_written_as_in_addresses(written: str) -> None:
    container = '<rootfiles xmlns="urn:oasis:names:tc:opendocument:xmlns:container">'
    container += f'<rootfile full-path="{written}"/></rootfiles>'
    item = '<item id="c" href="c%20d.xhtml" media-type="application/xhtml+xml"/>'
    package = f'<package xmlns="http://www.idpf.org/2007/opf">{item}<itemref idref="c"/></package>'
    members = {"META-INF/container.xml": container, "a b/book.opf": package, "a b/c d.xhtml": "<p>Tides</p>"}
    assert parse("a.epub", zipped({name: text.encode() for name, text in members.items()}), LIMITS).text == "Tides"


@pytest.mark.parametrize(
    ("lay_out", "text"),
    [
        (joined, "ab\n\n- c\n- d\n\nef"),
        (lambda blocks, limits: laid_out(blocks, limits)[0], "ab\n\n- c\n\n- d\n\nef"),
    ],
)
def test_a_text_may_have_exactly_as_many_characters_as_the_limit(
    lay_out: Callable[[list[str], Limits], str], text: str
) -> None:
    blocks = ["ab", "- c", "- d", "ef"]
    assert lay_out(blocks, Limits(max_characters=len(text))) == text
    with pytest.raises(FileError):
        lay_out(blocks, Limits(max_characters=len(text) - 1))
