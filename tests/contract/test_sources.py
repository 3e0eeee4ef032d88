"""The same folder in each kind of source: listed in pages, stamped, read."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import Mock
from urllib.request import Request, urlopen

import pytest

from schemas.content.source import S3Source, leads_out, source_at
from schemas.errors import FileError, FolderGone, SourceRefused, SourceUnavailable
from schemas.reason import Reason
from tests.contract.folders import TREE, Bucket, Folder, Tree, listed
from tests.helpers import HELPERS
from worker.ignore import NOT_OBEYED, Rules
from worker.objects.directory_objects import DirectoryObjects
from worker.sources.kind import ContentAccess, SourceOptions
from worker.sources.nodes import SLASH_IN_NAME, NodeTree
from worker.sources.s3 import S3Kind, S3Prefix
from worker.state.pool import Pool, open_pool

LIMIT = 1_000_000


def stamps(folder: Folder) -> dict[str, str]:
    return {entry.path: entry.stamp for entry in listed(folder.source())}


def key_of(folder: Folder, path: str) -> bytes:
    return next(entry.key for entry in listed(folder.source()) if entry.path == path)


def test_lists_every_descendant_with_its_size(full: Folder) -> None:
    full.source().check()
    entries = listed(full.source())
    assert {entry.path: entry.size for entry in entries} == {path: len(data) for path, data in TREE.items()}
    assert len({entry.key for entry in entries}) == len({entry.id_path for entry in entries}) == len(TREE)
    assert {entry.reason for entry in entries} == {None}


@pytest.mark.parametrize("page_size", [1, 3, 8])
def test_every_cursor_resumes_in_another_process(full: Folder, page_size: int) -> None:
    # ranges of a bucket's keys take turns; the others list in one order
    arranged = sorted if isinstance(full, Bucket) else list
    everything = arranged(entry.key for entry in listed(full.source()))
    cursor, seen, places = None, list[bytes](), list[tuple[str, list[bytes]]]()
    while True:
        # a new source stands for another process
        rest = [entry.key for entry in listed(full.source(page_size), cursor)]
        assert arranged([*seen, *rest]) == everything
        page = full.source(page_size).list(cursor)
        assert [entry.key for entry in page.entries] == rest[: len(page.entries)]
        cursor, seen = page.cursor, [*seen, *(entry.key for entry in page.entries)]
        assert len(page.entries) <= page_size
        if cursor is None:
            break
        places.append((cursor, seen))
    assert arranged(seen) == everything
    source = full.source(page_size)
    for cursor, seen in reversed(places):
        # a page that was given before is given again
        assert arranged([*seen, *(entry.key for entry in listed(source, cursor))]) == everything


def test_a_file_gone_from_under_the_cursor_skips_nothing(full: Folder) -> None:
    paths = {entry.key: entry.path for entry in listed(full.source())}
    page = full.source(3).list(None)
    while not page.entries:
        page = full.source(3).list(page.cursor)
    full.remove(page.entries[-1].path)
    given = [entry.key for entry in page.entries]
    rest = [entry.key for entry in listed(full.source(3), page.cursor)]
    assert given + rest == list(paths)


def test_reads_what_was_written(full: Folder) -> None:
    for entry in listed(full.source()):
        content = full.source().read(entry.key, LIMIT)
        assert content.data == TREE[entry.path]
        assert content.stamp == entry.stamp


def test_names_are_whatever_they_are(folder: Folder) -> None:
    names = {"new\nline.md", "\U0001f9c0 \u200b.md", "..md", "...", " ", "a\\b.md", "%2e%2e.md", "d\ttab/..x/-.md"}
    if isinstance(folder, Bucket):
        # the test server does not find objects of such a name
        names.remove("new\nline.md")
    for name in names:
        folder.write(name, name.encode())
    source = folder.source(2, rules=Rules())
    entries = listed(source)
    assert {entry.path for entry in entries} == names
    assert {source.read(entry.key, LIMIT).data.decode() for entry in entries} == names


def test_a_stamp_changes_with_its_own_content_only(full: Folder) -> None:
    before = stamps(full)
    assert stamps(full) == before
    # as long as before, so that the size tells nothing
    full.write("docs/a.md", b"# B\n")
    after = stamps(full)
    assert {path for path in after if after[path] != before[path]} == {"docs/a.md"}


def test_the_limit_is_the_largest_size_read(full: Folder) -> None:
    for path in ("raw.bin", "config.json"):
        key, size = key_of(full, path), len(TREE[path])
        assert len(full.source().read(key, size).data) == size
        with pytest.raises(FileError) as refused:
            full.source().read(key, size - 1)
        assert refused.value.reason is Reason.TOO_LARGE


def test_a_file_that_vanished_is_an_outcome_of_its_own(full: Folder) -> None:
    source, key = full.source(), key_of(full, "raw.bin")
    full.remove("raw.bin")
    with pytest.raises(FileError) as gone:
        source.read(key, LIMIT)
    assert gone.value.reason is Reason.UNREADABLE


def test_an_empty_folder_is_a_folder(folder: Folder) -> None:
    folder.source().check()
    assert listed(folder.source()) == []


def test_a_missing_root_is_told(full: Folder) -> None:
    full.destroy()
    with pytest.raises(FolderGone):
        full.source().check()
    with pytest.raises(FolderGone):
        full.source().list(None)


# --- nodes


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


def test_a_database_that_is_away_is_not_a_missing_folder(tmp_path: Path) -> None:
    with open_pool(f"postgresql://nobody@127.0.0.1:{closed_port()}/none") as pool:
        pool.timeout = 0.2
        source = NodeTree(pool, DirectoryObjects(tmp_path), HELPERS, "n")
        with pytest.raises(SourceUnavailable):
            source.check()


# --- s3


def test_keys_that_look_like_ways_up_are_names(bucket: Bucket) -> None:
    keys = {"a/../b.md", "../c.md", "a//d.md", "./e.md"}
    for key in keys:
        bucket.write(key, key.encode())
    source = bucket.source(rules=Rules(exclude=["node_modules/"]))
    assert {entry.path for entry in listed(source)} == keys
    for key in keys - {"../c.md"}:
        assert source.read(key.encode(), LIMIT).data.decode() == key


@pytest.mark.parametrize(
    ("key", "leads"),
    [
        *(("../c.md", True), ("a/../../c.md", True), ("%2e%2e/c.md", True), ("..\\c.md", True), ("a/..%2f../c", True)),
        *((".//../c.md", True), ("a/../c.md", False), ("..c.md", False), ("a/.../c", False), ("%252e%252e/c", False)),
    ],
)
def test_a_key_that_leads_out_where_dots_are_resolved_is_not_asked_for(bucket: Bucket, key: str, leads: bool) -> None:
    bucket.write("a.md", b"text")
    assert leads_out(key) is leads
    if leads:
        with pytest.raises(FileError, match="could not be read"):
            bucket.source().read(key.encode(), LIMIT)


@pytest.mark.parametrize("above", ["", "team/"])
@pytest.mark.parametrize(
    ("prefix", "is_plain"),
    [
        *(
            (name, False)
            for name in ("..", "../x", "a/../b", "./a", "a//b", "/a", "a/%2e%2E/b", "a/..%2f..%2fb", "a\\..\\b")
        ),
        *((name, True) for name in ("", "a", "a/b/", "..a", "a..", "a b", "ä", "a/...", "%252e%252e")),
    ],
)
def test_a_prefix_means_the_same_to_every_server(above: str, prefix: str, is_plain: bool) -> None:
    source = S3Source(kind="s3", bucket="shelf", prefix=above + prefix)
    expected = nullcontext() if is_plain else pytest.raises(SourceRefused, match="two slashes")
    with expected:
        S3Kind().open(access("http://127.0.0.1:1"), source, Rules())
    with nullcontext() if is_plain else pytest.raises(ValueError, match="two slashes"):
        assert source_at(source.place) == source


def test_a_key_that_postgres_cannot_store_is_shown_otherwise(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    bucket.write("a.md", b"text")
    list_objects, get_object = bucket.client.list_objects_v2, bucket.client.get_object
    key = "docs/a\0.md"

    def listed_otherwise(**asked: Any) -> dict[str, Any]:
        answer = list_objects(**asked)
        found = [{**item, "Key": key} for item in answer["Contents"] if item["Key"] == "docs/a.md"]
        return {**answer, "Contents": found}

    def get(Key: str, **asked: Any) -> dict[str, Any]:  # noqa: N803 - the name of boto3
        assert Key == key
        return dict(get_object(Key="docs/a.md", **asked))

    # the test server does not find objects of such a name
    monkeypatch.setattr(bucket.client, "list_objects_v2", listed_otherwise)
    monkeypatch.setattr(bucket.client, "get_object", get)
    [entry] = bucket.source().list(None).entries
    assert (entry.path, entry.id_path) == ("a\N{SYMBOL FOR NULL}.md", "/a\N{SYMBOL FOR NULL}.md")
    assert bucket.source().read(entry.key, LIMIT).data == b"text"


@pytest.mark.parametrize("empty", [1, 2, 5])
def test_pages_of_nothing_are_not_the_end(bucket: Bucket, monkeypatch: pytest.MonkeyPatch, empty: int) -> None:
    for number in range(5):
        bucket.write(f"{number}.md", b"text")
    list_objects = bucket.client.list_objects_v2

    def with_gaps(**asked: Any) -> dict[str, Any]:
        """Answer like a service that has skipped many deleted objects."""
        after = asked.pop("ContinuationToken", None) or f"{empty} {asked['StartAfter']}"
        left, _, asked["StartAfter"] = after.partition(" ")
        if int(left):
            token = f"{int(left) - 1} {asked['StartAfter']}"
            return {"IsTruncated": True, "KeyCount": 0, "NextContinuationToken": token}
        return dict(list_objects(**asked))

    monkeypatch.setattr(bucket.client, "list_objects_v2", with_gaps)
    bucket.source().check()
    assert [entry.path for entry in listed(bucket.source(page_size=2))] == [f"{number}.md" for number in range(5)]


def test_a_closed_bucket_is_refused(bucket: Bucket) -> None:
    bucket.write("a.md", b"a")
    deny = {"Effect": "Deny", "Principal": "*", "Action": "s3:*", "Resource": f"arn:aws:s3:::{bucket.bucket}*"}
    policy = {"Version": "2012-10-17", "Statement": [deny]}
    bucket.client.put_bucket_policy(Bucket=bucket.bucket, Policy=json.dumps(policy))
    with pytest.raises(FileError) as refused:
        bucket.source().read(b"a.md", LIMIT)
    assert refused.value.reason is Reason.UNREADABLE


def test_wrong_credentials_are_refused(bucket: Bucket) -> None:
    bucket.write("a.md", b"a")
    source = bucket.source()
    with credentials_checked(bucket.endpoint_url):
        for call in (source.check, lambda: source.list(None), lambda: source.read(b"a.md", LIMIT)):
            with pytest.raises(SourceRefused):
                call()


@contextmanager
def credentials_checked(endpoint_url: str) -> Iterator[None]:
    """Make the server reject unknown keys from the next request on."""

    def free_requests(count: bytes) -> None:
        # as plain text, because a form body is parsed on arrival
        request = Request(f"{endpoint_url}/moto-api/reset-auth", count, {"Content-Type": "text/plain"})
        urlopen(request).close()

    free_requests(b"0")
    try:
        yield
    finally:
        free_requests(b"inf")


def test_credentials_that_are_missing_are_refused(endpoint_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", os.devnull)
    # a different spelling of the address, because a process caches its clients
    with pytest.raises(SourceRefused):
        S3Prefix("any-bucket", "", endpoint_url.replace("127.0.0.1", "localhost")).check()


def test_a_service_that_is_away_is_not_a_missing_folder(endpoint_url: str) -> None:
    with pytest.raises(SourceUnavailable):
        S3Prefix("any-bucket", "", f"http://127.0.0.1:{closed_port()}").check()


def test_a_bucket_name_that_cannot_be_is_refused(endpoint_url: str) -> None:
    with pytest.raises(SourceRefused):
        S3Prefix("no such bucket!", "", endpoint_url).list(None)


def closed_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
    return port


def access(endpoint_url: str) -> ContentAccess:
    """That of a project to what everybody may read, beside a bucket with the content of all."""
    options = SourceOptions("off", Path("/nowhere"), [], "contents", endpoint_url)
    return ContentAccess("p", options, Mock(), Mock(), HELPERS)


@pytest.mark.parametrize(
    ("name", "is_open"),
    [("shelf", True), ("contents", False), ("a-s3alias", False), ("a--ol-s3", False), ("arn:aws:s3:::contents", False)],
)
def test_a_bucket_that_is_or_may_be_that_of_all_content_is_refused(name: str, is_open: bool) -> None:
    with nullcontext() if is_open else pytest.raises(SourceRefused):
        S3Kind().open(access("http://127.0.0.1:1"), S3Source(kind="s3", bucket=name, prefix=""), Rules())


def test_a_path_of_a_bucket_is_a_folder_an_object_or_nothing(bucket: Bucket) -> None:
    place = f"s3://{bucket.bucket}"
    for path in ("a.md", "empty.md", "deep/er/b.md"):
        bucket.write(path, b"" if path == "empty.md" else b"text")
    folders = [place, f"{place}/docs", f"{place}/docs/deep"]
    objects = [f"{place}/docs/{name}" for name in ("a.md", "empty.md")]
    nothing = [f"{place}/docs/{name}" for name in ("a", "a.md/b", "deep/b.md", "empty")]
    for path in (*folders, *objects, *nothing, f"{place}-2", f"{place}-2/docs"):
        for given in (path, f"{path}/"):
            (location,) = S3Kind().locate(access(bucket.endpoint_url), given) or []
            assert location.resolve is not None
            found = location.resolve()
            assert (found is not None) == (path in folders or path in objects), given
            if found is not None:
                folder, _, name = path.rpartition("/") if path in objects else (path, "", "")
                assert (found.address, found.key) == (path, name.encode() or None), given
                assert isinstance(found.source, S3Source)
                assert found.source.place.rstrip("/") == folder
    assert [S3Kind().locate(access(bucket.endpoint_url), path) for path in ("s3://", "s3:///a", "/a")] == [[], [], None]


def test_what_is_at_a_path_is_unknown_while_the_service_is_away(endpoint_url: str) -> None:
    (found,) = S3Kind().locate(access(f"http://127.0.0.1:{closed_port()}"), "s3://shelf/docs/a.md") or []
    assert found.resolve is not None
    with pytest.raises(SourceUnavailable):
        found.resolve()


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
