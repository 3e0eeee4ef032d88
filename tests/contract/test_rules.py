"""The same rules over the same folder in each kind of source: listed paths, counts, and the files read for them."""

from __future__ import annotations

from collections import Counter
from uuid import uuid4

import pytest

from schemas.content.document import FileContent, ListingPage
from schemas.content.source import ChunkSettings, EmbedderProfile, NodesSource
from schemas.tool import IndexSettings
from tests.contract.folders import Bucket, Disk, Folder, Tree
from worker.ignore import EVERYTHING, Rules
from worker.index.unmatched import MatchedPatterns, NotingRules
from worker.objects.object_store import s3_fetch
from worker.sources import Source
from worker.sources.s3 import S3Prefix
from worker.state.index.tools import Index

FILES = {
    ".gitignore": "*.log\n/out/\n!keep.log\n",
    ".git/objects/aa/1.md": "",
    ".git/objects/bb/2.md": "",
    "!first.log": "",
    "+page.log": "",
    "a.md": "",
    "keep.log": "",
    "out/x.md": "",
    "out/deep/y.md": "",
    "src/(group)/gone.tmp": "",
    "src/(group)/stays.md": "",
    "src/.cursorignore": "*.tmp\n",
    "src/.env.tmp": "",
    "src/.gitignore": "secret/\n",
    "src/.ignore": "!wanted.log\n",
    "src/.foldexignore": "*.csv\n!b.csv\n",
    "src/a.csv": "",
    "src/b.csv": "",
    "src/debug.log": "",
    "src/out/z.md": "",
    "src/secret/key.md": "",
    "src/wanted.log": "",
    "src/web/node_modules/lib/index.md": "",
    "src/web/node_modules/lib/more.md": "",
    "src/web/app.min.js": "",
    "src/web/uv.lock": "",
    "zz/.gitignore": "!uv.lock\n",
    "zz/uv.lock": "",
}
KEPT = {
    *(".gitignore", "a.md", "keep.log", "src/(group)/stays.md", "src/.cursorignore", "src/.gitignore", "src/.ignore"),
    *("src/.foldexignore", "src/b.csv", "src/out/z.md", "src/wanted.log", "zz/.gitignore", "zz/uv.lock"),
}
IGNORED = {
    "vcs_directories": 1,
    "dependencies_directories": 1,
    "ignore_file_directories": 2,
    "ignore_file": 6,
    "minified": 1,
    "locks": 1,
}


@pytest.fixture
def filled(folder: Folder) -> Folder:
    for path, text in FILES.items():
        folder.write(path, (text or "text\n").encode())
    return folder


def walked(
    folder: Folder, rules: Rules, page_size: int = 1000, *, fresh: bool = False
) -> tuple[set[str], Counter[str]]:
    """Paths and counts of a whole listing. With `fresh`, a new source lists each page, as in another process."""
    source = folder.source(page_size, rules=rules)
    pages = [source.list(None)]
    while pages[-1].cursor is not None:
        source = folder.source(page_size, rules=rules) if fresh else source
        pages.append(source.list(pages[-1].cursor))
    paths = [entry.path for page in pages for entry in page.entries]
    assert len(paths) == len(set(paths))
    return set(paths), sum((Counter(page.ignored) for page in pages), Counter())


@pytest.mark.parametrize("fresh", [False, True])
@pytest.mark.parametrize("page_size", [1, 2, 5, 1000])
def test_rules_hold_however_the_listing_is_cut(filled: Folder, page_size: int, fresh: bool) -> None:
    assert walked(filled, Rules(), page_size, fresh=fresh) == (KEPT, IGNORED)


def test_without_rules_everything_is_there(filled: Folder) -> None:
    assert walked(filled, EVERYTHING, 3) == (set(FILES), {})


def test_patterns_of_the_tool_stand_above(filled: Folder) -> None:
    rules = Rules(["src/"], ["!secret/", "b.csv"], keep=["dependencies"])
    paths, ignored = walked(filled, rules, 2, fresh=True)
    added = {"src/secret/key.md", "src/web/node_modules/lib/index.md", "src/web/node_modules/lib/more.md"}
    assert paths == {path for path in KEPT if path.startswith("src/")} - {"src/b.csv"} | added
    assert ignored["include"] == len([path for path in KEPT if not path.startswith("src/")])
    assert (ignored["exclude"], ignored["ignore_file_directories"]) == (1, 1)


def test_an_edited_ignore_file_holds_from_the_next_listing_on(filled: Folder) -> None:
    source = filled.source(rules=Rules())
    assert {entry.path for entry in source.list(None).entries} == KEPT
    filled.write(".gitignore", b"*.md\n")
    filled.remove("src/.ignore")
    paths = {entry.path for entry in source.list(None).entries}
    assert paths - KEPT == {"!first.log", "+page.log", "src/debug.log"}
    assert KEPT - paths == {"a.md", "src/(group)/stays.md", "src/.ignore", "src/out/z.md"}


def test_what_a_rule_leaves_out_can_be_asked(filled: Folder) -> None:
    keys = {entry.path: entry.key for entry in filled.source().list(None).entries}
    source = filled.source(rules=Rules())
    assert {path for path, key in sorted(keys.items()) if not source.leaves_out(key)} == KEPT


