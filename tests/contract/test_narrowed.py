"""The same folder in each kind of source, of which only what some changes may affect is listed."""

from __future__ import annotations

import pytest

from tests.contract.folders import Folder, Tree, listed
from worker.ignore import Rules

ASKED = [
    ["docs"],
    ["docs-old", "docs/deep/er"],
    ["README.md", "docs/a.md", "raw.bin"],
    ["docs/deep/er/z.txt", "docs"],
    ["gr\u00fc\u00dfe/\u65e5\u672c.txt", "docs/100%_sure"],
]


def _key(folder: Folder, path: str) -> bytes:
    return (folder.node(path) if isinstance(folder, Tree) else path).encode()


@pytest.mark.parametrize("page_size", [1, 2, 1000])
def test_a_narrowed_source_lists_what_is_at_and_below_the_keys(full: Folder, page_size: int) -> None:
    full.write("docs/deep/.gitignore", b"*.tmp")
    full.write("docs/deep/er/left-out.tmp", b"-")
    everything = {entry.path: entry for entry in listed(full.source(rules=Rules()))}
    for asked in ASKED:
        source = full.source(page_size, rules=Rules())
        assert source.narrow([_key(full, path) for path in asked]) is not None
        found = listed(source)
        wanted = {p: entry for p, entry in everything.items() if any(p == a or p.startswith(f"{a}/") for a in asked)}
        assert {entry.path: entry for entry in found} == wanted
        assert len(found) == len(wanted)


def test_a_narrowed_source_lists_the_folder_of_an_ignore_file_and_obeys_those_above(full: Folder) -> None:
    full.write(".gitignore", b"deep")
    full.write("docs/.gitignore", b"*.tmp")
    source = full.source(rules=Rules())
    assert source.narrow([_key(full, "docs/deep/er/z.txt")])
    assert listed(source) == []
    narrowed = source.narrow([_key(full, "docs/.gitignore")])
    assert narrowed is not None
    # the id of a node stays what it was when the node moves
    assert {*narrowed} == {_key(full, "docs"), *([_key(full, "docs/.gitignore")] if isinstance(full, Tree) else [])}
    assert {entry.path for entry in listed(source)} >= {"docs/a.md", "docs/100%_sure/x.txt"}
    assert source.narrow([_key(full, ".gitignore")]) is None


def test_a_narrowed_source_obeys_ignore_files_whose_names_come_after_what_it_lists(folder: Folder) -> None:
    for path in ("x/+page/a.md", "x/+page/b.log", "x/.cursor", "x/a.md"):
        folder.write(path, b"text")
    folder.write("x/.cursorignore", b".cursor\n*.log\n")
    for asked, paths in (("x/+page", ["x/+page/a.md"]), ("x/.cursor", [])):
        source = folder.source(rules=Rules())
        assert source.narrow([_key(folder, asked)]) is not None
        assert [entry.path for entry in listed(source)] == paths


def test_a_narrowed_source_lists_nothing_for_what_is_gone(full: Folder) -> None:
    gone = _key(full, "raw.bin")
    full.remove("raw.bin")
    source = full.source()
    assert source.narrow([gone]) == [gone]
    assert listed(source) == []
