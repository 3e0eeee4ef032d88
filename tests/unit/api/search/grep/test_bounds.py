"""How much one grep takes and shows, on both sides of each limit, and in which order."""

from __future__ import annotations

import os
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID, uuid4

import pytest

from api.search.grep import grep as searching
from api.search.grep import local_files, scope, texts
from api.search.grep.fallback import MAX_WORD_CHARACTERS, MAX_WORDS, any_of, best_lines, words_of
from api.search.grep.lines import MAX_SHOWN_CHARACTERS, shown
from api.search.grep.pattern import compiled_pattern
from api.search.grep.scope import SearchableText, TimeOver
from schemas.content.acl import EVERYTHING
from schemas.queries.grep import Grep
from schemas.queries.metadata import PLAIN
from schemas.reason import FileStatus
from worker.sources.local import LocalFolder
from worker.state.index import counting
from worker.state.search import file_texts
from worker.state.search.file_texts import ListedFile

#: The rules of an index that leaves nothing out.
RULES = SimpleNamespace(include=[], exclude=[], keep=[], use_ignore_files=True)


INDEX = cast(Any, SimpleNamespace(id=UUID(int=1), sight=EVERYTHING, metadata=PLAIN))


def nothing() -> None:
    """A check that never ends a search."""


def text(data: str, path: str = "a.txt", id_path: str = "/a") -> SearchableText:
    return SearchableText(UUID(int=1), id_path, path, id_path, data.encode())


def prepared(request: Grep, **settings: float) -> scope.TextSearch:
    resources = cast(Any, SimpleNamespace(pool=None, settings=SimpleNamespace(search_seconds=10.0, **settings)))
    return scope.text_search(resources, INDEX, request, None)


def test_lines_of_files_with_one_path_stay_together(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [text("x\nx\n", id_path="/2"), text("x\nx\n", id_path="/1")]
    monkeypatch.setattr(searching, "all_texts", lambda _: iter(found))
    monkeypatch.setattr(searching, "text_search", lambda *_, **__: prepared(Grep(pattern="x")))
    monkeypatch.setattr(counting, "counts", lambda *_: counting.NO_COUNTS)
    answer = searching.grep(cast(Any, SimpleNamespace(pool=None)), INDEX, Grep(pattern="x"))
    assert [(hit.file_id_path, hit.line) for hit in answer.hits] == [("/1", 1), ("/1", 2), ("/2", 1), ("/2", 2)]


def test_the_time_is_over_after_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    search = prepared(Grep(pattern="x"))
    now = 10.0
    search.check()
    now = 10.1
    with pytest.raises(TimeOver):
        search.check()


@pytest.mark.parametrize(("length", "is_whole"), [(MAX_SHOWN_CHARACTERS, True), (MAX_SHOWN_CHARACTERS + 1, False)])
def test_a_line_is_shown_whole_up_to_the_limit(length: int, is_whole: bool) -> None:
    line = "é" * length
    assert (shown(line.encode(), 0)[0] == line) is is_whole
    assert len(shown(line.encode(), 0)[0]) == MAX_SHOWN_CHARACTERS + (not is_whole)


@pytest.mark.parametrize("beyond", [False, True])
def test_what_is_as_long_as_the_reach_is_searched_whole(beyond: bool) -> None:
    pattern, spanning = (compiled_pattern(Grep(pattern="x", multiline=multiline)) for multiline in (False, True))
    assert pattern.is_cut(b"short\n" + b"y" * (pattern.reach + beyond) + b"\n") is beyond
    assert spanning.is_cut(b"\n" * (spanning.reach + beyond)) is beyond


@pytest.mark.parametrize(
    ("stamp", "is_behind", "is_outdated"),
    [("now", False, False), ("before", False, True), ("", False, False), ("now", True, True), ("", True, True)],
)
def test_a_stored_text_is_outdated_if_its_file_changed(stamp: str, is_behind: bool, is_outdated: bool) -> None:
    row = ListedFile(UUID(int=1), "text", stamp, FileStatus.INDEXED, has_text=True, is_behind=is_behind)
    assert texts._is_outdated(cast(Any, SimpleNamespace(stamp="now")), row) is is_outdated


def test_short_words_count_only_where_there_are_no_others() -> None:
    assert words_of("is it on") == ["is", "it", "on"]
    assert words_of("Is it the Lamp, the lamp?") == ["the", "lamp"]
    many = [f"word{number}" for number in range(MAX_WORDS + 1)]
    assert words_of(" ".join(many)) == many[:MAX_WORDS]
    assert words_of("x" * (MAX_WORD_CHARACTERS + 1)) == ["x" * MAX_WORD_CHARACTERS]


def test_words_in_one_line_count_before_words_in_the_file() -> None:
    words = ["lamp", "oil", "wick"]
    found = [
        text("lamp\noil\nwick", "apart.txt"),
        text("lamp", "b.txt"),
        text("lamp", "a.txt"),
        text("lamp and oil", "together.txt"),
        text("lamp\noil", "two.txt"),
    ]
    best = best_lines(found, words, compiled_pattern(any_of(words)), nothing, 4).hits
    assert [hit.file_path for hit in best] == ["together.txt", "apart.txt", "two.txt", "a.txt"]


def test_the_best_files_of_many_come_first() -> None:
    found = [*(text("lamp", f"{number}.txt") for number in range(8)), text("lamp and oil", "z.txt")]
    words = ["lamp", "oil"]
    best = best_lines(found, words, compiled_pattern(any_of(words)), nothing, 4).hits
    assert [hit.file_path for hit in best] == ["z.txt", "0.txt", "1.txt", "2.txt"]


def test_a_command_line_has_limits_of_number_and_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_files, "_MAX_NAME_BYTES", 10)
    names = iter([b"1234", b"5678", b"9", b"0", b"x" * 50, b"a", b"b"])
    taken = [list(local_files._command_line(names, 3)) for _ in range(4)]
    assert taken == [[b"1234", b"5678", b"9"], [b"0", b"x" * 50], [b"a", b"b"], []]


