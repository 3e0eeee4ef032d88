"""Lines are found as they are read, at their place in the file, and ripgrep misses no file that has one."""

from __future__ import annotations

import re
import subprocess
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from api.search.grep import read_forms, ripgrep
from api.search.grep.lines import matching_lines
from api.search.grep.pattern import compiled_pattern
from api.search.grep.read_forms import MAX_LINE_EDITS, lines_as_read, ripgrep_pattern
from schemas.queries.grep import Grep
from tests.unit.worker.reading.test_read_forms import READ
from worker.reading import applied, full, way_of

#: Texts that are read otherwise than they are written, each with the longest word that only its reading has.
CHANGED = [
    (type_, written, max(new, key=len))
    for type_, written, read in READ
    if (new := [word for word in re.findall(r"[^\W_]{2,}", read) if word not in written])
]


def found(text: str, type_: str, **request: object) -> list[tuple[int, int]]:
    pattern = compiled_pattern(Grep.model_validate(request))
    lines = list(lines_as_read(text.encode(), type_, pattern, lambda: None))
    rows = text.split("\n")
    for line in lines:
        assert text.encode()[line.start : line.end].decode() == rows[line.number - 1].removesuffix("\r")
    return [
        (line.number, len(text.encode()[line.start : line.start + line.match_start].decode()) + 1) for line in lines
    ]


@pytest.mark.parametrize(("type_", "written", "word"), CHANGED)
@pytest.mark.parametrize("regex", [False, True])
def test_a_line_is_found_as_it_is_read(type_: str, written: str, word: str, regex: bool) -> None:
    assert len(CHANGED) > 20
    ((line, column),) = found(f"Überall\r\n{written}\nend", type_, pattern=word, regex=regex)
    # the match begins at a place that is written otherwise, or at the same letter
    assert line == 2
    assert written[column - 1 :][:1] in {word[0], *'\\&{"<(%=x#`T^'} or written[column - 1].isdigit()


