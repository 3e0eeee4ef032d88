"""Patterns and lines: wider expressions find all that the exact one does, and long lines are cut around the match."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.search.grep import ripgrep, texts
from api.search.grep.file_types import FileTypeFilter, _kinds
from api.search.grep.lines import lines_after, lines_before, matching_lines, shown
from api.search.grep.pattern import MAX_CLASSES, compiled_pattern
from api.search.grep.translate import for_ripgrep
from schemas.errors import Invalid, SourceRefused
from schemas.queries.grep import MAX_SPAN, Grep
from tests.parsing import parse
from worker.formats.by_name import _LANGUAGE_OF
from worker.formats.registry import AS_WRITTEN, BY_EXTENSION, BY_TYPE
from worker.machine.bounded_reads import can_bound_reads
from worker.machine.handles import open_real
from worker.parse import Limits
from worker.parse.encodings import decode
from worker.sources.local import LocalFolder

DATA = Path(__file__).parents[4] / "data"
TEXT = "Éa b-1\r\n\n[x]&&~y\tz_9\r\nend é-\nª٣ \rfin <w> (m) a{,5}"
PATTERNS = [
    *(r"\w", r"\W", r"\d", r"\D", r"\s", r"\S", r"\b", r"\B", r"\A", r"\z", "^", "$", ".", "", "^$", r"^.{4}$"),
    *(
        r"[\W]",
        r"[^\W]",
        r"[\[x]",
        r"[]]",
        "[&~]",
        "[^&a]",
        r"[\[\]]",
        "[a-]",
        "[[:^alpha:]]+$",
        r"[+-\-]1",
        r"[^\S\d]",
    ),
    *(r"[\w-z]+", r"[^\w-]", r"[]\w]", r"[\s-]1", r"[\S-]$", r"^[\D]+$", r"[\W\d]$", r"\w+$", r"^\W*\w\W", r"\d\s"),
    *(r"\<w\>", r"\Q[x]\E", r"\Q(m", "(?i)é", "(?-i)É", "(?-m)^end", "(?m-s:^end)", r"é\z|-\z", r"\x{C9}a", r"z\_9"),
    *(
        "a{,5}",
        r"^\(m\) a{|{,5}$|a{,5}$",
        r"[m)]{1}\) a{",
        "{,|m{1,}",
        r"\p{Lu}{1,2}\x{61}{1}",
        r"\pL$",
        r"\p{Greek}|\p{Latin}$",
        r"(?:\rfin)",
        "y\tz",
        "b-1$",
        r"1\s*$",
        r"(?P<n>e)nd",
        "e|^$|9$",
    ),
]


_opened: list[int] = []


@pytest.fixture(autouse=True)
def _close_what_was_opened() -> Iterator[None]:
    yield
    while _opened:
        os.close(_opened.pop())


def opened(folder: Path) -> int:
    _opened.append(open_real(bytes(folder)))
    return _opened[-1]


def nothing() -> None:
    """Never reach the time limit."""


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("case_sensitive", [False, True])
def test_no_line_is_missed(tmp_path: Path, pattern: str, case_sensitive: bool) -> None:
    made = compiled_pattern(Grep.model_construct(pattern=pattern, regex=True, case_sensitive=case_sensitive))
    lines = [line.removesuffix("\r") for line in TEXT.split("\n")]
    expected = [
        (n, m[0]) for n, line in enumerate(lines, 1) if (m := made.exact.first(line.encode(), 0, len(line.encode())))
    ]
    assert [(line.number, line.match_start) for line in matching_lines(TEXT.encode(), made, nothing)] == expected
    program = ripgrep.program()
    if made.ripgrep is not None and program is not None:
        for number, line in enumerate(TEXT.split("\n")):
            (tmp_path / str(number)).write_bytes(line.encode() + b"\n")
        names = [str(number).encode() for number in range(len(lines))]
        found = ripgrep.matching_files(program, made.ripgrep, opened(tmp_path), names, nothing)
        assert {b"%d" % (number - 1) for number, _ in expected} <= set(found)


@pytest.mark.parametrize("multiline", [False, True])
@pytest.mark.parametrize(
    ("pattern", "is_served"), [("def", True), (r"a\wb", True), (r"a\Cb", False), (r"\Qa\Cb\E", True)]
)
def test_ripgrep_is_asked_for_all_but_single_bytes(pattern: str, is_served: bool, multiline: bool) -> None:
    assert (for_ripgrep(pattern, word=False, multiline=multiline) is not None) is is_served


BESIDE_RG = (
    "def größe(самолёт, x_1):\n    return чис + число + ٣٤ + naïve_x\u0301y\n\n"
    "id idea\u00a0id-id _id id2 2id éid ид idид id\r\na\u3000b\vc\td\x85e\n"
    "foo( foo(x) (foo) foobar foo\nfoo\n  bar(\n\n  baz)\nx\nx\nx y\r\nend-\n\U0001d4b3 ᾳ ⓐ 中文字 字\n\nfoo foo\nid\n"
)
ASKED_BESIDE_RG = [
    *(r"def \w+\(", r"^\w+ \w", r"\W\w\W", r"\d{2}", r"\s[a-e]", r"[\w-]+$", r"[^\W\d]{7}", r"[\W\d]{3}", r"\S\D\d"),
    *(r"[^\s\w]$", r"[\S]{12}", r"[^\S ]", "id", "foo|foobar", "(?:foo)?bar|foo", "foo\\(", "-?id", "x|x y", r"\w+?"),
    *(
        r"\bid\b",
        r"\bé?id\b",
        r"\béid",
        r"ид\b",
        r"\bид\b",
        r"\b(?:ид|id)\b",
        r"\b(i(d|dea)?)\b",
        r"\bчи|\bид",
        r"id\b|idea\b",
    ),
    *(
        r"(?i)\bИД\b",
        r"\b[a-zé]+\b",
        r"\b\w{2}\b",
        r"\bid[2é]?\b",
        r"\bчи\w+\b",
        r"^\w\b",
        r"\b字\b",
        r"\bnaïve_",
        r"\b\d+\b",
        r"\b\p{L}+\b",
        r"\b\pL{2}\b|\b\p{Nd}\b",
        r"\bид \p{Cyrillic}",
        r"\b\x{438}\x64?д\b",
    ),
    *("", "^", "i?", "字", "(?i)ИД", r"[\d_]+", "d|id|idea|i", "ab|[^a]"),
]
ACROSS_LINES = [
    *(
        r"foo\n\s+bar\(",
        r"bar\([^)]*\)",
        r"x\nx",
        r"a|x\nx|e",
        "x\nx",
        r"\s+",
        r"\n",
        r"(?s)foo.*?baz",
        r"^\n",
        r"[^a-z]+",
    ),
    *(r"-\n.", r"\Adef", r"id\s\z", r"x$\n^x", r"(?s)d.*", r"(?-m)^foo|d$", r"\w+\W+\w+", r"y?\r\n|d\n?", r"(?:x\n)?"),
]


def lines_of_rg(file: Path, options: list[str]) -> list[tuple[int, int, int]]:
    """The lines in which matches begin, the byte of the first match, and the line where it ends."""
    program = ripgrep.program()
    if program is None:
        pytest.skip("install ripgrep to run")
    done = subprocess.run([program, "--no-config", "--json", *options, str(file)], capture_output=True, check=False)
    data, found = file.read_bytes(), dict[int, tuple[int, int, int]]()
    for event in map(json.loads, done.stdout.splitlines()):
        for match in event["data"]["submatches"] if event["type"] == "match" else []:
            first, last = (event["data"]["absolute_offset"] + match[side] for side in ("start", "end"))
            number = data.count(b"\n", 0, first) + 1
            at = first - (data.rfind(b"\n", 0, first) + 1)
            found.setdefault(number, (number, at, data.count(b"\n", 0, max(first, last - 1)) + 1))
    return list(found.values())


@pytest.mark.parametrize("word", [False, True])
@pytest.mark.parametrize(
    ("pattern", "multiline"), [(p, m) for m in (False, True) for p in (*ASKED_BESIDE_RG, *(ACROSS_LINES if m else ()))]
)
def test_lines_and_columns_are_those_of_rg(tmp_path: Path, pattern: str, multiline: bool, word: bool) -> None:
    (tmp_path / "a").write_bytes(BESIDE_RG.encode())
    options = ["--crlf"] * ("$" in pattern or not multiline) + ["--multiline"] * multiline + ["--word-regexp"] * word
    expected = lines_of_rg(tmp_path / "a", [*options, "-e", pattern])
    made = compiled_pattern(
        Grep.model_construct(pattern=pattern, regex=True, case_sensitive=True, word=word, multiline=multiline)
    )
    found = list(matching_lines(BESIDE_RG.encode(), made, nothing))
    assert [(line.number, line.match_start, line.last_number) for line in found] == expected
    program = ripgrep.program()
    if made.ripgrep is not None and program is not None:
        assert ripgrep._accepts(program, made.ripgrep, nothing)
        names = ripgrep.matching_files(program, made.ripgrep, opened(tmp_path), [b"a"], nothing)
        assert bool(names) >= bool(found)


@pytest.mark.parametrize(
    ("pattern", "named"),
    [
        *(("[a-z&&[^b]]", "&&"), ("[a&&b]", "&&"), ("[+--]", "--"), ("x[a~~b]", "~~"), ("[[x]", "["), ("[a[bc]]", "[")),
        *((r"\Q[\E[a[:alpha]", "["), ("[^]&&]", "&&"), (r"[\[&&]", "&&")),
    ],
)
def test_operations_on_sets_are_refused(pattern: str, named: str) -> None:
    with pytest.raises(Invalid, match=re.escape(f"`pattern` has `{named}` in the set `[")):
        compiled_pattern(Grep(pattern=pattern, regex=True))


@pytest.mark.parametrize(
    "pattern", [r"\Q[a&&b]\E", r"[&\&]", r"[\[]", "[[:alpha:]]", "[[:^alpha:]-]", "a&&b--~~", r"\[a&&b]"]
)
def test_what_is_no_operation_is_taken(pattern: str) -> None:
    assert compiled_pattern(Grep(pattern=pattern, regex=True)).exact.anywhere is not None


def test_half_a_surrogate_pair_is_found_nowhere() -> None:
    made = compiled_pattern(Grep(pattern=r"\b\x{D800}\b|\bid\b", regex=True))
    assert [line.number for line in matching_lines("é id\nxid\n".encode(), made, nothing)] == [1]


@pytest.mark.parametrize("part", [r"\w", r"\pL", r"\W", r"(?i)[\PL]", r"[a\p{Greek}]"])
def test_classes_of_unicode_are_taken_up_to_their_number(part: str) -> None:
    assert compiled_pattern(Grep(pattern=part * MAX_CLASSES, regex=True)).exact.anywhere is not None
    with pytest.raises(Invalid, match=f"more than {MAX_CLASSES}"):
        compiled_pattern(Grep(pattern=part * (MAX_CLASSES + 1), regex=True))
    # what only looks like one
    assert compiled_pattern(Grep(pattern=r"\\w" * (MAX_CLASSES + 1), regex=True)).exact.anywhere is not None


@pytest.mark.parametrize(
    "pattern",
    [r"\pL" * 3_300, r"\w" * 5_000, r"\w{1000}", r"((\pL{10}){10}){10}", r"(?i)[\w\s]\pL" * 600, r"\s" * 5_000],
)
def test_what_compiles_for_long_is_refused_soon(pattern: str) -> None:
    """RE2 holds the interpreter while it compiles: up to two seconds before there was a limit."""
    begun = time.thread_time()
    for word, multiline in product([True, False], repeat=2):
        with pytest.raises(Invalid, match=r"too large|more than"):
            compiled_pattern(Grep(pattern=pattern, regex=True, word=word, multiline=multiline))
    assert time.thread_time() - begun < 2


@pytest.mark.parametrize("pattern", [r"[\S]" * 2_000, r"\s" * 5_000, r"\w{1000}"])
def test_too_many_classes_are_refused(pattern: str) -> None:
    with pytest.raises(Invalid, match="too large"):
        compiled_pattern(Grep(pattern=pattern, regex=True))


def test_a_match_of_many_lines_is_found_in_a_long_text() -> None:
    pattern = compiled_pattern(Grep(pattern=r"begin\pL{50}[^z]*?end", regex=True, multiline=True, word=True))
    one = "begin" + "é" * 50 + " \n" * (MAX_SPAN // 2 - 60) + "end\n"
    text = ("é\n" * pattern.reach + one + "-" * (pattern.reach // 2 - 9) + "\n" + one + "begin").encode()
    lines = [(line.number, line.match_start, line.last_number) for line in matching_lines(text, pattern, nothing)]
    first, count = pattern.reach + 1, one.count("\n") - 1
    assert lines == [(first, 0, first + count), (first + count + 2, 0, first + 2 * count + 2)]
    assert pattern.is_cut(text)
    assert not pattern.is_cut(text[: pattern.reach])


def plain_parts(glob: str) -> set[str]:
    """The extension or name that a glob of rg's matches, in lower case; nothing if it matches several."""
    options = [part[1:-1] if part[0] == "[" else part for part in re.findall(r"\[[^]]*\]|.", glob.removeprefix("*."))]
    found = {"".join(chosen).lower() for chosen in product(*options)}
    is_plain = glob.startswith("*.") and "." not in glob[2:] and "*" not in glob[2:]
    return found if is_plain else set() if "*" in glob else {f"/{name}" for name in found}


