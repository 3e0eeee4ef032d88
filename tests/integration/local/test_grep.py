"""Grep finds lines by patterns, with rg on disk and in stored text, indexed or not. A hostile pattern harms nobody."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any
from uuid import UUID, uuid4

import pytest

from api.search.grep import grep as search
from api.search.grep import pattern as patterns
from api.search.grep import ripgrep
from schemas.content.source import NodesSource
from schemas.queries.grep import Grep
from tests.integration.local.grepping import grep, index_of, places
from tests.service import PROJECT, TOOLS, Service, checked
from worker.resources import Resources

CONTENT = {
    "a.txt": "first line\nÜber die Brücke: token, Token\n\nlast token",
    "b/crlf.txt": "one\r\ntwo token\r\nthree\r\n",
    "b/deep/code.py": "def make_token(name):\n    return f'{name}-token'\n\n\ndef other():\n    return 1\n",
    "b-side.md": "# Head\n\n日本語 token 🎉 token\n\ntail\n",
    "empty lines.txt": "\n\nx\n\n",
    "long.txt": "a" * 5_000 + " token " + "b" * 5_000 + "\n",
}
IGNORED = {".foldexignore": "secret.txt\nhidden/\n", "secret.txt": "token", "hidden/x.txt": "token"}

KINDS = pytest.mark.parametrize("kind", ["local", "nodes"])


def write(folder: Path, contents: dict[str, str]) -> None:
    for name, text in contents.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(text.encode())


@pytest.fixture(scope="module")
def folder(root: Path) -> Path:
    made = root / "made"
    write(made, CONTENT | IGNORED)
    page = "<html><title>T</title><body><p>A <b>bold</b> token</p></body></html>"
    write(made, {"page.html": page, "nul.txt": "token\0token"})
    # a file written just now may differ from what was indexed, and a note says so
    then = time.time() - 60
    os.utime(made / "nul.txt", (then, then))
    (made / "link.txt").symlink_to(made / "secret.txt")
    return made


@pytest.fixture(scope="module")
def made(running: Service, folder: Path) -> dict[str, str]:
    """A tool over a directory, and one over nodes with the same content."""
    parent = running.node("made", "folder")
    files = [("files", (name, text.encode())) for name, text in CONTENT.items()]
    answer = running.client.post(f"/api/projects/{PROJECT}/uploads", data={"parent_id": parent}, files=files)
    assert {item["outcome"] for item in checked(answer, 200)["items"]} == {"created"}
    found = {"local": running.local_tool(folder), "nodes": running.tool(node_id=parent), "parent": parent}
    for kind in ("local", "nodes"):
        running.wait(found[kind])
    return found


TOKENS = [
    ("a.txt", 2, 18),
    ("a.txt", 4, 6),
    ("b-side.md", 3, 5),
    ("b/crlf.txt", 2, 5),
    ("b/deep/code.py", 1, 10),
    ("b/deep/code.py", 2, 21),
    ("long.txt", 1, 5_002),
]
LATER = ("later.md", 1, 9)
ASKED: list[tuple[dict[str, Any], list[tuple[str, int, int]]]] = [
    ({"pattern": "token", "glob": "!page.html"}, TOKENS),
    ({"pattern": "token", "path": "b"}, TOKENS[3:6]),
    ({"pattern": "token", "path": "./b/deep/"}, TOKENS[4:6]),
    ({"pattern": "token", "path": "b-side.md"}, TOKENS[2:3]),
    ({"pattern": "token", "glob": "*.py"}, TOKENS[4:6]),
    ({"pattern": "token", "glob": ["*.py", "*.md"]}, [TOKENS[2], *TOKENS[4:6]]),
    ({"pattern": "token", "glob": ["*.py", "b/", "!deep/"]}, TOKENS[3:4]),
    ({"pattern": "token", "glob": ["!b/", "!page.html", "!later.md"]}, [*TOKENS[:3], TOKENS[6]]),
    ({"pattern": "TOKEN", "case_sensitive": True}, []),
    ({"pattern": "Token", "case_sensitive": True}, [("a.txt", 2, 25)]),
    ({"pattern": "ÜBER"}, [("a.txt", 2, 1)]),
    ({"pattern": "brÜcke"}, [("a.txt", 2, 10)]),
    ({"pattern": "🎉"}, [("b-side.md", 3, 11)]),
    ({"pattern": ".*", "glob": "a.txt"}, []),
    ({"pattern": "token$", "regex": True, "path": "b/crlf.txt"}, [("b/crlf.txt", 2, 5)]),
    ({"pattern": r"^\w+$", "regex": True, "glob": "*.txt", "path": "b"}, [("b/crlf.txt", 1, 1), ("b/crlf.txt", 3, 1)]),
    ({"pattern": r"\Ath|\Aone\z", "regex": True, "path": "b"}, [("b/crlf.txt", 1, 1), ("b/crlf.txt", 3, 1)]),
    ({"pattern": r"語\W", "regex": True}, [("b-side.md", 3, 3)]),
    ({"pattern": r"e\Br|\bber", "regex": True, "path": "a.txt"}, [("a.txt", 2, 2)]),
    ({"pattern": r"[^a-z\s][\w-]+['(]", "regex": True}, [("b/deep/code.py", 1, 9), ("b/deep/code.py", 2, 19)]),
    ({"pattern": r"\Q-token'\E", "regex": True}, [("b/deep/code.py", 2, 20)]),
    ({"pattern": "x*", "regex": True, "path": "empty lines.txt"}, [("empty lines.txt", n, 1) for n in (1, 2, 3, 4)]),
    ({"pattern": "three\\s+x", "regex": True}, []),
    ({"pattern": "--pre=/bin/sh"}, []),
    ({"pattern": "token", "word": True, "types": ["md", "python"]}, [TOKENS[2], TOKENS[5]]),
    ({"pattern": r"br\wcke|\w本\W?語", "regex": True}, [("a.txt", 2, 10), ("b-side.md", 3, 1)]),
    ({"pattern": "br|brück|ücke", "regex": True, "word": True}, []),
    ({"pattern": "brück|brücke|ücke", "regex": True, "word": True}, [("a.txt", 2, 10)]),
    ({"pattern": ")", "word": True}, [("b/deep/code.py", 5, 11)]),
    ({"pattern": "line\nüber", "multiline": True}, [("a.txt", 1, 7)]),
    (
        {"pattern": r"token$\s+^\w", "regex": True, "multiline": True},
        [("a.txt", 2, 25), ("b-side.md", 3, 13), TOKENS[3]],
    ),
    (
        {"pattern": r"\A\w+\s*\w+\Wtoken", "regex": True, "multiline": True, "word": True, "path": "b"},
        [("b/crlf.txt", 1, 1)],
    ),
]


@KINDS
@pytest.mark.parametrize(("asked", "expected"), ASKED)
def test_both_engines_find_the_same(
    running: Service, made: dict[str, str], kind: str, asked: dict[str, Any], expected: list[tuple[str, int, int]]
) -> None:
    answer = grep(running, made[kind], **asked)
    assert places(answer) == expected
    assert not answer["truncated"]
    assert answer["notes"] == []


@KINDS
def test_a_hit_has_its_preview_and_the_lines_around_it(running: Service, made: dict[str, str], kind: str) -> None:
    (hit,) = grep(running, made[kind], "two", before=5, after=1)["hits"]
    assert (hit["before"], hit["preview"], hit["after"]) == (["one"], "two token", ["three"])
    assert hit["end_line"] is None
    asked = {"regex": True, "multiline": True, "path": "b/deep", "before": 9, "after": 2}
    (hit,) = grep(running, made[kind], r"return [^1]*other", **asked)["hits"]
    assert (hit["line"], hit["end_line"], hit["preview"]) == (2, 5, "    return f'{name}-token'")
    assert (hit["before"], hit["after"]) == (["def make_token(name):"], ["    return 1"])
    (long,) = grep(running, made[kind], "token", path="long.txt")["hits"]
    assert " token " in long["preview"]
    assert len(long["preview"]) <= 502


@KINDS
def test_limits_are_told_exactly(running: Service, made: dict[str, str], kind: str) -> None:
    asked = {"pattern": "token", "glob": "!page.html"}
    for limit, cut in ((3, True), (6, True), (7, False)):
        answer = grep(running, made[kind], **asked, head_limit=limit)
        assert (len(answer["hits"]), answer["truncated"]) == (limit, cut)
    answer = grep(running, made[kind], **asked, max_per_file=1)
    assert ([hit["line"] for hit in answer["hits"]], answer["truncated"]) == ([2, 3, 2, 1, 1], True)
    assert not grep(running, made[kind], **asked, max_per_file=2)["truncated"]


HOSTILE = [
    "(a+)+$",
    "(a|aa)+c",
    "(x+x+)+y" * 100,
    "a" * 10_000,
    "|".join(f"b{n}" for n in range(1_700)),
    "[ab]*a[ab]{900}c",
]


@KINDS
@pytest.mark.parametrize("pattern", HOSTILE, ids=range(len(HOSTILE)))
def test_a_hostile_pattern_is_answered_in_time(running: Service, made: dict[str, str], kind: str, pattern: str) -> None:
    assert grep(running, made[kind], pattern, regex=True, path="long.txt")["hits"] == []


@KINDS
@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"pattern": "("}, "missing ): ("),
        ({"pattern": "(a{1000}){1000}"}, "{1000}"),
        ({"pattern": r"\pL{1000}"}, "too large"),
        ({"pattern": "(?=a)"}, "(?="),
        ({"pattern": r"(a)\1"}, r"\1"),
        ({"pattern": "a\nb"}, "line break"),
        ({"pattern": "a" * 10_001}, "pattern"),
        ({"pattern": ""}, "pattern"),
        ({"pattern": "a", "path": "../made/a.txt"}, "path"),
        ({"pattern": "a", "path": "/etc/passwd"}, "path"),
        ({"pattern": "a", "path": "b/../../x"}, "path"),
        ({"pattern": "a", "glob": "a" * 2_000}, "glob"),
        ({"pattern": "a", "before": 51}, "before"),
        ({"pattern": "a", "max_count": 5}, "max_count"),
        ({"pattern": "[a-z&&[^b]]"}, "`&&` in the set"),
        ({"pattern": "a", "types": ["py", "cobol"]}, "unknown types: 'cobol'"),
        ({"pattern": "a", "types": []}, "types"),
        ({"pattern": "a\0b", "multiline": True}, "NUL"),
        ({"pattern": "a", "path": "nowhere/x"}, "'nowhere/x'"),
        ({"pattern": "a", "path": "secret.txt"}, "'secret.txt'"),
        ({"pattern": "a", "path": "hidden"}, "'hidden'"),
    ],
)
def test_what_cannot_be_is_refused(
    running: Service, made: dict[str, str], kind: str, asked: dict[str, Any], said: str
) -> None:
    answer = running.client.post(f"{TOOLS}/{made[kind]}/grep", json={"regex": True, **asked})
    assert answer.status_code == 422, answer.text
    assert answer.json()["code"] == ("no_such_files" if said[0] == "'" else "invalid_request")
    assert said in answer.json()["detail"]


def test_the_answer_tells_how_much_is_indexed(running: Service, made: dict[str, str]) -> None:
    indexed = sum(file["status"] == "indexed" for file in running.files(made["nodes"]))
    answer = grep(running, made["nodes"], "token")
    assert answer["coverage"] == {
        "indexed_files": indexed,
        "total_files": len(CONTENT),
        "stale_files": None,
        "vector_share": None,
    }


def test_a_nodes_type_is_the_one_its_source_calls_it(running: Service) -> None:
    node = running.node("Notes", "markdown", "a noted token")
    tool = running.tool(node_id=node)
    for _ in range(2):
        assert places(grep(running, tool, "noted", types=["md"])) == [("Notes", 1, 3)]
        assert grep(running, tool, "noted", types=["json"])["hits"] == []
        running.wait(tool)


def test_only_what_the_rules_leave_in_is_shown(running: Service, made: dict[str, str], folder: Path) -> None:
    found = {hit["file_path"] for hit in grep(running, made["local"], "token")["hits"]}
    assert found == {*CONTENT, "page.html"} - {"empty lines.txt"}
    write(folder, {"b/.foldexignore": "crlf.txt\n"})
    try:
        assert "b/crlf.txt" not in {hit["file_path"] for hit in grep(running, made["local"], "token")["hits"]}
    finally:
        (folder / "b" / ".foldexignore").unlink()
    assert "b/crlf.txt" in {hit["file_path"] for hit in grep(running, made["local"], "token")["hits"]}


def test_an_extracted_text_is_found_at_its_own_lines(running: Service, made: dict[str, str]) -> None:
    (hit,) = grep(running, made["local"], "token", path="page.html")["hits"]
    assert hit["preview"] == "A bold token"
    assert grep(running, made["local"], "<p>", path="page.html")["hits"] == []


def test_what_is_not_indexed_is_found(running: Service, made: dict[str, str], folder: Path) -> None:
    before = (folder / "a.txt").read_bytes()
    write(folder, {"a.txt": "unheard\n", "new 🎉\nname.txt": "nothing\nunheard of", "utf16.txt": "x"})
    (folder / "utf16.txt").write_bytes("unheard".encode("utf-16"))
    (folder / "latin.txt").write_bytes("unheard é".encode("latin-1"))
    (folder / os.fsdecode(b"bytes\xff.txt")).write_text("unheard")
    try:
        answer = grep(running, made["local"], "unheard")
        expected = [("a.txt", 1, 1), ("bytes\\xff.txt", 1, 1), ("new 🎉\nname.txt", 2, 1), ("utf16.txt", 1, 1)]
        assert places(answer) == expected
        assert [note["code"] for note in answer["notes"]] == ["not_indexed"]
    finally:
        (folder / "a.txt").write_bytes(before)
    running.node("new.md", "markdown", "an unheard line", parent_id=made["parent"])
    assert places(grep(running, made["nodes"], "unheard")) == [("new.md", 1, 4)]


TIMED = {"old.md": 1_600_000_000, "middle.md": 1_700_000_000, "new.md": 1_700_000_060}
MIDDLE, NEW = "2023-11-14T22:13:20Z", "2023-11-14T23:14:20+01:00"
RANGES: list[tuple[dict[str, Any], list[str]]] = [
    ({"modified_after": MIDDLE}, ["middle.md", "new.md"]),
    ({"modified_before": MIDDLE}, ["old.md"]),
    ({"modified_after": MIDDLE, "modified_before": NEW}, ["middle.md"]),
    ({"modified_after": NEW, "glob": "!new.*"}, []),
]


@pytest.fixture(scope="module")
def timed(root: Path) -> Path:
    """A folder whose files were changed long ago."""
    folder = root / "timed"
    for name, seconds in TIMED.items():
        # as the rows have it, and not as the file
        write(folder, {name: "kestrels hover", f"{name}.html": "<p>kestrels <b>hover</b></p>"})
        os.utime(folder / name, (seconds, seconds))
        os.utime(folder / f"{name}.html", (seconds, seconds))
    return folder


@pytest.mark.parametrize(("times", "expected"), RANGES)
def test_files_are_selected_by_the_time_of_their_last_change(
    running: Service, timed: Path, times: dict[str, Any], expected: list[str]
) -> None:
    tool = running.local_tool(timed)
    expected = sorted([*expected, *(f"{name}.html" for name in expected)])
    running.wait(tool)
    assert [path for path, *_ in places(grep(running, tool, "kestrels", **times))] == expected
    # what is not indexed yet has a time, too
    young = timed / "young.txt"
    try:
        young.write_text("kestrels")
        assert ("young.txt" in str(grep(running, tool, "kestrels", **times)["hits"])) is (
            "modified_before" not in times
        )
    finally:
        young.unlink()


@pytest.mark.parametrize(("times", "expected"), RANGES)
def test_files_are_selected_by_time_without_rg(
    without_rg: None, running: Service, resources: Resources, timed: Path, times: dict[str, Any], expected: list[str]
) -> None:
    tool = running.local_tool(timed, config={"include": ["*.md"]})
    running.wait(tool)
    found = search.grep(resources, index_of(resources, tool), Grep.model_validate({"pattern": "kestrels", **times}))
    assert [hit.file_path for hit in found.hits] == expected


def test_nodes_are_selected_by_the_time_of_their_last_change(running: Service, made: dict[str, str]) -> None:
    assert places(grep(running, made["nodes"], "token", modified_before=MIDDLE)) == []
    assert places(grep(running, made["nodes"], "token", modified_after=MIDDLE, path="b")) == TOKENS[3:6]


def test_a_time_without_a_zone_is_refused(running: Service, made: dict[str, str]) -> None:
    body = {"pattern": "token", "modified_after": "2023-11-14"}
    problem = checked(running.client.post(f"{TOOLS}/{made['local']}/grep", json=body), 422)
    assert "modified_after" in problem["detail"]


def test_a_tool_is_grepped_before_it_is_ready(running: Service, root: Path) -> None:
    write(root / "fresh", {"one.txt": "said at once"})
    tool = running.local_tool(root / "fresh")
    assert places(grep(running, tool, "at once")) == [("one.txt", 1, 6)]
    running.wait(tool)


def test_a_folder_that_is_gone_is_told_of(running: Service, root: Path) -> None:
    write(root / "gone", {"one.txt": "once there"})
    tool = running.local_tool(root / "gone")
    running.wait(tool)
    (root / "gone").rename(root / "elsewhere")
    answer = grep(running, tool, "once")
    assert places(answer) == [("one.txt", 1, 1)]
    assert [note["code"] for note in answer["notes"]] == ["folder_gone"]


def test_a_narrowed_tool_shows_nothing_else(running: Service) -> None:
    node = running.node("n.json", "json", {"a": {"k": "one token"}, "b": {"é": "x", "k": "two token"}, "c": "token"})
    tool = running.tool(node_id=node, json_pointer="/b")
    running.wait(tool)
    (hit,) = grep(running, tool, "token", before=1)["hits"]
    assert (hit["line"], hit["column"], hit["before"]) == (7, 15, ['    "é": "x",'])


def test_a_stranger_sees_nothing(running: Service) -> None:
    checked(running.client.post(f"{TOOLS}/{UUID(int=1)}/grep", json={"pattern": "a"}), 404)


@pytest.fixture
def without_rg(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    python = sys.executable
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    ripgrep.program.cache_clear()
    assert ripgrep.program() is None
    # helpers are started with it
    monkeypatch.setattr(sys, "executable", python)
    yield
    ripgrep.program.cache_clear()


def test_a_folder_is_grepped_without_rg(
    without_rg: None, resources: Resources, made: dict[str, str], folder: Path
) -> None:
    index = index_of(resources, made["local"])
    write(folder, {"later.md": "a later token"})
    found = search.grep(resources, index, Grep(pattern="token", glob="!page.html"))
    (folder / "later.md").unlink()
    assert sorted((hit.file_path, hit.line, hit.column) for hit in found.hits) == [*TOKENS[:-1], LATER, TOKENS[-1]]


@KINDS
@pytest.mark.parametrize(("multiline", "code"), [(True, "long_text"), (False, "long_lines")])
def test_what_was_not_looked_through_at_once_is_told(
    resources: Resources, made: dict[str, str], kind: str, multiline: bool, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    index, asked = index_of(resources, made[kind]), Grep(pattern="token", path="long.txt", multiline=multiline)
    assert search.grep(resources, index, asked).notes == []
    monkeypatch.setattr(patterns, "MIN_REACH", 400)
    monkeypatch.setattr(patterns, "MAX_STEPS", 0)
    found = search.grep(resources, index, asked)
    assert [(note.code, note.detail[-3:]) for note in found.notes] == [(code, " 1.")]
    assert found.truncated is not multiline


def test_a_caller_that_left_is_not_worked_for(resources: Resources, made: dict[str, str]) -> None:
    left = Event()
    left.set()
    found = search.grep(resources, index_of(resources, made["local"]), Grep(pattern="token"), disconnected=left)
    assert (found.hits, found.truncated, [note.code for note in found.notes]) == ([], True, ["time_over"])


def test_a_narrowed_tool_shows_nothing_else_before_it_is_indexed(running: Service, resources: Resources) -> None:
    content = {"public": {"k": "a token"}, "secrets": {"k": "hidden token"}}
    node = running.node("two.json", "json", content)
    index = replace(index_of(resources, running.tool(node_id=node)), id=uuid4())
    for pointer, lines in (("/public", [3]), ("/secrets/k", [6]), ("/none", [])):
        narrow = replace(index, source=NodesSource(node_id=node, json_pointer=pointer))
        found = search.grep(resources, narrow, Grep(pattern="token", before=9, after=9))
        assert [hit.line for hit in found.hits] == lines
        assert [note.code for note in found.notes] == ([] if lines else ["not_indexed"])
        hits, _ = search.fallback(resources, narrow, "token", 5)
        assert len(hits) == len(lines)
        if pointer == "/public":
            assert "secrets" not in f"{found.hits} {hits}"
            assert "hidden" not in f"{found.hits} {hits}"


def test_a_narrowed_tool_shows_no_lines_around_its_part(running: Service) -> None:
    node = running.node("m.json", "json", {"a": "above", "b": {"k": "a token"}, "c": "below"})
    tool = running.tool(node_id=node, json_pointer="/b")
    running.wait(tool)
    (hit,) = grep(running, tool, "token", before=9, after=9)["hits"]
    assert (hit["line"], hit["before"], hit["after"]) == (4, ['  "b": {'], ["  }"])


@KINDS
def test_words_of_a_query_are_found_without_an_index(
    running: Service, resources: Resources, made: dict[str, str], kind: str
) -> None:
    found, _ = search.fallback(resources, index_of(resources, made[kind]), "the name of a token, returned", 2)
    assert found[0].file_path == "b/deep/code.py"
    assert (found[0].start_line, found[0].end_line, found[0].embedded) == (1, 2, False)
    assert found[0].chunk_text.startswith("def make_token(name):\n")
    known = {file["file_id"] for file in running.files(made[kind])}
    assert {str(hit.file_id) for hit in found} <= known
