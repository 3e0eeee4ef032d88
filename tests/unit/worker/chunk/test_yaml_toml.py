"""Configuration text with lines of any length."""

from __future__ import annotations

from random import Random

import pytest

from schemas.content.source import ChunkSettings
from tests.unit.worker.chunk.chunking import LONG, cut, is_linear


@pytest.mark.parametrize("mark", ["- ", "# ", "a: ", " "])
def test_a_long_line_is_cut_in_linear_time(mark: str) -> None:
    def text(size: int) -> str:
        return f"top:\n  {mark * (size // len(mark))}x\n"

    chunks = cut(text(LONG), "a.yaml")
    assert len(chunks) > 1 or not mark.strip()
    assert chunks[-1].text.endswith("x")
    assert is_linear(text, "a.yaml")


def test_pieces_of_a_long_line_keep_what_is_around_it() -> None:
    chunks = cut("top:\n  inner:\n    - " + "word " * 3000 + "\n  other: 1\n", "a.yaml")
    assert len(chunks) > 3
    assert {c.context for c in chunks[1:-1]} == {"top > inner"}


def test_text_after_a_long_comment_has_the_keys_around_it() -> None:
    for comment in ("word " * 3000, "# " * 6000):
        chunks = cut(f"top:\n  inner:\n    # {comment}\n    leaf: 1\n", "a.yaml")
        assert len(chunks) > 3
        assert (chunks[-1].text.endswith("leaf: 1"), chunks[-1].context) == (True, "top > inner")


def test_a_deep_place_keeps_the_innermost_names() -> None:
    keys = "".join(f"{'  ' * depth}k{depth}:\n" for depth in range(20))
    chunks = cut(f"{keys}{'  ' * 20}- {'word ' * 3000}\n", "a.yaml")
    assert chunks[-1].context == " > ".join(f"k{depth}" for depth in range(4, 20))


def test_the_first_key_of_a_list_item_stands_beside_the_others_of_the_item() -> None:
    long = "word " * 3000
    chunks = cut(f"top:\n  - first:\n      leaf: {long}\n    other: {long}\n", "a.yaml")
    at = {name: next(number for number, chunk in enumerate(chunks) if name in chunk.text) for name in ("leaf", "other")}
    assert [chunks[at[name] + 1].context for name in ("leaf", "other")] == ["top > first", "top"]


def around(lines: list[str], number: int) -> list[str]:
    """The keys around the first line from this one on that is no comment, by reading all lines above it."""
    above: list[tuple[int, str]] = []
    last: list[tuple[int, str]] = []
    for place, line in enumerate(lines):
        if line.lstrip().startswith("#"):
            continue
        indent = len(line) - len(line.lstrip(" "))
        above = [key for key in above if key[0] < indent]
        last = list(above)
        if place >= number:
            break
        if line.endswith(":"):
            above.append((indent, line.strip(" :\"'")))
    return [name for _, name in last]


@pytest.mark.parametrize("seed", range(8))
def test_a_piece_has_the_keys_around_its_first_line(seed: int) -> None:
    random, lines, depth = Random(seed), list[str](), 0
    for number in range(120):
        depth = random.randint(0, depth)
        if random.random() < 0.4:
            key = f"key{number}"
            lines.append("  " * depth + random.choice([key, f'"{key}"', f"'{key}'"]) + ":")
            depth += 1
        if random.random() < 0.1:
            lines += ["  " * random.randint(0, 3) + "# " + "comment " * 9] * random.randint(1, 20)
        lines.append("  " * depth + f"leaf{number}: " + "word " * random.randint(1, 9) + "end")
    text = "\n".join(lines) + "\n"
    chunks = cut(text, "a.yaml", settings=ChunkSettings(size=64, overlap=0))
    assert len(chunks) > 5
    for chunk in chunks:
        is_comment = all(line.lstrip().startswith("#") for line in chunk.text.splitlines())
        expected = [] if is_comment else around(lines, text.count("\n", 0, chunk.start_char))
        assert chunk.context == " > ".join(expected)


@pytest.mark.parametrize("indent", ["", "  ", "\t"])
def test_a_piece_has_the_section_that_it_starts_in(indent: str) -> None:
    lines = "".join(f"{indent}k{number} = {number} # some more words of it\n" for number in range(12))
    headers = ["[part.0]", "[ part.1 ]", "[[part.2]]", "[part.3] # said of it"]
    lines += f"{indent}last = 1 # some words,\n"
    text = "first = 1\n" + "\n".join(f"{indent}{header}\n{lines}" for header in headers)
    chunks = cut(text, "a.toml", settings=ChunkSettings(size=64, overlap=0))
    assert len(chunks) > 8
    for chunk in chunks:
        above = [header for header in headers if 0 <= text.find(header) < chunk.start_char]
        is_header = chunk.text.lstrip().startswith(tuple(headers))
        assert chunk.context == (f"part.{len(above) - 1}" if above and not is_header else "")


@pytest.mark.parametrize("row", ["[1, 2]", "[1, 2], # said of it", '["#"]', "# said\n  [1]", "[\n  [1]\n  ]"])
def test_rows_of_an_array_are_no_sections(row: str) -> None:
    rows = f"  {row.removesuffix(', # said of it')},\n" * 30
    text = f"[part]\nmatrix = [\n{rows}  {row}\n]\n" + "".join(f"k{n} = {n}\n" for n in range(60))
    chunks = cut(text, "a.toml", settings=ChunkSettings(size=64, overlap=0))
    assert len(chunks) > 5
    assert {chunk.context for chunk in chunks[1:]} == {"part"}


@pytest.mark.parametrize("indent", ["", "  ", "\t"])
@pytest.mark.parametrize(
    ("begin", "end"),
    [
        ('"""', '"""'),
        ("'''", "'''"),
        ('"""\\""" \'\'\' # said', '"""'),
        ("'''\"\"\" \\\\", "'''"),
        ('"""', '"""" # said'),
        ('["\'\'\'", \'"""\', """', '"""]'),
    ],
)
def test_lines_of_a_string_are_no_sections(indent: str, begin: str, end: str) -> None:
    inside = f"{indent}[inside]\n{indent}some words of the text\n" * 30
    after = "".join(f"k{n} = {n}\n" for n in range(60))
    text = f'# it\'s """ said\n[part]\ntext = {begin}\n{inside}{end}\n{after}'
    chunks = cut(f"{text}[next]\n{after}", "a.toml", settings=ChunkSettings(size=64, overlap=0))
    assert len(chunks) > 10
    border = next(number for number, chunk in enumerate(chunks) if "[next]" in chunk.text)
    assert {chunk.context for chunk in chunks[1:border]} == {"part"}
    assert {chunk.context for chunk in chunks[border + 1 :]} == {"next"}


@pytest.mark.parametrize("text", ['"""', "'''", '"""\\', '"""\\"""', "'''\"\"\"", "\\\"\"\" '''"])
def test_strings_that_never_end_are_cut_in_linear_time(text: str) -> None:
    def made(size: int) -> str:
        return f"[part]\na = {text * (size // len(text))}\n[next]\nb = 1\n"

    assert cut(made(LONG), "a.toml")[-1].text.endswith("b = 1")
    assert is_linear(made, "a.toml")


def test_lists_in_yaml_are_no_sections() -> None:
    leaves = "".join(f"  k{n}: {n}\n" for n in range(60))
    chunks = cut(f"on:\n  branches:\n    [main]\n{leaves}", "a.yaml", settings=ChunkSettings(size=64, overlap=0))
    assert len(chunks) > 5
    assert {chunk.context for chunk in chunks[1:]} == {"on"}
