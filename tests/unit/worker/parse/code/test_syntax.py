from __future__ import annotations

from pathlib import Path

import pytest

from schemas.content.document import Document
from tests.bench.fuzz import helper_seconds
from tests.parsing import parse
from worker.formats.grammars import GRAMMARS
from worker.parse import Limits
from worker.parse.code import error_recovery
from worker.parse.code.grammar import grammar
from worker.parse.code.syntax import syntax
from worker.parse.sandbox import client as sandbox

SAMPLES = Path(__file__).resolve().parents[4] / "data" / "code"


def read(name: str, text: str | None = None) -> Document:
    data = (SAMPLES / name).read_bytes() if text is None else text.encode()
    return parse(name, data, Limits())


def shown(document: Document) -> list[str]:
    return [f"{d.kind} {'/'.join((*d.scope, d.name))} {d.start_line}-{d.end_line}" for d in document.definitions]


def uses(document: Document) -> set[str]:
    return {f"{r.kind} {r.name} in {'/'.join(r.scope) or '-'}:{r.line}" for r in document.references}


DEFINITIONS = {
    "ledger.py": """constant LIMIT 9-9, variable entries_seen 10-10, class Entry 13-18, class Ledger 21-40,
        method Ledger/__init__ 24-25, method Ledger/add 27-35, function Ledger/add/checked 30-31,
        method Ledger/total 37-40, function dump 43-45, function blank 48-50""",
    "ledger.js": """constant LIMIT 4-4, class Ledger 7-20, method Ledger/constructor 10-12,
        method Ledger/add 14-17, function Ledger/add/clamp 15-15, method Ledger/onChange 19-19,
        function numbers 22-24, function total 26-28, function dump 30-32, function load 34-36""",
    "ledger.ts": """interface Entry 3-6, method Entry/describe 5-5, type Amount 8-8, enum Kind 10-13,
        class Ledger 15-29, method Ledger/constructor 19-21, method Ledger/rate 23-23, method Ledger/add 25-28,
        module Reports 31-35, function Reports/total 32-34, function sum 37-37, function empty 39-39""",
    "ledger.tsx": """interface Props 4-6, function Table 8-12, function Table/toggle 10-10, class Panel 14-18,
        method Panel/render 15-17""",
    "ledger.go": """constant Limit 10-10, variable count 12-12, struct Entry 15-18, interface Store 20-23,
        method Store/Add 22-22, struct Ledger 25-28, type Amount 30-30, method Ledger/Add 33-36,
        function clamp 38-43, function Dump 45-47""",
    "ledger.rs": """constant LIMIT 4-4, struct Entry 8-10, enum Kind 12-15, trait Total 17-19,
        method Total/total 18-18, struct Ledger 21-24, impl Ledger 26-31, method Ledger/new 28-30,
        impl Ledger 33-37, method Ledger/total 34-36, macro entry 39-43, function clamp 45-47,
        module tests 49-53, function tests/adds 50-52""",
    "Ledger.java": """class Ledger 7-29, method Ledger/Ledger 10-12, method Ledger/total 14-17,
        enum Ledger/Kind 19-22, class Ledger/Cursor 24-28, method Ledger/Cursor/at 25-27, interface Total 31-33,
        method Total/total 32-32, class Entry 35-36""",
    "ledger.c": """constant LIMIT 4-4, macro MAX 5-5, struct entry 7-10, struct ledger 12-14,
        type amount_t 16-16, enum kind 18-18, function clamp 20-22, function ledger_total 25-30,
        function ledger_dump 32-36""",
    "ledger.cpp": """module money 4-39, class money/Ledger 6-20, method money/Ledger/Ledger 9-9,
        method money/Ledger/~Ledger 10-10, method money/Ledger/add 12-14, method money/Ledger/total 16-16,
        method money/Ledger/total 22-29, enum money/Kind 31-31, type money/Amount 33-33,
        method money/Store/open 35-37, function main 41-44""",
    "Ledger.cs": """module Money 4-37, interface Money/ITotal 6-9, method Money/ITotal/Total 8-8,
        class Money/Entry 11-11, enum Money/Kind 13-13, class Money/Ledger 15-31,
        method Money/Ledger/Ledger 20-22, property Money/Ledger/Count 24-24, method Money/Ledger/Total 26-30,
        function Money/Ledger/Total/Clamp 28-28, struct Money/Point 33-36""",
    "ledger.rb": """module Money 5-30, constant Money/LIMIT 6-6, class Money/Ledger 8-29,
        method Money/Ledger/initialize 13-16, method Money/Ledger/open 18-20, method Money/Ledger/add 22-24,
        method Money/Ledger/empty? 26-28, function dump 32-34""",
    "ledger.php": """constant LIMIT 8-8, interface Countable 10-13, method Countable/count 12-12,
        trait Logs 15-21, method Logs/log 17-20, enum Kind 23-26, class Ledger 28-50, method Ledger/add 34-39,
        method Ledger/open 41-44, method Ledger/count 46-49, function clamp 52-55""",
    "ledger.sh": "function add 7-10, function clamp 12-18, function main 20-24",
}
USES = {
    "ledger.py": """import json in -:5, import collections.abc in -:6, import Iterator in -:6,
        base Iterator in Ledger:21, call Entry in Ledger/add:33, call min in Ledger/add/checked:31,
        type Entry in Ledger/add:27, type Ledger in dump:43, call dumps in dump:45,
        call property in Ledger/total:37""",
    "ledger.js": """import readFile in -:1, import ./store.js in -:2, import open in -:2, base Store in Ledger:7,
        call Entry in Ledger/add:16, call reduce in total:27, call openStore in load:35""",
    "ledger.ts": """import Store in -:1, base Dated in Entry:3, base Store in Ledger:16,
        base Iterable in Ledger:16, call sum in Reports/total:33, type Amount in Reports/total:32,
        call Daily in empty:39""",
    "ledger.tsx": """import useState in -:1, call useState in Table:9, call Row in Table:11,
        call Table in Panel/render:16""",
    "ledger.go": """import encoding/json in -:5, base Stringer in Store:21, base Base in Ledger:26,
        call clamp in Ledger/Add:34, call Entry in Ledger/Add:34, type Ledger in Dump:45, call Marshal in Dump:46""",
    "ledger.rs": """import HashMap in -:1, import fmt in -:2, base Total in Ledger:33,
        call Ledger in Ledger/new:29, call clamp in Ledger/total:35, call println in tests/adds:51,
        type Vec in Ledger:22""",
    "Ledger.java": """import List in -:4, base Store in Ledger:7, base Total in Ledger:7,
        call ArrayList in Ledger:8, type Override in Ledger/total:14, call amount in Ledger/total:16,
        call clamp in Ledger/Cursor/at:26""",
    "ledger.c": """import stdio.h in -:1, import store.h in -:2, call clamp in ledger_total:28,
        type ledger in ledger_dump:32, call ledger_total in ledger_dump:34""",
    "ledger.cpp": """import vector in -:1, base Store in money/Ledger:7, base Counted in money/Ledger:7,
        call move in money/Ledger/add:13, call FileStore in money/Store/open:36, call total in main:43""",
    "Ledger.cs": """import System.Collections.Generic in -:2, base Store in Money/Ledger:16,
        base ITotal in Money/Ledger:16, call List in Money/Ledger:18, call Min in Money/Ledger/Total/Clamp:28,
        call Clamp in Money/Ledger/Total:29""",
    "ledger.rb": """import json in -:1, import store in -:2, base Store in Money/Ledger:8,
        base Enumerable in Money/Ledger:9, call Entry in Money/Ledger/add:23, call clamp in Money/Ledger/add:23,
        call generate in dump:33""",
    "ledger.php": """import FileStore in -:5, base FileStore in Ledger:28, base Total in Ledger:28,
        base Logs in Ledger:30, type Entry in Ledger/add:34, call Line in Ledger/add:36,
        call log in Ledger/add:37, call load in Ledger/open:43""",
    "ledger.sh": "import ./store.sh in -:2, call clamp in add:9, call add in main:22, call main in -:26",
}


