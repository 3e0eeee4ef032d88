"""Properties of chunks of every markup: limits, coverage, overlap, and cuts that re-synchronise after an edit."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from importlib.util import find_spec
from typing import get_args

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from schemas.content.document import Chunk, Document
from schemas.content.source import ChunkSettings, Granularity
from schemas.errors import FileError
from tests.parsing import parse
from tests.unit.worker.chunk.chunking import check, check_limits, new, uncovered
from worker.chunk import chunk
from worker.embed.local.minilm import model_directory
from worker.embed.local.wordpieces import WordPieces
from worker.parse import Limits
from worker.reading import embedded
from worker.tokens.tokenizers import Tokenizer, cl100k

SENTENCE = "fox jumps over the lazy dog while folders chunk vectors and search finds naïve words 字 in 2026"
WORDS = SENTENCE.split()


def prose(rng: random.Random, most: int = 14) -> str:
    return " ".join(rng.choices(WORDS, k=rng.randint(3, most)))


def markdown(rng: random.Random, lines: int) -> list[str]:
    made: list[str] = []
    while len(made) < lines:
        match rng.randrange(12):
            case 0:
                made += [f"{'#' * rng.randint(1, 4)} {prose(rng, 5)}", ""]
            case 1:
                made += ["```python", *(f"call({rng.random():.4f})" for _ in range(rng.randint(2, 30))), "```", ""]
            case 2:
                made += ["| a | b |", "| --- | --- |", *(f"| {prose(rng, 4)} | {i} |" for i in range(20)), ""]
            case 3:
                made.append("")
            case _:
                made.append(prose(rng) + ".")
    return made


def org(rng: random.Random, lines: int) -> list[str]:
    made: list[str] = []
    while len(made) < lines:
        made += [f"{'*' * rng.randint(1, 4)} {prose(rng, 5)}", ""] if rng.random() < 0.1 else [prose(rng) + "."]
    return made


def plain(rng: random.Random, lines: int) -> list[str]:
    return [prose(rng) if rng.random() < 0.9 else "" for _ in range(lines)]


def table(rng: random.Random, lines: int) -> list[str]:
    rows = [f'{i},"{prose(rng)}",{rng.random():.3f}' for i in range(lines)]
    return ["id,words,number", *(row if rng.random() < 0.9 else f'1,"{prose(rng)}\n{prose(rng)}",2' for row in rows)]


def yaml(rng: random.Random, lines: int) -> list[str]:
    made: list[str] = []
    while len(made) < lines:
        made.append(f"{rng.choice(WORDS)}{rng.randrange(10**6)}:")
        made += [f"  {rng.choice(WORDS)}: {prose(rng, 6)}" for _ in range(rng.randint(1, 40))]
    return made


def json_(rng: random.Random, lines: int) -> list[str]:
    rows = [{"id": i, "words": prose(rng), "more": {"a": [1, 2, i], "b": prose(rng, 5)}} for i in range(lines // 8)]
    return json.dumps(rows, indent=1, ensure_ascii=False).split("\n")


def json_lines(rng: random.Random, lines: int) -> list[str]:
    return [json.dumps({"id": i, "words": prose(rng)}) for i in range(lines)]


def code(rng: random.Random, lines: int) -> list[str]:
    made: list[str] = ["import os", ""]
    while len(made) < lines:
        if rng.random() < 0.2:
            made += [f"class Kind{rng.randrange(10**6)}(Base):", f'    """{prose(rng)}."""', ""]
        indent = "    " * rng.randint(0, 1)
        made.append(f"{indent}def work{rng.randrange(10**6)}(self, a: int) -> int:")
        made += [
            f"{indent}    {rng.choice('xyz')} = call({rng.randrange(10**6)}, '{prose(rng, 6)}')"
            for _ in range(rng.randint(1, 25))
        ]
        made.append("")
    return made


MADE: dict[str, tuple[str, Callable[[random.Random, int], list[str]]]] = {
    "markdown": ("a.md", markdown),
    "headings": ("a.org", org),
    "lines": ("a.txt", plain),
    "table": ("a.csv", table),
    "keys": ("a.yaml", yaml),
    "json": ("a.json", json_),
    "json lines": ("a.jsonl", json_lines),
    "code": ("a.py", code),
}
SMALL = ChunkSettings(size=64, overlap=8)
PACKED = ChunkSettings(size=64, overlap=8, granularity="packed")


@pytest.fixture(scope="module")
def pieces() -> Tokenizer:
    if find_spec("tokenizers") is None:
        pytest.skip("install tokenizers (make clean test) to run")
    return WordPieces(model_directory(None))


def document(name: str, text: str) -> Document:
    return parse(name, text.encode(), Limits())


def cut(doc: Document, wanted: ChunkSettings, tokenizer: Tokenizer, max_tokens: int = 8192) -> list[Chunk]:
    chunks = chunk(doc, wanted, tokenizer, max_tokens)
    check(doc, chunks)
    check_limits(chunks, wanted, tokenizer, max_tokens)
    if doc.markup != "json":
        assert uncovered(doc.text, chunks) == ""
    return chunks


def doubled(doc: Document, chunks: list[Chunk], tokenizer: Tokenizer) -> int:
    """Tokens, as they are read, of the longest stretch that a chunk shares with the previous one."""
    most, end, text = 0, 0, ""
    for c in chunks:
        if c.start_char < end:
            text = embedded(doc.type, c.text[: end - c.start_char])
            most = max(most, len(tokenizer.starts(text)))
        end = max(end, c.end_char)
    return most


@pytest.mark.parametrize("kind", MADE)
@pytest.mark.parametrize(
    "wanted", [ChunkSettings(), SMALL, PACKED, ChunkSettings(unit="characters", size=300, overlap=40)]
)
def test_limits_hold_and_nothing_is_doubled_by_cl100k(kind: str, wanted: ChunkSettings) -> None:
    name, make = MADE[kind]
    doc = document(name, "\n".join(make(random.Random(1), 1500)))
    chunks = cut(doc, wanted, cl100k())
    assert len(chunks) > 10
    if wanted.unit == "tokens":
        # a stretch tokenised alone may count slightly more than inside the whole text
        assert doubled(doc, chunks, cl100k()) <= wanted.overlap + 2


@pytest.mark.parametrize("kind", MADE)
def test_limits_hold_by_word_pieces(kind: str, pieces: Tokenizer) -> None:
    name, make = MADE[kind]
    doc = document(name, "\n".join(make(random.Random(2), 1000)))
    chunks = cut(doc, ChunkSettings(), pieces, 254)
    assert doubled(doc, chunks, pieces) <= ChunkSettings().overlap + 2


def edited(lines: list[str], kind: str, rng: random.Random) -> list[str]:
    """Insert, delete or replace one line anywhere. JSON stays valid JSON."""
    at = rng.randrange(1, len(lines) - 1)
    if kind == "json":
        at = next(i for i in range(at, -1, -1) if '"words"' in lines[i])
        changed = [lines[at], f'  "new": "{prose(rng)}",'] if rng.random() < 0.5 else ['  "words": "other",']
    else:
        changed = [[], [prose(rng), lines[at]], [lines[at] + " " + prose(rng)]][rng.randrange(3)]
    return [*lines[:at], *changed, *lines[at + 1 :]]


@pytest.mark.parametrize("kind", MADE)
@pytest.mark.parametrize("wanted", [SMALL, PACKED], ids=["definition", "packed"])
def test_an_edit_changes_few_chunks(kind: str, wanted: ChunkSettings) -> None:
    name, make = MADE[kind]
    lines = make(random.Random(3), 3000)
    before = chunk(document(name, "\n".join(lines)), wanted, cl100k(), 8192)
    assert len(before) >= 200
    for seed in range(4):
        after = chunk(document(name, "\n".join(edited(lines, kind, random.Random(seed)))), wanted, cl100k(), 8192)
        # a change in a class's header is paid for with everything below it
        assert new(before, after) <= (30 if kind == "code" else 12), seed


def functions(opening: str, line: str, closing: str, rng: random.Random) -> str:
    made = []
    for i in range(120):
        body = ["    " + line % (rng.randrange(10**6), rng.randrange(10**6)) for _ in range(6)]
        made.append("\n".join([opening % i, *body, closing]).rstrip())
    return "\n\n".join(made) + "\n"


BROKEN = {
    "a.py": ("def work%d(self, a):", "x%d = call(%d)", ""),
    "a.js": ("function work%d(a) {", "x%d = call(%d);", "}"),
    "a.ts": ("function work%d(a: number) {", "x%d = call(%d);", "}"),
    "a.sh": ("work%d() {", "x%d=$(call %d)", "}"),
    "a.rb": ("def work%d(a)", "x%d = call(%d)", "end"),
    "a.c": ("int work%d(int a) {", "x%d = call(%d);", "}"),
}


@pytest.mark.parametrize("name", BROKEN)
@pytest.mark.parametrize("stray", ['"', "'", "{", "}", "(", '"""', "`"])
def test_a_stray_sign_breaks_the_definition_it_is_in(name: str, stray: str) -> None:
    rng = random.Random(4)
    text = functions(*BROKEN[name], rng)
    before = chunk(document(name, text), SMALL, cl100k(), 8192)
    assert len(before) >= 100
    for _ in range(3):
        at = rng.randrange(len(text) // 2)
        after = chunk(document(name, text[:at] + stray + text[at:]), SMALL, cl100k(), 8192)
        assert new(before, after) <= 8


DENSE = {
    "a.php": ("<?php\nnamespace N {\nclass A {", "  function work%d($a) {", "  $x%d = call(%d);", "  }", "}\n}"),
    "a.js": ("class A {", "  work%d(a) {", "  let x%d = call(%d);", "  }", "}"),
    "a.cpp": ("class A {", "  int work%d(int a) {", "  x%d = call(%d);", "  }", "};"),
}


@pytest.mark.parametrize("name", DENSE)
@pytest.mark.parametrize("stray", ['"', "'", "{", "}", "/*"])
def test_a_stray_sign_breaks_the_method_it_is_in_where_no_blank_lines_are(name: str, stray: str) -> None:
    rng = random.Random(5)
    opening, head, line, end, closing = DENSE[name]
    text = f"{opening}\n{functions(head, line, end, rng)}{closing}\n".replace("\n\n", "\n")
    before = chunk(document(name, text), SMALL, cl100k(), 8192)
    assert len(before) >= 100
    for _ in range(3):
        at = rng.randrange(len(opening) + 1, len(text) // 2)
        after = chunk(document(name, text[:at] + stray + text[at:]), SMALL, cl100k(), 8192)
        assert new(before, after) <= 8


FRAGMENTS = {
    "markdown": [
        "# A b",
        "## C",
        "",
        "```",
        "~~~ x",
        "| a | b |",
        "| --- | --- |",
        "some words é字",
        "    code",
        "---",
        "====",
    ],
    "lines": ["", " ", "word", "def f():", "    x", "}", "é" * 40, "a" * 200, "\t\r"],
    "table": ["a,b", '"x', 'y",1', '"q ""w"" e",2', "1;2", '"', ",,,", "é字,😀", "long " * 30],
    "keys": [
        "a:",
        "  b: |",
        "    - c:",
        "      d: 1",
        "[table]",
        "[[x.y]]",
        "# note",
        "- e:",
        "--- ",
        '"q r":',
        "é: 字",
    ],
    "json lines": ['{"a": 1}', "{", "[1, 2]", "null", '"é字"', "{" * 50, ""],
    "code": [
        "class A(B):",
        "    def f(self):",
        "        return 1",
        "def g(): pass",
        "@x",
        "}",
        "'''",
        "",
        "é = 1",
        "(" * 30,
    ],
}


@pytest.mark.parametrize("kind", FRAGMENTS)
@given(data=st.data())
@settings(max_examples=50)
def test_any_mixture_of_lines_is_covered_within_limits(kind: str, data: st.DataObject) -> None:
    line = st.one_of(st.sampled_from(FRAGMENTS[kind]), st.text(alphabet="ab \"'#|:-`é字😀,[]{}", max_size=20))
    text = "\n".join(data.draw(st.lists(line, max_size=60)))
    assume(text.strip())
    wanted = ChunkSettings(
        unit=data.draw(st.sampled_from(["tokens", "characters"])),
        size=data.draw(st.integers(16, 80)),
        overlap=data.draw(st.integers(0, 90)),
        threshold=data.draw(st.sampled_from([0, 60])),
        granularity=data.draw(st.sampled_from(get_args(Granularity))),
    )
    try:
        doc = document(MADE[kind][0], text)
    except FileError:
        return
    cut(doc, wanted, cl100k(), data.draw(st.sampled_from([16, 40, 8192])))


values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=30), st.just("words " * 40)),
    lambda inner: st.one_of(st.lists(inner, max_size=6), st.dictionaries(st.text(max_size=12), inner, max_size=6)),
    max_leaves=30,
)