def test_types_are_those_of_rg_and_of_the_index() -> None:
    # not another version's that may be on PATH
    program = Path(sys.executable).with_name("rg")
    if not program.exists():
        pytest.skip("install ripgrep to run")
    listed = subprocess.run([program, "--type-list"], capture_output=True, text=True, check=True).stdout
    theirs = {name: globs.split(", ") for name, globs in (line.split(": ") for line in listed.splitlines())}
    # one is a file called mkfile there; *.C is C++, and lower case is equivalent here
    for name in (_kinds().keys() & theirs.keys()) - {"mk"}:
        expected = set().union(*map(plain_parts, theirs[name])) - ({"c"} if name == "cpp" else set())
        assert set(_kinds()[name]) == expected, name
    assert {*_LANGUAGE_OF, *_LANGUAGE_OF.values(), *BY_EXTENSION, *BY_TYPE} - {"code"} <= _kinds().keys()


def test_types_choose_by_name_and_by_the_word_of_the_source() -> None:
    types = FileTypeFilter(["PY", ".tsx", "markdown", "make"])
    for path in ("a/b.py", "x.pyi", "X.TSX", "README.md", "Makefile", "a/GNUmakefile"):
        assert types.has(path, None), path
    for path in ("py", "a.ts", "x.py.txt", "makefile/x", "pyi", "a.mak.d"):
        assert not types.has(path, None), path
    assert types.has("Notes", "markdown")
    assert not types.has("Notes", "json")
    with pytest.raises(Invalid, match=r"unknown types: 'nope', 'x\.y'\..*asciidoc.*\bpython\b.*zig"):
        FileTypeFilter(["py", "nope", "x.y"])


