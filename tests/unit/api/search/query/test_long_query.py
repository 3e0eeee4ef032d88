"""Long queries are searched in parts."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from api.search.query.long_query import LONG_CHARACTERS, MAX_PARTS, PART_CHARACTERS, split

WORDS = " ".join(map(str, range(10_000)))


def test_a_query_is_split_from_a_length_on() -> None:
    short, long = WORDS[:LONG_CHARACTERS], WORDS[: LONG_CHARACTERS + 1]
    queries, report = split([short, "other"])
    assert (queries, report.notes) == ({short: short, "other": "other"}, ())
    queries, report = split([long, "other"])
    assert [note.code for note in report.notes] == ["query_split"]
    assert "left out" not in report.notes[0].detail
    first, second, other = queries
    assert (f"{first} {second}", other) == (long, "other")
    assert list(queries.values()) == [long, long, "other"]


def test_of_the_longest_query_the_beginning_and_the_end_count() -> None:
    long = WORDS[: 2 * PART_CHARACTERS * MAX_PARTS].rstrip()
    queries, report = split([long])
    assert len(queries) == MAX_PARTS
    assert long.startswith(next(iter(queries)))
    assert long.endswith(next(reversed(queries)))
    assert "left out" in report.notes[0].detail
    texts = [f"{number} of {WORDS[:5_000]}" for number in range(8)]
    queries, _ = split(texts)
    assert [text[:4] for text in texts] == [part[:4] for part in queries if " of " in part]
    assert len(queries) <= MAX_PARTS


def test_parts_are_cut_between_lines_else_between_words() -> None:
    line = "x" * (LONG_CHARACTERS // 2)
    assert list(split([f"{line[9:]}\nlong word {line}"])[0]) == [line[9:], f"long word {line}"]
    assert list(split([f"{line} word {line}"])[0]) == [line, f"word {line}"]
    assert list(split(["x" * (LONG_CHARACTERS + 2)])[0]) == ["x" * (LONG_CHARACTERS // 2 + 1)]


@given(st.text(min_size=1, max_size=9_000))
def test_parts_hold_the_whole_text_and_are_short(text: str) -> None:
    queries, _ = split([text])
    assert set(queries.values()) == {text}
    assert all(len(part) <= LONG_CHARACTERS for part in queries)
    squeezed = ["".join(part.split()) for part in queries]
    assert "".join(text.split()).startswith(squeezed[0])
    assert "".join(text.split()).endswith(squeezed[-1])
    assert len(squeezed) <= MAX_PARTS
