"""The documentation is complete and true: it names everything that exists, and nothing that does not."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from codeop import compile_command
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from api.cli.commands import main
from api.cli.verbs.agents import ServeByDefault
from api.main import create_app
from docs.generate import PAGES as GENERATED
from docs.generate import REFERENCE, rendered
from docs.openapi import Schema, description
from schemas.errors import FoldexError
from schemas.queries.across import Across
from schemas.reason import Reason
from schemas.tool import ToolConfig
from tests.documents import DOCS, PAGES, ROOT, blocks
from worker.settings import Settings

TEXT = "\n".join(page.read_text() for page in PAGES)
#: Pages whose links are checked.
LINKED = (*PAGES, *(ROOT / name for name in ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "llms.txt")))
#: Names in capitals that are not settings of Foldex: other programs' variables, and placeholders in commands.
FOREIGN = {
    *("COHERE_API_KEY", "DASHSCOPE_API_KEY", "DEEPSEEK_API_KEY", "GEMINI_API_KEY", "MOONSHOT_API_KEY"),
    *("VOYAGE_API_KEY", "ZAI_API_KEY"),
} | {"AWS_ACCESS_KEY_ID", "AWS_DEFAULT_REGION", "AWS_SECRET_ACCESS_KEY", "OPENAI_API_KEY"} | {
    "FLOWER_BASIC_AUTH", "BENCH_HOME", "BENCH_MODEL", "EVAL_DIR",
    "FOLDEX_API_KEY", "FOLDEX_PROJECT", "FOLDEX_URL", "NO_COLOR",
    "CHUNK_ID", "FILE_ID", "KEY_ID", "NODE_ID", "PROJECT_ID", "TOOL_ID",
}  # fmt: skip # a line each says nothing
#: Codes of errors that have no class.
CODES_WITHOUT_CLASS = {"invalid_json", "invalid_http", "method_not_allowed", "database_unavailable", "internal"}


@pytest.mark.parametrize("page", GENERATED)
def test_the_generated_part_is_what_the_code_gives(page: str) -> None:
    assert (REFERENCE / page).read_text() == rendered(page), "run `make docs`"


@pytest.mark.parametrize("name", sorted(Settings.model_fields))
def test_each_setting_is_documented(name: str) -> None:
    assert f"`{name.upper()}`" in TEXT
    assert Settings.model_fields[name].description


def test_no_setting_that_is_not_there() -> None:
    known = {name.upper() for name in Settings.model_fields} | FOREIGN
    assert sorted(set(re.findall(r"\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\b", TEXT)) - known) == []


def operations() -> list[str]:
    paths = description()["paths"]
    return [f"{method.upper()} {path}" for path, methods in paths.items() for method in methods]


def test_every_endpoint_is_documented() -> None:
    assert [operation for operation in operations() if f"`{operation}`" not in TEXT] == []


def test_no_endpoint_that_is_not_there() -> None:
    named = re.findall(r"`((?:GET|POST|PUT|PATCH|DELETE) /[^\s?`]+)", TEXT)
    assert len(named) > len(operations())
    assert sorted(set(named) - set(operations())) == []


def code() -> Iterator[str]:
    """All code spans and code lines of the pages."""
    for page in PAGES:
        prose = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
        yield from re.findall(r"`([^`\n]+)`", prose)
        yield from (line.strip() for block in blocks(page) for line in block.text.splitlines())


def test_the_make_targets_are_documented_and_no_others() -> None:
    targets = re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert len(targets) > 5
    assert [target for target in targets if f"`make {target}`" not in TEXT] == []
    named = {found[1] for span in code() if (found := re.match(r"(?:[A-Z_]+=\S+ )*make ([a-z-]+)", span))}
    assert sorted(named - set(targets)) == []


def commands() -> Iterator[str]:
    for name, command in main.commands.items():
        assert command.help, name
        if isinstance(command, click.Group):
            assert all(sub.help for sub in command.commands.values())
            yield from (f"{name} {sub}" for sub in command.commands)
        else:
            yield name


def test_the_commands_are_documented_and_no_others() -> None:
    existing = set(commands())
    spans = [found[1] for span in code() if (found := re.match(r"(?:\S*bin/)?foldex (.+)", span))]
    assert {command_named(*span.split()) for span in spans} == existing


def command_named(name: str, *words: str) -> str:
    group = main.commands.get(name)
    if not isinstance(group, click.Group):
        return name
    if isinstance(group, ServeByDefault) and (not words or words[0] not in group.commands):
        return f"{name} serve"
    return " ".join((name, *words[:1]))


@pytest.mark.parametrize("word", [*Reason, *ToolConfig.model_fields])
def test_each_reason_and_field_of_config_is_documented(word: str) -> None:
    assert f"`{word}`" in TEXT


def test_no_field_of_config_that_is_not_there() -> None:
    named = set(re.findall(r"\bconfig\.(?!toml\b)(\w+)", TEXT))
    assert len(named) > 5
    assert named <= ToolConfig.model_fields.keys()


def codes(errors: list[type[FoldexError]]) -> Iterator[str]:
    for error in errors:
        yield error.code
        yield from codes(error.__subclasses__())


def test_no_error_that_is_not_there() -> None:
    named = set(re.findall(r"(?:\b[45]\d\d |error_code: )`?([a-z]+(?:_[a-z]+)+)\b", TEXT))
    assert len(named) > 5
    assert sorted(named - set(codes(FoldexError.__subclasses__())) - CODES_WITHOUT_CLASS) == []


#: A call with a body: its method, its address and the body.
CALL = re.compile(
    r"""curl -sSN? (?:-X (\w+) )?"?([^\s"]*/api/[^\s"]*)"?(?:(?!curl)[^'])*"""
    r"""'content-type: application/json'\s*\\?\s*-d '(\{[^']*\})'"""
)


def test_bodies_in_examples_have_only_fields_that_the_call_takes() -> None:
    schemas, paths, checked = description()["components"]["schemas"], description()["paths"], 0
    for page in PAGES:
        for method, url, body in CALL.findall(page.read_text()):
            call = paths[_path(url, list(paths))][(method or "post").lower()]
            assert json.loads(body).keys() <= _fields(call, schemas), (page, url, body)
            if url.endswith("/api/search"):
                Across.model_validate_json(body)
            checked += 1
    assert checked > 15


def test_json_in_pages_is_json() -> None:
    assert [json.loads(block.text) for page in PAGES for block in blocks(page) if block.language == "json"]


def _path(url: str, paths: list[str]) -> str:
    called = re.sub(r"^.*?(?=/api/)", "", url).partition("?")[0]
    fits = [path for path in paths if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", path), called)]
    assert fits, url
    return min(fits, key=lambda path: path.count("{"))


def _fields(call: Schema, schemas: Schema) -> set[str]:
    names = re.findall(r"#/components/schemas/(\w+)", json.dumps(call.get("requestBody", {})))
    return {field for name in names for field in schemas[name]["properties"]}


def anchors(page: Path) -> set[str]:
    """The anchors that both MkDocs and GitHub make from headings."""
    prose = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    headings = [heading.lower() for heading in re.findall(r"^#+ (.+)$", prose, re.MULTILINE)]
    return {re.sub(r"\s+", "-", re.sub(r"[^\w\s-]", "", heading).strip()) for heading in headings}


@pytest.mark.parametrize("page", [*PAGES, ROOT / "client" / "README.md"], ids=lambda page: page.name)
def test_a_python_block_can_be_pasted_into_an_interpreter(page: Path) -> None:
    """An interpreter ends a loop only at an empty line."""
    for block in blocks(page):
        statement = list[str]()
        for line in [*block.text.splitlines(), ""] if block.language == "python" else []:
            statement.append(line)
            if compile_command("\n".join(statement)) is not None:
                statement = []
        assert not statement


@pytest.mark.parametrize("page", LINKED, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    prose = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(), flags=re.DOTALL)
    for link in re.findall(r"\]\(([^)\s]+)\)", prose):
        place, _, anchor = link.partition("#")
        if "://" in link:
            continue
        target = (page.parent / place).resolve() if place else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def test_every_page_is_listed() -> None:
    listed, shown = (ROOT / "llms.txt").read_text(), (ROOT / "mkdocs.yml").read_text()
    for page in DOCS.rglob("*.md"):
        assert f"({page.relative_to(ROOT)})" in listed
        assert f" {page.relative_to(DOCS)}\n" in shown


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 150


@pytest.mark.skipif(find_spec("material") is None, reason="install the extra docs to build the site")
def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")]
    # `--quiet` would also hide the warnings from `--strict`; the proxy does not exist, so there is no network
    env = {
        **os.environ,
        "NO_MKDOCS_2_WARNING": "1",
        "https_proxy": "http://127.0.0.1:9",
        "http_proxy": "http://127.0.0.1:9",
    }
    built = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    assert (tmp_path / "site" / "reference" / "settings.html").exists()
    assert not list((tmp_path / "site").rglob("*.py"))


def test_the_version_is_the_same_everywhere() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert create_app(Settings(database_url="postgresql://nowhere.invalid/none")).version == version
    assert version in CliRunner().invoke(main, ["--version"]).output
    assert f"\n## {version}" in (ROOT / "CHANGELOG.md").read_text()


def test_no_registry_and_no_machine_path_is_named() -> None:
    hosts = ["py" + "pi.org", "python" + "hosted", "npm" + "js"]
    files = ["requirements.lock", "deploy/requirements.lock", "Makefile", "mkdocs.yml"]
    for path in (*LINKED, *(ROOT / name for name in files)):
        text = path.read_text()
        assert [host for host in hosts if host in text] == [], path
