"""Tables of a PDF whose cells are ruled become rows, where the geometry leaves no doubt."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from schemas.content.source import ChunkSettings
from tests.parsing import parse
from tests.pdfs import bar, drawn, frame, rule, text
from worker.chunk import chunk
from worker.parse import Limits
from worker.parse.pdf import pdf
from worker.parse.pdf.rules import _Found
from worker.tokens.tokenizers import cl100k

pytestmark = pytest.mark.usefixtures("helper")

WORDS = ["boat", "Ada", "pier", "fee", "120", "7", "quay", "storm", "Bertha", "net", "Ada Bertha"]
ROWS = [["Boat", "Fee"], ["Ada", "120"], ["Bertha", "240"]]
SHOWN = "| Boat | Fee |\n| --- | --- |\n| Ada | 120 |\n| Bertha | 240 |"

Draw = Callable[[float, float, float, float], str]


def read(*operators: str) -> str:
    return parse("a.pdf", drawn([operators]), Limits()).text


def grid(xs: Sequence[float], ys: Sequence[float], draw: Draw = rule) -> list[str]:
    """Rules of all cells; rules from the left, and from the bottom."""
    return [draw(xs[0], y, xs[-1], y) for y in ys] + [draw(x, ys[-1], x, ys[0]) for x in xs]


def boxes(xs: Sequence[float], ys: Sequence[float]) -> list[str]:
    """A frame around each cell."""
    return [frame(x, lower, next_x, y) for y, lower in pairwise(ys) for x, next_x in pairwise(xs)]


def cells(xs: Sequence[float], ys: Sequence[float], rows: Sequence[Sequence[str]]) -> list[str]:
    return [
        text(x + 3, y - 12, words)
        for y, row in zip(ys, rows, strict=False)
        for x, words in zip(xs, row, strict=False)
        if words
    ]


@pytest.mark.parametrize(
    ("width", "height", "across", "down"),
    [
        # a figure is thin up to 3 points, and a line is a rule from 6 points on
        (3, 6, 0, 1),
        (3, 5.9, 0, 0),
        (6, 3, 1, 0),
        (5.9, 3, 0, 0),
        (6, 6, 2, 2),
        (6, 3.1, 2, 0),
        (3.1, 6, 0, 2),
        (5.9, 5.9, 0, 0),
    ],
)
def test_sides_of_a_frame_are_rules_if_they_are_long(width: float, height: float, across: int, down: int) -> None:
    found = _Found()
    found.add_figure([(0, 0), (width, 0), (width, height), (0, height), (0, 0)], is_stroked=True)
    assert (len(found.across), len(found.down)) == (across, down)


XS, YS = [72, 172, 272], [700, 680, 660, 640]


@given(
    st.lists(
        st.tuples(*[st.sampled_from([72, 73, 172, 272, 500])] * 2, *[st.sampled_from([640, 641, 660, 700])] * 2),
        max_size=8,
    )
)
@example([(72, 72, 640, 700)])
@example([(72, 72, 640, 700), (272, 272, 640, 700), (72, 272, 500, 500)])
@settings(max_examples=60)
def test_rules_anywhere_lose_no_word(rules: list[tuple[int, int, int, int]]) -> None:
    drawn_rules = [rule(x, y, end_x, end_y) for x, end_x, y, end_y in rules]
    data = drawn([[text(80, 665, "boat"), text(180, 645, "Ada pier"), *drawn_rules]])
    found = pdf.read(data, Limits()).text.replace("|", " ").replace("-", " ").split()
    assert sorted(found) == ["Ada", "boat", "pier"]


def test_a_ruled_table_keeps_its_columns() -> None:
    above, below = text(72, 740, "Fees of the pier"), text(72, 600, "as of May")
    assert read(above, *grid(XS, YS), *cells(XS, YS, ROWS), below) == f"Fees of the pier\n\n{SHOWN}\n\nas of May"


@pytest.mark.parametrize("draw", [rule, bar])
def test_rules_are_lines_or_thin_rectangles(draw: Draw) -> None:
    assert read(*grid(XS, YS, draw), *cells(XS, YS, ROWS)) == SHOWN


def test_frames_of_cells_are_rules_if_they_are_drawn() -> None:
    assert read(*boxes(XS, YS), *cells(XS, YS, ROWS)) == SHOWN
    filled = [operators.replace(" S", " f") for operators in ["1 1 0.8 rg", *boxes(XS, YS), "0 g"]]
    assert "|" not in read(*filled, *cells(XS, YS, ROWS))
    path = " ".join(each.removesuffix(" S") for each in boxes(XS, YS))
    assert read(f"{path} S", *cells(XS, YS, ROWS)) == SHOWN
    assert "|" not in read(f"1 1 0.8 rg {path} f 0 g", *cells(XS, YS, ROWS))


def test_a_bent_line_is_a_rule_only_where_it_is_drawn() -> None:
    bent = f"{XS[0]} {YS[0]} m {XS[0]} {YS[-1]} l {XS[-1]} {YS[-1]} l {XS[-1]} {YS[0]} l S"
    top, *inner = grid(XS, YS)[:3] + grid(XS, YS)[5:6]
    assert read(bent, top, *inner, *cells(XS, YS, ROWS)) == SHOWN
    # the words of the first row stand above the table
    assert read(bent, *inner, *cells(XS, YS, ROWS)) != SHOWN


def test_rules_may_be_figures_of_one_filled_path() -> None:
    rules = " ".join(line.removesuffix(" f") for line in grid(XS, YS, bar))
    assert read(f"{rules} f", *cells(XS, YS, ROWS)) == SHOWN


def test_rules_may_be_filled_in_a_turned_space() -> None:
    assert read("q 0.6 0.8 -0.8 0.6 0 0 cm", *grid(XS, YS, turned_bar), "Q", *cells(XS, YS, ROWS)) == SHOWN


def turned_bar(x: float, y: float, end_x: float, end_y: float) -> str:
    """A bar in a space that is turned by the angle whose cosine is 0.6 and whose sine is 0.8."""
    corners = [(x - 0.25, y - 0.25), (end_x + 0.25, y - 0.25), (end_x + 0.25, end_y + 0.25), (x - 0.25, end_y + 0.25)]
    first, *others = [f"{0.6 * x + 0.8 * y} {0.6 * y - 0.8 * x}" for x, y in corners]
    return f"{first} m {' '.join(f'{corner} l' for corner in others)} h f"


def test_rules_may_be_one_path_in_other_units() -> None:
    path = " ".join(each.removesuffix(" S") for each in grid([x * 10 for x in XS], [y * 10 for y in YS]))
    assert read(f"q .1 0 0 .1 0 0 cm {path} S Q", *cells(XS, YS, ROWS)) == SHOWN


@pytest.mark.parametrize("missing", range(7))
def test_a_table_without_one_of_its_rules_is_told_by_the_others(missing: int) -> None:
    rules = grid(XS, YS)
    del rules[missing]
    shown = read(*rules, *cells(XS, YS, ROWS))
    if missing in (1, 2):
        # two rows have become one
        whole = [" ".join(pair) for pair in zip(*ROWS[missing - 1 : missing + 1], strict=True)]
        rows = [*ROWS[: missing - 1], whole, *ROWS[missing + 1 :]]
        assert [line for line in shown.split("\n") if "---" not in line] == [f"| {' | '.join(row)} |" for row in rows]
    elif missing in (0, 3):
        # the words outside are lines
        assert shown.count("\n|") + shown.startswith("|") == 3
    else:
        assert "|" not in shown


def test_rows_without_rules_stay_lines() -> None:
    rows = [*ROWS, ["Carl", "9"]]
    inner = [text(x + 3, 668 - 12 * at, row[at_x]) for at, row in enumerate(rows[1:]) for at_x, x in enumerate(XS[:2])]
    head = cells(XS, YS, rows[:1])
    assert "|" not in read(*grid(XS, [700, 680, 600]), *head, *inner)
    # two lines in each cell may be one text
    assert "|" in read(*grid(XS, [700, 680, 600]), *head, *inner[:4])


def test_a_word_or_line_across_a_rule_makes_it_no_table() -> None:
    rows = [*ROWS[:2], ["Berthaofthenorthernquay", ""]]
    assert "|" not in read(*grid(XS, YS), *cells(XS, YS, rows))
    assert "|" not in read(*grid(XS, YS), *cells(XS, YS, ROWS), text(240, 690, "see the note at the pier"))


def test_merged_cells_have_their_text_once() -> None:
    rules = [rule(72, y, 372, y) for y in (700, 680, 640)] + [rule(172, 660, 372, 660)]
    rules += [rule(x, 640, x, 700) for x in (72, 172, 372)] + [rule(272, 640, 272, 680)]
    content = [text(75, 688, "Boat"), text(175, 688, "Fee of the year"), text(75, 655, "Ada")]
    content += [text(175, 668, "May"), text(275, 668, "120"), text(175, 648, "June"), text(275, 648, "7")]
    assert read(*rules, *content) == ("| Boat | Fee of the year |\n| --- | --- |\n| Ada | May | 120 |\n|  | June | 7 |")


def test_cells_that_are_open_or_no_rectangles_make_it_no_table() -> None:
    assert "|" not in read(rule(72, 700, 172, 700), *grid(XS, YS)[1:], *cells(XS, YS, ROWS))
    # a cell with two corners on one side
    rules = [rule(72, y, 272, y) for y in (700, 660, 640)] + [rule(172, 680, 272, 680)]
    rules += [rule(x, 640, x, 700) for x in (72, 272)] + [rule(172, 640, 172, 680)]
    assert "|" in read(*rules, *cells(XS, YS, ROWS))
    rules[3:] = [rule(72, 680, 172, 680), rule(72, 640, 72, 700), rule(272, 640, 272, 700)]
    rules += [rule(172, 640, 172, 660), rule(172, 680, 172, 700)]
    assert "|" not in read(*rules, *cells(XS, YS, ROWS))


def test_text_in_frames_is_no_table() -> None:
    lines = [text(75, 690 - 12 * at, "The boats moor at the quay", 6) for at in range(5)]
    assert "|" not in read(frame(72, 600, 272, 700), *lines)
    assert "|" not in read(*grid([72, 172, 272], [700, 600]), *cells(XS, YS, ROWS[:1]))
    assert "|" not in read(*grid(XS, YS), *cells(XS, YS, [["Boat", ""], ["Ada", ""]]))


@pytest.mark.parametrize(("signs", "is_table"), [(1000, True), (1001, False)])
def test_a_page_of_text_in_columns_is_no_table(signs: int, *, is_table: bool) -> None:
    xs, ys = [10, 500, 590], [700, 680, 20]
    lines = ["boats and " * 10] * 9 + ["b" * (signs - 9 * 100)]
    content = [text(13, 668 - 12 * at, line, 6) for at, line in enumerate(lines)]
    shown = read(*grid(xs, ys), *content, *cells(xs, ys, [["Text", "Fee"], ["", "12"]]))
    assert ("|" in shown) is is_table


def test_a_turned_page_has_no_tables() -> None:
    data = drawn([[*grid(XS, YS), *cells(XS, YS, ROWS)]])
    assert "|" in parse("a.pdf", data, Limits()).text
    assert "|" not in parse("a.pdf", data.replace(b"/Type/Page/", b"/Type/Page/Rotate 90/"), Limits()).text


def test_a_long_table_repeats_its_header() -> None:
    ys = [780 - 14 * at for at in range(52)]
    rows = [["Boat", "Fee"], *([f"Ada the {at}th", str(at)] for at in range(50))]
    document = parse("a.pdf", drawn([[*grid(XS, ys), *cells(XS, ys, rows)]]), Limits())
    chunks = chunk(document, ChunkSettings(unit="tokens", size=100, overlap=0), cl100k(), 8192)
    assert len(chunks) > 2
    assert all("Boat, Fee" in each.context or "Boat | Fee" in each.text for each in chunks)


@pytest.mark.parametrize("seed", range(8))
def test_random_tables_are_read_as_they_were_drawn(seed: int) -> None:
    chance = random.Random(seed)
    height, width = chance.randrange(2, 12), chance.randrange(2, 6)
    xs = [40.0]
    for _ in range(width):
        xs.append(xs[-1] + chance.uniform(60, 100))
    ys = [780.0]
    for _ in range(height):
        ys.append(ys[-1] - chance.uniform(16, 40))
    rows = [[chance.choice(WORDS) for _ in range(width)] for _ in range(height)]
    rules = chance.choice([grid(xs, ys), grid(xs, ys, bar), boxes(xs, ys)])
    content = cells(xs, ys, rows)
    chance.shuffle(content)
    lines = [f"| {' | '.join(row)} |" for row in rows]
    assert read(*rules, *content) == "\n".join([lines[0], "|" + " --- |" * width, *lines[1:]])


def many_tables(number: int) -> bytes:
    """A page of small tables."""
    operators = []
    for at in range(number):
        x, y = 10 + 38 * (at % 15), 790 - 38 * (at // 15)
        xs, ys = [x, x + 16, x + 32], [y, y - 16, y - 32]
        operators += [*grid(xs, ys), *cells(xs, ys, [["a", "b"], ["c", "d"]])]
    return drawn([operators])


def seconds(data: bytes) -> float:
    """The least processor time in which a file is read."""
    times = []
    for _ in range(3):
        start = time.process_time()
        pdf.read(data, Limits())
        times.append(time.process_time() - start)
    return min(times)


def test_four_times_the_tables_take_no_sixteen_times() -> None:
    assert pdf.read(many_tables(300), Limits()).text.count("---") == 600
    assert seconds(many_tables(300)) < 8 * seconds(many_tables(75))


def test_text_within_many_tables_is_not_located_in_each() -> None:
    words = [text(2300, 2300 + at, "the boats moor at the quay", 1) for at in range(500)]
    frames = [(10 + 10 * at, 5000 - 10 * at) for at in range(200)]
    rules = [each for x, end in frames for each in grid([x, x + 5, end], [end, x + 5, x])]
    assert "|" not in pdf.read(drawn([words + rules]), Limits()).text
    assert seconds(drawn([words + rules])) < 50 * seconds(drawn([words]))