def test_names_are_never_options(tmp_path: Path) -> None:
    program = ripgrep.program()
    if program is None:
        pytest.skip("install ripgrep to run")
    names = [b"--pre=touch", b"a\nb", b"\xff", "🎉".encode()]
    for name in names:
        (Path(bytes(tmp_path).decode()) / name.decode("utf-8", "surrogateescape")).write_bytes(b"-e here")
    found = ripgrep.matching_files(
        program, ["--fixed-strings", "--", "-e"], opened(tmp_path), [*names, b"gone"], nothing
    )
    assert found == names


@pytest.mark.parametrize("pattern", PATTERNS)
def test_rg_takes_what_is_translated(pattern: str) -> None:
    made, program = compiled_pattern(Grep.model_construct(pattern=pattern, regex=True)), ripgrep.program()
    if program is None:
        pytest.skip("install ripgrep to run")
    assert made.ripgrep is None or ripgrep._accepts(program, made.ripgrep, nothing)


def test_files_in_other_encodings_are_told(tmp_path: Path) -> None:
    program = ripgrep.program()
    if program is None:
        pytest.skip("install ripgrep to run")
    text = "ascii\nMüller wohnt…\n"
    odd = {"latin": text.encode("cp1252"), "end": b"\n\xfc", "kana": "日本語".encode("shift_jis")}
    plain = {"utf8": text.encode(), "utf16": text.encode("utf-16"), "ascii": b"a\n", "empty": b"", "bin": b"\xff\0"}
    for name, data in (odd | plain).items():
        (tmp_path / name).write_bytes(data)
    names = [name.encode() for name in (*odd, *plain)]
    found = ripgrep.oddly_encoded_files(program, opened(tmp_path), [*names, b"gone"], nothing)
    assert found == names[: len(odd)]
    assert ripgrep.oddly_encoded_files(program, opened(tmp_path), names[len(odd) :], nothing) == []


