"""Names of uploaded files are made fit for a tree."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.names import MAX_NAME, clean_path, extension


@pytest.mark.parametrize("sent", ["", ".", "..", "/", "a/", "a\\", "a/..", "\0", " \t", "%00", "C:\\"])
def test_where_no_name_is_left_there_is_no_path(sent: str) -> None:
    assert clean_path(sent) == ()


@pytest.mark.parametrize(
    ("sent", "path"),
    [
        ("C:/temp/x.md", ("temp", "x.md")),
        ("\\\\server\\share\\x.md", ("server", "share", "x.md")),
        ("a%20b%22%0D.md", ('a%20b".md',)),
        ("...", ("...",)),
        (".env", (".env",)),
    ],
)
def test_what_is_left(sent: str, path: tuple[str, ...]) -> None:
    assert clean_path(sent) == path


@given(st.text())
def test_a_path_is_clean_and_cleaning_it_again_changes_nothing(sent: str) -> None:
    sent = sent.encode(errors="ignore").decode()
    path = clean_path(sent)
    for name in path:
        assert name not in {"", ".", ".."}
        assert not set(name) & {"/", "\\", "\0", "\n"}
        assert len(name.encode()) <= MAX_NAME
    if not any("%" in name or ":" in name for name in path):
        assert clean_path("/".join(path)) == path


def test_long_names_keep_their_extension_and_their_difference() -> None:
    (one,), (two,) = clean_path("\u00fc" * 200 + ".tar.gz"), clean_path("\u00fc" * 201 + ".tar.gz")
    assert one != two
    assert (extension(one), extension(two)) == ("gz", "gz")


@pytest.mark.parametrize(("name", "found"), [("a.MD", "md"), (".gitignore", ""), ("Makefile", ""), ("a.tar.gz", "gz")])
def test_extensions(name: str, found: str) -> None:
    assert extension(name) == found
