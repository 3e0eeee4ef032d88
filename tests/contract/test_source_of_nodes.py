"""Nodes as a source: what moves, changes and vanishes meanwhile."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from psycopg.pq import TransactionStatus

from schemas.errors import FileError, FolderGone, SourceUnavailable
from schemas.reason import Reason
from tests.contract.folders import LIMIT, Tree, closed_port, listed
from tests.helpers import HELPERS
from worker.ignore import NOT_OBEYED, Rules
from worker.objects.directory_objects import DirectoryObjects
from worker.sources import nodes
from worker.sources.nodes import SLASH_IN_NAME, NodeTree
from worker.state.pool import Pool, open_pool


def test_a_node_keeps_its_stamp_and_cursor_when_moved_or_renamed(tree: Tree) -> None:
    tree.write("a/one.md", b"1")
    tree.write("b/two.md", b"2")
    page = tree.source(1).list(None)
    given, rest = page.entries, listed(tree.source(1), page.cursor)
    tree.run("UPDATE content_node SET name = 'renamed' WHERE project_id = %s AND name = 'a'", tree.project)
    tree.run(
        "UPDATE content_node SET id_path = '/elsewhere' || id_path WHERE project_id = %s AND id <> 'top'", tree.project
    )
    after = listed(tree.source(1), page.cursor)
    assert [(entry.key, entry.stamp) for entry in after] == [(entry.key, entry.stamp) for entry in rest]
    moved = {entry.key: entry for entry in listed(tree.source())}
    assert {entry.path for entry in moved.values()} == {"renamed/one.md", "b/two.md"}
    assert moved[given[0].key].stamp == given[0].stamp
    assert moved[given[0].key].id_path == "/elsewhere" + given[0].id_path


def test_a_node_that_was_moved_out_is_no_longer_read(tree: Tree) -> None:
    tree.write("a/one.md", b"1")
    tree.write("a/two.json", b"2")
    source = tree.source()
    keys = [entry.key for entry in listed(source)]
    contents = {key: source.read(key, LIMIT).data for key in keys}
    assert {*contents.values()} == {b"1", b"2"}
    for elsewhere in ("/top/root-2", "/elsewhere", "/top/roots"):
        tree.run(
            "UPDATE content_node SET id_path = %s || substr(id_path, length('/top/root') + 1)"
            " WHERE project_id = %s AND starts_with(id_path, '/top/root/')",
            *(elsewhere, tree.project),
        )
        for key in keys:
            with pytest.raises(FileError, match="no longer"):
                source.read(key, LIMIT)
        tree.run(
            "UPDATE content_node SET id_path = '/top/root' || substr(id_path, length(%s) + 1)"
            " WHERE project_id = %s AND starts_with(id_path, %s || '/%%')",
            *(elsewhere, tree.project, elsewhere),
        )
    # a tool over the single node follows it wherever it goes
    assert tree.source(node_id=keys[0].decode()).read(keys[0], LIMIT).data == contents[keys[0]]


def test_a_node_made_anew_under_its_old_id_is_another(tree: Tree) -> None:
    stamps_seen = set()
    for _ in range(2):
        tree.add("again", tree.root, "again.md", "markdown")
        stamps_seen |= {entry.stamp for entry in listed(tree.source())}
        tree.run("DELETE FROM content_node WHERE project_id = %s AND id = 'again'", tree.project)
    assert len(stamps_seen) == 2


def test_entries_of_nodes_carry_ids_type_and_plain_paths(tree: Tree) -> None:
    tree.add("f", tree.root, "in/out", "folder")
    tree.add("n", "f", "", "json")
    [entry] = listed(tree.source())
    assert (entry.node_id, entry.id_path, entry.type) == ("n", "/top/root/f/n", "json")
    assert entry.path == f"in{SLASH_IN_NAME}out/n"


def test_a_single_node_is_a_folder_of_one(tree: Tree) -> None:
    tree.write("a/config.json", b'{"b": 1}')
    source = tree.source(1, tree.ids["a/config.json"])
    source.check()
    [entry] = listed(source)
    assert entry.path == "config.json"
    assert source.read(entry.key, LIMIT).data == b'{\n  "b": 1\n}'


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('{"z": 1, "a": "\u00e4\\u0000"}', '{\n  "z": 1,\n  "a": "\u00e4\\u0000"\n}'),
        ('"\\ud800!"', '"\ufffd!"'),
        ('"\\ud83d\\ude00"', '"\U0001f600"'),
        ("null", "null"),
        ("[]", "[]"),
    ],
)
def test_inline_json_is_shown_indented_and_in_order(tree: Tree, text: str, shown: str) -> None:
    node_id = tree.node("a.json")
    tree.run("UPDATE content_node SET json = %s WHERE project_id = %s AND id = %s", text, tree.project, node_id)
    assert tree.source().read(node_id.encode(), LIMIT).data.decode() == shown
    assert shown == shown.replace("\ufffd", "?") or json.loads(shown)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("9" * 5000, Reason.PARSE_FAILED),
        ("[" * 3000 + "]" * 3000, Reason.PARSE_FAILED),
        ("[" * 500 + ",".join("1" * 9000) + "]" * 500, Reason.TOO_LARGE),
    ],
)
def test_inline_json_that_python_cannot_hold_fails_alone(tree: Tree, text: str, reason: Reason) -> None:
    node_id = tree.node("a.json")
    tree.run("UPDATE content_node SET json = %s WHERE project_id = %s AND id = %s", text, tree.project, node_id)
    with pytest.raises(FileError) as failed:
        tree.source().read(node_id.encode(), LIMIT)
    assert failed.value.reason is reason


def test_a_node_without_content_is_empty_and_a_folder_no_file(tree: Tree) -> None:
    bare, inner = tree.node("bare.md"), tree.node("folder")
    for node_id, reason in ((bare, Reason.EMPTY), (inner, Reason.NOT_A_FILE)):
        with pytest.raises(FileError) as failed:
            tree.source().read(node_id.encode(), LIMIT)
        assert failed.value.reason is reason


def test_content_replaced_while_it_is_read_is_read_anew(tree: Tree) -> None:
    class Replacing(DirectoryObjects):
        """Objects, of which an upload replaces one just before the first `get`."""

        def get(self, key: str, limit: int) -> bytes:
            if key != latest:
                tree.run("UPDATE content_node SET object_key = %s WHERE project_id = %s", latest, tree.project)
                self.delete(key)
            return super().get(key, limit)

    tree.write("a.md", b"old")
    latest = f"{tree.project}/new"
    tree.objects.put(latest, b"new")
    tree.objects = Replacing(tree.objects.directory)
    assert tree.source().read(tree.ids["a.md"].encode(), LIMIT).data == b"new"


def test_a_node_is_read_by_one_statement_without_a_transaction(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    tree.write("a.md", b"1")
    source, states, rows = tree.source(), list[TransactionStatus](), nodes._rows

    def noted(kind: type[Any], database: nodes.Database, query: str, **values: Any) -> Any:
        found = rows(kind, database, query, **values)
        states.append(database.info.transaction_status)
        return found

    monkeypatch.setattr(nodes, "_rows", noted)
    assert source.read(tree.ids["a.md"].encode(), LIMIT).data == b"1"
    assert states == [TransactionStatus.IDLE]


def test_a_database_that_is_away_is_not_a_missing_folder(tmp_path: Path) -> None:
    with open_pool(f"postgresql://nobody@127.0.0.1:{closed_port()}/none") as pool:
        pool.timeout = 0.2
        source = NodeTree(pool, DirectoryObjects(tmp_path), HELPERS, "n")
        with pytest.raises(SourceUnavailable):
            source.check()


def test_a_node_whose_id_begins_with_that_of_another_is_listed_besides(pool: Pool, tmp_path: Path) -> None:
    tree = Tree(pool, tmp_path)
    for node_id in ("a", "ab", "a-b"):
        tree.add(node_id, tree.root, f"{node_id}.json", "json")
    source = tree.source()
    assert sorted(source.narrow([b"ab", b"a", b"a-b"]) or []) == [b"a", b"a-b", b"ab"]
    assert sorted(entry.path for entry in listed(source)) == ["a-b.json", "a.json", "ab.json"]


def test_no_rule_leaves_out_a_node_of_a_folder_whose_id_begins_alike(pool: Pool, tmp_path: Path) -> None:
    tree = Tree(pool, tmp_path)
    tree.add("yes", tree.root, "no.md", "markdown")
    source = tree.source(rules=Rules(exclude=["no.md"]))
    # the folder `root-2` has the other one
    assert (source.leaves_out(b"yes"), source.leaves_out(b"no")) == (True, False)


def test_ignore_nodes_of_a_folder_apply_in_the_order_of_their_names(pool: Pool, tmp_path: Path) -> None:
    tree = Tree(pool, tmp_path)
    for node_id, name, text in (("1", ".foldexignore", b"!kept.tmp"), ("2", ".gitignore", b"*.tmp")):
        tree.ids[name] = tree.add(node_id, tree.root, name, "text")
        tree.write(name, text)
    for name in ("kept.tmp", "left.tmp"):
        tree.add(name, tree.root, name, "text")
    paths = {entry.path for entry in listed(tree.source(rules=Rules()))}
    assert paths == {".foldexignore", ".gitignore", "kept.tmp"}


def test_an_ignore_node_without_content_is_obeyed(pool: Pool, tmp_path: Path) -> None:
    tree = Tree(pool, tmp_path)
    tree.add("empty", tree.root, ".gitignore", "text")
    assert NOT_OBEYED not in tree.source(rules=Rules()).list(None).ignored


def test_equal_ids_of_two_projects_are_kept_apart(pool: Pool, tmp_path: Path) -> None:
    """Callers choose the ids of nodes."""
    trees = [Tree(pool, tmp_path / name) for name in ("one", "two")]
    for number, tree in enumerate(trees):
        tree.ids |= {"sub": tree.add("sub", tree.root, f"sub-{number}", "folder")}
        tree.ids["sub/same.json"] = tree.add("same", "sub", "same.json", "json")
        tree.write("sub/same.json", f'{{"project": {number}}}'.encode())
        tree.ids["hidden.md"] = tree.add("hidden", tree.root, "hidden.md", "markdown")
        tree.write("hidden.md", b"# Hidden")
    trees[0].ids[".gitignore"] = trees[0].add("ignore", trees[0].root, ".gitignore", "text")
    trees[0].write(".gitignore", b"hidden.md")
    sources = [tree.source(rules=Rules()) for tree in trees]
    paths = [{entry.path for entry in listed(source)} - {".gitignore"} for source in sources]
    assert paths == [{"sub-0/same.json"}, {"hidden.md", "sub-1/same.json"}]
    assert [source.leaves_out(b"hidden") for source in sources] == [True, False]
    narrowed = trees[0].source(rules=Rules())
    assert narrowed.narrow([b"sub"])
    assert [entry.path for entry in listed(narrowed)] == ["sub-0/same.json"]
    assert [json.loads(source.read(b"same", LIMIT).data) for source in sources] == [{"project": 0}, {"project": 1}]
    trees[1].destroy()
    with pytest.raises(FolderGone):
        sources[1].check()
    sources[0].check()
