"""Variants of Office Open XML: templates, shows, add-ins, files with macros, Strict, and one XML text."""

from __future__ import annotations

import base64
import re
import time
from io import BytesIO
from zipfile import ZipFile

import docx
import pptx
import pytest
from pptx.oxml import parse_xml

from tests.contract.samples import PACKAGES, of, zipped
from tests.parsing import parse
from tests.unit.worker.parse.office.saving import saved
from worker.parse import Limits, flat_office

LIMITS = Limits()
OPEN = "application/vnd.openxmlformats-officedocument"
MAIN_TYPES = {
    "docx": f"{OPEN}.wordprocessingml.document.main+xml",
    "pptx": f"{OPEN}.presentationml.presentation.main+xml",
    "xlsx": f"{OPEN}.spreadsheetml.sheet.main+xml",
}
VARIANTS = {
    "docm": "application/vnd.ms-word.document.macroEnabled.main+xml",
    "dotx": f"{OPEN}.wordprocessingml.template.main+xml",
    "dotm": "application/vnd.ms-word.template.macroEnabledTemplate.main+xml",
    "pptm": "application/vnd.ms-powerpoint.presentation.macroEnabled.main+xml",
    "ppsx": f"{OPEN}.presentationml.slideshow.main+xml",
    "ppsm": "application/vnd.ms-powerpoint.slideshow.macroEnabled.main+xml",
    "potx": f"{OPEN}.presentationml.template.main+xml",
    "potm": "application/vnd.ms-powerpoint.template.macroEnabled.main+xml",
    "xlsm": "application/vnd.ms-excel.sheet.macroEnabled.main+xml",
    "xltx": f"{OPEN}.spreadsheetml.template.main+xml",
    "xltm": "application/vnd.ms-excel.template.macroEnabled.main+xml",
    "xlam": "application/vnd.ms-excel.addin.macroEnabled.main+xml",
}
SAMPLE_OF = {path.split("/")[0]: path for path in PACKAGES}
PLAIN = {"d": "docx", "p": "pptx", "x": "xlsx"}
INK = "http://schemas.microsoft.com/office/powerpoint/2010/main"

pytestmark = pytest.mark.usefixtures("helper")


def members_of(path: str) -> dict[str, bytes]:
    with ZipFile(BytesIO(of(path))) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def members_of_saved(document: object) -> dict[str, bytes]:
    with ZipFile(BytesIO(saved(document))) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.mark.parametrize("extension", VARIANTS)
def test_a_variant_is_read_as_the_plain_file(extension: str) -> None:
    plain = PLAIN[extension[0]]
    members = members_of(SAMPLE_OF[plain])
    types = members["[Content_Types].xml"].decode()
    assert MAIN_TYPES[plain] in types
    members["[Content_Types].xml"] = types.replace(MAIN_TYPES[plain], VARIANTS[extension]).encode()
    document = parse(f"a.{extension}", zipped(members), LIMITS)
    assert document == parse(f"a.{plain}", of(SAMPLE_OF[plain]), LIMITS)


@pytest.mark.parametrize("plain", ["docx", "pptx", "xlsx"])
def test_strict_files_are_read_as_others(plain: str) -> None:
    members = members_of(SAMPLE_OF[plain])
    namespace = re.compile(rb"http://schemas\.openxmlformats\.org/(?!package/)(\w+)/2006/")
    strict = {name: namespace.sub(rb"http://purl.oclc.org/ooxml/\1/", data) for name, data in members.items()}
    assert strict != members
    assert parse(f"a.{plain}", zipped(strict), LIMITS) == parse(f"a.{plain}", of(SAMPLE_OF[plain]), LIMITS)


def with_alternatives(*alternatives: str) -> str:
    """The text of a slide with a title, and with alternative drawings behind it."""
    presentation = pptx.Presentation()
    slide = presentation.slides.add_slide(presentation.slide_layouts[5])
    slide.shapes.title.text = "Plan"
    slide.shapes.element.append(
        parse_xml(
            '<mc:AlternateContent xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006"'
            ' xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main" xmlns:p14="' + INK + '"'
            ' xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"'
            ' xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships">'
            + "".join(alternatives)
            + "</mc:AlternateContent>"
        )
    )
    return parse("a.pptx", saved(presentation), LIMITS).text


