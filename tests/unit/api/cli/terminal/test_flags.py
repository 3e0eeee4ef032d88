"""The command says what to do in its own words: flags and verbs, not fields, calls and variables."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from api.cli.commands import main
from api.cli.invocation import VerbFailed
from api.cli.terminal import output
from api.cli.terminal.flags import CONFIG, FLAGS, in_flags
from docs.openapi import description
from schemas.errors.base import FoldexError
from schemas.reason import Reason
from schemas.tool import ToolConfig

ROOT = Path(__file__).parents[5]
#: Parts of the service whose sentences no user of the command reads.
OTHERS = {"api/agents", "api/page", "api/http/openapi.py", "worker/settings.py", "api/cli/terminal/flags.py"}
#: Arguments that describe the HTTP API itself.
DESCRIBING = {"description", "example", "examples", "json_schema_extra", "openapi_extra", "help", "responses"}
#: A sentence, not a name, a query, or an example of server-sent events.
SENTENCE = re.compile(r"^(?!event: ).*[A-Za-z].* .*[a-z]")


def commands(group: click.Command = main) -> Iterator[click.Command]:
    yield group
    for each in group.commands.values() if isinstance(group, click.Group) else ():
        yield from commands(each)


def options() -> list[click.Option]:
    return [each for command in commands() for each in command.params if isinstance(each, click.Option)]


def long_flags() -> set[str]:
    return {flag for option in options() for flag in option.opts if flag.startswith("--")}


def fields() -> set[str]:
    """The fields of all requests and parameters that a flag gives: by its name, or by that in the table."""
    document = description()
    bodies = {name for schema in document["components"]["schemas"].values() for name in schema.get("properties", {})}
    calls = [call for methods in document["paths"].values() for call in methods.values() if isinstance(call, dict)]
    names = bodies | {each["name"] for call in calls for each in call.get("parameters", []) if "name" in each}
    return {name for name in names if name in FLAGS or f"--{name.replace('_', '-')}" in long_flags()}


def variables() -> set[str]:
    """Environment variables that stand for a flag."""
    return {option.envvar for option in options() if isinstance(option.envvar, str)}


class Sentences(ast.NodeVisitor):
    """Collects the literal texts of a module, but for docstrings and what describes the API."""

    def __init__(self) -> None:
        self.found: list[str] = []

    def visit_Expr(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):
            self.generic_visit(node)

    def visit_keyword(self, node: ast.keyword) -> None:
        if node.arg not in DESCRIBING:
            self.generic_visit(node)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        # what is filled in may be an id, or a path
        self.found.append("".join(str(each.value) if isinstance(each, ast.Constant) else "x1" for each in node.values))

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str):
            self.found.append(node.value)


def messages() -> Iterator[str]:
    for path in sorted(path for top in ("api", "schemas", "worker") for path in (ROOT / top).rglob("*.py")):
        place = path.relative_to(ROOT).as_posix()
        if not any(place.startswith(other) for other in OTHERS):
            sentences = Sentences()
            sentences.visit(ast.parse(path.read_text()))
            yield from filter(SENTENCE.search, sentences.found)
    yield from (reason.remedy for reason in Reason)
    yield from (error.example for error in every(FoldexError))


def every(error: type[FoldexError]) -> Iterator[type[FoldexError]]:
    for child in error.__subclasses__():
        yield child
        yield from every(child)


def named_as_field(name: str) -> str:
    """How a field that has a flag is named: by a name of several words, or as JSON, or with `config.` before it."""
    return rf'\b{name}\b|"{name}":' if "_" in name else rf'"{name}":|\bconfig\.{name}\b'


def test_no_message_of_the_command_names_a_field_or_a_variable_that_has_a_flag() -> None:
    names = sorted(fields())
    assert {"top_k", "allow_removals", "full", "mode"} <= {*names}
    assert variables() >= {"FOLDEX_URL", "FOLDEX_API_KEY"}
    wrong = re.compile("|".join([*map(named_as_field, names), *(rf"\b{each}\b" for each in variables()), "GET /api"]))
    said = [in_flags(message) for message in messages()]
    assert len(said) > 500
    assert [message for message in said if wrong.search(message)] == []


def test_every_field_of_a_config_is_said_as_a_flag() -> None:
    assert set(CONFIG.split("|")) == set(ToolConfig.model_fields)
    assert {*FLAGS.values()} <= long_flags()
    for name in ToolConfig.model_fields:
        assert in_flags(f"Set a smaller config.{name}.") == f"Set a smaller --config {name}."


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ('Reindex it, or reindex with {"full": true}.', "Reindex it, or run `foldex reindex --full`."),
        ("list them with GET /api/tools/search/3f2b/files.", "list them with `foldex files`."),
        ("list yours with GET /api/tools/search.", "list yours with `foldex tools`."),
        ("try again, or lower top_k.", "try again, or lower --top-k."),
        ("The file config.py and its_top_k_value are none.", "The file config.py and its_top_k_value are none."),
    ],
)
def test_the_words_of_a_remedy_are_those_of_the_command(
    said: str, shown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert in_flags(said) == shown
    assert VerbFailed(said).format_message() == shown
    output.note(said)
    assert capsys.readouterr().err == f"{shown}\n"


@pytest.mark.parametrize(
    "path",
    ["vite.config.watch.ts", "/home/u/top_k", "config.include/x", "a/config.types", "head_limit/notes.md", "my-top_k"],
)
def test_paths_that_look_like_fields_stay(path: str) -> None:
    assert in_flags(f"{path} does not exist.") == f"{path} does not exist."
