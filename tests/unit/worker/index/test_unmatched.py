"""What a warning says about entries of a config that matched nothing."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from schemas.content.document import SourceEntry
from schemas.content.source import ChunkSettings, EmbedderProfile, LocalSource
from schemas.tool import IndexSettings
from worker.index.unmatched import MatchedPatterns, NotingRules
from worker.state.index.tools import Index


def index_of(folder: str | None = "h.1", **config: Any) -> Index:
    given = {"embedder": EmbedderProfile(model="m", dimensions=4), "chunks": ChunkSettings(), "max_file_bytes": 1000}
    source = LocalSource(kind="local", path="/srv")
    settings = IndexSettings.model_validate(given | config)
    return Index(uuid4(), "p", source, folder, settings, "lancedb", "store", "n", 1)


def file(path: str) -> SourceEntry:
    return SourceEntry(path.encode(), path, f"/{path}", None, 1, "1")


def warning_of(paths: list[str], **config: Any) -> str | None:
    index = index_of(**config)
    matched = MatchedPatterns(index, ())
    rules = NotingRules(index.settings, matched)
    for path in paths:
        names = path.rstrip("/").split("/")
        is_dir = path.endswith("/")
        if rules.ignored(names, (), is_dir=is_dir) is None:
            rules.includes(names, inherited=True, is_dir=is_dir)
            matched.note_types([] if is_dir else [file(path)])
    return matched.warning()


@pytest.mark.parametrize(
    ("type_", "hint"),
    [
        ("markdwn", " (did you mean 'markdown'?)"),
        (".Markdwn", " (did you mean 'markdown'?)"),
        ("python", " (did you mean 'py'?)"),
        ("md", ""),
        ("jsn", " (did you mean 'json'?)"),
        ("tmp", ""),
        ("zzzzzzzz", ""),
    ],
)
def test_an_unmatched_type_is_named_with_the_nearest_known_one(type_: str, hint: str) -> None:
    expected = f"No listed file or folder matches config.types {type_!r}{hint}; correct or remove that."
    assert warning_of(["a.txt"], types=[type_]) == expected


@pytest.mark.parametrize("type_", ["txt", ".TXT", "text"])
def test_a_matched_type_is_not_named(type_: str) -> None:
    assert warning_of(["a.txt"], types=[type_]) is None


def test_each_list_names_what_matches_nothing_there() -> None:
    paths = ["docs/", "docs/a.md", "out/", "a.log", "uv.lock"]
    config = {
        "include": ["docs/", "docs/*.md", "dcos/", "out/", "# a comment", ""],
        "exclude": ["*.log", "a.log", "*.tmp", "!a.log", "!b.log", "out/", "*.tmp"],
        "keep": ["locks", "vcs", "binaries", "minified", "generated"],
    }
    assert warning_of(paths, **config) == (
        "No listed file or folder matches config.include 'dcos/', 'out/' or config.exclude '*.tmp', '!b.log' "
        "or config.keep 'vcs'; correct or remove that."
    )


@pytest.mark.parametrize("exclude", [["*.lock"], ["uv.lock", "b.lock"]])
def test_a_kind_that_another_rule_leaves_out_all_the_same_is_not_kept(exclude: list[str]) -> None:
    expected = "No listed file or folder matches config.keep 'locks'; correct or remove that."
    assert warning_of(["uv.lock", "b.lock"], exclude=exclude, keep=["locks"]) == expected


def test_a_negated_pattern_may_begin_with_a_sign() -> None:
    assert warning_of(["#a", "!b"], exclude=["!#a", "!!b", "\\#a", "\\!b"]) is None


def test_long_and_many_patterns_are_cut_and_strange_ones_quoted() -> None:
    names = ["x" * 500, "two\nlines", "\ud800", *(f"n{number}" for number in range(997))]
    text = warning_of(["a.md"], exclude=names)
    assert text is not None
    assert f"matches config.exclude '{'x' * 59}…', 'two\\nlines', '\\ud800' and 997 more" in text


@pytest.mark.parametrize(("folder", "paths"), [("h.1", []), (None, ["a.txt"])])
def test_nothing_is_said_where_nothing_could_match(folder: str | None, paths: list[str]) -> None:
    index = index_of(folder, types=["md"], include=["*.md"], exclude=["*.log"], keep=["vcs"])
    matched = MatchedPatterns(index, ())
    NotingRules(index.settings, matched)
    matched.note_types(map(file, paths))
    assert matched.warning() is None


def test_an_unknown_type_is_named_even_of_an_empty_folder() -> None:
    assert "'markdwn' (did" in (warning_of([], types=["markdwn", "md"]) or "")
    assert "'md'" not in (warning_of([], types=["markdwn", "md"]) or "")
