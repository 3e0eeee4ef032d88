"""Both sides of the borders at which a cutter decides otherwise. Each character is a token: lengths are exact."""

from __future__ import annotations

import json
import random
from typing import Any

import numpy as np
import pytest

from schemas.content.document import SEPARATOR_TOKENS, Chunk, Document
from schemas.content.source import ChunkSettings
from tests.parsing import parse
from tests.unit.worker.chunk.chunking import Characters
from tests.unit.worker.chunk.chunking import cut as cut_named
from worker.chunk import chunk, lines, markdown
from worker.chunk.context import contexts
from worker.chunk.measure import Measure, measure
from worker.parse import Limits
from worker.tokens.byte_tables import Offsets


def cut(document: Document, size: int = 64) -> list[Chunk]:
    return chunk(document, ChunkSettings(size=size, overlap=0), Characters(), 8192)


def pointers(text: str, size: int = 64, pointer: str = "") -> list[str | None]:
    settings = ChunkSettings(size=size, overlap=0)
    return [
        c.json_pointer for c in cut_named(text, "a.json", settings=settings, pointer=pointer, tokenizer=Characters())
    ]


def compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


# --- lines


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("overlap", [48, 60])
def test_no_chunk_begins_where_another_does_however_much_they_overlap(seed: int, overlap: int) -> None:
    numbers = random.Random(seed)
    text = "\n".join("x" * numbers.randint(1, 30) + "\n" * (numbers.random() < 0.3) for _ in range(40))
    chunks = cut_named(text, settings=ChunkSettings(size=64, overlap=overlap), tokenizer=Characters())
    starts = [c.start_char for c in chunks]
    assert len(starts) > 10
    assert starts == sorted(set(starts))


def test_a_text_is_rather_cut_where_an_indented_part_ends() -> None:
    # the shorter lines before and after it rank lower
    part = "above\n  indented\nbelow\nbetween\n"
    chunks = cut_named(part * 40, settings=ChunkSettings(size=64, overlap=0), tokenizer=Characters())
    assert len(chunks) > 10
    assert {c.text.splitlines()[0] for c in chunks[1:]} == {"below"}


@pytest.mark.parametrize("block", [1, 2, 7, 64])
@pytest.mark.parametrize(
    "text",
    [
        "".join(f"{'  ' * (n % 3)}call({n * 31 % 97})\n{'}' * (n % 5 == 0)}\n" for n in range(90)),
        # equal lines, told apart by those below them
        "".join(f"{'same' if n * 7919 % 13 < 9 else n}\n" for n in range(150)),
        " ".join(f"word{n * 31 % 97}" for n in range(150)),
        "😀" * 90 + "a. b; c" * 40,
    ],
)
def test_the_blocks_in_which_a_long_text_is_read_make_no_difference(
    monkeypatch: pytest.MonkeyPatch, text: str, block: int
) -> None:
    settings = ChunkSettings(size=32, overlap=8)
    whole = cut_named(text, settings=settings)
    assert len(whole) > 5
    monkeypatch.setattr(lines, "_BLOCK", block)
    assert cut_named(text, settings=settings) == whole


class SharedStart(Characters):
    """Two tokens begin at the same character, as those of one emoji do."""

    def starts(self, text: str) -> Offsets:
        return np.array([0, 5, 6, 6])


