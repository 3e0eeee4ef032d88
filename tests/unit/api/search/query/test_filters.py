"""Pure functions of answering: fusion, and filters as conditions."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from itertools import product
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID, uuid4

import pytest
from cachetools import TLRUCache
from hypothesis import given
from hypothesis import strategies as st

from api.http.disconnect import Disconnect
from api.http.lookup_cache import MAX_REST_SECONDS, ends_at
from api.http.sight import SeenIndex
from api.search.query import filters
from api.search.query.file_filter import FileSelection, selection_by_patterns
from api.search.query.filters import (
    MAX_LISTED_NAMES,
    MAX_VALUE_CHARACTERS,
    PathFilters,
    ResolvedFilters,
    check_any_passes,
    filters_of,
    resolve_filters,
    shortened,
)
from api.search.rank.fusion import by_score, ranks_and_values, reciprocal_ranks, weighted_sums
from api.search.text.path_pattern import folder_of
from schemas.content.acl import EVERYTHING, Sight
from schemas.errors import FilterMatchesNothing
from schemas.queries.metadata import PLAIN, MetadataView
from schemas.queries.search import Filters, Query
from worker.ignore import compiled_glob
from worker.state.access import acl
from worker.state.access.acl import Version, VisibleFile
from worker.state.index import file_lookup
from worker.state.index.file_lookup import IndexedFile
from worker.state.pool import Pool
from worker.state.search import found_chunks, metadata, symbols
from worker.state.search.metadata import Held, MetadataState
from worker.vectors import FILTERED, MAX_FILTERABLE_BYTES

A, B, C, D = (UUID(int=number) for number in range(4))


def test_first_in_every_ranking_scores_one() -> None:
    assert next(iter(reciprocal_ranks([(1, [A, B]), (0.5, [A, C])]).items())) == (A, 1.0)


def test_agreement_beats_a_single_first_place() -> None:
    assert list(reciprocal_ranks([(1, [A, B, C]), (1, [D, B, C])])) == [B, C, A, D]


def test_a_heavier_ranking_wins_where_two_disagree() -> None:
    assert list(reciprocal_ranks([(1, [A, B]), (2, [B, A])])) == [B, A]


def test_a_ranking_without_weight_or_without_hits_takes_no_part() -> None:
    alone = reciprocal_ranks([(1, [A, B])])
    assert reciprocal_ranks([(1, [A, B]), (0, [B, C]), (3, [])]) == alone


def test_ties_go_by_id_whatever_the_order_of_rankings() -> None:
    assert list(reciprocal_ranks([(1, [B]), (1, [A])])) == list(reciprocal_ranks([(1, [A]), (1, [B])])) == [A, B]


RANKINGS = st.lists(
    st.tuples(st.floats(0.1, 3), st.lists(st.sampled_from([A, B, C, D]), unique=True)), min_size=1, max_size=3
)


@given(RANKINGS)
def test_scores_lie_between_zero_and_one_and_fall(rankings: list[tuple[float, list[UUID]]]) -> None:
    scores = list(reciprocal_ranks(rankings).values())
    assert all(0 < score <= 1.000001 for score in scores)
    assert scores == sorted(scores, reverse=True)


@given(st.dictionaries(st.uuids(), st.sampled_from([0.0, -0.0, 0.25, 0.5, 1.0])))
def test_scores_come_best_first_and_ties_by_id(scores: dict[UUID, float]) -> None:
    ranked = by_score(scores)
    assert list(ranked.items()) == sorted(scores.items(), key=lambda item: (-item[1], item[0]))


def test_a_leg_that_stands_out_beats_one_that_guesses() -> None:
    guess = (1.0, [A, B], ranks_and_values([1, 2], [1.0, 0.99]))
    sure = (1.0, [B, A], ranks_and_values([1, 2], [1.0, 0.1]))
    scores = weighted_sums([guess, sure])
    assert list(by_score(scores)) == [B, A]
    assert scores == pytest.approx({B: (1 + 11 / 12 + 1.99) / 4, A: (1 + 11 / 12 + 1.1) / 4})


def test_values_of_a_leg_without_weight_or_hits_take_no_part() -> None:
    leg = (1.0, [A, B], ranks_and_values([1, 2], [1.0, 0.5]))
    alone = weighted_sums([leg])
    assert alone[A] == 1
    assert weighted_sums([leg, (0.0, [B], [2.0]), (3.0, [], [])]) == alone
    assert weighted_sums([(1.0, [], [])]) == {}


def test_no_ranking_has_no_winner() -> None:
    assert reciprocal_ranks([(1, []), (1, [])]) == {}


def test_filters_become_conditions() -> None:
    filters = Filters(types=["json"], level=0, json_pointer="/a", scope="x")
    found = {(c.attribute, c.op, tuple(c.values)) for c in ResolvedFilters(filters, FileSelection(["n"])).conditions}
    assert found == {
        ("file_node_id", "in", ("n",)),
        ("file_type", "in", ("json",)),
        ("level", "in", (0,)),
        ("scope", "prefix", ("x",)),
        ("json_pointer", "prefix", ("/a",)),
    }
    assert ResolvedFilters(Filters(), None).conditions == []


def test_chunks_named_after_another_pass_the_filter_of_their_own_name() -> None:
    found = ResolvedFilters(Filters(symbols=["a"], scope="x", level=1), None, symbol_ids=[A], scope_ids=[B]).conditions
    assert {(c.attribute, tuple(c.ids)) for c in found} == {("symbol", (A,)), ("scope", (B,)), ("level", ())}


def test_names_and_scopes_are_looked_up_where_they_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(symbols, "holding", lambda _pool, _id, names, _only: ["named", *names])
    monkeypatch.setattr(symbols, "holding_scope", lambda _pool, _id, scope, _only: [scope])
    # many files are told by patterns, without ids
    monkeypatch.setattr(filters, "select_files", lambda *_: FileSelection(folders=["/a"]))
    index = cast("SeenIndex", SimpleNamespace(id=None))

    def looked_up(given: Filters) -> tuple[object, object]:
        found = resolve_filters(cast("Pool", None), index, given)
        return found.symbol_ids, found.scope_ids

    assert looked_up(Filters(symbols=["a"])) == (["named", "a"], ())
    assert looked_up(Filters(scope="x")) == ((), ["x"])


class _Lookups:
    """Counts how often the files of filters are looked up. The clock stands still until it is told to move."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.count, self.seconds, self.rest = 0.0, 0, 0.0, filters._resolved._rest
        #: The newest task of every index.
        self.state = MetadataState(0, A, None)
        monkeypatch.setattr(filters, "select_files", self._select)
        monkeypatch.setattr(metadata, "state", lambda _pool, _id: self.state)
        for cache in (filters._resolved, filters._states):
            kept: TLRUCache[object, tuple[Any, int, float]] = TLRUCache(10**6, ends_at, timer=lambda: self.now)
            monkeypatch.setattr(cache, "_values", kept)
            # a lookup may take long on a busy machine
            monkeypatch.setattr(cache, "_rest", 0)

    def _select(self, *_: object) -> FileSelection:
        self.count += 1
        time.sleep(self.seconds)
        return FileSelection(["n"])

    def after(self, index: SeenIndex, **query: Any) -> int:
        """The lookups so far, after one more query."""
        filters_of(cast("Pool", None), index, Query(query="x", **query), Disconnect().check)
        return self.count


