from __future__ import annotations

import random
from itertools import pairwise
from pathlib import Path
from textwrap import indent

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.content.document import Chunk
from schemas.content.source import ChunkSettings
from tests.unit.worker.chunk.chunking import LONG, Characters, cut, is_linear, new, uncovered
from worker.chunk.context import with_stem
from worker.tokens.tokenizers import cl100k

SAMPLES = Path(__file__).resolve().parents[3] / "data" / "code"
ROOT = SAMPLES.parents[2]


def code(text: str, name: str = "a.py", size: int = 512, overlap: int = 0, max_tokens: int = 8192) -> list[Chunk]:
    chunks = cut(text, name, settings=ChunkSettings(size=size, overlap=overlap), max_tokens=max_tokens)
    assert uncovered(text, chunks) == ""
    if not overlap:
        assert all(a.end_char <= b.start_char for a, b in pairwise(chunks))
    return chunks


def named(chunks: list[Chunk]) -> list[tuple[str | None, str | None, str | None]]:
    return [(c.node_type, c.scope, c.symbol) for c in chunks]


def function(name: str, lines: int = 12, indent: str = "") -> str:
    body = "".join(f"{indent}    value_{i} = compute(value, {i})\n" for i in range(lines))
    return f"{indent}def {name}(value: int) -> int:\n{body}{indent}    return value\n"


def klass(name: str, methods: int, lines: int = 12) -> str:
    parts = "\n".join(function(f"method_{i}", lines, "    ") for i in range(methods))
    return f'@register\nclass {name}(Base):\n    """What it is for.\n\n    And more."""\n\n    limit = 3\n\n{parts}'


def module(functions: int = 400) -> list[str]:
    rng = random.Random(3)
    parts = ["import os\nfrom a import b\n\nLIMIT = 1\n"]
    for i in range(functions):
        size = rng.choice([1, 1, 2, 8, 15, 60])
        parts.append(klass(f"Class{i}", 6, size) if i % 29 == 7 else function(f"function_{i}", size))
    return "\n\n".join(parts).split("\n")


def test_a_definition_has_a_chunk_of_its_own() -> None:
    chunks = code("\n\n".join(["import os", function("first"), function("second")]))
    assert named(chunks) == [("function", None, "first"), ("function", None, "second")]
    assert chunks[0].text.startswith("import os")
    assert {c.context for c in chunks} == {""}


def test_small_neighbours_share_a_chunk() -> None:
    small = "\n\n".join(f"def small_{i}():\n    return {i}\n" for i in range(8))
    chunks = code("\n\n".join([function("big"), small]))
    assert named(chunks) == [("function", None, "big"), ("function", None, "small_0")]
    assert chunks[1].text == small.strip()


def test_what_stands_between_definitions_is_a_chunk() -> None:
    constants = "\n".join(f"CONSTANT_{i} = {i} * 60 * 60" for i in range(20))
    chunks = code("\n\n".join([function("first"), constants, function("second")]))
    assert [c.symbol for c in chunks] == ["first", None, "second"]
    assert chunks[1].text == constants


def test_a_class_that_fits_is_one_chunk() -> None:
    assert named(code(klass("Small", 2))) == [("class", None, "Small")]


def test_a_large_class_is_cut_at_its_methods() -> None:
    chunks = code(klass("Large", 8, 20))
    assert named(chunks) == [
        ("class", None, "Large"),
        *(("method", "Large", f"method_{i}") for i in range(8)),
    ]
    header, *methods = chunks
    assert header.context == ""
    assert header.text.startswith("@register\nclass Large(Base):")
    assert {c.context for c in methods} == {"@register\nclass Large(Base):\nWhat it is for."}
    assert all(c.text.startswith("    def method_") and c.text.endswith("return value") for c in methods)


def test_parts_of_a_long_function_have_its_header_and_overlap() -> None:
    text = klass("Large", 1, 300)
    chunks = code(text, overlap=64)
    assert {c.symbol for c in chunks[1:]} == {"method_0"}
    assert chunks[-1].context.endswith("What it is for.\ndef method_0(self, value: int) -> int:".replace("self, ", ""))
    assert all(a.end_char > b.start_char for a, b in pairwise(chunks[1:]))