@pytest.mark.parametrize("block", [1, 2, 3, 4])
def test_tokens_of_one_character_that_fall_into_two_blocks_are_one_place(
    monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    monkeypatch.setattr(lines, "_BLOCK", block)
    document = parse("a.txt", b"adae .hfd..ae hah gca f dbgg ageffeaee g", Limits())
    chunks = chunk(document, ChunkSettings(size=32, overlap=8, unit="characters"), SharedStart(), 8192)
    assert [(c.start_char, c.end_char) for c in chunks] == [(0, 6), (5, 23), (24, 40)]


def test_neighbouring_blocks_are_parted_where_one_ends_and_the_next_begins() -> None:
    text = "".join(f"line {number:03}\n" for number in range(18))
    assert len(text) == 162
    limits = measured(text, size=64)
    assert lines.cut(limits, 0, 162, [(0, 54), (54, 108), (108, 162)]) == [(0, 54), (54, 108), (108, 162)]


@pytest.mark.parametrize(
    "part",
    [
        # what closes a part belongs to it, also below an empty line
        "{head} (\n  some words\n\n)\n\n",
        # a line further in begins no paragraph
        "{head}:\n  some words\n\n  more words\n\n",
        # less indented than the line above
        "{head}:\n  some words\n  more words\n",
    ],
)
def test_parts_begin_with_their_first_lines(part: str) -> None:
    text = "".join(part.format(head=f"Part {number * 7919 % 997}") for number in range(60))
    found = cut(Document(text, "text"), size=120)
    assert len(found) > 15
    assert all(c.text.startswith("Part") for c in found)


# --- contexts


def measured(text: str, size: int = 64, context: int = 0, tokenizer: Characters | None = None) -> Measure:
    tokenizer = tokenizer or Characters()
    settings = ChunkSettings(size=size, overlap=0)
    return measure(text, settings, tokenizer, 8192, context_tokens=context)


@pytest.mark.parametrize(
    ("path", "kept"),
    [
        (("outer", "inner"), "outer > inner"),
        (("outer part", "inner"), "outer part > inner"),
        (("outer part of it", "inner"), "inner"),
        (("outermost", "outer", "inner"), "outer > inner"),
        (("a", "b" * 20), "b" * 20),
        # three quarters as often as needed
        (("a", "b" * 21), "b" * 15),
        (("b" * 40,), "b" * 16),
    ],
)
def test_a_context_loses_its_outer_parts_first_and_then_the_end_of_the_last(path: tuple[str, ...], kept: str) -> None:
    ((context, tokens),) = contexts(measured("", context=20), [path])
    assert context == kept
    assert len(context) + SEPARATOR_TOKENS <= tokens <= 20 + SEPARATOR_TOKENS


def test_a_context_that_counts_shorter_beside_others_is_cut_all_the_same() -> None:
    # three characters are a token: of 25 characters on their own the last one begins a ninth token
    limits = measured("text", context=8, tokenizer=Characters(3))
    (_, (context, tokens)) = contexts(limits, [("abc",), ("d" * 25,)])
    assert 0 < limits.alone(context) <= 8
    assert tokens <= 8 + SEPARATOR_TOKENS


@pytest.mark.parametrize(("outer", "is_kept"), [(8, True), (9, False)])
def test_long_parts_of_a_context_are_dropped_unread(outer: int, is_kept: bool) -> None:
    # eight characters for each of 20 tokens
    limits = measured("", context=20, tokenizer=Characters(16))
    ((context, _),) = contexts(limits, [("a" * outer, "b" * 152)])
    assert context.startswith("a") == is_kept


# --- JSON


@pytest.mark.parametrize(("length", "expected"), [(15, [""]), (16, ["/a", "/c"])])
def test_a_container_of_some_tokens_stands_alone(length: int, expected: list[str]) -> None:
    member = f'"a":{{"b":"{"x" * (length - 12)}"}}'
    assert len(member) == length
    assert pointers(f'{{{member},"c":1}}') == expected


LEAF = {"leaf": "some words here"}


@pytest.mark.parametrize(
    ("value", "pointer", "expected"),
    [
        ({"a": LEAF}, "", ["/a"]),
        ({"a": {"b": LEAF}}, "", ["/a/b"]),
        ({"a": {"b": {"c": LEAF}}}, "", ["/a/b"]),
        # items of arrays stay whole
        ([{"a": LEAF}], "", ["/0"]),
        # depth counts from the value that is asked for
        ({"a": {"b": {"c": {"d": LEAF}}}}, "/a/b", ["/a/b/c/d"]),
        ([{"a": {"b": LEAF}}], "/0", ["/0/a/b"]),
    ],
)
def test_containers_are_divided_down_to_some_depth(value: Any, pointer: str, expected: list[str]) -> None:
    assert pointers(compact(value), size=512, pointer=pointer) == expected


def test_an_item_of_an_array_that_just_fits_is_not_divided() -> None:
    item = {"a": {"leaf": "x" * 45}}
    # counts near the limit are made again
    assert len(compact(item)) == 62
    assert pointers(compact([item]), size=64) == ["/0"]


def test_a_container_at_the_depth_that_is_not_divided_just_fits() -> None:
    member = '"q":' + compact({"a": {"leaf": "x" * 41}})
    assert len(member) == 62
    assert pointers(f'{{"p":{{{member}}}}}', size=64) == ["/p/q"]


@pytest.mark.parametrize(("length", "is_divided"), [(8192, True), (8193, False)])
def test_a_container_with_a_very_long_pointer_is_cut_as_text(length: int, is_divided: bool) -> None:
    key = "k" * (length - 1)
    found = pointers(compact({key: [{"words": "some words"}] * 9}))
    assert (f"/{key}/1" in found) == is_divided


BY_HAND = f"""// above all
{{
  // above a
  "a": {{ /* within a */ "words": "{"some words " * 2}"}}/* right after a */,
  // above b
  "b": {{"words": "{"more words " * 2}"}}
}}
// below all
"""


def test_comments_go_with_the_value_below_them() -> None:
    found = cut_named(BY_HAND, "a.json", settings=ChunkSettings(size=128, overlap=0), tokenizer=Characters())
    assert [(c.json_pointer, c.text.split()[1], c.text[-5:]) for c in found] == [
        ("/a", "above", 'ds "}'),
        ("/b", "right", 'ds "}'),
        ("/b", "below", "w all"),
    ]


def test_comments_go_with_their_value_between_large_and_small_ones() -> None:
    large = f'{{"words": "{"some words " * 4}"}}'
    members = [
        f"// above {key}\n{json.dumps(key)}: {value}" for key, value in zip("abcd", [large, 1, large, 2], strict=True)
    ]
    settings = ChunkSettings(size=128, overlap=0)
    found = cut_named(f"{{{','.join(members)}}}", "a.json", settings=settings, tokenizer=Characters())
    assert [(c.json_pointer, c.text.split()[2]) for c in found] == [(f"/{key}", key) for key in "abcd"]


@pytest.mark.parametrize("name", ["a", "b"])
def test_comments_around_a_value_that_is_asked_for_are_left_out(name: str) -> None:
    settings = ChunkSettings(size=128, overlap=0)
    (found,) = cut_named(BY_HAND, "a.json", settings=settings, pointer=f"/{name}", tokenizer=Characters())
    assert found.text.startswith(f'"{name}": {{')
    assert found.text.endswith('"}')


def test_comments_that_do_not_fit_with_their_value_are_cut_by_themselves() -> None:
    above = "".join(f"// comment number {number}\n" for number in range(4))
    found = cut_named(
        f'{above}{{"a": {{"words": "some words"}}}}', "a.json", settings=ChunkSettings(size=64), tokenizer=Characters()
    )
    assert {c.json_pointer for c in found} == {"/a"}
    assert found[-1].text == '"a": {"words": "some words"}'
    assert sum("comment number" in c.text for c in found) == len(found) - 1 > 1


# --- Markdown and tables


@pytest.mark.parametrize(("sections", "is_cut_at_them"), [(3, True), (4, False)])
def test_a_document_of_too_many_sections_has_none(
    monkeypatch: pytest.MonkeyPatch, sections: int, is_cut_at_them: bool
) -> None:
    monkeypatch.setattr(markdown, "_MAX_SECTIONS", 3)
    text = "".join(f"# Part {number}\n\nSome words.\n\n" for number in range(sections))
    found = cut(Document(text, "markdown", title="T", markup="markdown"))
    titles = [f"Part {number}" for number in range(sections)]
    assert [c.title for c in found] == (titles if is_cut_at_them else ["T"] * len(found))


def test_parts_of_neighbouring_long_sections_have_their_own_titles() -> None:
    text = "".join(f"# Part {number}\n\n{f'Words of {number}. ' * 9}\n\n" for number in range(3))
    found = cut(Document(text, "markdown", markup="markdown"))
    assert len(found) > 6
    assert [c.title for c in found] == [f"Part {text[: c.start_char + 2].count('# ') - 1}" for c in found]


def test_a_text_without_headings_has_the_title_of_its_document() -> None:
    titles = [
        [c.title for c in cut(Document(text, "markdown", title="T", markup="markdown"))]
        for text in ("Some words.", "Some words.\n\n# Part\n\nMore words.")
    ]
    # the document's title is that of its first heading
    assert titles == [["T"], [None, "Part"]]


def test_a_part_that_begins_with_a_table_needs_no_columns_of_it() -> None:
    rows = "".join(f"| {number} | boat |\n" for number in range(9))
    table = f"| Day | Boat |\n| --- | --- |\n{rows}"
    text = f"# Log\n\n{'Some words. ' * 9}\n\n{table}\n{'More words. ' * 9}\n"
    found = cut(Document(text, "markdown", markup="markdown"))
    parts = {c.text.split("\n")[0]: c.context for c in found}
    assert parts["| Day | Boat |"] == "Log"
    assert {context for line, context in parts.items() if line.startswith("| ") and "D" not in line} == {
        "Log > Day, Boat"
    }
    assert {context for line, context in parts.items() if line.startswith(("Some", "More"))} <= {"", "Log"}


def test_only_later_parts_of_a_table_have_its_header_as_context() -> None:
    rows = "".join(f"{number},boat {number}\n" for number in range(30))
    first, *others = cut(Document(f"day,boat\n{rows}", "csv", markup="table", header="day,boat"))
    assert (first.text.split("\n")[0], first.context) == ("day,boat", "")
    assert {c.context for c in others} == {"day,boat"}
