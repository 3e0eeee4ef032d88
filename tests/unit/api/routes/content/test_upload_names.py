"""Names of uploaded files become names of nodes, whatever system and client they come from."""

from __future__ import annotations

import pytest

from api.routes.content.upload_names import MAX_EXTENSION, MAX_NAME, clean_path


@pytest.mark.parametrize(
    ("sent", "parts"),
    [
        ("a.md", ("a.md",)),
        ("docs/b/a.md", ("docs", "b", "a.md")),
        ("C:\\docs\\a.md", ("docs", "a.md")),
        ("c:a.md", ("a.md",)),
        ("ab:a.md", ("ab:a.md",)),
        ("/./docs//../a.md", ("docs", "a.md")),
        (" docs / a.md ", ("docs", "a.md")),
        ("a%22b%0A%7Fc%41.md", ('a"bc%41.md',)),
        ("a\0\tb.md", ("ab.md",)),
        # letters with marks are one character each
        ("u\u0308.md", ("\u00fc.md",)),
        # no name is left
        ("docs/", ()),
        ("docs/..", ()),
        ("docs/\t", ()),
        ("", ()),
    ],
)
def test_a_path_becomes_the_names_of_folders_and_file(sent: str, parts: tuple[str, ...]) -> None:
    assert clean_path(sent) == parts


@pytest.mark.parametrize("letter", ["x", "\u00e9"])
def test_only_names_of_too_many_bytes_are_cut(letter: str) -> None:
    size = len(letter.encode())
    whole = letter * ((MAX_NAME - 3) // size) + ".md"
    assert clean_path(whole) == (whole,)
    (longer,) = clean_path(f"{letter}{letter}{whole}")
    assert longer != whole
    assert len(longer.encode()) <= MAX_NAME
    (first,), (second,) = (clean_path(f"{letter * MAX_NAME}{end}.md") for end in "ab")
    assert first != second
    for cut in (first, second):
        assert MAX_NAME - size < len(cut.encode()) <= MAX_NAME
        assert cut.endswith(".md")


@pytest.mark.parametrize(("length", "is_kept"), [(MAX_EXTENSION, True), (MAX_EXTENSION + 1, False)])
def test_a_cut_name_keeps_a_short_extension(length: int, is_kept: bool) -> None:
    ending = "." + "e" * length
    (cut,) = clean_path("x" * MAX_NAME + ending)
    assert cut.endswith(ending) == is_kept
