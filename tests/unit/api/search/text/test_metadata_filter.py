"""Values of metadata count as their declared types, and numbers and times are compared exactly."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from threading import Event
from typing import Any, cast
from uuid import UUID, uuid4

import pytest

from api.http.disconnect import CallerLeft, Disconnect
from api.search.text import metadata_filter, metadata_warning
from api.search.text.path_pattern import PathPattern
from schemas.queries.metadata import MAX_RULES, MetadataKind, MetadataRule, MetadataView
from tests.service import eventually
from worker.state.pool import Pool
from worker.state.search import metadata
from worker.state.search.metadata import Held, MetadataState

NOON = "2026-01-01T12:00:00Z"


def go_on() -> None:
    """Let the work go on."""


def passes(monkeypatch: pytest.MonkeyPatch, kind: MetadataKind, value: Any, condition: dict[str, Any]) -> bool:
    held = [Held([value], None, [], ["node"])]
    monkeypatch.setattr(metadata, "files_by_values", lambda *_: held)
    monkeypatch.setattr(metadata, "state", lambda *_: MetadataState(0, uuid4(), None))
    view = MetadataView(declared={"key": kind})
    return bool(metadata_filter.passing(cast("Pool", None), UUID(int=1), view, {"key": condition}, go_on).node_ids)


@pytest.mark.parametrize(
    ("kind", "value", "condition"),
    [
        ("int", 2**53 + 1, {"gt": 2**53}),
        ("int", 2020, {"gte": 2019.5, "lt": 2020.5}),
        ("int", 2020.0, {"any": [2020]}),
        ("float", 1, {"any": [1.0]}),
        ("time", "2026-01-01T13:00:00+01:00", {"any": [NOON]}),
        ("time", "2026-01-01T12:00:00.000001Z", {"gt": NOON}),
        ("bool", False, {"exists": True}),
        ("string", "", {"exists": True}),
        ("strings", [], {"exists": True, "not": ["a"]}),
    ],
)
def test_these_pass(monkeypatch: pytest.MonkeyPatch, kind: MetadataKind, value: Any, condition: dict[str, Any]) -> None:
    assert passes(monkeypatch, kind, value, condition)


@pytest.mark.parametrize(
    ("kind", "value", "condition"),
    [
        ("int", 2**53, {"gte": 2**53 + 1}),
        ("int", True, {"any": [1]}),
        ("bool", 1, {"any": [True]}),
        ("int", 2020.5, {"exists": True}),
        ("time", "2026-01-01T12:00:00", {"exists": True}),
        ("time", "2026-02-30T12:00:00Z", {"exists": True}),
        ("time", "2026-01-01T12:00:00+99:00", {"exists": True}),
        ("time", "0001-01-01T00:00:00+23:00", {"exists": True}),
        ("time", "２０２６-01-01T12:00:00Z", {"exists": True}),  # noqa: RUF001 - digits of another script
        ("strings", "a", {"any": ["a"]}),
        ("string", ["a"], {"any": ["a"]}),
        ("strings", ["a"], {"all": ["a", "b"]}),
    ],
)
def test_these_do_not(
    monkeypatch: pytest.MonkeyPatch, kind: MetadataKind, value: Any, condition: dict[str, Any]
) -> None:
    assert not passes(monkeypatch, kind, value, condition)


@pytest.mark.parametrize(
    ("kind", "stated", "operand"),
    [
        ("string", "01234", "01234"),
        ("string", "2024-03-01", "2024-03-01"),
        ("time", "2024-03-01", "2024-03-01T00:00:00Z"),
        ("time", "2024-03-01 10:00:00", "2024-03-01T10:00:00Z"),
        ("int", "007", 7),
        ("float", "1.10", 1.1),
        ("bool", "True", True),
    ],
)
def test_what_a_file_states_in_text_counts_as_the_declared_type(
    monkeypatch: pytest.MonkeyPatch, kind: MetadataKind, stated: str, operand: Any
) -> None:
    assert passes(monkeypatch, kind, {"stated": stated}, {"any": [operand]})
    # nodes have types of their own
    assert passes(monkeypatch, kind, stated, {"exists": True}) is (kind == "string")


@pytest.mark.parametrize(
    ("kind", "stated"), [("time", "2024-02-30"), ("int", "9" * 19), ("float", "1.0e999"), ("int", "x"), ("int", ["1"])]
)
def test_what_stands_for_no_value_of_the_declared_type_is_none(
    monkeypatch: pytest.MonkeyPatch, kind: MetadataKind, stated: Any
) -> None:
    assert not passes(monkeypatch, kind, {"stated": stated}, {"exists": True})


class Files:
    """Files with values, which count how often they are read, and whether by path."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, held: Sequence[Held]) -> None:
        self.held = held
        self.reads: list[bool] = []
        self.state = MetadataState(0, uuid4(), datetime.now(UTC))
        monkeypatch.setattr(metadata, "files_by_values", self._read)
        monkeypatch.setattr(metadata, "state", lambda *_: self.state)

    def _read(
        self, _pool: Pool, _index: UUID, _keys: Sequence[str], view: MetadataView, _only: object = None
    ) -> Iterator[Held]:
        self.reads.append(bool(view.rules))
        return iter(self.held)