def test_a_nested_function_and_a_long_one_around_it() -> None:
    inner = function("inner", 30, "    ")
    first = "".join(f"    first(value, {i})\n" for i in range(9))
    chunks = code(f"def outer(value):\n{first}\n{inner}\n    return inner\n", size=200)
    assert named(chunks) == [("function", None, "outer"), *[("function", "outer", "inner")] * (len(chunks) - 1)]
    assert len(chunks) > 2


def test_comments_above_a_definition_stay_with_it() -> None:
    text = "\n\n".join(
        [
            function("first"),
            "# Why it is so:\n# because.\n" + function("second"),
        ]
    )
    assert code(text)[1].text.startswith("# Why it is so:")
    body = "".join(f"  call_number({i}, value);\n" for i in range(20))
    java = (
        "class A {\n" + "".join(f"\n /* About\n it. */\n @Old\n void f{i}() {{\n{body} }}\n" for i in range(5)) + "}\n"
    )
    chunks = code(java, "A.java")
    assert [c.text.lstrip().startswith("/* About") for c in chunks[1:]] == [True] * 4
    assert chunks[-1].text.endswith("}\n}")


@pytest.mark.parametrize("name", sorted(path.name for path in SAMPLES.iterdir()))
@pytest.mark.parametrize("size", [16, 40, 120, 512])
def test_samples_are_covered(name: str, size: int) -> None:
    chunks = code((SAMPLES / name).read_text(), name, size=size, max_tokens=size * 2)
    assert len(chunks) == 1 or size < 512 or len(chunks) < 20
    assert any(c.symbol for c in chunks)
    assert {c.scope for c in chunks} <= {None} | {"/".join(s) for s in scopes(name)}


def scopes(name: str) -> set[tuple[str, ...]]:
    from tests.unit.worker.parse.code.test_syntax import read

    return {d.scope for d in read(name).definitions}


def test_our_own_code_is_covered_and_named() -> None:
    chunks = [c for path in sorted((ROOT / "worker").rglob("*.py")) for c in code(path.read_text())]
    assert np.mean([c.symbol is not None for c in chunks]) > 0.8
    assert np.mean([c.tokens for c in chunks]) > 100


@pytest.mark.parametrize("edit", [[], ["# a comment"], ["", "value_new = 3", ""], ["def added():", "    return 1", ""]])
def test_an_edit_costs_few_chunks(edit: list[str]) -> None:
    lines = module()
    before = code("\n".join(lines), overlap=64)
    tops = [i for i, line in enumerate(lines) if line.startswith("def ")]
    rng = random.Random(len(edit))
    assert len(before) > 300
    for at in [0, *rng.sample(tops, 4)]:
        assert new(before, code("\n".join([*lines[:at], *edit, *lines[at:]]), overlap=64)) <= 4


def test_a_changed_line_in_a_body_costs_few_chunks() -> None:
    lines = module()
    before = code("\n".join(lines), overlap=64)
    inside = [i for i, line in enumerate(lines) if "compute" in line]
    for at in random.Random(5).sample(inside, 5):
        after = [*lines[:at], lines[at].replace("compute", "calculate"), *lines[at + 1 :]]
        assert new(before, code("\n".join(after), overlap=64)) <= 4


def test_many_small_functions_are_cut_where_their_content_says() -> None:
    lines = "\n\n".join(f"def small_{i}(a):\n    return a * {i * 7919 % 100}\n" for i in range(2_000)).split("\n")
    before = code("\n".join(lines))
    assert np.median([c.tokens for c in before]) > 200
    assert all(c.text.startswith("def ") for c in before)
    assert new(before, code("\n".join(["def added(a):", "    return 1", "", *lines]))) <= 4
    assert new(before, code("\n".join([*lines[:3001], "", "X = 1", "", *lines[3001:]]))) <= 6


def test_a_name_that_moves_takes_its_chunk_along() -> None:
    parts = [function(f"f{i}") for i in range(30)]
    before = code("\n\n".join(parts))
    assert new(before, code("\n\n".join([*parts[15:], *parts[:15]]))) == 0