PATH = {"filters": Filters(path="a/**")}


def test_files_are_looked_up_once_in_a_moment_unless_the_query_asks_for_the_folder(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lookups = _Lookups(monkeypatch)
    one, other = (cast("SeenIndex", SimpleNamespace(id=uuid4(), sight=EVERYTHING, metadata=PLAIN)) for _ in range(2))
    assert lookups.after(one) == 0
    assert [lookups.after(one, **PATH), lookups.after(one, **PATH), lookups.after(other, **PATH)] == [1, 1, 2]
    assert lookups.after(one, filters=Filters(path="b/**")) == 3
    assert lookups.after(one, refresh="if_stale", **PATH) == 4
    lookups.now = filters.RESOLVED_SECONDS
    assert lookups.after(one, **PATH) == 5


def test_files_of_an_index_at_rest_are_looked_up_again_once_a_task_was_there(monkeypatch: pytest.MonkeyPatch) -> None:
    lookups, index = (
        _Lookups(monkeypatch),
        cast("SeenIndex", SimpleNamespace(id=uuid4(), sight=EVERYTHING, metadata=PLAIN)),
    )
    lookups.state = MetadataState(0, A, datetime(2026, 11, 1, tzinfo=UTC))
    assert lookups.after(index, **PATH) == 1
    lookups.now = 2 * filters.RESOLVED_SECONDS
    assert lookups.after(index, **PATH) == lookups.after(index, refresh="if_stale", **PATH) == 1
    # a task begins: that is noticed after a moment, and at once by who asks for the folder
    lookups.state = MetadataState(0, B, None)
    assert lookups.after(index, **PATH) == 1
    assert lookups.after(index, refresh="if_stale", **PATH) == 2
    lookups.now = 4 * filters.RESOLVED_SECONDS
    assert lookups.after(index, **PATH) == 3
    lookups.state = MetadataState(0, B, datetime(2026, 11, 1, tzinfo=UTC))
    lookups.now = 6 * filters.RESOLVED_SECONDS
    assert [lookups.after(index, **PATH), lookups.after(index, **PATH)] == [4, 4]


def test_files_of_a_large_folder_are_looked_up_less_often_but_anew_in_each_task(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lookups, index = (
        _Lookups(monkeypatch),
        cast("SeenIndex", SimpleNamespace(id=uuid4(), sight=EVERYTHING, metadata=PLAIN)),
    )
    monkeypatch.setattr(filters._resolved, "_rest", lookups.rest)
    lookups.seconds = 10 * filters.RESOLVED_SECONDS / filters.RESOLVED_REST
    assert lookups.after(index, **PATH) == 1
    lookups.now = 2 * filters.RESOLVED_SECONDS
    assert lookups.after(index, **PATH) == 1
    # the task ends, and another begins
    lookups.state = MetadataState(0, B, None)
    lookups.now = 4 * filters.RESOLVED_SECONDS
    assert lookups.after(index, **PATH) == 2
    lookups.now += MAX_REST_SECONDS
    assert lookups.after(index, **PATH) == 3


def test_filters_by_metadata_and_path_are_resolved_anew_once_values_the_view_or_a_task_change(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lookups, view = _Lookups(monkeypatch), MetadataView(declared={"team": "string"})
    monkeypatch.setattr(metadata, "files_by_values", lambda *_: [Held(["red"], None, [], ["n"])])
    index = cast("SeenIndex", SimpleNamespace(id=uuid4(), sight=EVERYTHING, metadata=view))
    asked = {"filters": Filters(path="a/**", metadata={"team": {"any": ["red"]}})}
    ended = datetime(2026, 11, 1, tzinfo=UTC)
    lookups.state = MetadataState(0, A, ended)
    assert [lookups.after(index, **asked), lookups.after(index, **asked)] == [1, 1]
    # the clock stands still: changes of values and tasks are noticed at once
    lookups.state = MetadataState(1, A, ended)
    assert [lookups.after(index, **asked), lookups.after(index, **asked)] == [2, 2]
    index.metadata = MetadataView(declared={"team": "string", "year": "int"})  # type: ignore[misc]
    assert [lookups.after(index, **asked), lookups.after(index, **asked)] == [3, 3]
    lookups.state = MetadataState(1, B, None)
    assert [lookups.after(index, **asked), lookups.after(index, **asked)] == [4, 5]


@pytest.mark.parametrize("finished_at", [None, datetime(2026, 11, 1, tzinfo=UTC)])
def test_the_state_of_an_index_is_read_once_for_who_may_read_and_for_what_passes(
    monkeypatch: pytest.MonkeyPatch, finished_at: datetime | None
) -> None:
    lookups, reads = _Lookups(monkeypatch), 0

    def state(_pool: object, _index_id: UUID) -> MetadataState:
        nonlocal reads
        reads += 1
        return MetadataState(0, A, finished_at)

    monkeypatch.setattr(metadata, "state", state)
    monkeypatch.setattr(metadata, "files_by_values", lambda *_: [Held(["red"], None, [], ["n"])])
    monkeypatch.setattr(acl, "version", lambda *_: Version(1, 1))
    monkeypatch.setattr(acl, "readable", lambda *_: frozenset())
    monkeypatch.setattr(acl, "any_hidden", lambda *_: True)
    monkeypatch.setattr(acl, "visible_files", lambda *_, **__: [VisibleFile(A, "n", None)])
    view = MetadataView(declared={"team": "string"})
    seen = SimpleNamespace(id=uuid4(), sight=Sight(frozenset()), metadata=view, project_id="p", lists=None)
    asked = Filters(path="a/**", metadata={"team": {"any": ["red"]}})
    assert lookups.after(cast("SeenIndex", seen), filters=asked) == 1
    assert reads == 1


def test_every_attribute_of_a_filter_is_filterable_in_a_store() -> None:
    values = {"types": ["json"], "languages": ["go"], "symbols": ["a"], "node_types": ["class"], "scope": "x"}
    filters = PathFilters.model_validate({**values, "json_pointer": "/a", "level": 0, "id_paths": ["x/y"]})
    resolved = ResolvedFilters(filters, FileSelection(["n"], ["folder"], [".go"]), filters.id_paths)
    asked = {condition.attribute for condition in resolved.conditions}
    assert asked == {*FILTERED, "level"}


def test_the_folder_of_a_glob_holds_whatever_that_matches() -> None:
    assert folder_of("docs/api/**") == folder_of("/docs/api/*.md") == folder_of("docs/api/**/x/*.py") == "docs/api/"
    assert folder_of("docs/") == folder_of("*.md") == folder_of("**/docs/x") == folder_of("{a/b,c}/d") == ""
    parts = ["a", "*", "**", "{a,b}", ""]
    globs = {sep + "/".join(of) + end for of in product(parts, parts, parts) for sep in ("", "/") for end in ("", "/")}
    paths = ["/".join(of) for number in range(1, 5) for of in product("ab", repeat=number)]
    for glob in globs - {"/" * number for number in range(9)}:
        spec, folder = compiled_glob("path", glob), folder_of(glob)
        assert all(path.startswith(folder) for path in paths if spec.matches(path)), glob


def file(path: str, id_path: str | None = None) -> IndexedFile:
    return IndexedFile(path, path, id_path or f"/{path}", "code", None, None)


def test_many_files_are_told_by_their_folder_and_endings() -> None:
    near = [file(path) for path in ("src/a.py", "src/b/c.py", "src/b/d.pyi", "src/e.md", "src/Makefile")]
    assert selection_by_patterns(near, near, "") == FileSelection()
    assert selection_by_patterns(near, near, "src/") == FileSelection(None, ["/src"], None)
    assert selection_by_patterns(near, near[:2], "src/") == FileSelection(None, ["/src"], [".py"])
    assert selection_by_patterns(near, near[:4], "") == FileSelection(None, None, [".md", ".py", ".pyi"])
    assert selection_by_patterns(near, near[:1], "") is None, "b/c.py has that ending, too"
    assert selection_by_patterns(near, near[3:], "") is None, "a name without an ending"
    odd = [file("a.p_y"), file("b.p%"), file("c")]
    assert selection_by_patterns(odd, odd[:1], "") is None is selection_by_patterns(odd, odd[1:2], ""), (
        "stores read them as patterns"
    )


def test_a_folder_of_nodes_is_told_by_its_ids() -> None:
    near = [file("docs/a.md", "/root/n1/n2"), file("docs/b/c.md", "/root/n1/n3/n4"), file("docs/d.md", "/root/n9/n5")]
    assert selection_by_patterns(near, near, "docs/") == FileSelection(None, ["/root/n1", "/root/n9"], None), (
        "two folders of one name"
    )
    long = [file("docs/a.md", f"/{'x' * 1024}/n2")]
    assert selection_by_patterns(long, long, "docs/") is None, "stores cut it"


@pytest.mark.parametrize(("length", "resolved"), [(MAX_FILTERABLE_BYTES - 1, False), (MAX_FILTERABLE_BYTES, True)])
@pytest.mark.parametrize("file_ids", [None, ["asked"]])
def test_id_paths_that_the_store_truncates_are_resolved_to_files(
    monkeypatch: pytest.MonkeyPatch, length: int, resolved: bool, file_ids: list[str] | None
) -> None:
    allowed: list[set[str] | None] = []
    monkeypatch.setattr(file_lookup, "below", lambda *_, **__: ["a", "b"])
    monkeypatch.setattr(file_lookup, "find_named", lambda *_: ["b", "c"])
    monkeypatch.setattr(filters, "select_files", lambda *given: allowed.append(given[-2]))
    index = cast("SeenIndex", SimpleNamespace(id=None, source=SimpleNamespace(content_node=None)))
    wanted = PathFilters(id_paths=["é" + "x" * (length - 2)], file_ids=file_ids)
    found = resolve_filters(cast("Pool", None), index, wanted)
    assert (found.id_paths is None) is resolved
    named = {"b", "c"} if file_ids else None
    below = {"b"} if file_ids else {"a", "b"}
    assert allowed == [below if resolved else named]


@pytest.mark.parametrize(("names", "more"), [(MAX_LISTED_NAMES, ""), (MAX_LISTED_NAMES + 1, " and 1 more")])
def test_filters_that_no_file_passes_are_refused_with_what_there_is(
    monkeypatch: pytest.MonkeyPatch, names: int, more: str
) -> None:
    languages = [f"l{number}" for number in range(names)]
    monkeypatch.setattr(filters, "select_files", lambda *_: FileSelection(ids=[]))
    monkeypatch.setattr(file_lookup, "kinds", lambda *_: ([], languages))
    index = cast("SeenIndex", SimpleNamespace(id=None))
    with pytest.raises(FilterMatchesNothing) as caught:
        resolve_filters(cast("Pool", None), index, Filters(path="*.md", languages=["x"]))
    assert caught.value.message.endswith(f" Languages here: {', '.join(languages[:MAX_LISTED_NAMES])}{more}.")


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        ({"languages": ["go", "ruby"]}, ""),
        ({"languages": ["ruby"]}, " Languages here: go."),
        ({"types": ["pdf", "markdown"]}, ""),
        ({"types": ["pdf"]}, " Types here: code, markdown; languages: go."),
        ({"types": [".go"]}, ""),
        ({"types": [".rb"]}, " Types here: code, markdown; languages: go."),
        ({"path": "a/*"}, ""),
    ],
)
def test_what_there_is_is_told_if_nothing_asked_for_exists(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, list[str]], hint: str
) -> None:
    monkeypatch.setattr(found_chunks, "any_passes", lambda *_: False)
    monkeypatch.setattr(file_lookup, "kinds", lambda *_: (["code", "markdown"], ["go"]))
    monkeypatch.setattr(file_lookup, "searchable", lambda *_: [file("a.go")])
    index = cast("SeenIndex", SimpleNamespace(id=None))
    resolved = ResolvedFilters(Filters.model_validate(given), None)
    with pytest.raises(FilterMatchesNothing) as caught:
        check_any_passes(cast("Pool", None), index, resolved)
    assert caught.value.hint == hint
    monkeypatch.setattr(found_chunks, "any_passes", lambda *_: True)
    check_any_passes(cast("Pool", None), index, resolved)


