"""The name that is embedded with the code of a file."""

from __future__ import annotations

import pytest

from worker.formats.by_name import changes_chunks, embedded_stem, file_stem


@pytest.mark.parametrize(
    ("path", "stem"),
    [
        ("parser.py", "parser"),
        ("src/deep/parser.py", "parser"),
        ("src/SqlMapper.Settings.cs", "SqlMapper.Settings"),
        ("src/types.d.ts", "types.d"),
        ("src/run", "run"),
        (".bashrc", ".bashrc"),
        ("src/Makefile", "Makefile"),
        ("pack/__init__.py", "pack"),
        ("web/button/index.tsx", "button"),
        ("web/button/Index.tsx", "button"),
        ("src/net/mod.rs", "net"),
        ("serde/src/lib.rs", "src"),
        # in no folder
        ("index.js", ""),
        ("lib.rs", ""),
        # without a letter
        ("answers/42.py", ""),
        ("2024-11-30/index.js", ""),
        ("0001_users.sql", "0001_users"),
        ("\u6f6e\u6c50.py", "\u6f6e\u6c50"),
        # names that only begin so
        ("web/index.test.ts", "index.test"),
        ("library.py", "library"),
        ("tools.zip/lib/index.js", "lib"),
        ("tools.zip/index.js", "tools.zip"),
        ("a  b\tc\n.py", "a b c"),
        ("", ""),
        ("x" * 100 + ".py", "x" * 100),
        ("x" * 101 + ".py", "x" * 100),
    ],
)
def test_it_is_the_stem_or_the_folder_of_a_file_that_stands_for_it(path: str, stem: str) -> None:
    assert file_stem(path) == stem


def test_only_code_has_one_and_only_in_an_index_with_stems() -> None:
    cases = [("code", True), ("code", False), ("markdown", True)]
    assert [embedded_stem("a/parser", type_, file_stems=stems) for type_, stems in cases] == ["parser", "", ""]


@pytest.mark.parametrize(
    ("before", "now", "file_stems", "sidecars", "expected"),
    [
        ("a/parser.py", "b/parser.py", True, True, False),
        ("parser.py", "lexer.py", True, False, True),
        ("parser.py", "lexer.py", False, False, False),
        ("a/__init__.py", "b/__init__.py", True, False, True),
        ("guide.txt", "manual.txt", True, False, False),
        ("guide.txt", "guide.md", False, False, True),
        ("tool.py", "tool.rs", False, False, True),
        ("a.meta.json", "a.json", False, True, True),
        ("a.meta.json", "a.json", False, False, False),
    ],
)
def test_a_new_name_changes_chunks_by_its_format_its_stem_or_as_a_sidecar(
    before: str, now: str, file_stems: bool, sidecars: bool, expected: bool
) -> None:
    assert changes_chunks(before, now, file_stems=file_stems, sidecars=sidecars) is expected