@pytest.mark.parametrize(
    ("pattern", "is_ascii"),
    [
        *(("Müller", False), ("M.ller", False), (r".\S", False), (r"[^\W]", False), ("[^a]", False), (r"\Bä", False)),
        *((r"\pL", False), (r"\x{FC}", False), (r"\374", False), ("[[:^alpha:]]", False), (r"\QMü\E", False)),
        *(("token", True), (r"\bM\.r\w+\s*\(", True), (r"\Qa.\Wb\E", True), (r"[\w.[:alpha:]-]+$", True)),
        *((r"(?i-s:a|b{2})", True), (r"[\].]\tx", True), (r"\_\ \\d", True), (r"\S[a\D]", True)),
    ],
)
def test_a_pattern_of_ascii_is_told(pattern: str, is_ascii: bool) -> None:
    assert compiled_pattern(Grep(pattern=pattern, regex=True)).is_ascii == is_ascii
    assert compiled_pattern(Grep(pattern=pattern)).is_ascii == pattern.isascii()


def test_groups_cost_nothing() -> None:
    grouped = compiled_pattern(Grep(pattern=f"{'(' * 4_999}xy{')' * 4_999}", regex=True))
    assert grouped.text.programsize == compiled_pattern(Grep(pattern="xy", regex=True)).text.programsize