@pytest.mark.parametrize(("length", "is_whole"), [(MAX_VALUE_CHARACTERS, True), (MAX_VALUE_CHARACTERS + 1, False)])
def test_a_long_value_of_a_filter_is_shortened(length: int, is_whole: bool) -> None:
    value = "x" * (length - len("''"))
    assert shortened(value) == (f"'{value}'" if is_whole else f"'{value}…")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"metadata": {"team": "none"}}, "No indexed file matches the filters team='none'; widen"),
        (
            {"types": ["pdf"], "metadata": {"team": {"not": ["a", "b"]}, "year": {"gte": 2020, "lt": 2024}}},
            "No indexed file matches the filters types=['pdf'], team!=['a', 'b'], year>=2020, year<2024; widen",
        ),
        ({"metadata": {"team": {"exists": False}}}, "No indexed file matches the filters team is not set; widen"),
        ({"path": "/empty"}, "No indexed file matches the path '/empty'; check it, or list the tool's files."),
    ],
)
def test_filters_are_told_in_words(monkeypatch: pytest.MonkeyPatch, given: dict[str, Any], said: str) -> None:
    monkeypatch.setattr(found_chunks, "any_passes", lambda *_: False)
    monkeypatch.setattr(file_lookup, "kinds", lambda *_: ([], []))
    monkeypatch.setattr(file_lookup, "searchable", lambda *_: [])
    index = cast("SeenIndex", SimpleNamespace(id=None))
    with pytest.raises(FilterMatchesNothing) as caught:
        check_any_passes(cast("Pool", None), index, ResolvedFilters(Filters.model_validate(given), None))
    assert caught.value.message.startswith(said)