def words(table: str) -> list[str]:
    return [" ".join(entry.split()) for entry in table.split(",")]


def test_every_language_has_a_sample() -> None:
    assert {read(path.name).language for path in SAMPLES.iterdir()} == set(GRAMMARS)
    assert set(DEFINITIONS) == set(USES) == {path.name for path in SAMPLES.iterdir()}


@pytest.mark.parametrize("name", DEFINITIONS)
def test_the_definitions_of_each_language_are_found(name: str) -> None:
    document = read(name)
    assert (document.type, document.markup) == ("code", "code")
    assert shown(document) == words(DEFINITIONS[name])


@pytest.mark.parametrize("name", USES)
def test_the_references_of_each_language_are_found(name: str) -> None:
    document = read(name)
    assert [use for use in words(USES[name]) if use not in uses(document)] == []
    assert not any(use.startswith("call /") for use in uses(document))


GO_TYPES = """any bool byte complex64 complex128 error float32 float64 int int8 int16 int32 int64 rune string
    uint uint8 uint16 uint32 uint64 uintptr"""
BUILT_IN = {
    "a.go": ("package a\n\nfunc f() {{\n\tvar one {}\n}}\n", GO_TYPES),
    "a.php": ("<?php\nclass A {{ function f({} $one) {{}} }}\n", "self static"),
    "a.py": ("one: {} = f()\n", "bool bytes dict float frozenset int list None object set str tuple type"),
    "a.rs": ("impl A {{ fn f(one: {}) {{}} }}\n", "Self"),
}