@pytest.mark.parametrize("size", [1, 2, 7])
def test_batches_of_any_size_show_the_same(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    text = "\n".join(f"plain {written}\n\n{written} and more" for type_, written, _ in CHANGED if type_ == "json")
    for request in ({"pattern": "[a-z]{3}", "regex": True}, {"pattern": "(?s)n.m", "regex": True, "multiline": True}):
        expected = found(text, "json", **request)
        assert expected
        with monkeypatch.context() as patched:
            patched.setattr(read_forms, "BATCH_EDITS", size)
            assert found(text, "json", **request) == expected


@pytest.mark.parametrize("escapes", [MAX_LINE_EDITS - 1, MAX_LINE_EDITS, MAX_LINE_EDITS + 1])
def test_a_line_is_read_up_to_a_number_of_escapes(escapes: int) -> None:
    text = r"\n" * (escapes - 1) + r"f\u00fcr" + "\n" + r"f\u00fcr"
    lines = [line for line, _ in found(text, "json", pattern="für")]
    assert lines == ([1, 2] if escapes <= MAX_LINE_EDITS else [2])


@pytest.mark.parametrize("end", ["", "\n"])
def test_a_text_of_escapes_is_searched_in_bounded_memory(monkeypatch: pytest.MonkeyPatch, end: str) -> None:
    monkeypatch.setattr(read_forms, "BATCH_EDITS", 500)
    monkeypatch.setattr(read_forms, "MAX_LINE_EDITS", 500)
    text = (r"\t" + end) * 10_000
    tracemalloc.start()
    try:
        assert found(text, "json", pattern="missing") == []
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # all edits of the text took 1.5 MB, and with its lines 15 MB
    assert peak < 1_200_000


@pytest.mark.parametrize(("type_", "written", "word"), CHANGED)
@pytest.mark.parametrize("literal", [False, True])
def test_ripgrep_finds_each_such_file(tmp_path: Path, type_: str, written: str, word: str, literal: bool) -> None:
    program, way = ripgrep.program(), way_of(type_)
    assert program is not None
    assert way is not None
    (tmp_path / "file").write_text(f"above\n{written}\n")
    arguments = ripgrep_pattern(word if literal else None, way)
    for text, expected in ((f"above\n{written}\n", 0), (f"above\n{'Nothing of it.'}\n", 1)):
        (tmp_path / "file").write_text(text)
        ended = subprocess.run([program, "-q", *arguments, str(tmp_path / "file")], check=False)
        assert ended.returncode == expected


@pytest.mark.parametrize("length", [1, read_forms._MAX_LITERAL, read_forms._MAX_LITERAL + 1, 200])
@pytest.mark.parametrize("type_", ["code", "json", "markdown", "tex", "text"])
def test_ripgrep_takes_a_literal_of_any_length_in_all_its_spellings(type_: str, length: int, tmp_path: Path) -> None:
    way, program = way_of(type_), ripgrep.program()
    assert way is not None
    assert program is not None
    (tmp_path / "file").write_text("Nothing of it.\n")
    (tmp_path / "other").write_text("z\u200b" * length + "\n")
    pattern = ripgrep_pattern("z" * length, way)
    ended = subprocess.run(
        [program, *ripgrep._OPTIONS, *pattern, "file", "other"], cwd=tmp_path, capture_output=True, check=False
    )
    assert (ended.returncode, ended.stdout) == (0, b"other\0")


def test_both_forms_are_found_in_order_and_once() -> None:
    text = '{"a": "Schröder",\n "b": "Schr\\u00f6der",\n\n "c": "Schröder und Schr\\u00f6der", "d": "Schr\\u00f6der"}'
    assert found(text, "json", pattern="schröder") == [(1, 8), (2, 8), (4, 8)]
    assert found(text, "json", pattern="Schr\\u00f6der") == [(2, 8), (4, 21)]
    assert found(text, "text", pattern="schröder", word=True) == [(1, 8), (2, 8), (4, 8)]
    assert found(text, "pdf", pattern="schröder") == [(1, 8), (4, 8)]


def test_a_match_over_lines_does_not_join_lines_that_are_apart() -> None:
    text = 'a: "\\u00e4"\nplain\nb: "\\u00f6"\n'
    assert found(text, "yaml", pattern='ä"\\s*b', regex=True, multiline=True) == []
    assert found(text, "yaml", pattern='b: "ö', multiline=True) == [(3, 1)]


def test_what_nobody_sees_does_not_hide_a_line() -> None:
    assert found("ein Dampf\u00adlok\u200bschuppen", "text", pattern="dampflokschuppen") == [(1, 5)]
    assert found("ein Dampf\u00adlok", "pdf", pattern="dampflok") == [(1, 5)]


#: Lines in other forms of their characters, with a word of each. The first is folded in a calendar.
OTHER_FORMS = [
    (f"DESCRIPTION:{'Ein langer Satz. ' * 3}Zeich\r\n en und mehr", "Zeichen"),
    (f"DESCRIPTION:{'Ein langer Satz. ' * 3}Zeich\n\ten und mehr", "Zeichen"),
    ("eine \ufb01ne O\ufb03ce", "fine office"),
    ("\uff21\uff22\uff23\uff11\uff12", "abc12"),
    ("\uff76\uff9e\uff97\uff7d", "ガラス"),
    ("Go\u0308del und cafe\u0301", "Gödel und café"),
    ("5 m\u00b2 H\u2082O", "m2 h2o"),
]


@pytest.mark.parametrize(("text", "word"), OTHER_FORMS)
def test_other_forms_of_characters_do_not_hide_a_line(tmp_path: Path, text: str, word: str) -> None:
    ((line, _),) = found(f"above\n{text}\nend", "text", pattern=word)
    assert line == 2
    program, way = ripgrep.program(), way_of("text")
    assert program is not None
    assert way is not None
    (tmp_path / "file").write_text(f"above\n{text}\n")
    for literal in (word, None):
        arguments = ripgrep_pattern(literal, way)
        assert subprocess.run([program, "-q", *arguments, str(tmp_path / "file")], check=False).returncode == 0


def test_only_what_is_folded_is_joined() -> None:
    line = "Ein langer Satz. " * 4
    assert found(f"{line}Zeich\n\ten\n", "text", pattern="Zeichen") == [(1, len(line) + 1)]
    for text in (f"{line}{'x' * 9}Zeich\n\ten\n", "Zeich\n en\n", f"{line}Zeich\n  en\n"):
        assert found(text, "text", pattern="Zeichen") == []


PIECES = [
    "Schr\\u00f6der",
    "\\n",
    "\\\\",
    "ö",
    "a",
    " ",
    "\n",
    "\r\n",
    "&uuml;",
    "\u00ad",
    '"',
    "\\u5927",
    "\\x41",
    "{\\'e}",
    "o\u0308",
    "\uff41",
    "\ufb01",
]


@given(st.lists(st.sampled_from(PIECES)), st.sampled_from(["json", "code", "text", "tex", "markdown"]))
@example(["\n", "Schr\\u00f6der", "\n", "Schr\\u00f6der"], "json")
def test_every_line_that_matches_in_either_form_is_found(pieces: list[str], type_: str) -> None:
    text = "".join(pieces)
    for word in ("ö", "schröder", "a"):
        pattern = compiled_pattern(Grep(pattern=word))
        written = {line.number for line in matching_lines(text.encode(), pattern, lambda: None)}
        read = {
            number
            for number, line in enumerate(text.split("\n"), 1)
            if word in applied(line, full(type_, line)).lower()
        }
        assert {line for line, _ in found(text, type_, pattern=word)} == written | read