def box(text: str) -> str:
    return (
        '<p:sp><p:nvSpPr><p:cNvPr id="9" name="Box"/><p:cNvSpPr/><p:nvPr/></p:nvSpPr><p:spPr/>'
        f"<p:txBody><a:bodyPr/><a:p><a:r><a:t>{text}</a:t></a:r></a:p></p:txBody></p:sp>"
    )


INKED = (
    '<p:contentPart r:id="rId9"><p14:nvContentPartPr><p14:cNvPr id="8" name="Ink"/></p14:nvContentPartPr>'
    "</p:contentPart>"
)


def test_ink_on_a_slide_leaves_the_rest() -> None:
    ink = f'<mc:Choice Requires="p14">{INKED}</mc:Choice>'
    assert with_alternatives(ink, f"<mc:Fallback>{box('Drawn')}</mc:Fallback>") == "# Plan\n\nDrawn"
    assert with_alternatives(ink) == "# Plan"


def test_of_alternative_drawings_without_ink_the_first_is_read() -> None:
    first = f'<mc:Choice Requires="a14">{box("New")}</mc:Choice>'
    assert with_alternatives(first, f"<mc:Fallback>{box('Old')}</mc:Fallback>") == "# Plan\n\nNew"


def flat(members: dict[str, bytes]) -> bytes:
    """Return a package as Word and PowerPoint write it in one XML text."""
    parts = []
    for name, content in members.items():
        if name == "[Content_Types].xml":
            continue
        if name.endswith((".xml", ".rels")):
            text = re.sub(r"<\?xml[^>]*\?>", "", content.decode())
            inner = f"<pkg:xmlData>{text}</pkg:xmlData>"
        else:
            inner = f"<pkg:binaryData>{base64.encodebytes(content).decode()}</pkg:binaryData>"
        type_ = re.search(
            rf'PartName="/{re.escape(name)}" ContentType="([^"]+)"', members["[Content_Types].xml"].decode()
        )
        stated = type_[1] if type_ else "application/octet-stream"
        parts.append(f'<pkg:part pkg:name="/{name}" pkg:contentType="{stated}">{inner}</pkg:part>')
    names = 'xmlns:pkg="http://schemas.microsoft.com/office/2006/xmlPackage"'
    return f'<?xml version="1.0" standalone="yes"?>\r\n<pkg:package {names}>{"".join(parts)}</pkg:package>'.encode()


@pytest.mark.parametrize("name", ["a.xml", "a.doc", "a.docx"])
@pytest.mark.parametrize("sample", ["docx/berth.docx", "docx/handbook.docx", "pptx/lighthouse.pptx"])
def test_a_package_in_one_xml_text_is_read_as_the_package(sample: str, name: str) -> None:
    assert parse(name, flat(members_of(sample)), LIMITS) == parse(sample, of(sample), LIMITS)


def test_a_truncated_package_in_one_xml_text_keeps_its_words() -> None:
    document = docx.Document()
    for number in range(40):
        paragraph = document.add_paragraph()
        for run in ("Don", "au", f"dampf{number}"):
            paragraph.add_run(run)
    data = flat(dict(sorted(members_of_saved(document).items(), key=lambda member: member[0] == "word/document.xml")))
    whole, cut = (parse("a.xml", part, LIMITS) for part in (data, data[: data.index(b"dampf30")]))
    assert "Donaudampf39" in whole.text
    assert "Donaudampf29" in cut.text
    assert "word/document.xml" in cut.note


