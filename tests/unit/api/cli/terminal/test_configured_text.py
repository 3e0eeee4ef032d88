"""One entry of a configuration file is changed, and every other byte stays."""

from __future__ import annotations

import json
import random
import re
import tomllib
from collections.abc import Callable
from typing import Any

import pytest

from api.cli.terminal.configured_text import Unchangeable, json_with, toml_with

ENTRY = {"command": "/x/foldex", "args": ["mcp", 'a "quoted" \\ folder', "日本"], "env": {"FOLDEX_HOME": "/x/.foldex"}}
OTHER = {"command": "other"}

#: Texts of files, and what they mean.
JSON: dict[str, dict[str, Any]] = {
    "": {},
    "\n": {},
    "{}": {},
    "{}\n": {},
    "{ }": {},
    '{"mcpServers":{}}': {"mcpServers": {}},
    '{"a": 1}': {"a": 1},
    '{\n    "a": [1, {"mcpServers": 2}],\n    "b": "}{"\n}\n': {"a": [1, {"mcpServers": 2}], "b": "}{"},
    '{\n  "mcpServers": {\n    "other": {"command": "other"}\n  },\n  "z": null\n}': {
        "mcpServers": {"other": OTHER},
        "z": None,
    },
    '{\r\n\t"mcpServers": {\r\n\t\t"other": {"command": "other"},\r\n\t},\r\n}\r\n': {"mcpServers": {"other": OTHER}},
    '// "mcpServers": {\n{ /* } */ "u\\u0041": "\\"", // no\n  "k": 1.5e3, // trailing\n}\n': {"uA": '"', "k": 1500.0},
    '\ufeff{"mcpServers": {"other": {"command": "other"}}}': {"mcpServers": {"other": OTHER}},
    '{"mcpServers": {/* none */}}': {"mcpServers": {}},
    '{"mcp\\u0053ervers": {"other": {"command": "other"}}}': {"mcpServers": {"other": OTHER}},
}
TOML: dict[str, dict[str, Any]] = {
    "": {},
    'model = "x"': {"model": "x"},
    '# a comment\n[mcp_servers.other]\ncommand = "other"\n\n[z]\n': {"mcp_servers": {"other": OTHER}, "z": {}},
    '[mcp_servers]\nother = { command = "other" }\r\n': {"mcp_servers": {"other": OTHER}},
}


def without_comments(text: str) -> Any:
    """What a text of `JSON` means after a change, with its comments and last commas taken out by name."""
    for comment in ('// "mcpServers": {', "/* } */", " // no", " // trailing", "/* none */", "\ufeff"):
        text = text.replace(comment, "")
    return json.loads(re.sub(r",(\s*})", r"\1", text)) if text.strip() else {}


@pytest.mark.parametrize("text", JSON)
def test_an_entry_of_json_comes_changes_and_goes(text: str) -> None:
    servers = JSON[text].get("mcpServers", {})
    added = json_with(text, "mcpServers", "foldex", ENTRY)
    assert without_comments(added) == {**JSON[text], "mcpServers": {**servers, "foldex": ENTRY}}
    assert json_with(added, "mcpServers", "foldex", ENTRY) == added
    changed = json_with(added, "mcpServers", "foldex", {"command": "new"})
    assert without_comments(changed)["mcpServers"] == {**servers, "foldex": {"command": "new"}}
    assert json_with(changed, "mcpServers", "foldex", ENTRY) == added
    removed = json_with(added, "mcpServers", "foldex", None)
    # a section that the change made, or that was empty, goes too
    assert removed == text or (without_comments(removed) == {} and not servers)
    assert json_with(text, "mcpServers", "foldex", None) == text


@pytest.mark.parametrize("text", TOML)
def test_a_table_of_toml_comes_changes_and_goes(text: str) -> None:
    servers = TOML[text].get("mcp_servers", {})
    added = toml_with(text, "mcp_servers", "foldex", ENTRY)
    assert added.startswith(text)
    assert tomllib.loads(added) == {**TOML[text], "mcp_servers": {**servers, "foldex": ENTRY}}
    assert toml_with(added, "mcp_servers", "foldex", ENTRY) == added
    changed = toml_with(added + "\n[after]\nx = 1\n", "mcp_servers", "foldex", {"command": "new"})
    assert tomllib.loads(changed)["mcp_servers"]["foldex"] == {"command": "new"}
    assert toml_with(added, "mcp_servers", "foldex", None).rstrip("\n") == text.rstrip("\n")
    assert toml_with(text, "mcp_servers", "foldex", None) == text


@pytest.mark.parametrize(
    "text", ["[]", "1", "{", "{]", '{"a": }', '{"mcpServers": []}', '{"mcpServers": null}', '{"a": 1} x', '{"a',
             "{'a': 1}",
             '{"a": 1 "b": 2}', '{"mcpServers": {"foldex": 1', "/* {}", "[" * 100_000, '{"a":' * 100_000]
)  # fmt: skip # a line each says nothing
def test_what_cannot_be_read_is_not_changed(text: str) -> None:
    with pytest.raises(Unchangeable):
        json_with(text, "mcpServers", "foldex", ENTRY)


@pytest.mark.parametrize(
    "text", ["a = ", "mcp_servers = 1", "mcp_servers = { other = { command = 'x' } }", "[[mcp_servers]]\n",
             'text = """\n[mcp_servers.foldex]\n"""\n',
             '[mcp_servers."foldex"]\ncommand = "x"\n']
)  # fmt: skip # a line each says nothing
def test_toml_that_has_no_place_for_a_table_is_not_changed(text: str) -> None:
    with pytest.raises(Unchangeable):
        toml_with(text, "mcp_servers", "foldex", ENTRY)


def value(chance: random.Random, depth: int) -> Any:
    plain = [None, True, 0, -1.5, "", "a", '"', "\\", "{", "//", "/*", "日本", "\n"]
    kinds: list[Callable[[], Any]] = [lambda: chance.choice(plain)]
    if depth:
        kinds += [
            lambda: [value(chance, depth - 1) for _ in range(chance.randrange(3))],
            lambda: {
                chance.choice(["a", "b", "mcpServers", "foldex", '"']): value(chance, depth - 1) for _ in range(3)
            },
        ]
    return chance.choice(kinds)()


@pytest.mark.parametrize("seed", range(100))
def test_any_json_keeps_what_it_means(seed: int) -> None:
    chance = random.Random(seed)
    content = {"x": value(chance, 3), "y": value(chance, 2)}
    if chance.random() < 0.6:
        content["mcpServers"] = {name: value(chance, 2) for name in chance.sample(["a", "foldex", "other"], k=2)}
    text = json.dumps(content, indent=chance.choice([None, 1, 4, "\t"]), ensure_ascii=chance.random() < 0.5)
    added = json_with(text, "mcpServers", "foldex", ENTRY)
    assert json.loads(added) == {**content, "mcpServers": {**content.get("mcpServers", {}), "foldex": ENTRY}}
    if "foldex" not in content.get("mcpServers", {}):
        assert json_with(added, "mcpServers", "foldex", None) == text