@pytest.mark.parametrize("end", ["kill -9 $$", "exit 2", "printf 'a\\0'; kill -9 $$", "printf 'a\\0'; exit 101"])
def test_a_program_that_comes_to_a_bad_end_hides_nothing(tmp_path: Path, end: str) -> None:
    program = tmp_path / "rg"
    program.write_text(f"#!/bin/sh\n{end}\n")
    program.chmod(0o755)
    assert ripgrep.matching_files(str(program), ["--", "x"], opened(tmp_path), [b"a", b"b"], nothing) == [b"a", b"b"]


def test_a_program_that_is_gone_hides_nothing(tmp_path: Path) -> None:
    found = ripgrep.matching_files(str(tmp_path / "rg"), ["--", "x"], opened(tmp_path), [b"a", b"b"], nothing)
    assert found == [b"a", b"b"]


def test_no_link_leads_rg_out_of_its_folder(tmp_path: Path) -> None:
    program = ripgrep.program()
    if program is None or not can_bound_reads():
        pytest.skip("run on Linux with Landlock, with ripgrep installed")
    for name in ("inside/a.txt", "inside/deep/a.txt", "outside/a.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("lamp")
    (tmp_path / "inside" / "out").symlink_to(tmp_path / "outside")
    (tmp_path / "inside" / "out.txt").symlink_to("../outside/a.txt")
    names = [b"a.txt", b"deep/a.txt", b"out/a.txt", b"out.txt", b"../outside/a.txt", bytes(tmp_path / "outside/a.txt")]
    found = ripgrep.matching_files(program, ["--", "lamp"], opened(tmp_path / "inside"), names, nothing)
    assert found == [b"a.txt", b"deep/a.txt"]
    # this process is as free as before
    assert (tmp_path / "outside" / "a.txt").read_text() == "lamp"


@pytest.mark.parametrize(
    ("auth", "is_bound", "home", "runs"),
    [
        *(("off", False, "docs/home", True), ("on", True, "home", True), ("on", False, "home", False)),
        *(("on", True, "docs/home", False), ("on", True, "docs", False), ("on", True, "nowhere", True)),
    ],
)
def test_rg_is_run_where_no_project_can_lead_it_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, auth: str, is_bound: bool, home: str, runs: bool
) -> None:
    (tmp_path / "docs" / "home").mkdir(parents=True)
    (tmp_path / "home").mkdir()
    monkeypatch.setattr(texts, "can_bound_reads", lambda: is_bound)
    monkeypatch.setattr(ripgrep, "program", lambda: "rg")
    search = cast(Any, SimpleNamespace(resources=SimpleNamespace(settings=SimpleNamespace(auth=auth))))
    folder = LocalFolder(str(tmp_path / "docs"), [tmp_path], closed=tmp_path / home)
    with nullcontext() if home != "docs" else pytest.raises(SourceRefused):
        assert texts._program(search, folder) == ("rg" if runs else None)


