"""Answers are cut at a number of tokens."""

from __future__ import annotations

import pytest

from api.agents.find import FileMatches, FileState
from api.agents.fitting import MIN_TOKENS, ResultEntry, counted, fitted, places, shortened
from api.agents.several import grouped, labels


def entry(number: int, lines: int) -> ResultEntry[FileMatches]:
    text = "\n".join(f"line {line} of number {number}" for line in range(lines))
    place = f"file-{number}:1-{lines}"
    return ResultEntry(place, place, FileMatches(file=f"file-{number}", text=text))


def test_a_text_without_characters_has_no_tokens() -> None:
    assert [counted(text) for text in ("", "a", "a\na")] == [0, 1, 3]


@pytest.mark.parametrize("most", [60, 100, 200, 400, 5000])
def test_what_fits_is_never_more_than_allowed(most: int) -> None:
    entries = [entry(number, 10) for number in range(20)]
    fit = fitted(entries, most)
    assert counted(fit.text) <= most
    assert len(fit.items) + len(fit.left_out) == len(entries)
    assert fit.is_cut == (most < 5000)
    for item, whole in zip(fit.items, entries, strict=False):
        assert whole.text is not None
        assert whole.text.startswith(item.text)


def test_the_first_entry_is_shown_in_part_however_long_it_is() -> None:
    fit = fitted([entry(0, 5000), entry(1, 1)], 300)
    assert fit.is_shortened
    assert 200 < counted(fit.text) <= 300
    assert fit.items[0].text.endswith("of number 0")
    assert [left.place for left in fit.left_out] == ["file-1:1-1"]


def test_entries_without_a_text_are_shown_whole_or_not_at_all() -> None:
    lines = [
        ResultEntry(f"a-{number}", f"a-{number}: a definition", FileState(file="a", status="indexed"))
        for number in range(100)
    ]
    fit = fitted(lines, 50)
    assert fit.text.splitlines() == [line.head for line in lines[: len(fit.items)]]
    assert not fit.is_shortened
    assert fit.left_out


def test_a_text_is_cut_at_the_end_of_a_line_if_it_has_one() -> None:
    assert shortened("one two\nthree four five six seven eight", 5) == "one two"
    assert shortened("one", 5) == "one"
    assert shortened("one two", counted("one two")) == "one two"
    long_line = "word " * 1000
    assert 0 < counted(shortened(long_line, 10)) <= 10


def test_an_answer_uses_all_that_it_may() -> None:
    entries = [entry(0, 10), entry(1, 10)]
    whole = fitted(entries, 10_000)
    most = sum(counted(f"{each.head}\n{each.text}\n") + 1 for each in entries)
    assert not whole.is_cut
    assert fitted(entries, most) == whole
    assert fitted(entries, most - 1).is_shortened


def test_a_text_of_which_little_would_fit_is_left_out_unless_it_is_the_first() -> None:
    entries = [entry(0, 10), entry(1, 50)]
    first = counted(f"{entries[0].head}\n{entries[0].text}\n") + 1 + counted(entries[1].head) + 4
    fit = fitted(entries, first + MIN_TOKENS - 1)
    assert (len(fit.items), fit.is_shortened, fit.left_out) == (1, False, entries[1:])
    fit = fitted(entries, first + MIN_TOKENS)
    assert (len(fit.items), fit.is_shortened, fit.left_out) == (2, True, [])
    assert len(fitted(entries[1:], MIN_TOKENS // 2).items) == 1


def test_folders_with_one_name_are_told_apart_by_their_tools() -> None:
    assert labels([("1", "docs"), ("2", "src"), ("3", "docs")]) == {"1": "1", "2": "src", "3": "3"}


def test_a_note_about_several_folders_is_told_once() -> None:
    notes = [("docs", "is old"), ("src", "is new"), ("tests", "is old")]
    assert grouped(notes) == ["docs, tests: is old", "src: is new"]


def test_of_many_places_some_are_named() -> None:
    entries = [entry(number, 1) for number in range(20)]
    assert places(entries[:8]).endswith("file-7:1-1")
    assert places(entries[:9]).endswith("file-7:1-1 and 1 more")
    assert places(entries[:2]) == "file-0:1-1, file-1:1-1"
    assert places(entries).endswith("file-7:1-1 and 12 more")