@pytest.mark.parametrize("name", BUILT_IN)
def test_built_in_types_are_no_uses(name: str) -> None:
    text, types = BUILT_IN[name]
    used = [
        each for each in ("Amount", *types.split()) if f"type {each} " in " ".join(uses(read(name, text.format(each))))
    ]
    assert used == ["Amount"]


@pytest.mark.parametrize("name", ["a.js", "a.ts"])
def test_what_is_required_is_imported_and_not_defined(name: str) -> None:
    document = read(name, "const Foo = require('./foo');\nconst { Bar } = require('bar');\nlet made = f(1), none;\n")
    assert shown(document) == ["variable made 3-3", "variable none 3-3"]
    assert {f"import {name} in -:{line}" for name, line in (("Foo", 1), ("./foo", 1), ("Bar", 2), ("bar", 2))} <= uses(
        document
    )


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.go", "package a\nconst ONE = 1\nfunc f() {\n\tconst two = 2\n\tvar three int\n}\n"),
        ("a.js", "const ONE = 1;\nfunction f() { const two = 2; let three; }\nif (ONE) { let four = 4; }\n"),
        ("a.py", "ONE = 1\ndef f():\n    two = 2\nif ONE:\n    three = 3\n"),
        ("a.ts", "export const ONE: number = 1;\nfunction f() { const two = 2; }\nnamespace n { let three = 3; }\n"),
    ],
)
def test_variables_are_defined_at_the_top_alone(name: str, text: str) -> None:
    found = {d.name for d in read(name, text).definitions}
    assert "ONE" in found
    assert not found & {"two", "three", "four"}


def test_a_go_type_is_a_definition_whatever_it_is_of() -> None:
    types = ["int", "a.B", "func(int)", "map[string]int", "[]int", "[4]int", "*int", "chan int", "G[int]"]
    text = "package a\n" + "".join(f"type T{number} {type_}\n" for number, type_ in enumerate(types))
    found = [(d.name, d.kind) for d in read("a.go", text).definitions]
    assert found == [(f"T{number}", "type") for number in range(len(types))]


@pytest.mark.parametrize("name", DEFINITIONS)
def test_places_are_those_of_the_text(name: str) -> None:
    document = read(name)
    text = document.text
    for d in document.definitions:
        assert text.count("\n", 0, d.start_char) + 1 == d.start_line
        assert d.end_line - d.start_line == text[d.start_char : d.end_char].rstrip("\n").count("\n")
        assert d.start_char < d.body_char <= d.end_char
        assert d.name in text[d.start_char : d.end_char]


