"""Web pages as found on sites: tables with wide cells, layout tables, formulas, and elements without text."""

from __future__ import annotations

import pytest

from schemas.errors import FileError
from schemas.reason import Reason
from tests.parsing import parse
from worker.parse import Limits
from worker.parse.sandbox import client as sandbox
from worker.parse.web.html import to_markdown


def text(page: str) -> str:
    return to_markdown(page)


def rows(cells: str) -> list[str]:
    return [line for line in text(f"<table>{cells}</table>").split("\n") if "---" not in line]


def test_only_a_main_part_stands_for_the_page() -> None:
    """Text beside an article is also part of the page."""
    assert text("<body><p>Before.</p><article><p>News.</p></article><p>Behind.</p>") == "Before.\n\nNews.\n\nBehind."
    assert text("<body><p>Menu.</p><main><p>News.</p></main><p>Terms.</p>") == "News."


def test_cells_stand_below_their_columns() -> None:
    head = "<tr><th>A<th>B<th>C"
    assert rows(f"{head}<tr><td colspan=2>ab<td>c")[1] == "| ab |  | c |"
    assert rows(f"{head}<tr><td rowspan=2>a<td>b<td>c<tr><td>b2<td>c2")[2] == "|  | b2 | c2 |"
    assert rows(f"{head}<tr><td>a<td rowspan=3 colspan=2>bc<tr><td>a2<tr><td>a3<tr><td>a4<td>b4")[3:] == [
        "| a3 |",
        "| a4 | b4 |",
    ]
    assert rows(f"{head}<tr><td rowspan=2>a<td rowspan=2>b<td>c<tr><td>c2")[2] == "|  |  | c2 |"


@pytest.mark.parametrize("span", ["0", "-1", "x", "", "²", "9" * 5000, "65535"])
def test_odd_spans_do_no_harm(span: str) -> None:
    found = rows(f'<tr><td rowspan="{span}" colspan="{span}">a<td>b<tr><td>c<td>d<tr><td>e')
    assert sum(len(line) for line in found) < 1500
    assert "".join(c for line in found for c in line if c.isalpha()) == "abcde"


@pytest.mark.parametrize("inside", ["<h2>Part</h2><p>words</p>", "<pre>one\n  two</pre>"])
def test_a_table_around_headings_or_code_lays_out_a_page(inside: str) -> None:
    page = text(f"<table><tr><td>menu</td><td>{inside}</td></tr></table>")
    assert page in {"menu\n\n## Part\n\nwords", "menu\n\n```\none\n  two\n```"}


def test_a_table_may_say_that_it_lays_out_a_page() -> None:
    assert text('<table role="presentation"><tr><td>one</td><td>two</td></tr></table>') == "one\n\ntwo"


def test_a_line_of_code_in_a_table_is_a_cell() -> None:
    assert rows("<tr><th>option<th>example<tr><td>all<td><pre>--all</pre>")[1] == "| all | --all |"


def test_numbers_of_lines_are_no_code() -> None:
    page = '<table><tr><td class="linenos"><pre>1\n2</pre></td><td><pre>def f():\n    pass</pre></td></tr></table>'
    assert text(page) == "```\ndef f():\n    pass\n```"


@pytest.mark.parametrize("name", ["headerlink", "header-anchor", "hash-link", "anchor-link"])
def test_the_mark_of_a_headings_address_is_no_part_of_it(name: str) -> None:
    assert text(f'<h2>Install<a class="{name}" href="#i">¶</a></h2>') == "## Install"


@pytest.mark.parametrize(
    "left_out",
    [
        '<div role="dialog">We use cookies</div>',
        "<dialog>Sure?</dialog>",
        '<div role="contentinfo">All rights reserved</div>',
        "<p hidden>secret</p>",
    ],
)
def test_what_is_not_shown_or_on_every_page_is_left_out(left_out: str) -> None:
    assert text(f"<p>The text.</p>{left_out}") == "The text."


def test_what_is_shown_once_it_is_looked_for_is_text() -> None:
    assert text('<details><summary>More</summary><p hidden="until-found">within</p></details>') == "More\n\nwithin"


def test_a_page_made_by_a_script_has_no_text_but_what_it_says_without() -> None:
    page = (
        "<div id=app></div><noscript>Needs JavaScript</noscript><script>let words = 'many'</script><style>p{}</style>"
    )
    assert text(page) == "Needs JavaScript"
    with pytest.raises(FileError) as caught:
        parse("a.html", b"<html><body><script>let words = 1</script></body></html>", Limits())
    assert caught.value.reason is Reason.NO_TEXT
    sandbox.stop()


KATEX = (
    '<span class="katex"><span class="katex-mathml"><math><semantics><mrow><mi>x</mi><mn>2</mn></mrow>'
    '<annotation encoding="application/x-tex">x^2</annotation></semantics></math></span>'
    '<span class="katex-html" aria-hidden="true">x2</span></span>'
)
WIKIPEDIA = (
    r'<span><span style="display: none;"><math alttext="{\displaystyle x}"><mi>x</mi></math></span>'
    r'<img class="mwe-math-fallback-image-inline" alt="{\displaystyle x}"></span>'
)


@pytest.mark.parametrize(
    ("formula", "shown"),
    [
        (KATEX, "x^2"),
        (WIKIPEDIA, r"{\displaystyle x}"),
        ("<math><mi>a</mi><mo>+</mo><mi>b</mi></math>", "a+b"),
    ],
)
def test_formulas_are_text_once(formula: str, shown: str) -> None:
    assert text(f"<p>So {formula} holds.</p>") == f"So {shown} holds."


def test_where_words_may_be_broken_they_are_not() -> None:
    assert text("<p>Donau&shy;dampf&#8203;schiff</p>") == "Donaudampfschiff"
    assert text("<p>ខ្ញុំ&#8203;ស្រឡាញ់</p>") == "ខ្ញុំ\u200bស្រឡាញ់"


def test_the_source_of_an_article_is_part_of_it() -> None:
    page = '<main><p>Tides</p><div role="contentinfo">By Ada</div></main><div role="contentinfo">Imprint</div>'
    assert to_markdown(page) == "Tides\n\nBy Ada"
    assert to_markdown(page.replace("main>", "div>")) == "Tides"


@pytest.mark.parametrize(
    ("beside", "is_read"), [("<path d='M 1'/>", True), ("<br>", True), ("<b></b>", True), ("<b>", False)]
)
def test_only_elements_within_each_other_count_as_nested(beside: str, is_read: bool) -> None:
    page = "<svg>" + beside * 20_001 + "</svg><p>Tides</p>"
    if is_read:
        assert text(page) == "Tides"
        return
    with pytest.raises(FileError, match="nested in each other"):
        text(page)