def test_a_long_line_is_cut_around_the_match() -> None:
    line = b"x" * 2_000 + "é!".encode() + b"y" * 2_000
    preview, column = shown(line, 2_002)
    assert column == 2_002
    assert preview.startswith("…x")
    assert preview.endswith("y…")
    assert "é!" in preview
    assert shown(b"short", 2) == ("short", 3)


def test_context_ends_with_the_text() -> None:
    text = b"1\r\n2\n3\n4"
    assert lines_before(text, text.index(b"3"), 5, 0) == ["1", "2"]
    assert lines_after(text, text.index(b"3") + 1, 5) == ["4"]
    assert lines_after(b"0\n" + text, 1, 5) == ["1", "2", "3", "4"]
    assert lines_after(text, len(text), 5) == []
    assert lines_before(text, 0, 5, 0) == []
    assert lines_before(b"\n2", 1, 5, 0) == [""]


def test_a_line_beyond_reach_is_told_of() -> None:
    pattern = compiled_pattern(Grep(pattern=r"\pL{50}\d", regex=True))
    text = b"short\n" + b"-" * (pattern.reach + 1) + b"\nend"
    assert pattern.is_cut(text)
    assert not pattern.is_cut(b"\n" * (pattern.reach + 1))
    assert list(matching_lines(text, pattern, nothing)) == []


@pytest.mark.parametrize("type_", AS_WRITTEN)
def test_the_text_of_such_types_is_the_files_own(type_: str) -> None:
    for path in (DATA / type_).iterdir():
        data = path.read_bytes()
        assert parse(path.name, data, Limits()).text == decode(data)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="run this on Linux, which says how nice a process is")
def test_rg_leaves_the_processors_to_others() -> None:
    waited = ["sh", "-c", f"while [ $(nice) -le {os.nice(0)} ]; do sleep 0.01; done; nice"]
    assert int(ripgrep._exit_and_output(waited, None, nothing)[1]) > os.nice(0)


@given(st.text("ab\n\u4e2d", max_size=12), st.integers(1, 5), st.booleans())
def test_a_text_is_cut_if_a_line_is_longer_than_the_reach(text: str, reach: int, multiline: bool) -> None:
    data = text.encode()
    pattern = replace(compiled_pattern(Grep(pattern="x", multiline=multiline)), reach=reach)
    lines = [data] if multiline else data.split(b"\n")
    assert pattern.is_cut(data) is any(len(line) > reach for line in lines)
