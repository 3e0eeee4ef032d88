"""Modules are short enough to read at once, and their names say which one is meant."""

from __future__ import annotations

from collections import Counter

from api.stack.record import ROOT

#: Lines of a module, and modules of one name.
MAX_LINES, MAX_SAME = 450, 3
#: Modules of a folder, and those that stand directly in `worker/`, where most of the folders are.
MAX_MODULES, MAX_IN_WORKER = 20, 6
MODULES = [path for part in ("api", "worker", "schemas", "client") for path in (ROOT / part).rglob("*.py")]


def test_no_module_is_longer_than_contributors_are_told() -> None:
    assert f"A file has at most {MAX_LINES}." in (ROOT / "CONTRIBUTING.md").read_text()
    assert {str(path): n for path in MODULES if (n := len(path.read_text().splitlines())) > MAX_LINES} == {}


def test_few_modules_share_a_name() -> None:
    names = Counter(path.name for path in MODULES if not path.name.startswith("__"))
    assert {name: n for name, n in names.items() if n > MAX_SAME} == {}


def test_a_folder_has_few_modules() -> None:
    told = "A folder has at most {} modules, and {} modules stand directly in `worker/`."
    contributing = " ".join((ROOT / "CONTRIBUTING.md").read_text().split())
    assert told.format(MAX_MODULES, {6: "six"}[MAX_IN_WORKER]) in contributing
    modules = Counter(path.parent for path in MODULES if path.name != "__init__.py")
    at_most = {ROOT / "worker": MAX_IN_WORKER}
    assert {str(at): n for at, n in modules.items() if n > at_most.get(at, MAX_MODULES)} == {}
