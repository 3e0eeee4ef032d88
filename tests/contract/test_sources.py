"""The same folder in each kind of source: listed in pages, stamped, read."""

from __future__ import annotations

import pytest

from schemas.errors import FileError, FolderGone
from schemas.reason import Reason
from tests.contract.folders import LIMIT, TREE, Bucket, Folder, listed
from worker.ignore import Rules


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
