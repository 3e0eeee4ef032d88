from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.content.document import Chunk
from schemas.content.source import ChunkSettings
from schemas.errors import NotFound
from tests.unit.worker.chunk.chunking import LONG, cut, is_linear, new
from worker.parse.data.json_pointer import span

CONFIG = {
    "config": {
        "auth": {"method": "JWT", "expiry": 3600, "login": "users sign in with a token"},
        "database": {"host": "localhost", "port": 5432, "ssl": True},
    }
}


def js(value: Any, pointer: str = "", **options: Any) -> list[Chunk]:
    return cut(json.dumps(value, indent=2, ensure_ascii=False), "a.json", pointer=pointer, **options)


def resolve(value: Any, pointer: str) -> Any:
    for part in pointer.split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        value = value[int(key)] if isinstance(value, list) else value[key]
    return value


def test_sections_of_a_configuration_stand_for_themselves() -> None:
    auth, database = js(CONFIG)
    assert (auth.json_pointer, database.json_pointer) == ("/config/auth", "/config/database")
    assert auth.text.startswith('"auth": {')
    assert auth.text.endswith("}")
    assert (auth.context, auth.scope, auth.node_type) == ("config", "config", "object")
    assert (auth.start_line, auth.end_line) == (3, 7)


@pytest.mark.parametrize(
    ("text", "kind"),
    [("3", "number"), ('"x"', "string"), ("true", "boolean"), ("null", "null"), ("{}", "object"), ("[[], {}]", "array"),
     ('{"a": 1, "a": 2}', "object"), (' {"a": "}{][,:\\"" }\r\n', "object"), ('"\\ud800"', "string")],
)  # fmt: skip
def test_a_small_document_is_one_chunk(text: str, kind: str) -> None:
    (only,) = cut(text, "a.json")
    assert (only.json_pointer, only.node_type, only.text, only.scope) == ("", kind, text.strip(), None)


def test_neighbouring_scalars_share_a_chunk() -> None:
    value = {"name": "x", "version": 1, "tags": ["a"], "big": CONFIG["config"]["auth"], "last": None, "end": 0}
    heads = [(c.json_pointer, c.text.split(":")[0]) for c in js(value)]
    assert heads == [
        ("", '"name"'),
        ("/big", '"big"'),
        ("", '"last"'),
    ]


def test_items_of_arrays_are_not_divided_if_they_fit() -> None:
    items = [{"id": i, "inner": {"text": "some words that fill this item", "more": [1, 2, 3]}} for i in range(3)]
    assert [c.json_pointer for c in js({"items": items})] == ["/items/0", "/items/1", "/items/2"]
    assert {c.context for c in js({"items": items})} == {"items"}


def test_pointers_are_escaped() -> None:
    value = {"a/b": {"m~n": {"text": "words " * 20}, "": {"text": "words " * 20}}}
    assert [c.json_pointer for c in js(value)] == ["/a~1b/m~0n", "/a~1b/"]


def test_keys_that_databases_refuse_stay_escaped() -> None:
    text = '{"\\ud800": {"text": "' + "words " * 20 + '"}, "\\u0000": {"text": "' + "words " * 20 + '"}}'
    chunks = cut(text, "a.json")
    assert [c.json_pointer for c in chunks] == ["/\\ud800", "/\\u0000"]
    assert cut(text, "a.json", pointer="/\\ud800")[0].text == chunks[0].text


def test_a_long_string_is_cut_with_its_own_pointer() -> None:
    chunks = js({"notes": {"body": "many words " * 2_000, "x": 1}})
    parts = [c for c in chunks if c.json_pointer == "/notes/body"]
    assert len(parts) > 5
    assert {(c.context, c.node_type) for c in parts} == {("notes > body", "string")}


def test_a_value_can_be_named() -> None:
    (only,) = js(CONFIG, "/config/auth")
    assert (only.json_pointer, only.context) == ("/config/auth", "config")
    assert [c.json_pointer for c in js(CONFIG, "/config")] == ["/config/auth", "/config/database"]
    assert js(CONFIG, "/config/auth/expiry")[0].text == '"expiry": 3600'
    assert js([[1, [2]]], "/0/1/0")[0].text == "2"
    assert js({"a": 1, "~1": 2}, "/~01")[0].text == '"~1": 2'
    assert cut('{"a": 1, "a": 2}', "a.json", pointer="/a")[0].text == '"a": 2'


@pytest.mark.parametrize(
    "pointer",
    ["config", "/none", "/config/auth/method/x", "/list/2", "/list/-", "/list/01", "/list/²", "/list/\u0661",
     f"/list/{'9' * 5000}"],
)  # fmt: skip # a line each says nothing
def test_a_pointer_without_a_value_is_not_found(pointer: str) -> None:
    with pytest.raises(NotFound):
        js({**CONFIG, "list": [1, 2]}, pointer)


