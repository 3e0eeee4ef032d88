"""The client is a distribution of its own, of the same version as the service."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from email.parser import Parser
from pathlib import Path
from zipfile import ZipFile

import pytest

import foldex_client

ROOT = Path(__file__).resolve().parents[3]


def test_the_wheel_holds_the_package_alone(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*command, "--wheel-dir", str(tmp_path), str(ROOT / "client")], check=True)
    [wheel] = tmp_path.glob("*.whl")
    with ZipFile(wheel) as archive:
        names = archive.namelist()
        about = next(name for name in names if name.endswith("/METADATA"))
        metadata = Parser().parsestr(archive.read(about).decode())
        [licence] = [archive.read(name) for name in names if name.endswith(".dist-info/licenses/LICENSE")]
    sources = {
        path.relative_to(ROOT / "client").as_posix() for path in (ROOT / "client" / "foldex_client").rglob("*.py")
    }
    assert {name for name in names if ".dist-info/" not in name} == sources | {"foldex_client/py.typed"}
    assert licence == (ROOT / "LICENSE").read_bytes()
    needed = [requirement.partition(";") for requirement in metadata.get_all("Requires-Dist") or []]
    named = {(re.split("[<>]", requirement)[0], marker.strip()) for requirement, _, marker in needed}
    packages = {"haystack": "haystack-ai", "langchain": "langchain-core", "llama-index": "llama-index-core"}
    extras = {(package, f"extra == '{extra}'") for extra, package in packages.items()}
    assert named == {("httpx", ""), ("pydantic", ""), *extras}
    assert (metadata["Name"], metadata["Requires-Python"]) == ("foldex-client", ">=3.10")
    service = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert metadata["Version"] == service["project"]["version"] == foldex_client.__version__
    assert tomllib.loads((ROOT / "client" / "pyproject.toml").read_text())["build-system"] == service["build-system"]


@pytest.mark.parametrize("source", sorted((ROOT / "client").rglob("*.py")), ids=lambda path: path.name)
def test_the_oldest_python_can_read_the_sources(source: Path) -> None:
    ast.parse(source.read_text(), feature_version=(3, 10))


def test_the_client_loads_nothing_but_what_it_declares() -> None:
    code = "import foldex_client, sys; print(*sys.modules)"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.split(".")[0] for name in shown.stdout.split()}
    others = {"api", "worker", "schemas", "tests", "celery", "fastapi", "haystack", "langchain_core", "llama_index"}
    assert loaded & others == set()
    assert {"httpx", "pydantic"} <= loaded
