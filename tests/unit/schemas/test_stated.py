"""What text states becomes metadata: typed, bounded, and whatever somebody writes there, in time."""

from __future__ import annotations

import time
from typing import Any

import pytest

from schemas.content.metadata import MAX_METADATA_BYTES, checked_metadata
from schemas.content.stated import front_matter, is_sidecar, named_values


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("k: plain text # a comment", "plain text"),
        ("k: 'It''s'", "It's"),
        (r'k: "a \" b \u00e9" # c', 'a " b é'),
        ("k: https://x.org/#part", "https://x.org/#part"),
        ("k: 2024", 2024),
        ("k: '2024'", "2024"),
        ("k: -0.5", -0.5),
        ("k: True", True),
        ("k: 2026-03-01", "2026-03-01T00:00:00Z"),
        ("k: 2026-03-01 10:00:00", "2026-03-01T10:00:00Z"),
        ("k: 2026-03-01T10:00:00+02:00", "2026-03-01T10:00:00+02:00"),
        ("k: [a, \"b, c\" , 'd'] # e", ["a", "b, c", "d"]),
        ("k: []", []),
        ("k:\n  - a\n  - 'b'\n- 3\nother: x", ["a", "b", "3"]),
        ("'k': x", "x"),
        ('k = "toml"', "toml"),
        ("k: first\nk: second", "first"),
    ],
)
def test_front_matter_is_read_as_yaml_means_it(line: str, value: Any) -> None:
    assert front_matter(f"---\n{line}\n---\n")["k"] == value


@pytest.mark.parametrize(
    "line",
    [
        *("k:", "k: null", "k: |\n  text", "k: {a: 1}", "k: *alias", "k: !!python/object x", "k: [[a]]", "k:\n  a: 1"),
        *("k: [a,\n b]", "  k: nested", "[table]\nk = 1", "k: 99999999999999999999999999\x00", "k: " + "x" * 20_000),
    ],
)
def test_what_is_no_flat_value_is_left_out(line: str) -> None:
    assert "k" not in front_matter(f"---\n{line}\n---\n")


@pytest.mark.parametrize(
    "text",
    [
        *("k: [" + "'" * 60_000 + "]", 'k: ["' + "\\" * 60_000 + "]", "k: [" + " " * 60_000 + "x y]"),
        *("k: " + " #" * 30_000, "k:\n" * 20_000, "k:\n" + "- x\n" * 20_000, "k: " + "[" * 60_000, "[" * 60_000),
        *('k: "' + '\\"' * 30_000, "k: [" + '"\\,' * 20_000, "-" * 60_000, "k" * 60_000 + ":"),
        "\n".join(f"k{number}: [a, b]" for number in range(6_000)),
    ],
)
def test_hostile_front_matter_is_read_in_time_and_within_bounds(text: str) -> None:
    began = time.process_time()
    values = front_matter(text)
    assert time.process_time() - began < 1
    assert checked_metadata(values) == values


def test_as_much_is_kept_as_metadata_can_hold() -> None:
    values = named_values((f"k{number}", "x" * 1_000) for number in range(100))
    assert MAX_METADATA_BYTES // 1_100 <= len(values) < 17
    assert checked_metadata(values) == values


def test_names_of_pages_become_keys_and_repeated_ones_a_list() -> None:
    stated = [("og:title", "Tides"), ("author", "Ada"), ("author", "Ben"), ("a b", "x"), ("year", " 2024 "), ("", "y")]
    assert named_values(stated) == {"og.title": "Tides", "author": ["Ada", "Ben"], "year": 2024}


def test_a_sidecar_is_named_after_its_file() -> None:
    assert is_sidecar("a/b.pdf.meta.json")
    assert not any(map(is_sidecar, ("a/.meta.json", ".meta.json", "a/meta.json", "a.meta.json/b", "a.meta.jsonl")))