POOL = cast("Pool", None)
ANY_A: dict[str, Any] = {"any": ["a"]}
KEY: dict[str, MetadataKind] = {"key": "string"}


def test_pages_of_a_list_share_what_a_filter_selects_until_something_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    files, index, view = Files(monkeypatch, [Held(["a"], None, [UUID(int=1)], [])]), uuid4(), MetadataView(declared=KEY)
    for _ in range(3):
        assert metadata_filter.passing(POOL, index, view, {"key": ANY_A}, go_on).files == {UUID(int=1)}
    assert len(files.reads) == 1
    assert metadata_filter.passing(POOL, index, view, {"key": {"any": ["b"]}}, go_on).files == set()
    assert metadata_filter.passing(POOL, uuid4(), view, {"key": ANY_A}, go_on).files
    other = MetadataView(declared={"key": "strings"})
    assert metadata_filter.passing(POOL, index, other, {"key": ANY_A}, go_on).files == set()
    assert len(files.reads) == 4
    files.state = MetadataState(1, files.state.task_id, files.state.finished_at)
    metadata_filter.passing(POOL, index, view, {"key": ANY_A}, go_on)
    assert len(files.reads) == 5
    files.state = MetadataState(1, uuid4(), None)
    for _ in range(2):
        metadata_filter.passing(POOL, index, view, {"key": ANY_A}, go_on)
    assert len(files.reads) == 7


def test_only_rules_that_set_what_is_asked_tell_files_apart_by_path(monkeypatch: pytest.MonkeyPatch) -> None:
    files = Files(monkeypatch, [Held(["a"], "hr/x", [], ["node"])])
    rules = (MetadataRule(path="hr/**", set={"other": 1}), MetadataRule(path="**", set={"key": "b", "other": 2}))
    for these, passes_ in ((rules[:1], True), (rules, False)):
        view = MetadataView(declared=KEY, rules=these)
        assert bool(metadata_filter.passing(POOL, uuid4(), view, {"key": ANY_A}, go_on).node_ids) is passes_
    assert files.reads == [False, True]


def test_rules_match_no_pattern_against_paths_in_other_folders(monkeypatch: pytest.MonkeyPatch) -> None:
    matched: list[str] = []

    def takes(path: str) -> bool:
        matched.append(path)
        return True

    monkeypatch.setattr(PathPattern, "anywhere", lambda _: takes)
    held = [Held([None], path, [], [path]) for path in ("hr/a", "hr/deep/b", "hrx/c", "d")]
    Files(monkeypatch, held)
    rules = tuple(MetadataRule(path=f"hr/*{number}", set={"key": "a"}) for number in range(MAX_RULES))
    view = MetadataView(declared=KEY, rules=rules)
    assert [*metadata_filter.passing(POOL, uuid4(), view, {"key": ANY_A}, go_on).node_ids] == ["hr/a", "hr/deep/b"]
    assert {*matched} == {"hr/a", "hr/deep/b"}


