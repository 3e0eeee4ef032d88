"""A kind of source is known by its model and its row in the registry: a further kind takes part everywhere."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Annotated, Any, Literal, Self, cast
from uuid import uuid4

import pytest
from pydantic import Field, TypeAdapter

import schemas.content.source
from api.agents.folders import root_of
from api.http.sight import seen
from api.routes.sources import list_sources
from api.routes.tools import wanted_index
from api.search.across.paths import route_paths
from api.search.across.readable import SeenTool
from api.search.across.unindexed import uncovered_hits
from schemas.content.acl import EVERYTHING
from schemas.content.document import FileContent, ListingPage, SourceEntry
from schemas.content.source import AnySource, LocalSource, NodesSource, S3Source, parsed_source, source_at
from schemas.errors import FileError, FilterMatchesNothing, FolderGone, Invalid
from schemas.queries.search import Filters
from schemas.reason import Reason
from schemas.tool import ToolConfig
from tests.integration.steps.site import Site
from worker.ignore import Rules
from worker.resources import Resources
from worker.sources.kind import ContentAccess, IndexedTarget, SourceLocation, WatchAccess, not_granted, outside_target
from worker.sources.registry import KINDS, addresses
from worker.state.access import grants
from worker.state.index import changes, statuses, tool_actions, tools
from worker.state.index.changes import WatchedIndex
from worker.upkeep.watch import Watcher

SHELF = "shelf://"
#: Files that are not removed at once.
MANY = 30
#: Texts of the files of all shelves, by shelf and name.
TEXTS: dict[str, dict[str, str]] = {}


class ShelfSource(schemas.content.source._SourceTraits):
    """A shelf of texts in memory."""

    title = "A shelf"

    kind: Literal["shelf"] = "shelf"
    name: str

    @classmethod
    def at_place(cls, place: str) -> Self | None:
        return cls(name=place.removeprefix(SHELF).rstrip("/")) if place.startswith(SHELF) else None

    @property
    def place(self) -> str:
        return f"{SHELF}{self.name}/"


class Shelf:
    def __init__(self, name: str) -> None:
        self.name = name

    def check(self) -> None:
        if self.name not in TEXTS:
            raise FolderGone(f"There is no shelf {self.name!r}.")

    def list(self, _cursor: str | None) -> ListingPage:
        self.check()
        texts = TEXTS[self.name].items()
        return ListingPage([SourceEntry(n.encode(), n, f"/{n}", None, len(text), text[-9:]) for n, text in texts], None)

    def narrow(self, _keys: Sequence[bytes]) -> None:
        """List everything."""

    def near(self) -> None: ...

    def leaves_out(self, _key: bytes) -> bool:
        return False

    def read(self, key: bytes, _limit: int, _listed: str = "", /) -> FileContent:
        text = TEXTS[self.name].get(key.decode())
        if text is None:
            raise FileError(Reason.UNREADABLE)
        return FileContent(text.encode(), text[-9:])


class ShelfKind:
    def open(self, access: ContentAccess, source: ShelfSource, _rules: Rules) -> Shelf:
        granted = grants.may_read_below(access.pool(), access.project_id, source.place)
        if access.options.auth == "on" and not granted:
            raise not_granted(access, source.place)
        return Shelf(source.name)

    def target(self, access: ContentAccess, source: ShelfSource) -> IndexedTarget:
        return outside_target(cast(AnySource, source), source.name, lambda: self.open(access, source, Rules()))

    def address_prefix(self, address: str | None) -> str:
        return address or ""

    def addresses(self, _access: ContentAccess, sources: Sequence[ShelfSource]) -> list[str | None]:
        return [source.place.rstrip("/") for source in sources]

    def locate(self, _access: ContentAccess, path: str) -> list[SourceLocation] | None:
        if not path.startswith(SHELF):
            return None
        name, _, file = path.removeprefix(SHELF).partition("/")
        return [SourceLocation(path, cast(AnySource, ShelfSource(name=name)), file.encode() or None)]

    def watch(self, _access: WatchAccess, _source: ShelfSource, _index: WatchedIndex) -> None:
        """A shelf does not report changes."""


@pytest.fixture
def shelf(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The name of a shelf with three texts; the kind has its row, and JSON of the kind is read."""
    union = Annotated[NodesSource | LocalSource | S3Source | ShelfSource, Field(discriminator="kind")]
    monkeypatch.setattr(schemas.content.source, "_ANY", TypeAdapter(union))
    monkeypatch.setattr(schemas.content.source, "SOURCES", (*schemas.content.source.SOURCES, ShelfSource))
    kinds: dict[type[Any], Any] = {ShelfSource: ShelfKind(), **KINDS}
    monkeypatch.setattr("worker.sources.registry.KINDS", kinds)
    name = uuid4().hex
    TEXTS[name] = {f"{word}.txt": f"All about {word} and nothing else." for word in ("apples", "boats", "clouds")}
    yield name
    del TEXTS[name]


def source(name: str) -> AnySource:
    return parsed_source({"kind": "shelf", "name": name})


def site_of(resources: Resources, name: str) -> Site:
    made = Site(resources, resources.home, source=source(name))
    made.list_folder()
    made.finish_all()
    return made


def test_its_json_is_read_back(shelf: str) -> None:
    assert source(shelf).model_dump() == {"kind": "shelf", "name": shelf}
    assert source_at(f"{SHELF}{shelf}") == source(shelf)
    with pytest.raises(ValueError, match="absolute path"):
        source_at("nowhere")