@pytest.mark.parametrize(("data", "not_obeyed"), [(b"*.md\n\0", 1), (b"*.md\n" + b"#" * (1 << 20), 1), (b"", 0)])
def test_an_ignore_file_that_is_none_stops_nothing_and_is_counted_once(
    folder: Folder, data: bytes, not_obeyed: int
) -> None:
    kept = {f"{way}{name}" for way in ("", "sub/") for name in (".gitignore", ".ignore", "a.md")}
    for path in (*kept, "b.md", "sub/b.md"):
        folder.write(path, {".gitignore": data, ".ignore": b"b.md\n"}.get(path.rpartition("/")[2], b"text"))
    counts = Counter(ignore_file=2, ignore_file_not_obeyed=2 * not_obeyed)
    for page_size, fresh in ((1000, False), (1, False), (1, True), (3, True)):
        assert walked(folder, Rules(), page_size, fresh=fresh) == (kept, +counts)


def test_a_directory_of_that_name_is_no_ignore_file(folder: Folder) -> None:
    folder.write(".gitignore/a.md", b"*.md\n")
    assert walked(folder, Rules()) == ({".gitignore/a.md"}, {})


def test_the_time_of_the_last_change_is_told(folder: Folder) -> None:
    folder.write("a.md", b"a")
    [entry] = folder.source().list(None).entries
    assert entry.mtime_ms is not None
    assert 1_500_000_000_000 < entry.mtime_ms < 4_000_000_000_000


# --- what a listing costs


def counted(source: Source, monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The keys that are read from now on."""
    read, keys = source.read, list[bytes]()

    def count(key: bytes, limit: int) -> FileContent:
        keys.append(key)
        return read(key, limit)

    def count_object(endpoint_url: str | None, bucket: str, key: str, limit: int) -> tuple[bytes, str, dict[str, str]]:
        keys.append(key.removeprefix("docs/").encode())
        return s3_fetch(endpoint_url, bucket, key, limit)

    if isinstance(source, S3Prefix):
        monkeypatch.setattr("worker.sources.s3_reader.s3_fetch", count_object)
    else:
        monkeypatch.setattr(source, "read", count)
    return keys


def test_a_listing_reads_each_ignore_file_once_and_nothing_else(
    filled: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = {entry.key: entry.path for entry in filled.source().list(None).entries}
    source = filled.source(rules=Rules())
    read = counted(source, monkeypatch)
    source.list(None)
    obeyed = [path for path in FILES if path.endswith("ignore")]
    assert sorted(keys[key] for key in read) == sorted(obeyed)


def pages_of(source: Source) -> list[ListingPage]:
    pages = [source.list(None)]
    while pages[-1].cursor is not None:
        pages.append(source.list(pages[-1].cursor))
    return pages


@pytest.mark.parametrize("kind", ["bucket", "tree"])
def test_a_large_excluded_directory_is_passed_over(request: pytest.FixtureRequest, kind: str) -> None:
    folder: Bucket | Tree = request.getfixturevalue(kind)
    folder.write("a.md", b"a")
    folder.write("z.md", b"z")
    for number in range(30):
        folder.write(f"node_modules/lib{number % 3}/{number}.md", b"x")
    pages = pages_of(folder.source(4, rules=Rules()))
    assert {entry.path for page in pages for entry in page.entries} == {"a.md", "z.md"}
    assert sum((Counter(page.ignored) for page in pages), Counter()) == {"dependencies_directories": 1}
    assert len(pages) <= 3


def test_special_files_hold_no_rules(tmp_path_factory: pytest.TempPathFactory) -> None:
    import os

    disk = Disk(tmp_path_factory.mktemp("disk"))
    disk.write("real", b"*.md\n")
    disk.write("a.md", b"a")
    os.mkfifo(disk.root / ".gitignore")
    (disk.root / ".ignore").symlink_to("real")
    (disk.root / ".cursorignore").symlink_to(".cursorignore")
    (disk.root / ".foldexignore").mkdir()
    assert walked(disk, Rules())[0] == {".gitignore", ".ignore", ".cursorignore", "a.md", "real"}


@pytest.mark.parametrize("page_size", [1, 3, 1000])
def test_unmatched_patterns_are_known_however_the_listing_is_cut(filled: Folder, page_size: int) -> None:
    config = {
        "include": ["a.md", "src/", "src/web/node_modules/", "zz/uv.lock", "sorce/"],
        "exclude": ["/out/", "!x.md", "*.csv", "key.md", "src/*/stays.md", "nothing"],
        "keep": ["vcs", "caches", "locks", "minified"],
        "types": ["md", "lock", "tmp", "markdwn"],
    }
    given = {"embedder": EmbedderProfile(model="m", dimensions=4), "chunks": ChunkSettings(), "max_file_bytes": 1000}
    settings = IndexSettings.model_validate(given | config)
    index = Index(uuid4(), "p", NodesSource(node_id="n"), "h.1", settings, "lancedb", "store", "n", 1)
    noted: list[str] = []
    cursor, is_more = None, True
    while is_more:
        # as in another process for each page
        matched = MatchedPatterns(index, noted)
        page = folder_page(filled, NotingRules(settings, matched), page_size, cursor)
        matched.note_types(page.entries)
        noted += matched.take_new()
        cursor, is_more = page.cursor, page.cursor is not None
    assert len(noted) == len(set(noted))
    assert MatchedPatterns(index, noted).warning() == (
        "No listed file or folder matches config.types 'tmp', 'markdwn' (did you mean 'markdown'?) "
        "or config.include 'src/web/node_modules/', 'sorce/' or config.exclude '!x.md', 'key.md', 'nothing' "
        "or config.keep 'caches'; correct or remove that."
    )


def folder_page(folder: Folder, rules: Rules, page_size: int, cursor: str | None) -> ListingPage:
    return folder.source(page_size, rules=rules).list(cursor)