@pytest.mark.parametrize(("more", "truncated"), [(0, False), (1, True)])
def test_a_count_is_cut_only_if_files_are_left(monkeypatch: pytest.MonkeyPatch, more: int, truncated: bool) -> None:
    ids = [UUID(int=0)] * metadata_filter.MAX_COUNTED_FILES
    Files(monkeypatch, [Held(["a"], None, ids, []), *[Held(["b"], None, ids[:1], [])] * more])
    assert metadata_filter.keys_of(POOL, uuid4(), MetadataView(declared=KEY), 10).truncated is truncated


def test_a_count_that_is_cut_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata_filter, "MAX_COUNTED_FILES", 2)
    ids = [UUID(int=number) for number in range(2)]
    for more in (0, 1):
        Files(monkeypatch, [Held([5], None, ids, []), *[Held(["b"], None, ids[:1], [])] * more])
        warning = metadata_filter.keys_of(POOL, uuid4(), MetadataView(declared=KEY), 0).warning or ""
        assert "key (2)" in warning
        assert ("Only 2 files were counted" in warning) is bool(more)


def test_statuses_share_a_count_and_wait_for_no_long_one(monkeypatch: pytest.MonkeyPatch) -> None:
    files, may_end, index = Files(monkeypatch, []), Event(), uuid4()
    mistyped = Held([5], None, [UUID(int=1)], [])

    def held() -> Iterator[Held]:
        may_end.wait(60)
        yield mistyped

    files.held = cast("Sequence[Held]", held())

    def warning(index: UUID) -> str | None:
        return metadata_warning.warnings_of(POOL, index, MetadataView(declared=KEY)).mistyped

    assert [warning(index) for _ in range(9)] == [None] * 9
    # it changes meanwhile, which begins no second count
    state, files.state = files.state, MetadataState(1, files.state.task_id, files.state.finished_at)
    assert warning(index) is None
    assert len(files.reads) == 1
    # another index is counted meanwhile
    files.held, other = [mistyped], uuid4()
    eventually(lambda: "key (1)" in (warning(other) or ""), 60)
    may_end.set()
    files.state = state
    eventually(lambda: "key (1)" in (warning(index) or ""), 60)
    # a count that took long is not followed by another at once
    files.state, reads = MetadataState(1, state.task_id, state.finished_at), len(files.reads)
    assert warning(index) is None
    assert len(files.reads) == reads


@pytest.mark.parametrize(("count", "text", "most"), [(100_000, "x", 2), (0, "x" * 5_000, 30)])
def test_filters_take_memory_by_their_files_and_their_text(
    monkeypatch: pytest.MonkeyPatch, count: int, text: str, most: int
) -> None:
    ids = [UUID(int=number) for number in range(count)]
    Files(monkeypatch, [Held(["a"], None, ids, [str(each) for each in ids])])
    view, index = MetadataView(declared=KEY), uuid4()
    for number in range(60):
        metadata_filter.passing(POOL, index, view, {"key": {"not": [f"{number}{text}"] * 20}}, go_on)
    assert 0 < sum(key.index_id == index for key in metadata_filter._at_rest._values) <= most


def test_a_filter_is_resolved_no_further_once_its_caller_has_left(monkeypatch: pytest.MonkeyPatch) -> None:
    disconnect = Disconnect()
    files = Files(monkeypatch, [Held(["a"], None, [UUID(int=1)], [])])
    view, index = MetadataView(declared=KEY), uuid4()
    disconnect.event.set()
    with pytest.raises(CallerLeft):
        metadata_filter.passing(POOL, index, view, {"key": ANY_A}, disconnect.check)
    assert metadata_filter.passing(POOL, index, view, {"key": ANY_A}, go_on).files == {UUID(int=1)}
    assert len(files.reads) == 2
