"""Which program grep runs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from api.search.grep import ripgrep

Install = Callable[[Path, str], str]


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Install]:
    """Installs a program that runs these lines as rg, in a folder that is on PATH or has Python."""
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "venv" / "python"))
    monkeypatch.setattr(ripgrep, "_VERSION_SECONDS", 0.5)

    def write(folder: Path, lines: str) -> str:
        folder.mkdir()
        path = folder / "rg"
        path.write_text(f"#!/bin/sh\n{lines}\n")
        path.chmod(0o755)
        return str(path)

    ripgrep.program.cache_clear()
    yield write
    ripgrep.program.cache_clear()


@pytest.mark.parametrize("lines", ["echo 'ripgrep 14.0.0'", "echo 'ripgrep 15.1.0 (rev 1)'; echo; echo features"])
def test_rg_on_path_is_run(install: Install, tmp_path: Path, lines: str) -> None:
    assert install(tmp_path / "path", lines) == ripgrep.program()


@pytest.mark.parametrize("lines", ["echo 'ripgrep 13.0.0'", "echo 'rg 14.0.0'", "exit 1", "exec sleep 60", "\0"])
def test_what_is_too_old_or_tells_no_version_is_not_run(install: Install, tmp_path: Path, lines: str) -> None:
    install(tmp_path / "path", lines)
    assert ripgrep.program() is None


def test_the_one_beside_python_comes_first(install: Install, tmp_path: Path) -> None:
    install(tmp_path / "path", "echo 'ripgrep 14.0.0'")
    assert install(tmp_path / "venv", "exit 1") == ripgrep.program()


def test_nothing_is_run_where_there_is_none(install: Install) -> None:
    assert ripgrep.program() is None