@given(
    values,
    st.sampled_from([None, 2]),
    st.integers(16, 60),
    st.sampled_from([16, 8192]),
    st.sampled_from(get_args(Granularity)),
)
@settings(max_examples=60)
def test_any_json_is_within_limits(
    value: object, indent: int | None, size: int, max_tokens: int, granularity: Granularity
) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=False).encode("utf-8", "replace").decode()
    doc = document("a.json", text)
    chunks = cut(doc, ChunkSettings(size=size, overlap=4, granularity=granularity), cl100k(), max_tokens)
    # between containers there are brackets, keys of containers and commas
    words = [v for v in json.dumps(value).split('"') if "words words" in v]
    assert sum(c.text.count("words") for c in chunks) >= sum(v.count("words") for v in words)


def test_a_fence_or_table_that_fits_is_kept_whole() -> None:
    rng = random.Random(5)
    fence = ["```", *(f"line {i}" if i % 5 else "" for i in range(60)), "```"]
    rows = ["| a | b |", "| --- | --- |", *(f"| {i} | x |" for i in range(40))]
    lines = [prose(rng) for _ in range(150)]
    text = "\n".join([*lines[:40], *fence, *lines[40:80], *rows, *lines[80:]])
    texts = [c.text for c in cut(document("a.md", text), ChunkSettings(overlap=0), cl100k())]
    assert len(texts) > 3
    assert sum("\n".join(fence) in t for t in texts) == 1
    assert sum("\n".join(rows) in t for t in texts) == 1


