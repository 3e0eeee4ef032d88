"""Definitions in the scripts of components, and in C whose conditions a parser cannot follow."""

from __future__ import annotations

import time

import pytest

from schemas.content.document import Document
from tests.parsing import parse
from worker.parse import Limits
from worker.parse.code import conditions, scripts

pytestmark = pytest.mark.usefixtures("helper")


def read(name: str, text: str) -> Document:
    return parse(name, text.encode(), Limits())


def shown(document: Document) -> list[str]:
    return [f"{'/'.join((*d.scope, d.name))} {d.start_line}-{d.end_line}" for d in document.definitions]


COMPONENTS = {
    "a.vue": (
        (
            "<template>\n  <p @click='go()'>ü 日本 {{ a }}</p>\n</template>\n"
            '<script setup lang="ts" generic="T extends Record<string, any>">\ninterface Props { name: string }\n'
            "function greet(name: string): string {\n  return `hi ${name}`\n}\n</script>\n<style>.a {}</style>\n"
        ),
        ["Props 5-5", "greet 6-8"],
    ),
    "b.vue": (
        "<script>\nexport default {\n  methods: {}\n}\nfunction go() {}\n</script>\n<template>ü</template>\n",
        ["go 5-5"],
    ),
    "c.vue": (
        "<script>\nfunction one() {}\n</script>\n<script setup lang='ts'>\nconst two: number = 2\n</script>\n",
        ["one 2-2", "two 5-5"],
    ),
    "d.vue": ("<SCRIPT LANG=TSX>\nconst view = () => <p>text</p>\n</SCRIPT>\n", ["view 2-2"]),
    "a.svelte": (
        (
            "<!-- <script>function none() {}</script> -->\n"
            "<h1>ü</h1>\n<script context='module'>\n  class Boat { row() {} }\n"
            "</script>\n<p>x</p>\n"
        ),
        ["Boat 4-4", "Boat/row 4-4"],
    ),
    "a.astro": (
        (
            "---\nconst title: string = 'ü';\nfunction sum(a: number) { return a; }\n---\n<b>ü</b>\n"
            "<script>function client() {}</script>\n"
        ),
        ["title 2-2", "sum 3-3", "client 6-6"],
    ),
    "e.vue": ("<template>only</template>\n", []),
    "f.vue": ("<script type='application/json'>{\"a\": 1}</script>\n<script src='x.js' />\n", []),
    "g.vue": ("<script>\nfunction open() {}\n", ["open 2-2"]),
}


@pytest.mark.parametrize("name", COMPONENTS)
def test_the_definitions_of_scripts_are_those_of_the_component(name: str) -> None:
    text, expected = COMPONENTS[name]
    for ends in ("\n", "\r\n"):
        document = read(name, text.replace("\n", ends))
        assert (document.language, shown(document)) == ("html", expected)
        assert document.text == text.replace("\n", ends)
        for definition in document.definitions:
            part = document.text[definition.start_char : definition.end_char]
            assert definition.name in part
            assert document.text[: definition.start_char].count("\n") + 1 == definition.start_line


MAIN = "int main(int argc, char **argv) {\n  return 0;\n}\n"
CONDITIONS = {
    "no end": (f"int a(void) {{ return 1; }}\n#ifdef A\nint b(void) {{ return 2; }}\n{MAIN}", ["a", "b", "main"]),
    "an end more": (f"int a(void) {{ return 1; }}\n#endif\n{MAIN}", ["a", "main"]),
    "two heads": (f"#ifdef A\nint a(int b) {{\n#else\nint a(void) {{\n#endif\n  return 1;\n}}\n{MAIN}", ["a", "main"]),
    "blocks opened twice": (
        (
            "int a(int b) { return b; }\nint main(void) {\n#ifdef A\n  if (a(1)) {\n#else\n  if (a(2)) {\n#endif\n"
            "    return 1;\n  }\n  return 0;\n}\nint z(void) { return 2; }\n"
        ),
        ["a", "main", "z"],
    ),
    "a block closed in a branch": (
        (
            "int main(void) {\n  while (1) {\n#ifdef A\n    break;\n  }\n"
            "#else\n  }\n#endif\n  return 0;\n}\nint z(void) { return 2; }\n"
        ),
        ["main", "z"],
    ),
    "heads without bodies": (
        (
            f"#if defined(A)\nstatic int run(int a)\n#elif defined(B)\n"
            f"static int run(long a)\n#endif\n{{\n  return 1;\n}}\n{MAIN}"
        ),
        ["run", "main"],
    ),
    "parameters declared behind the head": (
        (
            "static char *\nfind(name, len)\n    register char *name; /* of it */\n    int len;\n{\n  return name;\n}\n"
            f"{MAIN}"
        ),
        ["find", "main"],
    ),
    "never": (f"#if 0\nint broken( {{\n#endif\n{MAIN}", ["main"]),
    "never, or else": ("#if 0\nint main( {\n#else\nint main(void) {\n#endif\n  return 0;\n}\n", ["main"]),
    "else if": (
        (
            "int main(void) {\n  if (1) {\n    return 1;\n#ifdef A\n"
            "  } else if (2) {\n    return 2;\n#endif\n  }\n  return 0;\n}\n"
            "int z(void) { return 2; }\n"
        ),
        ["main", "z"],
    ),
    "a long condition": (
        "#if defined(A) && \\\n    defined(B)\nint a(int b) {\n#else\nint a(void) {\n#endif\n  return '{';\n}\n" + MAIN,
        ["a", "main"],
    ),
    "nested": (
        (
            "int main(void) {\n#ifdef A\n#ifdef B\n  if (1) {\n#else\n"
            "  if (2) {\n#endif\n#else\n  if (3) {\n#endif\n    return 1;\n  }\n"
            "  return 0;\n}\nint z(void) { return 2; }\n"
        ),
        ["main", "z"],
    ),
}


@pytest.mark.parametrize("name", CONDITIONS)
@pytest.mark.parametrize("ending", ["c", "cpp", "h", "cu"])
def test_unbalanced_conditions_lose_no_function(name: str, ending: str) -> None:
    text, expected = CONDITIONS[name]
    for ends in ("\n", "\r\n"):
        document = read(f"a.{ending}", text.replace("\n", ends))
        assert [definition.name for definition in document.definitions] == expected
        assert document.text == text.replace("\n", ends)


def test_balanced_conditions_stay_as_they_are() -> None:
    text = '#ifdef A\nint a(void) { return "{"[0]; }\n#else\nint b(void) { return 2; } // {\n#endif\n'
    assert conditions.excluded(text.encode()) == []
    assert [definition.name for definition in read("a.c", text).definitions] == ["a", "b"]


def test_hostile_components_and_conditions_take_linear_time() -> None:
    started = time.process_time()
    for part in ("<script ", '<script "', "<script '", "<!--", "<!-", "<script>", "---\n", "<script a=b ", "</script>"):
        scripts.alone(part * 60_000)
    for line in (
        b"#if\n",
        b"#else\n",
        b"#endif\n",
        b"#if\\\n",
        b"#if A\n/*\n",
        b'#if A\n"\n',
        b"# ",
        b"#if 0\n{\n#else\n",
        b")\n",
        b"a;\n",
    ):
        conditions.excluded(line * 60_000)
        conditions.excluded(line * 150 + b"#endif\n" * 150)
    assert time.process_time() - started < 20