WORD_2003 = """<?xml version="1.0"?><?mso-application progid="Word.Document"?>
<w:wordDocument xmlns:w="http://schemas.microsoft.com/office/word/2003/wordml" xmlns:wx="http://x/auxHint">
<w:styles><w:style w:type="paragraph" w:styleId="H1"><w:name w:val="heading 1"/></w:style></w:styles>
<w:body><wx:sect><wx:sub-section>
<w:p><w:pPr><w:pStyle w:val="H1"/></w:pPr><w:r><w:t>The Don</w:t></w:r><w:r><w:t>au</w:t></w:r></w:p>
<w:p><w:r><w:pict><w:binData w:name="a">QUJD</w:binData></w:pict><w:t>Below.</w:t></w:r></w:p>
<w:tbl><w:tr><w:tc><w:p><w:r><w:t>a</w:t></w:r></w:p></w:tc>
<w:tc><w:p><w:r><w:t>b</w:t></w:r></w:p></w:tc></w:tr></w:tbl>
</wx:sub-section></wx:sect></w:body></w:wordDocument>"""


@pytest.mark.parametrize("name", ["a.xml", "a.doc", "a.docx"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_the_xml_of_word_2003_is_read_as_a_document(name: str, encoding: str) -> None:
    document = parse(name, WORD_2003.encode(encoding), LIMITS)
    assert document.type == "docx"
    assert document.text.startswith("# The Donau\n\nBelow.\n\n| a | b |")
    assert not document.note


PACKAGE_NAMES = 'xmlns:pkg="http://schemas.microsoft.com/office/2006/xmlPackage"'
OTHER_XML = {
    "a stylesheet that makes packages": f'<xsl:stylesheet version="1.0" {PACKAGE_NAMES} xmlns:xsl="urn:x">'
    '<xsl:template match="/"><pkg:package><pkg:part pkg:name="/a.xml"><pkg:xmlData>Harbour</pkg:xmlData></pkg:part>'
    "</pkg:package></xsl:template></xsl:stylesheet>",
    "a text that names the namespace": f"<a {PACKAGE_NAMES}><b>Harbour</b></a>",
    "a package below": f"<a><pkg:package {PACKAGE_NAMES}>Harbour</pkg:package></a>",
    "another package": f"<package-list {PACKAGE_NAMES}>Harbour</package-list>",
    "a document of Word below": '<xsl:stylesheet xmlns:xsl="urn:x"><w:wordDocument '
    'xmlns:w="http://schemas.microsoft.com/office/word/2003/wordml"/>Harbour</xsl:stylesheet>',
}


@pytest.mark.parametrize("name", ["a.xml", "a.xsl", "a.docx"])
@pytest.mark.parametrize("content", OTHER_XML)
def test_xml_that_only_mentions_a_package_stays_xml(content: str, name: str) -> None:
    document = parse(name, f'<?xml version="1.0"?>\n{OTHER_XML[content]}'.encode(), LIMITS)
    assert (document.type, "Harbour" in document.text) == ("xml", True)


@pytest.mark.parametrize(
    "before", ["<!-- <a> -->", "<!DOCTYPE pkg:package>", '<?mso-application progid="Word.Document"?>']
)
def test_what_stands_before_the_first_tag_hides_no_package(before: str) -> None:
    sample = "docx/berth.docx"
    data = flat(members_of(sample)).replace(b"<pkg:package", before.encode() + b"<pkg:package", 1)
    assert parse("a.xml", data, LIMITS) == parse(sample, of(sample), LIMITS)


@pytest.mark.parametrize("damage", [b"", b"<w:body><"])
def test_a_part_whose_name_is_too_long_for_a_container_is_named(damage: bytes) -> None:
    data = flat(members_of("docx/berth.docx")).replace(b"<w:body>", damage or b"<w:body>", 1)
    part = b'<pkg:part pkg:name="/word/%s"><pkg:xmlData/></pkg:part>' % (b"a" * 70_000)
    document = parse("a.xml", data.replace(b"</pkg:package>", part + b"</pkg:package>"), LIMITS)
    assert "Berth 12" in document.text
    assert "word/aaa" in document.note
    assert len(document.note) < 300


def test_names_of_attributes_are_read_in_linear_time() -> None:
    data = f"<pkg:package {PACKAGE_NAMES}><pkg:part {'a' * 100_000}></pkg:part></pkg:package>".encode()
    started = time.process_time()
    flat_office.packed(data)
    assert time.process_time() - started < 2