def test_names_of_a_part_are_not_kept_as_those_of_the_whole_folder(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.txt").write_text("x")
    for folder in (tmp_path / "one", tmp_path / "two", tmp_path):
        # what changed just now is not kept at all
        os.utime(folder, (1_600_000_000, 1_600_000_000))
    source, index = LocalFolder(str(tmp_path), [tmp_path]), SimpleNamespace(id=uuid4(), settings=RULES)
    for path, expected in (("one", [b"one/a.txt"]), (None, [b"one/a.txt", b"two/a.txt"])):
        search = cast(Any, SimpleNamespace(files=SimpleNamespace(path=path), index=index, check=nothing))
        assert [key for key, _ in local_files._names(search, source)] == expected


@pytest.mark.parametrize(
    ("sizes", "batches"),
    [
        ([5, 5, 1], [[5, 5], [1]]),
        ([11, 1], [[11], [1]]),
        ([10, 5, 5], [[10], [5, 5]]),
        ([1, 1, 1, 1], [[1, 1, 1], [1]]),
    ],
)
def test_texts_are_read_in_batches(monkeypatch: pytest.MonkeyPatch, sizes: list[int], batches: list[list[int]]) -> None:
    monkeypatch.setattr(file_texts, "_BATCH_BYTES", 10)
    monkeypatch.setattr(file_texts, "_BATCH_FILES", 3)
    files = [cast(Any, SimpleNamespace(size_bytes=size)) for size in sizes]
    assert [[file.size_bytes for file in batch] for batch in file_texts._batches(files)] == batches


@pytest.mark.parametrize(
    ("path", "is_taken"),
    [
        *((path, True) for path in ("notes", "notes/a.md", "notes/old/a.md")),
        *((path, False) for path in ("notes-old/a.md", "notes.md", "note", "old/notes/a.md")),
    ],
)
def test_a_path_takes_a_file_or_all_below_a_folder(path: str, is_taken: bool) -> None:
    files = scope.FileScope(Grep(pattern="a", path="./notes/"))
    assert files.takes(path) is is_taken
    # what lies there counts, also if something else leaves it out
    assert files.files_at_path == int(is_taken)