SIGNATURES = [
    ("ledger.py", "add", 'def add(self, amount: int, note: str = "") -> Entry'),
    ("ledger.py", "dump", "async def dump(ledger: Ledger) -> str"),
    ("ledger.py", "Entry", "class Entry"),
    ("ledger.js", "total", "export const total = async (ledger)"),
    ("ledger.js", "Ledger", "export class Ledger extends Store"),
    ("ledger.go", "Dump", "func Dump(l Ledger[Entry]) ([]byte, error)"),
    ("ledger.go", "Entry", "type Entry struct"),
    ("ledger.rs", "Total", "pub trait Total: fmt::Debug"),
    ("Ledger.java", "Cursor", "private static class Cursor"),
    ("ledger.c", "ledger_total", "long ledger_total(const ledger *self)"),
    ("ledger.cpp", "open", "Store *Store::open(const std::string &path)"),
    ("Ledger.cs", "Count", "public int Count => entries.Count;"),
    ("ledger.rb", "open", "def self.open(path)"),
    ("ledger.php", "open", "public static function open(string $path): static"),
    ("ledger.sh", "clamp", "function clamp"),
]


@pytest.mark.parametrize(("name", "symbol", "signature"), SIGNATURES)
def test_a_definition_has_its_signature(name: str, symbol: str, signature: str) -> None:
    assert signature in [d.signature for d in read(name).definitions if d.name == symbol]


def test_decorators_belong_to_the_header_and_not_to_the_signature() -> None:
    text = "import a\n\n@a.b(1)\n@c\ndef f(x):\n    return x\n"
    (f,) = read("a.py", text).definitions
    assert (f.start_line, f.signature) == (3, "def f(x)")
    assert text[f.start_char : f.body_char].startswith("@a.b(1)\n@c\ndef f(x):")


@pytest.mark.parametrize(
    ("name", "text", "signature"),
    [
        (
            "a.py",
            "def f(user, password):  # noqa: ANN001\n    # TODO: limit attempts\n    return 1\n",
            "def f(user, password)",
        ),
        ("a.py", "@a\ndef f(\n    x,  # größe\n    y='#',\n):\n    # b\n    return 1\n", "def f( x, y='#', )"),
        ("a.py", "class f:  # a class\n    # note\n    x = 1\n", "class f"),
        (
            "a.js",
            "export /* a */ function f(x /* b */, y = '//') // c\n{\n  return 1;\n}\n",
            "export function f(x , y = '//')",
        ),
        ("a.js", "const f = (x) => /* a */ {\n  return 1;\n};\n", "const f = (x)"),
        ("a.ts", "class f /* a */ { // b\n  x = 1;\n}\n", "class f"),
        ("a.go", "package a\n\nfunc f(x int /* a */) int { // b\n\treturn x\n}\n", "func f(x int ) int"),
        ("A.java", "class f // a\n{\n  int x; /* b */\n}\n", "class f"),
        ("a.rs", "fn f(x: i32) /* a */ -> i32 // b\n{\n    x\n}\n", "fn f(x: i32) -> i32"),
        ("a.c", "int f(int x, // a\n      int y) /* b */\n{\n  return x;\n}\n", "int f(int x, int y)"),
        ("a.cpp", "int f(int x) // a\n{\n  return x;\n}\n", "int f(int x)"),
        ("a.cs", "class f // a\n{\n  int x;\n}\n", "class f"),
        ("a.rb", "class F # a\n  # b\n  def g\n  end\nend\n", "class F"),
        ("a.php", "<?php\nfunction f($x) # a\n{ // b\n  return 1;\n}\n", "function f($x)"),
        ("a.sh", "f() # a\n{\n  echo a # b\n}\n", "f()"),
    ],
)
def test_a_signature_has_no_comments(name: str, text: str, signature: str) -> None:
    assert signature in [d.signature for d in read(name, text).definitions]


def test_places_count_characters() -> None:
    text = '# 😀 é\nNAMES = "字字"\n\ndef größe():\n    return "😀"\n'
    names, f = read("a.py", text).definitions
    assert text[names.start_char : names.end_char] == 'NAMES = "字字"'
    assert (f.name, text[f.start_char : f.end_char]) == ("größe", 'def größe():\n    return "😀"')