def test_a_threshold_keeps_the_value_whole() -> None:
    wanted = ChunkSettings(threshold=1_000)
    assert [c.json_pointer for c in js(CONFIG, settings=wanted)] == [""]
    assert [c.json_pointer for c in js(CONFIG, "/config", settings=wanted)] == ["/config"]


def test_a_long_array_is_cut_by_content() -> None:
    rng = random.Random(1)
    numbers = [rng.randrange(10**6) for _ in range(50_000)]
    before = js(numbers)
    assert {(c.json_pointer, c.node_type) for c in before} == {("", "array")}
    assert len(before) > 100
    assert not any(c.text.startswith(",") or c.text.endswith(",") for c in before)
    assert new(before, js([1, *numbers])) <= 4


def test_a_new_item_costs_one_chunk() -> None:
    items = [{"id": i, "text": f"the words of item number {i} are here"} for i in range(2_000)]
    assert new(js(items), js([{"id": -1, "text": "the words of the new item are here"}, *items])) == 1


def test_one_long_line_is_cut_in_linear_time() -> None:
    def line(size: int) -> str:
        rows = [{"id": i, "value": f"text {i}", "é": [i, i]} for i in range(size // 40)]
        return json.dumps(rows, separators=(",", ":"))

    assert len(cut(line(LONG), "a.json")) > 400
    assert is_linear(line, "a.json")


@pytest.mark.parametrize("deep", [100, 400])
def test_deeply_nested_json_is_cut_and_keeps_pointers(deep: int) -> None:
    assert len(cut("[" * deep + "]" * deep, "a.json")) >= 1
    text = '{"key": [1, ' * (deep // 2) + '"end"' + "]}" * (deep // 2)
    assert all(c.json_pointer is not None for c in cut(text, "a.json", settings=ChunkSettings(size=64)))


def test_long_keys_have_short_contexts() -> None:
    text = ('{"' + "k" * 10_000 + '": [1, ') * 50 + '"end"' + "]}" * 50
    chunks = cut(text, "a.json", max_tokens=256)
    assert max(len(c.context) for c in chunks) < 2_000
    assert max(len(c.json_pointer or "") for c in chunks) < 30_000


scalars = (
    st.none() | st.booleans() | st.integers() | st.text(max_size=40) | st.floats(allow_nan=False, allow_infinity=False)
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=8) | st.dictionaries(st.text(max_size=8), inner, max_size=8),
    max_leaves=60,
)


@given(values, st.sampled_from([None, 2]), st.booleans(), st.sampled_from([16, 64]))
@settings(max_examples=100)
def test_every_scalar_is_in_a_chunk_and_pointers_lead_to_it(
    value: Any, indent: int | None, ascii_: bool, size: int
) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_)
    chunks = cut(text, "a.json", settings=ChunkSettings(size=size, overlap=0), max_tokens=size + 24)
    covered = "".join(text[c.start_char : c.end_char] for c in chunks)
    bare = "".join(covered.split())
    for scalar in scalars_of(value):
        assert "".join(json.dumps(scalar, ensure_ascii=ascii_).split()) in bare or len(json.dumps(scalar)) > size
    for c in chunks:
        assert c.json_pointer is not None
        if "\\" not in c.json_pointer:
            resolve(value, c.json_pointer)


def scalars_of(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [scalar for inner in value.values() for scalar in scalars_of(inner)]
    if isinstance(value, list):
        return [scalar for inner in value for scalar in scalars_of(inner)]
    return [value]


@pytest.mark.parametrize(
    ("key", "pointer"), [("a/b", "/a~1b"), ("~1", "/~01"), ("~01", "/~001"), ("/", "/~1"), ("~", "/~0"), ("~0", "/~00")]
)
def test_a_key_of_signs_that_pointers_escape_has_its_own_pointer(key: str, pointer: str) -> None:
    keys = ["a/b", "a~1b", "~1", "~01", "/", "~", "~0"]
    value = {each: {"text": "words " * 20 + each} for each in keys}
    found = {chunk.json_pointer: chunk.text for chunk in js(value)}
    assert len(found) == len(keys)
    assert found[pointer].endswith(f"{json.dumps('words ' * 20 + key)[1:]}\n  }}")
    (named,) = js(value, pointer)
    assert (named.json_pointer, named.text) == (pointer, found[pointer])
    assert resolve(value, pointer) == value[key]
    text = json.dumps(value, indent=2)
    start, end = span(text, pointer)
    assert text[start:end] == found[pointer]
