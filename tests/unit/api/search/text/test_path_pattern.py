"""A path is taken as it is spelled before it is taken for a pattern."""

from __future__ import annotations

import pytest

from api.search.text.path_pattern import PathPattern
from schemas.errors import Invalid

FILES = (
    *("app/[slug]/page.tsx", "app/[slug]/view.ts", "app/s/page.tsx", "app/[...all]/page.tsx", "app/[[...x]]/page.tsx"),
    *("app/(group)/page.tsx", "a*b/c?.md", "aXb/cd.md", "src/[ab].py", "src/a.py", "src/b.py", "{a,b}/x.md", "a/x.md"),
    *("!important.md", "#notes.md", "draft .md", "back\\slash.md", "open[bracket.md", "{{name}}/setup.py", "docs/x.md"),
)


@pytest.mark.parametrize(
    ("pattern", "selected"),
    [
        ("app/[slug]/page.tsx", ["app/[slug]/page.tsx"]),
        ("./app/[slug]/page.tsx", ["app/[slug]/page.tsx"]),
        ("/app/[slug]", ["app/[slug]/page.tsx", "app/[slug]/view.ts"]),
        ("app/[slug]/", ["app/[slug]/page.tsx", "app/[slug]/view.ts"]),
        ("app/[slug]/**", ["app/[slug]/page.tsx", "app/[slug]/view.ts"]),
        ("app/[slug]/*.{ts,js}", ["app/[slug]/view.ts"]),
        ("[slug]/view.*", []),
        ("**/[slug]/view.*", ["app/[slug]/view.ts"]),
        ("[slug]", ["app/[slug]/page.tsx", "app/[slug]/view.ts"]),
        (r"app/\[slug\]/page.tsx", ["app/[slug]/page.tsx"]),
        (r"/app/\[slug\]/**/[v]*.ts", ["app/[slug]/view.ts"]),
        ("app/[...all]/page.tsx", ["app/[...all]/page.tsx"]),
        ("app/[[...x]]/*", ["app/[[...x]]/page.tsx"]),
        ("app/[stuv]/page.tsx", ["app/s/page.tsx"]),
        ("app/(group)/*", ["app/(group)/page.tsx"]),
        ("a*b/c?.md", ["a*b/c?.md"]),
        ("src/[ab].py", ["src/[ab].py"]),
        ("src/[a].py", ["src/a.py"]),
        ("{a,b}/x.md", ["{a,b}/x.md"]),
        ("{a,docs}/x.md", ["a/x.md", "docs/x.md"]),
        ("{{name}}/*.py", ["{{name}}/setup.py"]),
        ("!important.md", ["!important.md"]),
        ("#notes.md", ["#notes.md"]),
        ("draft .md", ["draft .md"]),
        ("back\\slash.md", ["back\\slash.md"]),
        ("open[bracket.md", ["open[bracket.md"]),
        ("*.md", [file for file in FILES if file.endswith(".md")]),
        ("!app/[slug]/**", [file for file in FILES if not file.startswith("app/[slug]/")]),
        ("!app/[slug]/page.tsx", [file for file in FILES if file != "app/[slug]/page.tsx"]),
        ("!*.md", [file for file in FILES if not file.endswith(".md")]),
    ],
)
def test_a_path_as_it_is_spelled_comes_first(pattern: str, selected: list[str]) -> None:
    found = PathPattern("path", pattern)
    takes = found.among(FILES)
    assert [file for file in FILES if takes(file)] == selected
    assert all(file.startswith(found.folder) for file in selected)


@pytest.mark.parametrize(
    ("pattern", "taken", "left"),
    [
        ("app/[slug]/page.tsx", ["app/[slug]/page.tsx", "app/s/page.tsx"], ["app/x/page.tsx"]),
        ("app/[slug]/*.ts", ["app/[slug]/a.ts", "app/s/a.ts"], ["app/a.ts"]),
        ("!app/[slug]/**", ["app/x/a"], ["app/[slug]/a", "app/s/a"]),
        ("!a.md", ["!a.md"], ["a.md"]),
    ],
)
def test_without_known_files_each_meaning_counts(pattern: str, taken: list[str], left: list[str]) -> None:
    takes = PathPattern("path", pattern).anywhere()
    assert list(filter(takes, taken)) == taken
    assert not list(filter(takes, left))


def test_a_pattern_that_can_match_nothing_is_refused_unless_a_file_is_called_so() -> None:
    pattern = PathPattern("path", "open[bracket.md")
    assert pattern.among(["open[bracket.md"])("open[bracket.md")
    with pytest.raises(Invalid, match="matches nothing"):
        pattern.among(["other.md"])
    with pytest.raises(Invalid, match="matches nothing"):
        PathPattern("path", "a[").anywhere()


def test_a_long_literal_path_with_brackets_is_found() -> None:
    path = "[slug]/" * 140 + "x"
    assert PathPattern("path", path).among([path])(path)
