"""Which files of an index a caller may read: those whose nodes' lists admit it, also within containers."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Literal
from uuid import uuid4

import pytest

from api.http.current_lists import by_lists
from api.http.disconnect import Disconnect
from api.http.lookup_cache import LookupCaches
from api.http.sight import ListsVersion
from api.http.sight import seen as seen_index
from api.search.query import refresh
from api.search.text.visibility import admitted_paths, visible_files
from schemas.content.acl import EVERYTHING, Sight
from schemas.content.source import NodesSource
from schemas.tool import ToolConfig
from tests.integration.steps.site import Site
from tests.integration.steps.test_narrow_runs import archive_below, ask
from worker.resources import Resources
from worker.state.access import acl
from worker.state.content import nodes
from worker.state.content.nodes import NewNode, NodeAcl, NodeMove, StoredContent
from worker.state.index import tool_actions, tools
from worker.tokens.normal_forms import normalized

ALL = {"name 0/a.zip/in/1.md", "name 1/a.zip/in/1.md", "name t"}
OF_0, OF_1, TEXT = sorted(ALL)


@pytest.fixture
def site(resources: Resources) -> Site:
    """A folder of nodes: two folders with an archive each, and a text."""
    root = f"n-{uuid4().hex}"
    settings = {"containers": ["archives"]}
    for node, parent in ((root, None), (f"{root}-0", root), (f"{root}-1", root)):
        nodes.insert(resources.pool, root, NewNode(node, parent, f"name {node[-1]}", "folder"), StoredContent())
    site = Site(resources, resources.home, project=root, source=NodesSource(node_id=root), settings=settings)
    for number in range(2):
        archive_below(site, f"{root}-{number}")
    add_text(site, f"{root}-t")
    index(site)
    assert set(site.outcomes()) == ALL
    return site


def index(site: Site) -> None:
    site.list_folder()
    site.finish_all()


def add_text(site: Site, node: str) -> None:
    key, data = f"{site.project}/{node}", b"# Roses\n\nThey need sun."
    site.resources.objects.put(key, data)
    new = NewNode(node, site.project, f"name {node[-1]}", "markdown")
    nodes.insert(site.pool, site.project, new, StoredContent(size=len(data)))
    site.do("UPDATE content_node SET object_key = %s WHERE project_id = %s AND id = %s", key, site.project, node)


def restrict(site: Site, node: str, *entries: str) -> None:
    nodes.change(site.pool, site.project, node, None, None, access=NodeAcl(entries))


def seen(site: Site, *principals: str) -> set[str | None]:
    """The paths of the files that may be read."""
    classes = acl.readable(site.pool, site.project, principals)
    found = acl.visible_files(site.pool, site.index.id, classes, with_paths=True)
    hidden = acl.any_hidden(site.pool, site.index.id, classes)
    paths = {file.path for file in found}
    assert hidden or paths == ALL
    return paths


def test_a_member_of_an_archive_has_the_list_of_the_archive(site: Site) -> None:
    assert seen(site) == ALL
    restrict(site, f"{site.project}-0", "user:a")
    assert seen(site) == {OF_1, TEXT}
    assert seen(site, "user:a") == ALL
    restrict(site, f"{site.project}-1-zip")
    assert seen(site, "user:a") == {OF_0, TEXT}
    restrict(site, f"{site.project}-1-zip", "*")
    assert seen(site) == {OF_1, TEXT}


def test_a_file_whose_node_is_gone_is_hidden(site: Site) -> None:
    restrict(site, site.project, "*")
    nodes.delete(site.pool, site.project, f"{site.project}-0")
    nodes.delete(site.pool, site.project, f"{site.project}-t")
    assert seen(site) == {OF_1}


def test_a_node_that_is_made_again_shows_nothing_of_the_earlier_one(site: Site) -> None:
    """Not until a run has read the new one: listing it is not enough."""
    site.do("UPDATE search_index_file SET live_stamp = NULL WHERE index_id = %s", site.index.id)  # an earlier release
    restrict(site, f"{site.project}-0")
    restrict(site, f"{site.project}-t")
    for node in ("-0", "-t"):
        nodes.delete(site.pool, site.project, site.project + node)
    again = NewNode(f"{site.project}-0", site.project, "name 0", "folder")
    nodes.insert(site.pool, site.project, again, StoredContent())
    archive_below(site, again.id)
    add_text(site, f"{site.project}-t")
    assert seen(site) == {OF_1}
    ask(site)
    site.list_folder()
    assert seen(site) == {OF_1}
    site.finish_all()
    assert seen(site) == ALL
    nodes.change(site.pool, site.project, f"{site.project}-t", None, StoredContent(json='"changed"', size=9))
    assert seen(site) == ALL


def test_a_file_whose_node_has_left_has_the_list_of_where_it_is(site: Site) -> None:
    elsewhere = f"{site.project}-e"
    new = NewNode(elsewhere, None, "elsewhere", "folder", acl=["user:a"])
    nodes.insert(site.pool, site.project, new, StoredContent())
    assert seen(site) == ALL
    for node in ("-t", "-1"):
        nodes.change(site.pool, site.project, site.project + node, NodeMove(None, elsewhere, to_parent=True), None)
    assert seen(site) == {OF_0}
    assert seen(site, "user:a") == ALL


def test_what_no_run_has_listed_yet_counts_as_hidden(site: Site) -> None:
    """An answer that all may be read is kept for a moment, in which a run may add the file."""
    new = NewNode(f"{site.project}-new", f"{site.project}-0", "new", "markdown", acl=["user:a"])
    nodes.insert(site.pool, site.project, new, StoredContent())
    classes = acl.readable(site.pool, site.project, ())
    assert acl.any_hidden(site.pool, site.index.id, classes)
    sibling = NewNode(f"{site.project}-", None, "its id sorts next to the folder's", "folder", acl=["user:a"])
    nodes.insert(site.pool, site.project, sibling, StoredContent())
    nodes.delete(site.pool, site.project, new.id)
    assert not acl.any_hidden(site.pool, site.index.id, classes)


def with_rules(*lists: list[str]) -> ToolConfig:
    """A config with a rule for the first archive for each list."""
    return ToolConfig.model_validate({"rules": [{"path": "name 0/**", "acl": entries} for entries in lists]})


@pytest.mark.parametrize("begins_another_index", [False, True])
def test_a_rule_holds_once_its_change_is_answered(site: Site, begins_another_index: bool) -> None:
    """Also in a process that remembers the tool with its earlier rules."""
    caches = LookupCaches(lambda: site.pool)
    remembered = caches.indexes.get(site.tool)
    assert remembered is not None
    wanted = site.wanted(**({"max_characters": 5} if begins_another_index else {}))

    def seen_paths(*principals: str) -> set[str]:
        lists = ListsVersion(acl.version(site.pool, site.project))
        visible = visible_files(
            site.pool, by_lists(site.pool, seen_index(remembered, Sight(frozenset(principals))), lists)
        )
        query = "SELECT id, path FROM search_index_file WHERE index_id = %s"
        return {path for id_, path in site.do(query, site.index.id) if visible is None or id_ in visible.ids}

    assert seen_paths() == ALL
    changes: list[tuple[ToolConfig, set[str], set[str]]] = [
        (with_rules(["user:a"]), {OF_1, TEXT}, ALL),
        (with_rules(["user:a"], []), {OF_1, TEXT}, {OF_1, TEXT}),
        (with_rules([], ["*", "!user:a"]), ALL, {OF_1, TEXT}),
        (with_rules(), ALL, ALL),
    ]
    for config, everybody, ann in changes:
        before = acl.version(site.pool, site.project)
        tool_actions.change_config(site.pool, site.tool, config, wanted)
        assert (seen_paths(), seen_paths("user:a")) == (everybody, ann)
        assert acl.version(site.pool, site.project) != before
    restrict(site, f"{site.project}-1", "user:a")
    tool_actions.change_config(site.pool, site.tool, with_rules(["user:b"]), wanted)
    # both must admit
    assert (seen_paths("user:a"), seen_paths("user:b")) == ({OF_1, TEXT}, {OF_0, TEXT})


def test_a_tool_that_begins_with_rules_obeys_them(site: Site) -> None:
    tool, _ = tools.create(site.pool, site.wanted(), name="", config=with_rules([]))
    found = tools.index_of_tool(site.pool, tool)
    assert found is not None
    visible = visible_files(site.pool, seen_index(found, Sight(frozenset())))
    query = "SELECT path FROM search_index_file WHERE id = ANY (%s)"
    assert visible is not None
    assert {path for (path,) in site.do(query, [*visible.ids])} == {OF_1, TEXT}


def test_a_failed_run_is_explained_to_whoever_reads_all_files(site: Site) -> None:
    """Its text may name files."""
    rules = with_rules(["user:a"])
    tool_actions.change_config(site.pool, site.tool, rules, site.wanted())
    site.do("UPDATE search_index_task SET status = 'error', error = 'cannot read name 0/x', finished_at = now()")
    index = tools.index_of_tool(site.pool, site.tool)
    assert index is not None
    for sight, is_told in ((Sight(frozenset()), False), (EVERYTHING, True)):
        (note,) = refresh._wait_for_task(site.resources, seen_index(index, sight), time.monotonic() + 9, Disconnect())
        assert note.code == "reindex_failed"
        assert ("name 0/x" in note.detail) is is_told


@pytest.mark.parametrize("form", ["NFC", "NFD"])
@pytest.mark.parametrize("form_of_path", ["NFC", "NFD"])
def test_a_rule_holds_for_a_name_however_it_is_spelled(
    site: Site, form: Literal["NFC", "NFD"], form_of_path: Literal["NFC", "NFD"]
) -> None:
    config = ToolConfig.model_validate({"rules": [{"path": normalized(form, "Büro/**"), "acl": ["user:a"]}]})
    index = replace(seen_index(site.index, Sight(frozenset())), metadata=config.metadata_view)
    is_admitted = admitted_paths(index)
    assert is_admitted is not None
    assert not is_admitted(normalized(form_of_path, "Büro/a.md"))
    assert is_admitted("buro/a.md")


@pytest.mark.parametrize("path", [" hr/**", "hr/** ", "hr/**/", "hr/**//", "{hr,pay}/**/", "hr\n"])
def test_a_rule_with_a_list_that_would_hide_less_than_it_seems_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match="remove that"):
        ToolConfig.model_validate({"rules": [{"path": path, "acl": []}]})
    ToolConfig.model_validate({"rules": [{"path": path, "set": {"a": 1}}]})
