"""Readings above characters stand behind the words, in every format that has them, so that the words are found."""

from __future__ import annotations

import time

import docx
import pytest
from docx.oxml import parse_xml
from docx.oxml.ns import nsdecls

from tests.contract.samples import of, with_member, zipped
from tests.parsing import parse
from tests.unit.worker.parse.office.saving import saved
from worker.parse import Limits
from worker.parse.text import ruby
from worker.parse.web.html import to_markdown

pytestmark = pytest.mark.usefixtures("helper")
LIMITS = Limits()
OFFICE = "urn:oasis:names:tc:opendocument:xmlns:"

PAGES = {
    "京<rt>きょう</rt>都": "京都 (きょう)",
    "<ruby>京<rt>きょう</rt>都<rt>と</rt></ruby>へ。": "京都へ (きょうと)。",
    "<ruby>京<rp>(</rp><rt>きょう</rt><rp>)</rp></ruby><ruby>都<rt>と</rt></ruby>": "京都 (きょうと)",
    "<ruby><rb>東京</rb><rt>とうきょう</rt></ruby>に行く": "東京に行く (とうきょう)",
    "<ruby>漢字<rt>かんじ</rt></ruby>を<ruby>学<rt>まな</rt></ruby>ぶ、と": "漢字を学ぶ (かんじ まな)、と",
    "<ruby>\n 漢\n <rt>かん</rt>\n 字\n <rt>じ</rt>\n</ruby> です": "漢字 (かんじ) です",
    "<ruby>北<rb>京<rt>běi<rt>jīng</ruby>": "北京 (běijīng)",
    "<ruby>Kyoto<rt>京都</rt></ruby> station": "Kyoto (京都) station",
    "<ruby>東京<rtc><rt>Tōkyō</rt></rtc></ruby>": "東京 (Tōkyō)",
    "<ruby>空<rt></rt></ruby>白": "空白",
    "<h2><ruby>章<rt>しょう</rt></ruby>一</h2>": "## 章一 (しょう)",
    "<table><tr><td><ruby>金<rt>きん</rt></ruby>額</table>": "| 金額 (きん) |\n| --- |",
    "no ruby": "no ruby",
    "<ruby>a<rt>b": "a (b)",
    "<rt>b</rt>": "(b)",
}


@pytest.mark.parametrize("page", PAGES)
def test_readings_in_a_page_stand_behind_words(page: str) -> None:
    assert to_markdown(page) == PAGES[page]


def test_a_title_has_no_readings() -> None:
    page = b"<h1><ruby>\xe4\xba\xac<rp>(</rp><rt>kyo</rt><rp>)</rp></ruby>\xe9\x83\xbd</h1><p>x"
    assert parse("a.html", page, LIMITS).title == "京都"


def ruby_run(base: str, above: str) -> str:
    def run(text: str) -> str:
        return f"<w:r><w:t>{text}</w:t></w:r>"

    inner = f"<w:rubyPr/><w:rt>{run(above)}</w:rt><w:rubyBase>{run(base)}</w:rubyBase>"
    return f"<w:r><w:ruby>{inner}</w:ruby></w:r>"


def test_readings_in_word_stand_behind_words() -> None:
    document = docx.Document()
    paragraph = parse_xml(
        f"<w:p {nsdecls('w')}>{ruby_run('京', 'きょう')}{ruby_run('都', 'と')}<w:r><w:t>へ。</w:t></w:r></w:p>"
    )
    document.element.body.insert(0, paragraph)
    document.add_table(1, 2).cell(0, 0).paragraphs[0]._p.append(
        parse_xml(ruby_run("金", "きん").replace("<w:r>", f"<w:r {nsdecls('w')}>", 1))
    )
    assert parse("a.docx", saved(document), LIMITS).text == "京都へ (きょうと)。\n\n| 金 (きん) |\n| --- |"


def test_readings_in_open_documents_stand_behind_words() -> None:
    annotated = "<t:ruby><t:ruby-base>{}</t:ruby-base><t:ruby-text>{}</t:ruby-text></t:ruby>"
    content = (
        f'<o:document-content xmlns:o="{OFFICE}office:1.0" xmlns:t="{OFFICE}text:1.0"><o:body><o:text>'
        f"<t:p>{annotated.format('京', 'きょう')}{annotated.format('都', 'と')}へ。</t:p></o:text></o:body>"
        "</o:document-content>"
    )
    kind = b"application/vnd.oasis.opendocument.text"
    assert (
        parse("a.odt", zipped({"mimetype": kind, "content.xml": content.encode()}), LIMITS).text
        == "京都へ (きょうと)。"
    )


def test_readings_in_books_and_articles_stand_behind_words() -> None:
    chapter = "<html><body><p><ruby>京<rt>きょう</rt>都<rt>と</rt></ruby>へ。</p></body></html>".encode()
    book = with_member("epub/tales.epub", "OPS/one.xhtml", chapter)
    assert b"one.xhtml" in of("epub/tales.epub")
    assert "京都へ (きょうと)。" in parse("a.epub", book, LIMITS).text
    article = (
        '<article article-type="research-article"><front/><body><p>'
        "<ruby><rb>京</rb><rt>きょう</rt></ruby>都へ。</p></body></article>"
    )
    assert parse("a.nxml", article.encode(), LIMITS).text == "京都へ (きょう)。"


@pytest.mark.parametrize("name", ["a.vtt", "a.srt"])
def test_readings_in_captions_stand_behind_words(name: str) -> None:
    caption = "<v Bo><ruby>京<rt>きょう</rt>都<rt>と</rt></ruby>へ。</v>"
    data = f"WEBVTT\n\n1\n00:00:01.000 --> 00:00:02.000\n{caption}\n".encode()
    assert parse(name, data, LIMITS).text == "00:00:01 Bo: 京都へ (きょうと)。"


def test_many_readings_take_linear_time() -> None:
    started = time.process_time()
    for text in (
        ruby.annotated("a", "b") * 100_000,
        ruby.READING * 300_000,
        f" {ruby.BEGIN}" * 200_000 + " " * 100_000,
    ):
        assert len(ruby.behind_words(text)) <= len(text)
    assert time.process_time() - started < 5
