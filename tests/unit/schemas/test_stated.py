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
        ("k: 007", "007"),
        ("k: '2024'", "2024"),
        ("k: 1.10", "1.10"),
        ("k: True", "True"),
        ("k: 2024-02-30", "2024-02-30"),
        ("k: [a, \"b, c\" , 'd'] # e", ["a", "b, c", "d"]),
        ("k: []", []),
        ("k:\n  - a\n  - 'b'\n- 3\nother: x", ["a", "b", "3"]),
        ("'k': x", "x"),
        ("k:\n\n# a comment\n- a\n\n  # another\n- b", ["a", "b"]),
        ("k: a\n\n  # a comment\nother: b", "a"),
        ("k: first\nk: second", "first"),
    ],
)
def test_front_matter_is_read_as_yaml_means_it(line: str, value: Any) -> None:
    assert front_matter(f"---\n{line}\n---\n")["k"] == value


@pytest.mark.parametrize("key", ["\u00dcber", "\u043a\u043e\u043c\u0430\u043d\u0434\u0430", "1st", "_a.b-c"])
def test_keys_of_every_script_are_read(key: str) -> None:
    assert front_matter(f"---\n{key}: x\n---\n") == front_matter(f"+++\n{key} = 'x'\n+++\n") == {key: "x"}


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ('[\n  "a",\n  "b"\n]', ["a", "b"]),
        ("[ # first ]\n'a', # and [\n\n\"b ] # c\",\n]", ["a", "b ] # c"]),
        ("[1,\n2] # two", ["1", "2"]),
        ("[\n]", []),
        ("[\n[1],\n[2],\n]", None),
        ('["it\'s",\n"\\"]"]', ["it's", '"]']),
    ],
)
def test_a_list_of_toml_may_have_several_lines(lines: str, expected: list[str] | None) -> None:
    found = front_matter(f"+++\nk = {lines}\nlast = 'x'\n+++\n")
    assert (found.get("k"), found["last"]) == (expected, "x")


def test_toml_is_read_up_to_its_tables() -> None:
    texts = ('k = """\n', "team = 'x'\n", '\\""" = 1\n', 'more"""\n', "l = '''\nteam = 1\n'''\n", 'm = """a"""\n')
    entries = 'day = 2024-01-01 # c\n  "in = 1",\n"in = 2",\nlist = ["a", "b"]\nin: 1\nlast = "x"\n[table]\nin = 1\n'
    assert front_matter("".join(("+++\n", *texts, entries, "+++\n"))) == {
        "day": "2024-01-01", "list": ["a", "b"], "last": "x"
    }  # fmt: skip


@pytest.mark.parametrize(
    "line",
    [
        *("k:", "k: null", "k: |\n  text", "k: {a: 1}", "k: *alias", "k: !!python/object x", "k: [[a]]", "k:\n  a: 1"),
        *("k = toml", "k: cut\n  off", "k: 'cut\n\n  off'", "k:\n- a: 1\n  b: 2", "k:\n- cut\n  off"),
        *("k: [a,\n b]", "  k: nested", "k: 99999999999999999999999999\x00", "k: " + "x" * 20_000),
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
        *(
            '+++\nk = """' + "\\" * 60_000,
            "+++\nk = '''" + "''\n" * 20_000,
            "+++\nk = [" + "\n[" * 30_000,
            "+++\nk = [\n" + '"\\"' * 30_000,
            "+++\nk = [" + "'\n" * 30_000,
            "+++\n" + "k = [\n]\n" * 10_000,
            "k:\n" + "\n" * 60_000,
            "k: a\n\n" * 10_000,
        ),
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
    assert named_values(stated) == {"og.title": "Tides", "author": ["Ada", "Ben"], "year": "2024"}


@pytest.mark.parametrize("text", ["01234", "1.10", "+493012345", "2024-02-30", "2024-03-01", "True", "null"])
def test_texts_of_buckets_and_pages_stay_as_they_are(text: str) -> None:
    assert named_values([("k", text)]) == {"k": text}


@pytest.mark.parametrize("key", ["acl", "ACL", "Acl"])
def test_nothing_that_is_stated_looks_like_an_access_list(key: str) -> None:
    assert named_values([(key, "*"), ("k", "x")]) == {"k": "x"}
    assert front_matter(f"---\n{key}: ['*']\nk: x\n---\n") == {"k": "x"}


def test_a_sidecar_is_named_after_its_file() -> None:
    assert is_sidecar("a/b.pdf.meta.json")
    assert not any(map(is_sidecar, ("a/.meta.json", ".meta.json", "a/meta.json", "a.meta.json/b", "a.meta.jsonl")))
