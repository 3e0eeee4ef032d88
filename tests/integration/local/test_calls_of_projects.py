"""Small projects whose calls say what they mean: `> file:Class/name`, `> -` nothing, `> ?` nothing that is sure.

`> ? file:Class/name`: that, but not surely.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.integration.local.test_symbols import index_texts
from tests.service import TOOLS, Service

TEXTS = Path(__file__).parents[2] / "data" / "projects_of_calls.txt"
_MARK = re.compile(r"(?:#|//)> (.+)$")
_CALLED = re.compile(r"(#?\w+)!?\(")
_DECORATOR = re.compile(r"@(\w+)")
SURE = {"resolved", "likely"}


class Marked(NamedTuple):
    """A line that calls a name, and what the call means."""

    file: str
    line: int
    name: str
    meant: frozenset[str]


def projects() -> dict[str, dict[str, str]]:
    """The files of each project."""
    found = defaultdict[str, dict[str, str]](dict)
    for part in TEXTS.read_text().split("=== ")[1:]:
        head, _, text = part.partition("\n")
        project, _, path = head.partition("/")
        found[project][path] = text
    return found


def marked(files: dict[str, str]) -> Iterator[Marked]:
    """The lines that say what they mean."""
    for path, text in files.items():
        for number, line in enumerate(text.split("\n"), start=1):
            if mark := _MARK.search(line):
                code = line[: mark.start()]
                called = _CALLED.findall(code) or _DECORATOR.findall(code)
                named = [part.strip() for part in mark[1].split(",")]
                name = called[-1] if named[0] in {"-", "?"} else named[0].rpartition(":")[2].rpartition("/")[2]
                yield Marked(path, number, name, frozenset(named))


PROJECTS = projects()


@pytest.mark.parametrize("project", PROJECTS)
def test_calls_mean_what_the_project_says(running: Service, root: Path, project: str) -> None:
    files = PROJECTS[project]
    tool = index_texts(running, root / "projects" / project, files)
    lines = list(marked(files))
    assert lines
    sure: dict[tuple[str, int], dict[str, str]] = defaultdict(dict)
    for name in {each.name for each in lines}:
        targets = running.get(f"{TOOLS}/{tool}/symbols", name=name)["items"]
        scoped = {target["file_id"] for target in targets if target["scope"]}
        for target in targets:
            asked: dict[str, Any] = {"name": name, "file_id": target["file_id"]}
            asked |= {"scope": target["scope"]} if target["scope"] else {}
            if not target["scope"] and target["file_id"] in scoped:
                # a file alone would select both
                continue
            answer = running.client.get(f"{TOOLS}/{tool}/symbols/callers", params=asked).json()
            path = f"{target['file_path']}:{'/'.join(filter(None, (target['scope'], name)))}"
            for call in answer["items"]:
                sure[call["file_path"], call["line"]][path] = call["confidence"]
    for each in lines:
        found = sure[each.file, each.line]
        if each.meant == {"-"}:
            assert found == {}, each
        elif each.meant == {"?"}:
            assert not SURE & {*found.values()}, (each, found)
        elif all(meant.startswith("? ") for meant in each.meant):
            assert {f"? {path}" for path in found} == each.meant, (each, found)
            assert not SURE & {*found.values()}, (each, found)
        else:
            assert {*found} == each.meant, (each, found)
            assert {*found.values()} <= SURE, (each, found)
