"""The README is complete: settings, endpoints, targets, commands and reasons that exist are in it."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from api.cli.commands import main
from api.main import create_app
from schemas.status import Reason
from schemas.tool import ToolConfig
from worker.settings import Settings

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()


@pytest.mark.parametrize("name", sorted(Settings.model_fields))
def test_setting(name: str) -> None:
    assert f"`{name.upper()}`" in README
    assert Settings.model_fields[name].description


def operations() -> list[str]:
    paths = create_app(Settings(database_url="postgresql://nowhere.invalid/none")).openapi()["paths"]
    return [f"{method.upper()} {path}" for path, methods in paths.items() for method in methods]


def test_every_endpoint() -> None:
    assert [operation for operation in operations() if f"`{operation}`" not in README] == []


def test_no_endpoint_that_is_not_there() -> None:
    named = re.findall(r"`((?:GET|POST|PATCH|DELETE) /\S+)`", README)
    assert sorted(set(named) - set(operations())) == []


def test_every_make_target() -> None:
    targets = re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert len(targets) > 5
    assert [target for target in targets if f"`make {target}`" not in README] == []


def test_every_command_has_help_and_is_named() -> None:
    for name, command in main.commands.items():
        assert command.help, name
        assert re.search(rf"`[^`]*\b{name}\b[^`]*`", README), name
        if isinstance(command, click.Group):
            assert all(sub.help and f"{name} {sub_name}" in README for sub_name, sub in command.commands.items())


@pytest.mark.parametrize("word", [*Reason, *ToolConfig.model_fields])
def test_reasons_and_config(word: str) -> None:
    assert f"`{word}`" in README


def test_no_registry_and_no_machine_path_is_named() -> None:
    hosts = ["py" + "pi.org", "python" + "hosted", "npm" + "js"]
    for path in (
        ROOT / "requirements.lock",
        ROOT / "deploy" / "requirements.lock",
        ROOT / "README.md",
        ROOT / "Makefile",
    ):
        text = path.read_text()
        assert [host for host in hosts if host in text] == [], path
