"""Handwritten JSON: comments, commas after the last member, and several values in sequence."""

from __future__ import annotations

import json
import random

import pytest

from schemas.content.jsonc import comments, is_by_hand, plain
from schemas.content.source import ChunkSettings
from tests.parsing import parse
from tests.unit.worker.chunk.chunking import check, check_limits
from worker.chunk import chunk
from worker.parse import Limits
from worker.parse.data.json_pointer import span
from worker.tokens.tokenizers import cl100k

SETTINGS = """// Visit https://example.org/settings
{
  /* How it is built,
     and for what. */
  "compilerOptions": {
    "target": "es2022", // not "es5"
    "root": "http://localhost//src", "empty": {},
    "paths": {"@/*": ["./src/*",]},
  },
  "include": ["src"],
}
// the end
"""


def test_comments_and_last_commas_are_no_fault() -> None:
    document = parse("tsconfig.json", SETTINGS.encode(), Limits())
    assert (document.text, document.type, document.markup) == (SETTINGS, "json", "json")
    assert json.loads(plain(SETTINGS))["compilerOptions"]["paths"] == {"@/*": ["./src/*"]}
    start, end = span(plain(SETTINGS), "/compilerOptions/root")
    assert SETTINGS[start:end] == '"root": "http://localhost//src"'


@pytest.mark.parametrize(
    "text", ['{"a": "//", "b": "/*", "c": ",]", "d": "\\\\"}', "[1, 2]", '"\\"//"', "[]", '{"a":1,"b":[]}']
)
def test_plain_json_is_not_by_hand(text: str) -> None:
    assert not is_by_hand(text)
    assert plain(text) == text


@pytest.mark.parametrize("text", ["[1, ]", "[1]//", "//\n[]", "/**/1", '{"a"://b\n1}', '{"a":"x"/*"*/}', "[[1,\n]\n]"])
def test_what_is_by_hand_is_known(text: str) -> None:
    assert is_by_hand(text)
    assert parse("a.json", text.encode(), Limits()).markup == "json"
    assert (len(plain(text)), plain(text).count("\n")) == (len(text), text.count("\n"))


@pytest.mark.parametrize("text", ["/* no end", "// only this", "[1,,]", '{"a": 1} // b\n}', "[NaN,]", '"//', "{a: 1}"])
def test_what_is_more_than_that_is_plain_text(text: str) -> None:
    document = parse("a.json", text.encode(), Limits())
    assert (document.text, document.markup) == (text, "lines")
    assert "line 1, column" in document.note


@pytest.mark.parametrize("mark", ['\\"', "/*", '"', "//", ",", "/", '"\\'])
def test_marks_without_an_end_take_no_time(mark: str) -> None:
    text = mark * 300_000
    assert len(plain(text)) == len(text)
    assert is_by_hand(text) in {True, False}


@pytest.mark.parametrize("size", [24, 64, 512])
@pytest.mark.parametrize("seed", range(8))
def test_comments_are_in_chunks_and_pointers_lead_to_values(size: int, seed: int) -> None:
    chance = random.Random(seed)
    text = commented(
        json.dumps(
            {f"key{i}": {"a": [1, {"b": "x // y"}], "c": "word " * chance.randint(1, 60)} for i in range(20)}, indent=1
        ),
        chance,
    )
    document = parse("a.json", text.encode(), Limits())
    wanted = ChunkSettings(size=size, overlap=0)
    chunks = chunk(document, wanted, cl100k(), 8192)
    check(document, chunks)
    check_limits(chunks, wanted, cl100k(), 8192)
    for c in chunks:
        assert span(plain(text), c.json_pointer or "")
    covered = bytearray(len(text))
    for c in chunks:
        covered[c.start_char : c.end_char] = b"\1" * (c.end_char - c.start_char)
    for start, end in comments(text):
        assert all(covered[at] or text[at].isspace() for at in range(start, end)), text[start:end]


def commented(text: str, chance: random.Random) -> str:
    lines = []
    for line in text.split("\n"):
        if chance.random() < 0.2:
            lines.append(f'// {"remark " * chance.choice((1, 5, 80))}"{{[,')
        lines.append(line + chance.choice(("", "", " // behind", ' /* {]" */')))
    return "\n".join(["/* top */", *lines, "// bottom", ""])


def test_a_pointer_takes_the_comments_within_its_value_only() -> None:
    document = parse("a.json", SETTINGS.encode(), Limits())
    texts = [c.text for c in chunk(document, ChunkSettings(), cl100k(), 8192, "/compilerOptions")]
    assert "Visit" not in " ".join(texts)
    assert "the end" not in " ".join(texts)
    assert 'not "es5"' in " ".join(texts)


def test_values_one_below_the_other_are_lines() -> None:
    document = parse("log.json", b'{"a": 1}\n{"a": 2}\n\n{"a": 3}\n', Limits())
    assert (document.type, document.language, document.markup) == ("jsonl", "json", "lines")
    assert "Extra data" in parse("log.json", b'{"a": 1} {"a": 2}', Limits()).note
