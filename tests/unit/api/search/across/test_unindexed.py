"""Files that no index covers: which are returned whole, which are looked through, and where reading ends."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import Mock
from uuid import UUID

import pytest

from api.http.disconnect import CallerLeft, Disconnect
from api.search.across import unindexed
from api.search.across.paths import RequestedLocation
from api.search.across.readable import ReadableFiles
from api.search.across.unindexed import uncovered_hits
from api.search.grep.scope import SearchableText, TimeOver
from schemas.content.acl import EVERYTHING
from schemas.content.document import FileContent, ListingPage, SourceEntry
from schemas.content.source import LocalSource
from schemas.errors import SourceError
from schemas.queries.search import Filters, Hit, Query
from tests.helpers import HELPERS
from worker.resources import Resources
from worker.settings import Settings
from worker.sources import Source

READABLE = ReadableFiles(Mock(), "p", EVERYTHING)


def resources(root: Path) -> Resources:
    return Resources(Settings(auth="off", foldex_home=root.parent / "home", local_source_roots=[root]))


def found(
    root: Path,
    *paths: str,
    room: int = 50_000,
    covered: Sequence[str] = (),
    deadline: float = math.inf,
    **asked: object,
) -> tuple[list[Hit], list[str]]:
    """The hits at these paths, of which those that end with "/" are folders, and the codes of the notes."""
    locations = []
    for path in paths:
        place, is_folder = (root / path), path.endswith("/")
        source = LocalSource(kind="local", path=str(place if is_folder else place.parent))
        key = None if is_folder else place.name.encode()
        below = tuple(str(root / name) for name in covered)
        locations.append(RequestedLocation(str(place), str(place), source, key, below))
    request = Query.model_validate({"query": "apples pears", **asked})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(unindexed, "UNEMBEDDED_CHARACTERS", room)
        hits, notes = uncovered_hits(
            resources(root),
            READABLE,
            locations,
            request,
            deadline=deadline,
            disconnect=Disconnect(),
        )
    return hits, [note.code for note in notes]


def write(root: Path, **files: str) -> None:
    for name, text in files.items():
        (root / name).write_text(text)


@pytest.mark.parametrize(
    ("room", "whole"), [(20, [True, True]), (19, [True, False]), (10, [True, False]), (9, [False] * 2)]
)
def test_files_are_returned_whole_as_long_as_they_fit_together(tmp_path: Path, room: int, whole: list[bool]) -> None:
    write(tmp_path, a="apples 123", b="pears \u00e9\u00e9\u00e9\u00e9")
    hits, _ = found(tmp_path, "a", "b", room=room)
    assert sorted((hit.file_name, hit.whole) for hit in hits) == [("a", whole[0]), ("b", whole[1])]
    assert {hit.file_name: hit.chunk_text for hit in hits} == {"a": "apples 123", "b": "pears \u00e9\u00e9\u00e9\u00e9"}


def test_a_whole_file_scores_by_the_words_that_it_has(tmp_path: Path) -> None:
    write(tmp_path, one="Apples", both="pears, APPLES", none="plums")
    hits, _ = found(tmp_path, "none", "one", "both")
    assert [(hit.file_name, hit.score) for hit in hits] == [("both", 1), ("one", 0.5), ("none", 0)]


@pytest.mark.parametrize(
    ("filters", "names", "codes"),
    [
        ({}, ["a.md", "b.txt"], ["not_indexed"]),
        ({"path": "*.md"}, ["a.md"], ["not_indexed"]),
        ({"types": ["markdown"]}, [], ["not_indexed", "filtered_out"]),
        ({"path": "*.md", "level": 0}, [], ["not_indexed", "filtered_out"]),
    ],
)
def test_only_the_filter_by_path_applies(
    tmp_path: Path, filters: dict[str, object], names: list[str], codes: list[str]
) -> None:
    write(tmp_path, **{"a.md": "apples", "b.txt": "apples"})
    for paths in (["a.md", "b.txt"], ["./"]):
        hits, noted = found(tmp_path, *paths, filters=Filters.model_validate(filters))
        assert (sorted(hit.file_name for hit in hits), noted) == (names, codes)


def test_what_a_tool_searches_below_a_folder_is_left_to_it(tmp_path: Path) -> None:
    for name in ("in", "into"):
        (tmp_path / name).mkdir()
        write(tmp_path / name, a="apples")
    write(tmp_path, a="apples")
    hits, _ = found(tmp_path, "./", covered=["in"])
    assert sorted(Path(hit.file_path).relative_to(tmp_path).as_posix() for hit in hits) == ["a", "into/a"]


@pytest.mark.parametrize(("files", "is_told"), [(3, False), (4, True)])
def test_so_many_files_of_folders_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: int, is_told: bool
) -> None:
    monkeypatch.setattr(unindexed, "MAX_FILES", 3)
    for number in range(files):
        # the files of all folders count together
        (tmp_path / str(number % 2)).mkdir(exist_ok=True)
        write(tmp_path / str(number % 2), **{f"f{number}": "apples"})
    hits, codes = found(tmp_path, "0/", "1/")
    assert (len(hits), "too_many_files" in codes) == (3, is_told)


@pytest.mark.parametrize(("size", "is_found"), [(20, True), (21, False)])
def test_a_file_of_a_folder_may_be_so_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, is_found: bool
) -> None:
    monkeypatch.setattr(unindexed, "MAX_BYTES", 20)
    write(tmp_path, a="apples".ljust(size, "."))
    hits, codes = found(tmp_path, "./")
    assert (len(hits), codes) == (is_found, ["not_indexed"] + ["not_text"] * (not is_found))
    # a file that is asked for by itself may be longer
    assert len(found(tmp_path, "a")[0]) == 1


def test_files_without_text_are_named(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"apples\0\xff\xfe\x01\x02")
    for path in ("a", "./"):
        assert found(tmp_path, path) == ([], ["not_indexed", "not_text"])


def test_what_is_found_until_the_deadline_comes_with_a_note(tmp_path: Path) -> None:
    write(tmp_path, a="apples")
    assert found(tmp_path, "a", "./", deadline=0) == ([], ["not_indexed", "time_over"])


def test_no_file_is_read_after_the_deadline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, **{f"f{number}": "apples" for number in range(9)})
    read: list[bytes] = []

    def slowly(_source: Source, key: bytes, _max_bytes: int) -> None:
        read.append(key)

    monkeypatch.setattr(unindexed, "_content", slowly)
    # each file takes a second
    monkeypatch.setattr(unindexed, "time", Mock(monotonic=lambda: len(read)))
    assert found(tmp_path, "./", deadline=2) == ([], ["not_indexed", "not_text", "time_over"])
    assert len(read) == 3


def test_what_is_no_file_is_not_read(tmp_path: Path) -> None:
    write(tmp_path, a="apples")
    (tmp_path / "link").symlink_to("a")
    os.mkfifo(tmp_path / "pipe")
    hits, codes = found(tmp_path, "./")
    assert ([hit.file_name for hit in hits], codes) == (["a"], ["not_indexed"])


def test_a_folder_that_is_gone_is_named_and_the_others_are_read(tmp_path: Path) -> None:
    write(tmp_path, a="apples")
    hits, codes = found(tmp_path, "gone/", "./")
    assert ([hit.file_name for hit in hits], codes) == (["a"], ["not_indexed", "folder_gone"])


@pytest.mark.parametrize(("number", "more"), [(20, False), (21, True)])
def test_a_note_names_so_many_paths(tmp_path: Path, number: int, more: bool) -> None:
    names = [f"f{n}" for n in range(number)]
    write(tmp_path, **dict.fromkeys(names, "apples"))
    locations = [
        RequestedLocation(name, name, LocalSource(kind="local", path=str(tmp_path)), name.encode()) for name in names
    ]
    request = Query(query="apples")
    _, (note,) = uncovered_hits(
        resources(tmp_path),
        READABLE,
        locations,
        request,
        deadline=math.inf,
        disconnect=Disconnect(),
    )
    assert ("f19" in note.detail, " more" in note.detail, " and 1 more." in note.detail) == (True, more, more)


def test_nobody_is_answered_who_left(tmp_path: Path) -> None:
    write(tmp_path, a="apples")
    left = Disconnect()
    left.event.set()
    with pytest.raises(CallerLeft):
        uncovered_hits(
            resources(tmp_path),
            READABLE,
            [],
            Query(query="a"),
            deadline=math.inf,
            disconnect=left,
        )


def test_single_files_that_do_not_fit_are_no_hits_and_the_time_ends_them(monkeypatch: pytest.MonkeyPatch) -> None:
    def single(_search: object, place: str) -> Iterator[SearchableText]:
        if place == "over":
            raise TimeOver
        yield SearchableText(UUID(int=1), "1", place, place, place.encode())

    monkeypatch.setattr(unindexed, "_single", single)
    monkeypatch.setattr(unindexed, "UNEMBEDDED_CHARACTERS", 5)
    search = cast(Any, None)
    places = cast(Any, ["éé", "long words", "x" * 100, "three", "one", "over", "b"])
    whole = unindexed._whole_files(search, places, ["one"])
    assert [hit.chunk_text for hit in whole.hits] == ["éé", "one"]
    assert whole.longer == cast(Any, ["long words", "x" * 100, "three"])


class Away:
    """A source with some files and no end, and files that disappear meanwhile."""

    def __init__(self, *names: str) -> None:
        self.names = names

    def check(self) -> None: ...

    def list(self, cursor: str | None) -> ListingPage:
        if cursor is not None or not self.names:
            raise SourceError("The folder is not there.")
        return ListingPage([SourceEntry(n.encode(), n, f"/{n}", None, 9, "s") for n in self.names], "more")

    def read(self, key: bytes, _limit: int, _listed: str = "", /) -> FileContent:
        if key == b"gone":
            raise SourceError("The file is not there.")
        return FileContent(b"a token of " + key, "s")


def found_in(sources: dict[str, Away], *files: str) -> tuple[list[str], list[tuple[str, str]]]:
    settings = SimpleNamespace(max_file_bytes=99)
    resources = SimpleNamespace(
        settings=settings, source=lambda _, source, *__: sources[source.path[1:]], helpers=lambda _: HELPERS
    )
    readable = ReadableFiles(cast(Any, None), "p", EVERYTHING)
    asked = SimpleNamespace(filters=Filters(), texts=["token"], top_k=9)
    left = SimpleNamespace(event=Event(), check=lambda: None)
    models = [LocalSource(kind="local", path=f"/{n}") for n in sources]
    places = [RequestedLocation(model.path, model.path, model, None) for model in models]
    places += [RequestedLocation(f"/{n}", f"/{n}", models[0], n.encode()) for n in files]
    hits, notes = unindexed.uncovered_hits(
        *cast(Any, (resources, readable, places, asked)), deadline=math.inf, disconnect=cast(Any, left)
    )
    return [hit.file_path for hit in hits], [(note.code, note.detail) for note in notes[1:]]


def test_a_source_that_fails_is_told_of_and_the_others_are_read() -> None:
    sources = {"empty": Away(), "one": Away("a"), "two": Away("b", "gone", "c")}
    paths, notes = found_in(sources, "x", "gone")
    assert set(paths) == {"/one/a", "/two/b", "/x"}
    assert sorted(notes) == [
        ("source_error", f"The {what} is not there.") for what in ("file", "file", "folder", "folder")
    ]
