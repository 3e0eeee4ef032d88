"""Ranking features of chunks: each one alone, and their effect on a score."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any
from uuid import UUID

import pytest

from api.search.rank import boosts
from api.search.rank.boosts import (
    HOMONYM,
    MAX_RUNS,
    RUN_WORDS,
    chunk_features,
    max_score,
    name_share,
    phrases,
    query_signals,
    terms,
    word_runs,
)
from schemas.queries.search import Context
from tests.hit_rows import hit_row
from worker.state.search.found_chunks import HitRow

ID = str(UUID(int=1))


def row(path: str = "src/a.py", text: str = "x", symbol: str | None = None, scope: str | None = None) -> HitRow:
    return hit_row(ID, text, file_path=path, symbol=symbol, scope=scope)


def features_of(query: str, chunk: HitRow, context: Context | None = None, defining: set[str] | None = None) -> Any:
    return chunk_features(query_signals([query], defining or set(), context or Context()), chunk)


def test_words_and_parts_of_names_are_terms_and_stop_words_are_not() -> None:
    assert terms("Where is the TokenBucket of retry_after?") >= {"token", "bucket", "retry", "after", "tokenbucket"}
    assert not terms("Where is the TokenBucket?") & {"where", "is", "the"}


def test_quoted_words_are_phrases() -> None:
    assert phrases('say "Hello there" and “bye now”') == ("hello there", "bye now")


def test_a_definition_counts_less_the_more_is_said_beside_its_name() -> None:
    def counts(query: str) -> Any:
        return features_of(query, row(symbol="TokenBucket"), defining={ID})["definition"]

    assert counts("how do I use TokenBucket again?") == 1
    assert counts("empty buckets raise an error that TokenBucket users cannot handle themselves") == 1 / 2


def test_the_definition_that_a_query_names_has_two_features() -> None:
    assert features_of("class TokenBucket", row(symbol="TokenBucket"), defining={ID}) == {"definition": 1, "symbol": 1}


def test_a_name_among_several_counts_less_as_a_definition() -> None:
    query = "convert a NamedStyle into separate CellStyle objects"
    assert features_of(query, row(symbol="CellStyle"), defining={ID})["definition"] == pytest.approx(1 / 2)


@pytest.mark.parametrize(
    ("path", "defining", "counts"),
    [
        ("src/a.py", {ID}, 1),
        ("src/a.py", {ID, "another"}, HOMONYM),
        # the query says which one
        ("src/limits.py", {ID, "another"}, 1),
    ],
)
def test_one_of_several_definitions_counts_less_unless_its_file_is_named(
    path: str, defining: set[str], counts: float
) -> None:
    chunk = row(path, symbol="TokenBucket")
    assert features_of("TokenBucket in limits", chunk, defining=defining)["definition"] == pytest.approx(counts)


def test_a_symbol_counts_as_far_as_it_is_what_the_query_says() -> None:
    assert features_of("token bucket", row(symbol="TokenBucket"))["symbol"] == 1
    assert features_of("fill a bucket", row(symbol="TokenBucket"))["symbol"] == pytest.approx(1 / 4)
    assert features_of("token bucket", row(symbol="token_bucket"))["symbol"] == 1
    assert "symbol" not in features_of("how is water drawn", row(symbol="TokenBucket"))


def test_four_words_in_a_row_count_where_a_chunk_has_them_verbatim() -> None:
    text = 'raise ValueError(f"the bucket {name} is empty, fill it first")'
    query = "the bucket b is empty, fill it first"
    assert features_of("Is empty, fill it", row(text=text))["verbatim"] == 1
    assert 0 < features_of(query, row(text=text))["verbatim"] < 1
    assert "verbatim" not in features_of("fill it first", row(text=text))
    assert "verbatim" not in features_of("first fill what is empty", row(text=text))
    assert "verbatim" not in features_of("is empty, fill it", row("tests/test_bucket.py", text))
    assert len(word_runs("word " * 1000)) <= MAX_RUNS


def test_the_runs_of_a_long_query_begin_at_equal_distances() -> None:
    words = [f"w{number}" for number in range(3 * MAX_RUNS + RUN_WORDS - 1)]
    starts = [words.index(run.split()[0]) for run in word_runs(" ".join(words))]
    assert starts == [0, 4, 8]
    assert [run.split() for run in word_runs("one two three four")] == [["one", "two", "three", "four"]]
    assert word_runs("one two three") == []


def test_the_name_of_a_file_and_of_its_two_nearest_folders_count() -> None:
    path = "far/outer/inner/water.py"
    for word, value in (("water", 1), ("inner", 1), ("outer", 1), ("far", 0)):
        assert features_of(word, row(path)).get("path", 0) == value


@pytest.mark.parametrize(
    ("path", "query", "counts"),
    [
        ("include/ostream.h", "flush an ostream", True),
        ("src/JsonObject.java", "how is a json object written", True),
        ("src/JsonObject.java", "JsonObject", True),
        ("src/json_object.test.ts", "a json object", False),
        ("src/json_object.test.ts", "test of a json object", True),
        ("src/JsonObject.Settings.cs", "JsonObject", False),
        ("src/JsonObject.java", "how is json written", False),
        ("src/JsonObject.java", "how is an object written", False),
        ("json/writer.py", "json", False),
        (".gitignore", "gitignore", True),
        ("...", "anything", False),
    ],
)
def test_a_stem_counts_if_the_query_has_all_its_words(path: str, query: str, counts: bool) -> None:
    assert ("stem" in features_of(query, row(path))) is counts


def test_a_path_counts_by_the_share_of_words_it_holds() -> None:
    assert features_of("redis lease", row("worker/lease.py"))["path"] == pytest.approx(1 / 2)


def test_a_phrase_counts_where_it_stands_verbatim() -> None:
    assert features_of('"not found"', row(text="It was Not Found here"))["phrase"] == 1
    assert features_of('"not  found"', row(text="It was not\n    found here"))["phrase"] == 1
    assert "phrase" not in features_of('"not found"', row(text="found not"))


@pytest.mark.parametrize(
    "path",
    [
        *("tests/unit/test_a.py", "src/a_test.go", "web/a.spec.ts", "src/FooTest.java", "src/BarTests.cs"),
        *("src/FooSpec.kt", "app/tests.py", "pkg/testdata/a.txt", "Water.Tests/Pump.cs"),
    ],
)
def test_tests_are_told_by_their_paths(path: str) -> None:
    assert features_of("anything", row(path)) == {"test": 1}


@pytest.mark.parametrize(
    "path",
    ["src/latest.py", "src/contest/a.py", "src/Contest.java", "src/attests.py"],
)
def test_what_only_looks_like_one_is_none(path: str) -> None:
    assert features_of("anything", row(path)) == {}


def test_who_asks_for_tests_gets_them() -> None:
    assert "test" not in features_of("test of the lease", row("tests/test_lease.py"))


@pytest.mark.parametrize(
    ("context", "nearness"),
    [
        ("worker/state/tasks.py", 1),
        ("/worker/state/tasks.py", 1),
        ("worker/", 1),
        ("worker/state", 1),
        ("worker/state/files.py", 0.5),
        ("worker/app.py", 0.5),
        ("worker/state/index/files.py", 1 / 3),
        ("worker/index/files.py", 0.25),
        ("worker/state/tasks.py/deep/files.py", 0.25),
        ("state/tasks.py", 0),
        ("work", 0),
        ("setup.py", 0),
        ("/", 0),
    ],
)
def test_the_callers_file_and_folders_count(context: str, nearness: float) -> None:
    features = features_of("x", row("worker/state/tasks.py"), Context(path=context))
    assert features.get("near_path", 0) == pytest.approx(nearness)


@pytest.mark.parametrize(
    ("path", "symbol", "of_definition", "of_inside"),
    [
        (None, "close", "near_symbol", "near_symbol"),
        (None, "Task.close", "near_symbol", "near_symbol"),
        (None, "Task#close", "near_symbol", "near_symbol"),
        (None, "Task", "near_symbol", "near_symbol"),
        (None, "Other.close", None, "near_symbol"),
        (None, "..", None, None),
        ("worker/tasks.py", "close", "own_symbol", "near_symbol"),
        ("/worker/tasks.py", "close", "own_symbol", "near_symbol"),
        ("worker", "close", "near_symbol", "near_symbol"),
        ("api/main.py", "close", "near_symbol", "near_symbol"),
    ],
)
def test_the_callers_definition_counts_less_than_what_is_in_its_scope(
    path: str | None, symbol: str, of_definition: str | None, of_inside: str | None
) -> None:
    context = Context(path=path, symbol=symbol)
    chunks = [
        row("worker/tasks.py", symbol="close", scope="Task"),
        row("worker/tasks.py", symbol="again", scope="Task/close"),
    ]
    names = {"near_symbol", "own_symbol"}
    found = [names & features_of("x", chunk, context).keys() for chunk in chunks]
    assert found == [{name} if name else set() for name in (of_definition, of_inside)]


@pytest.mark.parametrize(
    ("asked", "scope", "symbol", "is_it"),
    [
        ("pkg.module.Class.method", "Class", "method", True),
        ("pkg.module.Class.method", None, "Class.method", True),
        ("module.func", None, "func", True),
        ("src/a.py:func", None, "func", True),
        ("a.py::Class::method", "Class", "method", True),
        ("Class.method", "Outer/Class", "method", True),
        ("pkg.Other.Class.method", "Outer/Class", "method", False),
        ("method", None, "Class.method", False),
        ("func()", None, "func", True),
        ("mod.func(f(x), y.z)", None, "func", True),
        ("(*T).Method", "T", "Method", True),
        ("pkg.(*T).Method", "T", "Method", True),
        ("(*U).Method", "T", "Method", False),
        ("std::vector<int>::push", "vector", "push", True),
        ("push<T>(x)", "vector", "push", True),
        ("a::b::C::m", "a::b/C", "m", True),
        ("x::b::C::m", "a::b/C", "m", False),
        ("\\App\\Models\\User::save", "User", "save", True),
        ("Installation (Linux)", "Setup", "Installation (Linux)", True),
        ("::", None, "", False),
        ("()", None, "", False),
    ],
)
def test_a_symbol_may_be_qualified(asked: str, scope: str | None, symbol: str, is_it: bool) -> None:
    found = features_of("x", row("src/a.py", symbol=symbol, scope=scope), Context(symbol=asked))
    assert ("near_symbol" in found) == is_it


def test_a_heading_with_brackets_is_a_scope() -> None:
    context = Context(symbol="Installation (Linux)")
    assert "near_symbol" in features_of("x", row("a.md", symbol="Disk", scope="Installation (Linux)"), context)


def test_the_words_of_a_path_count_in_other_forms_too() -> None:
    for query, path in [
        ("dependencies", "a/dependency.py"),
        ("caching", "a/cache.py"),
        ("configuration", "conf/a.py"),
        ("auth", "a/authentication.py"),
    ]:
        assert features_of(query, row(path))["path"] == 1, query
    for query, path in [("context", "a/contest.py"), ("routing", "a/rotor.py"), ("use", "a/user.py")]:
        assert features_of(query, row(path)) == {}, query


@pytest.mark.parametrize(
    ("query", "share"),
    [("how is water drawn", 0), ("class TokenBucket", 1), ('the words "not found" in an answer', 1)],
)
def test_a_query_is_about_what_it_names_or_quotes(query: str, share: float) -> None:
    assert name_share(query) == share


def test_a_long_sentence_is_less_about_the_name_in_it() -> None:
    assert name_share("empty buckets raise an error that TokenBucket users cannot handle themselves") == 1 / 2


def test_of_several_queries_the_one_that_is_least_about_its_name_counts() -> None:
    queries = ["TokenBucket", "empty buckets raise an error that TokenBucket users cannot handle themselves"]
    assert query_signals(queries, (), Context()).name_share == 1 / 2
    assert query_signals([*queries[:1], "how is water drawn"], (), Context()).name_share == 1


def test_a_query_of_several_names_is_about_all_of_them() -> None:
    assert name_share("parse_header read_body") == 1


def test_the_highest_score_has_each_feature_that_raises_it() -> None:
    # what a file adds to its chunks is scaled apart
    assert max_score({"path": 0.25, "symbol": 0.5, "test": -0.5, "coherence": 4.0}) == 1.75


@pytest.mark.parametrize("folder", ["", "/", "a/", "a.b//c/", "./x/../", "/deep/er/and/deeper/"])
@pytest.mark.parametrize(
    "name",
    ["readme", "a.py", "SqlMapper.Settings.cs", ".gitignore", ".a.b", "..", "...", "a.", "..a", "a..b", "x y.z"],
)
def test_words_of_a_path_are_those_of_its_folders_and_its_stem(folder: str, name: str) -> None:
    path = PurePosixPath(folder + name)
    assert boosts._path_terms(folder + name) == boosts.terms(" ".join((*path.parts[-3:-1], path.stem)))
    stem = PurePosixPath(path.name.lstrip(".")).stem
    expected = frozenset().union(*(boosts._symbol_parts(part) for part in stem.split(".") if part))
    assert boosts._stem_terms(folder + name) == expected