def test_callers_learn_its_schema_and_where_it_is(shelf: str) -> None:
    [kind] = [kind for kind in list_sources() if kind.kind == "shelf"]
    assert (kind.title, sorted(kind.source_schema["properties"])) == ("A shelf", ["kind", "name"])
    place = source(shelf).shown_place
    assert root_of(cast(Any, SimpleNamespace(node_id=None, place=place))) == f"{SHELF}{shelf}"


def test_it_is_listed_read_and_indexed(resources: Resources, shelf: str) -> None:
    site = site_of(resources, shelf)
    assert site.outcomes() == dict.fromkeys(TEXTS[shelf], "indexed")
    site.prove()


def test_most_of_its_files_are_not_removed_at_once(resources: Resources, shelf: str) -> None:
    TEXTS[shelf] |= {f"{number}.txt": f"All about {number}." for number in range(MANY)}
    site = site_of(resources, shelf)
    TEXTS[shelf].clear()
    task = tool_actions.reindex(site.pool, site.tool, full=False, allow_removals=False)
    assert task is not None
    site.task = task
    site.list_folder()
    status = statuses.newest_of_tool(site.pool, site.tool)
    assert status is not None
    assert status.held_removals == MANY + 3


def test_a_path_finds_its_tool_or_its_text(resources: Resources, shelf: str) -> None:
    site = site_of(resources, shelf)
    known = [
        SeenTool(tool.tool_id, tool.name, seen(tool.index, EVERYTHING))
        for tool in tools.searchable(resources.pool, site.project)
    ]
    targets = route_paths(resources, site.project, [f"{SHELF}{shelf}/boats.txt"], known, EVERYTHING)
    (route,) = targets.routes
    assert (route.tool.tool_id, route.id_paths) == (site.tool, frozenset(["/boats.txt"]))
    assert targets.uncovered == []
    targets = route_paths(resources, site.project, [f"{SHELF}{shelf}"], [], EVERYTHING)
    assert targets.routes == []
    asked = SimpleNamespace(filters=Filters(), texts=["boats"], top_k=9)
    left = SimpleNamespace(event=SimpleNamespace(is_set=lambda: False), check=lambda: None)
    request, disconnect = cast(Any, asked), cast(Any, left)
    hits, _ = uncovered_hits(
        resources, targets.readable, targets.uncovered, request, deadline=math.inf, disconnect=disconnect
    )
    assert [hit.file_id_path for hit in hits] == [f"{SHELF}{shelf}/boats.txt"]
    with pytest.raises(FilterMatchesNothing):
        route_paths(resources, site.project, ["elsewhere://x"], known, EVERYTHING)


def test_paths_of_other_kinds_are_found_beside_it(resources: Resources, shelf: str) -> None:
    folder = str(resources.home.parent)
    (location,) = route_paths(resources, "p", [folder], [], EVERYTHING).uncovered
    assert location.source == LocalSource(kind="local", path=folder)


def test_addresses_come_in_the_order_of_the_sources_of_whatever_kind(resources: Resources) -> None:
    project = f"p-{uuid4().hex}"
    with resources.pool.connection() as connection:
        for node_id in ("a", "b"):
            node = "INSERT INTO content_node (project_id, id, id_path, name, type) VALUES (%s, %s, %s, %s, 'json')"
            connection.execute(node.encode(), (project, node_id, f"/{node_id}", f"{node_id}.json"))
    sources: dict[str | None, AnySource] = {
        "node:/b": NodesSource(node_id="b"),
        "s3://shelf/docs": S3Source(kind="s3", bucket="shelf", prefix="docs"),
        "node:/a": NodesSource(node_id="a"),
        "/srv/docs": LocalSource(kind="local", path="/srv/docs"),
    }
    access = resources.access(project)
    assert addresses(access, [*sources.values()]) == [*sources]
    # a part of a file has no address, nor has what is gone
    rest = [NodesSource(node_id="a", json_pointer="/a"), NodesSource(node_id="c"), NodesSource(node_id="b")]
    assert addresses(access, rest) == [None, None, "node:/b"]


def test_a_tool_over_it_gets_its_name_and_may_not_ask_for_what_it_cannot_do(resources: Resources, shelf: str) -> None:
    wanted, name = wanted_index("p", source(shelf), ToolConfig(), resources)
    assert (name, wanted.source) == (shelf, source(shelf))
    with pytest.raises(Invalid, match="A shelf does not report changes"):
        wanted_index("p", source(shelf), ToolConfig(watch=True), resources)
    with pytest.raises(Invalid, match="auto_reindex"):
        wanted_index("p", source(shelf), ToolConfig(auto_reindex=True), resources)
    with pytest.raises(FolderGone):
        wanted_index("p", source("missing"), ToolConfig(), resources)


def test_what_cannot_be_watched_is_not(resources: Resources, shelf: str) -> None:
    site = site_of(resources, shelf)
    site.do("""UPDATE search_tool SET config = '{"watch": true}' WHERE id = %s""", site.tool)
    assert site.index.id in {index.id for index in changes.list_watched(site.pool)}
    watcher = Watcher(resources)
    watcher._update_watches()
    assert site.index.id not in watcher._followed


def test_it_is_read_only_where_it_was_granted(resources: Resources, shelf: str, database_url: str) -> None:
    closed = Resources(resources.settings.model_copy(update={"auth": "on"}))
    project = f"p-{uuid4().hex}"
    with pytest.raises(FolderGone, match=shelf):
        closed.source(project, source(shelf))
    assert grants.add(closed.pool, project, f"{SHELF}{shelf}")
    closed.source(project, source(shelf)).check()
    assert [row.place for row in grants.page(closed.pool, project)] == [f"{SHELF}{shelf}/"]
    closed.pool.close()
