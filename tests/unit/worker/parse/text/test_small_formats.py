"""Subtitles, bibliographies and articles in XML."""

from __future__ import annotations

import pytest

from worker.parse.limits import Limits
from worker.parse.text import articles, bib, subtitles

LIMITS = Limits()


def test_a_file_without_times_is_read_as_it_is() -> None:
    assert subtitles.read(b"WEBVTT\n\nonly a note", LIMITS).text == "WEBVTT\n\nonly a note"


def test_entries_of_a_bibliography_are_sections() -> None:
    text = "@comment{x,}\n@Book{one,\n title = {{Tides} and {Winds}},\n}\n@misc(two,\n year=1907)\n"
    found = list(bib.headings(text))
    assert [each.title for each in found] == ["Tides and Winds", "two"]
    assert [text[each.start : each.end] for each in found] == ["@Book{one,", "@misc(two,"]


@pytest.mark.parametrize("damaged", ["<article><p>One</article>", '<!DOCTYPE a [<!ENTITY x "y">]><a><p>&x;</p></a>'])
def test_what_cannot_be_parsed_safely_is_read_as_other_xml(damaged: str) -> None:
    document = articles.read_jats(damaged.encode(), LIMITS)
    assert (document.type, document.text) == ("xml", damaged)
    assert document.note.startswith("Not well-formed XML (") == ("ENTITY" not in damaged)


def test_articles_nested_without_end_are_an_outcome() -> None:
    deep = "<sec>" * 5000 + "<p>x</p>" + "</sec>" * 5000
    assert articles.read_jats(f"<article><p>One</p>{deep}</article>".encode(), LIMITS).text == "One"