def test_what_is_sound_in_a_broken_file_is_kept() -> None:
    text = (SAMPLES / "ledger.py").read_text().replace("LIMIT = 1_000", "LIMIT = = (")
    document = read("a.py", text)
    assert document.markup == "code"
    assert {"class Ledger 21-40", "method Ledger/add 27-35", "function dump 43-45"} <= set(shown(document))


FUNCTIONS = "\n\nfunction b() {\n  return 2;\n}\n\nclass C {\n  function d() {\n    return 3;\n  }\n}\n"
BROKEN = "function a() {\n  return 'x;\n}"
METHODS = "".join(f"\n\n  function m{i}() {{\n    return [{i}, {i}, {i}];\n  }}" for i in range(30))


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("a.php", f"<?php\nnamespace App;\n\n{BROKEN}{FUNCTIONS}", {"function b", "class C", "method C/d"}),
        ("b.php", f"<?php\n{BROKEN}{FUNCTIONS}", {"function b", "class C", "method C/d"}),
        ("c.php", f"<?php namespace App;\n\n{BROKEN}{FUNCTIONS}", {"function b", "class C", "method C/d"}),
        ("d.php", f"#!/usr/bin/php\n<?php\n{BROKEN}{FUNCTIONS}", {"function b", "class C", "method C/d"}),
        (
            "e.php",
            "<?php\nclass C {" + METHODS.replace("[3, 3, 3]", "'x") + "\n}\n",
            {"class C", *(f"method C/m{i}" for i in range(30) if i != 3)},
        ),
    ],
)
def test_what_is_sound_in_a_broken_file_is_found_at_its_place(name: str, text: str, found: set[str]) -> None:
    document = read(name, text)
    assert found <= {" ".join(one.split()[:-1]) for one in shown(document)}
    for d in document.definitions:
        assert text[d.start_char : d.end_char].startswith(("function ", "class ", "constant "))
        assert text.count("\n", 0, d.start_char) + 1 == d.start_line


@pytest.mark.parametrize(("sound", "broken"), [("int f4();\n  };", "int f4();\n"), ("int f4()", "int f4(")])
def test_a_namespace_with_lines_that_are_not_indented_survives_an_error(sound: str, broken: str) -> None:
    classes = "".join(f"\n#define M{i} {i}\n\n  class C{i}\n  {{\n    int f{i}();\n  }};\n" for i in range(9))
    text = f"namespace a\n{{\n  int g();\n{classes}}} // namespace a\n"
    definitions = {line.rsplit(" ", 1)[0] for line in shown(read("a.hpp", text.replace(sound, broken)))}
    numbers = set(range(9)) - {4}
    assert definitions >= {"module a", *(f"class a/C{i}" for i in numbers), *(f"method a/C{i}/f{i}" for i in numbers)}


def test_a_broken_part_that_little_is_above_has_its_place() -> None:
    head, part = b"class{\n\n", b"  z() {\n    return 'x;\n  }\n"
    data = head + part + b"".join(b"\n\n  m%d = [1, 2, 3, 4, 5, 6, 7, 8];" % i for i in range(40)) + b"\n}\n"
    known = grammar("javascript")
    assert known
    ((start, _, tree),) = error_recovery.broken(data, "javascript", known.parser, known.parser.parse(data))
    name = tree.root_node.descendant_for_byte_range(len(head) + 2, len(head) + 3)
    assert name
    assert (start, name.byte_range, name.is_named) == (len(head), (len(head) + 2, len(head) + 3), True)


@pytest.mark.parametrize(
    ("text", "language", "found"),
    [
        ("namespace a {\nclass B {\n public:\n  int c();\n};\n}\n", "cpp", ["module a", "class a/B", "method a/B/c"]),
        ("template <typename T>\nT least(T a, T b) { return a < b ? a : b; }\n", "cpp", ["function least"]),
        ("/* class of\n   class and namespace */\nint class = 1;\nstruct a { int b; };\n", "c", ["struct a"]),
    ],
)
def test_a_header_is_read_in_the_language_that_it_is_in(text: str, language: str, found: list[str]) -> None:
    document = read("a.h", text)
    assert document.language == language
    assert [one.rsplit(" ", 1)[0] for one in shown(document)] == found


