"""A new indexer is a module, a row of the table, and its part of a config and of a query: then all its calls are there.

The service runs from a copy of its packages, in which `names` is added.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from api.stack.record import ROOT
from tests.service import TOOLS, NewService, Service, checked, eventually
from worker.settings import LOCAL_MODEL

ROW = """
NAMES = RegisteredIndexer(
    "names", "Names of files.", NamesConfig, names, tree=("names",), topic="names", check=names.check, modules=("none",)
)
INDEXERS = (CHUNKS, TREE, NAMES)
"""
CONFIG = '''
class NamesConfig(BaseModel):
    """How names are found."""

    enabled: bool = Field(default=False, description="Find chunks by the names of their files.")
    shouted: bool = Field(default=False, description="In capitals.")


class DerivedConfigs(BaseModel):
    names: NamesConfig = Field(default_factory=NamesConfig, description="Names of files.")
'''
#: The files that change, with what is replaced in them by what.
CHANGES = {
    "api/indexers/registry.py": {
        "\nINDEXERS = (CHUNKS, TREE)\n": ROW,
        "import Indexer, Subject, chunks, summary_tree": "import Indexer, Subject, chunks, names, summary_tree",
        "import DerivedConfigs, TreeSearch": "import DerivedConfigs, NamesConfig, TreeSearch",
    },
    "schemas/derived.py": {
        "\nclass DerivedConfigs(BaseModel):\n": CONFIG,
        '"tree_traversal"]': '"tree_traversal", "names"]',
    },
}


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The packages, with the indexer `names`."""
    place = tmp_path_factory.mktemp("copy")
    for package in ("api", "schemas", "worker"):
        shutil.copytree(ROOT / package, place / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(Path(__file__).with_name("names.py"), place / "api" / "indexers")
    for name, replacements in CHANGES.items():
        text = (place / name).read_text()
        for old, new in replacements.items():
            assert text.count(old) == 1, old
            text = text.replace(old, new)
        (place / name).write_text(text)
    return place


@pytest.fixture(scope="module")
def running(new_service: NewService, copy: Path) -> Iterator[Service]:
    env = {"DEFAULT_EMBEDDING_MODEL": LOCAL_MODEL, "LOCAL_SOURCE_ROOTS": str(copy)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("api.stack.programs.ROOT", copy)
        with new_service(**env) as started:
            yield started


@pytest.fixture
def tool(running: Service, copy: Path, request: pytest.FixtureRequest) -> str:
    folder = copy / request.node.name
    folder.mkdir()
    for name in ("giraffes of the savanna", "steam engines", "the law of contracts"):
        (folder / f"{name}.md").write_text(f"# A title\n\nThis is file {len(name)} of {request.node.name}.\n")
    tool = running.local_tool(folder)
    running.wait(tool)
    return tool


def namespaces(service: Service, tool: str) -> list[str]:
    """The derived namespaces of a tool's index."""
    query = """SELECT n.name FROM namespace_name n JOIN search_index i ON i.id = n.index_id AND i.namespace <> n.name
               JOIN search_tool s ON s.index_id = i.id WHERE s.id = %s"""
    return [name for (name,) in service.rows(query, tool)]


def test_the_table_lists_it(running: Service) -> None:
    rows = {row["name"]: row for row in running.client.get("/api/indexers").json()}
    assert list(rows) == ["chunks", "raptor", "names"]
    assert rows["names"]["status"] == "missing_dependency"
    assert set(rows["names"]["config_schema"]["properties"]) == {"enabled", "shouted"}


def test_it_is_estimated_built_reported_searched_and_dropped(running: Service, tool: str) -> None:
    names = f"{TOOLS}/{tool}/names"
    assert running.get(f"{names}/estimate") == {"names": 3}
    assert running.get(f"{names}/status") == {"names": 0}
    assert running.post(f"{names}/build", {}) == running.get(f"{names}/status") == {"names": 3}
    assert running.get(f"{TOOLS}/{tool}")["config"]["names"]["enabled"]
    first, *_ = running.query(tool, "animals with long necks", tree="names")
    assert first["file_path"] == "giraffes of the savanna.md"
    # what every search has
    answer = running.post(f"{TOOLS}/{tool}/query", {"query": "a", "tree": "names", "top_k": 1, "trace": True}, 200)
    assert (answer["mode"], answer["total_results"], answer["coverage"]["indexed_files"]) == ("vector", 1, 3)
    assert [step["step"] for step in answer["trace"]] == ["embed"]
    refused = running.client.post(f"{TOOLS}/{tool}/query", json={"query": "a", "tree": "names", "mode": "keyword"})
    assert checked(refused, 422)["code"] == "invalid_request"
    assert checked(running.client.delete(names), 202) == {"names": 0}
    assert not running.get(f"{TOOLS}/{tool}")["config"]["names"]["enabled"]


def test_it_follows_the_config_and_goes_with_the_tool(running: Service, tool: str) -> None:
    def patch(names: object, status: int = 202) -> None:
        checked(running.client.patch(f"{TOOLS}/{tool}", json={"config": {"names": names}}), status)

    status = f"{TOOLS}/{tool}/names/status"
    patch({"enabled": True, "shouted": True}, 422)
    patch({"enabled": True})
    assert running.get(status) == {"names": 3}
    patch({"enabled": False})
    assert running.get(status) == {"names": 0}
    patch({"enabled": True})
    (name,) = namespaces(running, tool)
    assert name.endswith(".names")
    checked(running.client.delete(f"{TOOLS}/{tool}"), 202)
    place = running.home / "lancedb"
    # unlike `rglob`, `walk` allows for folders that vanish meanwhile
    eventually(lambda: not any(name in str(each) for each in os.walk(place)), 60, running.logs)
