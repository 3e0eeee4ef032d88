"""Subtitles, bibliographies and articles in XML."""

from __future__ import annotations

import pytest

from tests.contract.samples import of
from tests.parsing import parse
from worker.formats.detect import detect
from worker.parse.limits import Limits
from worker.parse.text import bib, subtitles
from worker.parse.xml import articles, opml

LIMITS = Limits()


def test_a_file_without_times_is_read_as_it_is() -> None:
    assert subtitles.read(b"WEBVTT\n\nonly a note", LIMITS).text == "WEBVTT\n\nonly a note"


def test_entries_of_a_bibliography_are_sections() -> None:
    text = "@comment{x,}\n@Book{one,\n title = {{Tides} and {Winds}},\n}\n@misc(two,\n year=1907)\n"
    found = list(bib.headings(text))
    assert [each.title for each in found] == ["Tides and Winds", "two"]
    assert [text[each.start : each.end] for each in found] == ["@Book{one,", "@misc(two,"]


@pytest.mark.parametrize("text", ['@string{acm = "ACM Press"}', "@comment{none}", "@a{" + "{" * 1000])
def test_a_bibliography_without_entries_has_no_sections(text: str) -> None:
    assert list(bib.headings(text)) == []


@pytest.mark.parametrize("damaged", ["<article><p>One</article>", '<!DOCTYPE a [<!ENTITY x "y">]><a><p>&x;</p></a>'])
def test_what_cannot_be_parsed_safely_is_read_as_other_xml(damaged: str) -> None:
    document = articles.read_jats(damaged.encode(), LIMITS)
    assert (document.type, document.text) == ("xml", damaged)
    assert document.note.startswith("Not well-formed XML (") == ("ENTITY" not in damaged)


def test_articles_nested_without_end_are_an_outcome() -> None:
    deep = "<sec>" * 5000 + "<p>x</p>" + "</sec>" * 5000
    assert articles.read_jats(f"<article><p>One</p>{deep}</article>".encode(), LIMITS).text == "One"


@pytest.mark.parametrize(
    "sample",
    ["docbook/harbour.dbk", "jats/tides.nxml", "fb2/lamps.fb2", "fodt/watch.fodt", "opml/voyage.opml", "xml/ferry.xml"],
)
def test_the_root_of_xml_tells_what_it_holds(sample: str) -> None:
    assert parse("a.xml", of(sample), LIMITS) == parse(sample, of(sample), LIMITS)
    assert detect("a.xml", of(sample)).mime == detect(sample, of(sample)).mime


@pytest.mark.parametrize(
    ("text", "type_"),
    [
        ("<book xmlns='http://docbook.org/ns/docbook'><para>x</para></book>", "docbook"),
        ("<d:book xmlns:d='http://docbook.org/ns/docbook'><d:para>x</d:para></d:book>", "docbook"),
        ('<!DOCTYPE article PUBLIC "-//NLM//DTD JATS (Z39.96) v1.2//EN" "a.dtd"><article/>', "jats"),
        ('<!-- <opml> --><article dtd-version="1.1"><body/></article>', "jats"),
        ("<article><title>x</title></article>", "xml"),
        ("<a><b/><opml/></a>", "xml"),
        ("<!-- <opml> --><a>x</a>", "xml"),
        ("<opmlx/>", "xml"),
        ("", "xml"),
    ],
)
def test_only_the_root_tells_what_xml_holds(text: str, type_: str) -> None:
    assert detect("a.xml", text.encode()).format.type == type_
    assert detect("a.svg", text.encode()).format.type == type_
    assert detect("a.txt", text.encode()).format.type == "text"


def test_entries_behind_a_heading_of_an_outline_do_not_fall_below_it() -> None:
    inner = '<outline text="One"><outline text="in one"/></outline><outline text="Two"/>'
    document = opml.read(f'<opml><body><outline text="Zero"/>{inner}</body></opml>'.encode(), LIMITS)
    assert document.text == "- Zero\n\n# One\n\n- in one\n\n# Two"


@pytest.mark.parametrize("text", ["<opml><body><outline text='a'>", "<opml><head><title>t</title></head></opml>"])
def test_outlines_without_entries_are_read_as_other_xml(text: str) -> None:
    document = opml.read(text.encode(), LIMITS)
    assert (document.type, document.text) == ("xml", text)
    assert bool(document.note) == ("head" not in text)


@pytest.mark.parametrize("share", [0.5, 0.9])
@pytest.mark.parametrize("sample", ["fodt/watch.fodt", "fb2/lamps.fb2", "opml/voyage.opml"])
def test_documents_in_xml_that_are_cut_off_are_plain_text_with_a_note(sample: str, share: float) -> None:
    data = of(sample)
    document = parse(sample, data[: int(len(data) * share)], LIMITS)
    assert (document.type, document.markup) == ("xml", "lines")
    assert document.note.startswith("Not well-formed XML (")


def test_pictures_of_damaged_xml_are_no_text() -> None:
    picture = "<binary id='p'>iVBORw0KGgo</binary><o:binary-data xmlns:o='o'>AAAA</o:binary-data>"
    document = articles.read_fb2(f"<FictionBook>{picture}<p>Word".encode(), LIMITS)
    assert document.text == "<FictionBook></binary></o:binary-data><p>Word"