@pytest.mark.parametrize("errors", ["THIS_IS(a b) THAT_IS(c) *x;\n", "typedef struct { A_MACRO B_MACRO int c } d\n\n"])
def test_a_header_of_macros_is_not_mended(monkeypatch: pytest.MonkeyPatch, errors: str) -> None:
    monkeypatch.delattr(error_recovery, "broken")
    header = f"int first(void);\n\nint second(void) {{\n  return 1;\n}}\n\n{errors * 20}"
    found = syntax(header.encode(), "c")
    assert found
    assert found["definitions"][0][0] == "second"


def test_mending_takes_time_in_proportion() -> None:
    # spaces at the end of a line, and text outside all definitions
    document = read(
        "a.cpp", "int f() {" + "\n  a;" * 300 + " " * 200_000 + "x\n  b = = (\n\n}\n" + "} // end\n" * 20_000
    )
    assert document.markup


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("prose.py", "This is no Python at all, is it? No: it's (a letter.\n" * 50),
        ("data.c", "%%% $$$ ??? @@@ ###\n" * 200),
        ("unknown.kt", "class A { fun b() = 1 }"),
        ("long.py", "x = 1\n" * 700_000),
    ],
)
def test_what_is_no_code_is_cut_at_lines(name: str, text: str) -> None:
    document = read(name, text)
    assert (document.type, document.markup, document.definitions, document.references) == ("code", "lines", (), ())


HOSTILE = {
    "open.py": "(" * 200_000,
    "nested.py": "f(" * 50_000 + ")" * 50_000,
    "braces.js": "{" * 200_000,
    "functions.js": "function f(){" * 20_000 + "}" * 20_000,
    "operators.py": "x = " + "1+" * 200_000 + "1\n",
    "brackets.c": "[" * 60_000,
    "words.c": "unsigned " * 100_000 + "a;",
    "holes.js": "x=[" + "," * 300_000 + "]",
    "words.sh": "a " * 100_000,
    "names.js": "function " + "a" * 100_000 + "(){}",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_made_up_code_harms_nobody(name: str) -> None:
    document = read(name, HOSTILE[name])
    assert document.text == HOSTILE[name]
    assert len(document.definitions) < 50
    assert all(len(d.scope) <= 32 for d in document.definitions)


def test_code_that_its_parser_takes_gigabytes_for_is_cut_at_lines() -> None:
    assert read("worse.c", "a=>" * 5_000).markup == "lines"
    assert read("ledger.c").markup == "code"


def test_a_tree_may_take_time_in_proportion_to_its_text(monkeypatch: pytest.MonkeyPatch) -> None:
    allowed: list[float] = []
    monkeypatch.setattr(sandbox, "syntax", lambda _data, _language, limits: allowed.append(limits.seconds))
    for megabytes in (1, 2, 3):
        assert read("a.py", "x = 1; y\n" * megabytes * 100_000).markup == "lines"
    assert allowed[2] - allowed[1] == pytest.approx(allowed[1] - allowed[0])
    assert allowed[2] > allowed[1] > 0


def test_the_limit_of_a_tree_may_be_part_of_a_second() -> None:
    sandbox.stop()
    assert sandbox.syntax(b"function f() {}", "javascript", Limits(seconds=0.1)), "the start of the helper is counted"
    before = helper_seconds()
    assert sandbox.syntax(b"function f(a) { return g(a) }\n" * 60_000, "javascript", Limits(seconds=0.1)) is None
    assert helper_seconds() - before < 0.4


def test_no_definition_and_no_name() -> None:
    assert read("a.py", "\n\n# only a comment\n").definitions == ()
    assert read("a.js", "export default () => 1;\n(function () {})();\n").definitions == ()


def test_a_minified_file_has_its_definitions() -> None:
    text = "".join(f"function f{i}(a,b){{return g{i}(a)+b}};" for i in range(20_000))
    document = read("a.js", text)
    assert len(document.definitions) == 20_000
    assert {d.start_line for d in document.definitions} == {1}
    assert document.references[-1].scope == ("f19999",)