def test_one_long_line_is_cut_in_linear_time() -> None:
    def line(size: int) -> str:
        return "".join(f"function f{i}(a,b){{return g{i}(a)+b*{i}}};" for i in range(size // 40))

    chunks = code(line(LONG), "a.js")
    assert {c.start_line for c in chunks} == {1}
    assert np.median([c.tokens for c in chunks]) > 200
    assert is_linear(line, "a.js")


def test_a_broken_file_is_covered() -> None:
    text = klass("Large", 8, 20) + "\ndef broken((:\n    x = [\n\n" + klass("Other", 8, 20)
    assert {"Large", "method_7"} <= {c.symbol for c in code(text)}


def test_a_script_without_definitions_is_cut_as_lines_are() -> None:
    text = "\n".join(f"call({i}, 'something')" for i in range(1_000))
    assert [c.text for c in code(text, "a.py", overlap=64)] == [c.text for c in code(text, "a.txt", overlap=64)]


PIECES = [
    "class A:",
    "  def f(a):",
    "    return a",
    "def g():",
    "  pass",
    "",
    "# note",
    "@x",
    "x = 1",
    '"""doc',
    '"""',
    "é = '字'",
]


@given(st.lists(st.sampled_from(PIECES)), st.sampled_from([16, 40, 512]), st.sampled_from(["a.py", "a.rb", "a.ts"]))
@settings(max_examples=80)
def test_nothing_is_lost(lines: list[str], size: int, name: str) -> None:
    text = "\n".join(lines)
    if text.strip():
        code(text, name, size=size, max_tokens=size + 8)
        code(text, name, size=size, overlap=8)


def spans(text: str, **sizes: int) -> list[tuple[int, int]]:
    """The spans of the chunks, with characters as tokens."""
    chunk_settings = ChunkSettings.model_validate({"overlap": 0, **sizes})
    found = cut(text, "a.py", settings=chunk_settings, tokenizer=Characters())
    return [(c.start_char, c.end_char) for c in found]


@pytest.mark.parametrize(("digits", "number"), [(10, 1), (11, 3)])
def test_definitions_below_a_size_share_a_chunk(digits: int, number: int) -> None:
    # with eleven digits, each has 32 tokens
    text = "".join(f"def {name}():\n    return {'1' * digits}\n" for name in "fgh")
    assert len(spans(text, size=512)) == number


def overlaps(text: str) -> bool:
    found = spans(text, size=128, overlap=64)
    assert len(found) > 4
    return any(end > start for (_, end), (start, _) in pairwise(found))


def test_only_parts_of_functions_and_of_texts_without_definitions_overlap() -> None:
    calls = "".join(f"call({number})\n" for number in range(60))
    function = "def work():\n" + indent(calls, "    ")
    assert overlaps(calls)
    assert overlaps(function)
    assert overlaps("class A:\n" + indent(function, "    "))
    assert not overlaps("class A:\n" + indent(calls, "    "))
    # the text around a definition
    assert not overlaps(f"{calls}\n\ndef f():\n    return {'1' * 40}\n")


def test_parts_are_named_after_the_function_that_they_lie_in() -> None:
    calls = indent("".join(f"call({number})\n" for number in range(40)), "    ")
    text = "".join(f"def {name}():\n{calls}\n\n" for name in ("first", "second", "third"))
    found = cut(text, "a.py", settings=ChunkSettings(size=128, overlap=0), tokenizer=Characters())
    starts = {name: text.index(f"def {name}") for name in ("first", "second", "third")}
    for c in found:
        assert c.symbol == max((start, name) for name, start in starts.items() if start <= c.start_char)[1]


def test_a_stem_stands_in_front_unless_the_model_would_not_take_both() -> None:
    chunks = code(function("short", 1) + "\n\n" + function("long_one", 30), size=400)
    most = max(chunk.tokens for chunk in chunks)
    tokenizer = cl100k()
    assert with_stem(chunks, "", tokenizer, most) is chunks
    named_chunks = with_stem(chunks, "reader", tokenizer, most)
    assert [chunk.stem for chunk in named_chunks] == ["" if chunk.tokens == most else "reader" for chunk in chunks]
    assert {chunk.stem for chunk in named_chunks} == {"", "reader"}
    for before, after in zip(chunks, with_stem(chunks, "reader", tokenizer, most + 100), strict=True):
        assert after._replace(stem="", tokens=before.tokens) == before
        assert after.embedded_text == f"reader\n\n{before.embedded_text}"
        # what is sent is never longer than what is counted
        assert len(tokenizer.starts(after.embedded_text)) <= after.tokens