def test_records_of_a_table_are_kept_whole_under_its_header() -> None:
    rows = [f'{i},"{"first line of a field " * 3}\n\nthird line {i}",x' for i in range(400)]
    chunks = cut(document("a.csv", "\n".join(["id,text,more", *rows])), ChunkSettings(overlap=0), cl100k())
    assert len(chunks) > 10
    assert {c.context for c in chunks[1:]} == {"id, text, more"}
    assert chunks[0].context == ""
    assert all(c.text.endswith(",x") and c.text[0] in "0123456789i" for c in chunks)


def test_keys_and_sections_are_the_context() -> None:
    yaml_text = "top:\n" + "".join(f"  service{i}:\n    words: {'many words ' * 12}\n" for i in range(60))
    chunks = cut(document("a.yaml", yaml_text), ChunkSettings(overlap=0), cl100k())
    assert {c.context.split(" > ")[0] for c in chunks[1:]} == {"top"}
    toml_text = "[tool.one]\n" + "".join(f"key{i} = '{'some words ' * 9}'\n" for i in range(100))
    assert {c.context for c in cut(document("a.toml", toml_text), ChunkSettings(overlap=0), cl100k())[1:]} == {
        "tool.one"
    }


def test_a_piece_that_begins_with_a_section_is_in_no_other() -> None:
    tables = (f"# about {i}\n[section{i}]\n" + f"key = '{'some words ' * 9}'\n" * 9 for i in range(12))
    chunks = cut(document("a.toml", "\n".join(tables)), ChunkSettings(size=64, overlap=0), cl100k())
    begun = [c for c in chunks if c.text.startswith(("[", "#"))]
    assert begun
    assert {c.context for c in begun} == {""}
    assert {c.context for c in chunks if c.text.startswith("key")} == {f"section{i}" for i in range(12)}


def test_chunks_know_their_page() -> None:
    doc = Document("one\n" * 300 + "two\n" * 300, "pdf", pages=(0, 1200))
    chunks = chunk(doc, ChunkSettings(size=64, overlap=0), cl100k(), 8192)
    assert {c.page for c in chunks} == {1, 2}
    assert all(c.page == (1 if c.start_char < 1200 else 2) for c in chunks)
    assert chunk(Document("one", "text"), ChunkSettings(), cl100k(), 8192)[0].page is None


def test_neither_headings_nor_headers_are_in_the_text_shown() -> None:
    (first, *rest) = cut(document("a.csv", "id,words\n" + "1,some words here\n" * 500), SMALL, cl100k())
    assert first.text.startswith("id,words")
    assert rest
    assert all("id" not in c.text and c.embedded_text.startswith("id, words\n\n") for c in rest)
