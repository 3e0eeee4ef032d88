"""Two builds of one folder, by other slices and after other edits, give the same answers in the same order."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pydantic_core import to_jsonable_python

from api.http.disconnect import Disconnect
from api.routes.tools import wanted_index
from api.search.across.answer import search_across
from api.search.code import calls
from api.search.grep.grep import grep
from api.search.pipeline import answer_query
from api.search.tree.answer import answer_by_tree
from schemas.content.acl import EVERYTHING
from schemas.content.source import AnySource, LocalSource
from schemas.queries.across import Across
from schemas.queries.grep import Grep
from schemas.queries.search import Mode, Query
from schemas.tool import ToolConfig
from tests.chaos.full import only_in_full
from tests.contract.stores import warmed
from tests.fakes.embeddings import EmbeddingsFake
from tests.fakes.turbopuffer import FakeTurbopuffer
from tests.integration.steps.forest import Forest
from tests.integration.steps.site import Site
from worker.index.pipeline import index_files
from worker.resources import Resources
from worker.settings import Settings
from worker.state.index.tools import NewIndex, ToolOver
from worker.state.search import code_texts, symbols
from worker.state.tree import trees
from worker.vectors.directory_store import DirectoryStore
from worker.vectors.lance.store import LanceStore

STORES = [
    *("lancedb-store", "turbopuffer-postgres"),
    *(pytest.param(other, marks=only_in_full) for other in ("lancedb-postgres", "turbopuffer-store")),
]
#: More copies than a leg returns rows, so that equal ones stand at its limit.
COPIES = 140
#: What names a row or a tool, and so differs between equal folders; and what a clock tells.
NAMES = {
    *("chunk_id", "file_id", "file_node_id", "tool_id", "node_id", "raptor_expanded_from"),
    *("took_ms", "trace", "tools"),
}
MODES: tuple[Mode, ...] = ("vector", "keyword", "hybrid")
QUERIES = (
    *("the harbour closes at night", "lamp", "def run", "run", "berth 7", "water pump pressure", "number"),
    *('"closes at night"', "Copies of one paragraph", "nothing of this is there", "handler total", "ok"),
)
VARIANTS: tuple[dict[str, Any], ...] = (
    {},
    {"mode": "vector", "top_k": 30},
    {"mode": "keyword", "top_k": 30, "explain": True},
    {"filters": {"path": "copies/**"}, "before": 1, "after": 1},
    {"group_by_file": True, "top_k": 20, "filters": {"types": ["code", "markdown"]}},
)


def files() -> dict[str, str]:
    """A folder of copies, lines of one word, equal items, and code that uses equal names everywhere."""
    paragraph = "Copies of one paragraph say that the harbour closes at night, and that each lamp burns till morning.\n"
    made = {f"copies/{number % 7}/{number:03}.md": paragraph for number in range(COPIES)}
    made["lines.txt"] = "".join(f"{word}\n\n" for word in ["lamp", "ok", "berth", "lamp"] * 60)
    made["items.json"] = json.dumps([{"berth": number % 3, "state": "ok"} for number in range(90)], indent=1)
    for number in range(12):
        body = "def run(handler):\n    total = handler.total()\n    return run(total)\n"
        made[f"code/{'abcdef'[number % 6]}/part_{number}.py"] = f"{body}\n\ndef only_{number}():\n    return run(1)\n"
    for number in range(12):
        made[f"pumps/{number}.md"] = f"# Pump {number}\n\nThe water pump needs pressure number {number % 4}.\n"
    return made


class Build(Site):
    """A tool whose store, keywords and model the settings name."""

    def wanted(self, **_: Any) -> NewIndex:
        source = LocalSource(kind="local", path=str(self.folder))
        return wanted_index(self.project, source, ToolConfig(chunk_size=32, chunk_overlap=0), self.resources)[0]

    def put(self, texts: Mapping[str, str], moment: int) -> None:
        """Make the folder hold exactly these texts."""
        for path in self.folder.rglob("*"):
            if path.is_file() and str(path.relative_to(self.folder)) not in texts:
                path.unlink()
        for name, text in texts.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if not path.exists() or path.read_text() != text:
                path.write_text(text)
                os.utime(path, (moment, moment))

    def index_in_slices(self, most: int) -> None:
        run = self.worker()
        while claims := self.claim(run, most):
            index_files(run, claims)
        assert self.refresh()
        store = self.resources.store_of(self.index)
        store.optimize(self.index.namespace)
        if isinstance(store, DirectoryStore) and isinstance(store.store, LanceStore):
            warmed(store.store, self.index.namespace)


def calm(resources: Resources, folder: Path) -> Build:
    """One run, in one slice."""
    folder.mkdir()
    made = Build(resources, folder)
    made.put(files(), 1_000_000)
    made.list_folder()
    made.index_in_slices(1000)
    return made


def edited(resources: Resources, folder: Path) -> Build:
    """Several runs over another folder, which edits turn into the same one."""
    folder.mkdir()
    made, chance = Build(resources, folder), Random(7)
    texts = files()
    before = {name: text for name, text in texts.items() if chance.random() < 0.7}
    before |= {name: f"Before all edits.\n\n{text[len(text) // 2 :]}" for name, text in list(before.items())[::4]}
    before["lines.txt"] = texts["lines.txt"][30:] + "lamp\n\nlamp\n\n"
    made.put(before | {"gone.md": texts["copies/0/000.md"]}, 1_000_000)
    made.list_folder()
    made.index_in_slices(9)
    made.put(before | dict(list(texts.items())[::2]), 1_000_001)
    made.again()
    made.index_in_slices(3)
    made.put(texts, 1_000_002)
    made.again()
    made.index_in_slices(17)
    return made


@pytest.fixture(scope="module", params=STORES)
def resources(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, database_url: str
) -> Iterator[Resources]:
    store, _, keywords = request.param.partition("-")
    home = tmp_path_factory.mktemp("equal") / "home"
    with ExitStack() as stack:
        provider, fake = stack.enter_context(EmbeddingsFake()), stack.enter_context(FakeTurbopuffer())
        env = {**provider.env, **(fake.env if store == "turbopuffer" else {})}
        settings = Settings(
            auth="off",
            foldex_home=home,
            database_url=database_url,
            vector_store=store,
            keyword_index=keywords,
            local_source_roots=[home.parent],
            **{name.lower(): value for name, value in env.items()},
        )
        made = Resources(settings)
        stack.enter_context(closing(made.pool))
        yield made


@pytest.fixture(scope="module")
def builds(resources: Resources) -> tuple[Build, Build]:
    return calm(resources, resources.home.parent / "calm"), edited(resources, resources.home.parent / "edited")


def plain(found: Any) -> Any:
    """An answer without what names rows and tools."""
    if isinstance(found, dict):
        return {name: plain(value) for name, value in found.items() if name not in NAMES}
    return [plain(each) for each in found] if isinstance(found, list) else found


def compared(builds: tuple[Build, Build], ask: Callable[[Build], Any]) -> Any:
    """What both builds answer, without what names rows and tools."""
    one, other = (plain(to_jsonable_python(ask(build))) for build in builds)
    assert one == other
    assert one, "an empty answer compares nothing"
    return one


def of_query(build: Build, query: Query) -> Any:
    found = answer_query(build.resources, build.tool, build.index, query, disconnect=Disconnect())
    return found.model_dump(mode="json")


@pytest.mark.parametrize("text", QUERIES)
def test_every_query_has_the_same_hits_in_the_same_order(builds: tuple[Build, Build], text: str) -> None:
    for variant in VARIANTS:
        query = Query.model_validate({"query": text, **variant})
        compared(builds, lambda build, query=query: of_query(build, query))  # type: ignore[misc] # mypy knows no such lambda


def test_copies_come_by_path_and_equal_lines_by_position(builds: tuple[Build, Build]) -> None:
    for text, mode in product(("Copies of one paragraph say that the harbour closes at night", "lamp"), MODES):
        query = Query(query=text, mode=mode, rerank="none", top_k=COPIES)
        places: dict[float, list[tuple[str, int]]] = {}
        for hit in compared(builds, lambda build, query=query: of_query(build, query))["results"]:  # type: ignore[misc]
            places.setdefault(hit["score"], []).append((hit["file_path"], hit["chunk_index"]))
        assert max(map(len, places.values())) > 10
        assert all(equal == sorted(equal) for equal in places.values())


def test_several_tools_answer_the_same(builds: tuple[Build, Build]) -> None:
    for text in QUERIES[::3]:

        def ask(build: Build, text: str = text) -> Any:
            request = Across(project_id=build.project, query=text, tool_ids=[build.tool], top_k=30)
            found = search_across(build.resources, request, no_index, EVERYTHING, disconnect=Disconnect())
            return found.model_dump(mode="json")

        compared(builds, ask)


def no_index(_: AnySource) -> ToolOver:
    raise AssertionError("all paths are indexed")


def test_grep_and_symbols_answer_the_same(builds: tuple[Build, Build]) -> None:
    compared(builds, lambda build: grep(build.resources, build.index, Grep(pattern="lamp|run")).model_dump(mode="json"))
    for name in ("run", "only_3", "total", "handler"):
        compared(builds, lambda build, name=name: uses(build, name))  # type: ignore[misc]
    compared(builds, lambda build: symbols.definitions(build.pool, build.index.id, prefix="", limit=100))


def uses(build: Build, name: str) -> Any:
    """Where a name is used and defined, and what its definitions call."""
    index_id = build.index.id
    references, after = [], None
    while page := symbols.references(build.pool, index_id, name=name, after=after, limit=5):
        references += page
        last = page[-1]
        after = last.file_path, last.file_id_path, last.file_id, last.start_line, last.number
    assert [each.file_path for each in references] == sorted(each.file_path for each in references)
    start = code_texts.named(build.pool, index_id, name, 100)
    named = [place for _, *place in symbols.find_named(build.pool, index_id, [name])]
    found = [calls.callers(build.pool, index_id, name, start, 2), calls.callees(build.pool, index_id, start, 2)]
    return [references, named, [each[1:] for each in start], *found]


def test_trees_answer_the_same(builds: tuple[Build, Build]) -> None:
    forests = [Forest(build) for build in builds]
    for forest in forests:
        forest.configure(min_cluster_size=2)
        trees.reconcile(forest.site.pool)
        forest.build()
    for way, expand, text in product(("collapsed", "tree_traversal"), (True, False), QUERIES[::4]):
        query = Query.model_validate({"query": text, "tree": way, "expand_to_leaves": expand, "top_k": 20})

        def ask(build: Build, query: Query = query) -> Any:
            found = answer_by_tree(build.resources, build.tool, build.index, query, disconnect=Disconnect())
            return found.model_dump(mode="json")

        compared(builds, ask)
