"""What access lists hide costs nothing: neither its number nor that of its lists can be told by the time."""

from __future__ import annotations

from random import Random
from uuid import uuid4

import pytest

from schemas.content.acl import MAX_PRINCIPALS, Sight, admits
from tests.integration.database import do, know_nodes, rows_read
from worker.state.access import acl
from worker.state.content import nodes
from worker.state.content.nodes import NewNode, StoredContent
from worker.state.pool import Pool

ANN = Sight(frozenset({"user:ann"}))
HIDDEN, SHOWN, PAGE = 10_000, 300, 100

MAKE_LISTS = """
INSERT INTO acl_class (project_id, entries, digest)
SELECT %(project)s, ARRAY [%(reader)s, 'user:' || n], sha256(convert_to(%(reader)s || n, 'UTF8'))
FROM generate_series(1, %(lists)s) n
"""
#: What is hidden comes before, between and after what is shown.
MAKE_NODES = """
WITH lists AS (
    SELECT array_agg(id) AS ids FROM acl_class WHERE project_id = %(project)s AND %(reader)s = ANY (entries)
)
INSERT INTO content_node (project_id, id, parent_id, id_path, name, type, own_acl)
SELECT %(project)s, n || %(reader)s, 'f', '/f/' || n || %(reader)s, n * 7919 %% 10000 || '.txt', 'text',
       ids[1 + n %% cardinality(ids)]
FROM lists, generate_series(1, %(nodes)s) n
"""
FOLDER = "INSERT INTO content_node (project_id, id, id_path, name, type) VALUES (%s, 'f', '/f', 'f', 'folder')"


def filled(pool: Pool, lists: int, hidden_lists: int, *, has_hidden: bool) -> str:
    """A project with a folder `f`: Ann may read some of its nodes, by so many lists, but not the many of Eve."""
    project = f"p-{uuid4()}"
    know_nodes(pool)
    do(pool, FOLDER, project)
    for reader, number, count in (("user:ann", lists, SHOWN), ("user:eve", hidden_lists, HIDDEN if has_hidden else 0)):
        values = {"project": project, "reader": reader, "lists": number if count else 0, "nodes": count}
        with pool.connection() as connection:
            connection.execute("DISCARD PLANS")
            for statement in (MAKE_LISTS, MAKE_NODES):
                connection.execute(statement.encode(), values)
    do(pool, "ANALYZE content_node")
    do(pool, "ANALYZE acl_class")
    return project


def listed(pool: Pool, project: str, folder: str | None, sight: Sight, limit: int) -> list[list[str]]:
    """The ids of each page of a folder, as these principals see it."""
    pages: list[list[str]] = []
    after = None
    while found := nodes.page(pool, project, folder, after=after, limit=limit, sight=sight):
        pages.append([node.id for node in found])
        after = (found[-1].name, found[-1].id)
    return pages


@pytest.mark.parametrize(("lists", "hidden_lists"), [(1, 1), (1, HIDDEN), (100, HIDDEN), (5_000, HIDDEN)])
def test_pages_read_no_hidden_node_and_no_hidden_list(pool: Pool, lists: int, hidden_lists: int) -> None:
    pages, costs = [], []
    for has_hidden in (False, True):
        project = filled(pool, lists, hidden_lists, has_hidden=has_hidden)
        before = rows_read(pool, "content_node", "acl_class")
        pages.append(listed(pool, project, "f", ANN, PAGE))
        costs.append(rows_read(pool, "content_node", "acl_class") - before)
    assert pages[0] == pages[1]
    assert [len(page) for page in pages[0]] == [PAGE] * (SHOWN // PAGE)
    assert costs[1] <= costs[0] + SHOWN


@pytest.mark.parametrize("lists", [nodes.MAX_LISTS_READ - 1, nodes.MAX_LISTS_READ, 50_000])
def test_pages_are_complete_however_many_lists_admit_a_caller(pool: Pool, lists: int) -> None:
    """Up to the limit each list is read, and above it hidden nodes are passed over. One of the lists is none."""
    project = filled(pool, lists, 10, has_hidden=True)
    assert len(acl.readable(pool, project, ANN.principals or ())) == lists
    pages = listed(pool, project, "f", ANN, PAGE)
    assert [len(page) for page in pages] == [PAGE] * (SHOWN // PAGE)
    names = "SELECT id FROM content_node WHERE project_id = %s AND id LIKE '%%ann' ORDER BY name COLLATE \"C\""
    assert [id_ for page in pages for id_ in page] == [id_ for (id_,) in do(pool, names, project)]


@pytest.mark.parametrize("is_known", [True, False])
def test_a_caller_in_many_groups_reads_none_of_the_other_lists(pool: Pool, is_known: bool) -> None:
    """Whether or not Postgres has statistics of the lists."""
    project, groups = f"p-{uuid4()}", frozenset(f"group:{number}" for number in range(MAX_PRINCIPALS))
    with pool.connection() as connection:
        for reader, count in (("group:7", 3), ("user:eve", HIDDEN)):
            connection.execute(MAKE_LISTS, {"project": project, "reader": reader, "lists": count})
    if is_known:
        do(pool, "ANALYZE acl_class")
    else:
        do(pool, "DELETE FROM pg_statistic WHERE starelid = 'acl_class'::regclass")
    before = rows_read(pool, "acl_class")
    assert len(acl.readable(pool, project, groups)) == 3
    assert rows_read(pool, "acl_class") - before < 100


@pytest.mark.parametrize("most_lists", [nodes.MAX_LISTS_READ, 0])
@pytest.mark.parametrize("folder", ["f", None])
def test_pages_show_what_a_caller_may_read_in_the_order_of_names(
    pool: Pool, monkeypatch: pytest.MonkeyPatch, most_lists: int, folder: str | None
) -> None:
    monkeypatch.setattr(nodes, "MAX_LISTS_READ", most_lists)
    random, project = Random(59), f"p-{uuid4()}"
    do(pool, FOLDER, project)
    known: list[tuple[str, str, list[str] | None]] = [] if folder else [("f", "f", None)]
    for number in range(120):
        drawn = sorted(
            random.sample(["*", "!user:ann", "user:ann", "user:bob", f"user:{number % 7}"], random.randrange(4))
        )
        # names that are alike, or differ only behind what the index holds of them
        name = random.choice(["a", "b", "ä", "long" * 60 + str(number % 3), str(number % 30)])
        entries = random.choice([None, drawn])
        nodes.insert(pool, project, NewNode(f"n{number}", folder, name, "text", acl=entries), StoredContent())
        known.append((name, f"n{number}", entries))
    for principals in (frozenset(), frozenset({"user:ann"}), frozenset({"user:bob", "user:3"}), None):
        shown = [
            id_
            for _, id_, entries in sorted(known, key=lambda each: (each[0].encode(), each[1]))
            if principals is None or entries is None or admits(entries, principals)
        ]
        for limit in (1, 7, 200):
            pages = listed(pool, project, folder, Sight(principals), limit)
            assert [id_ for page in pages for id_ in page] == shown
            assert all(len(page) == limit for page in pages[:-1])
