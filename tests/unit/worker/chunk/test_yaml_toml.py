"""Configuration text with lines of any length."""

from __future__ import annotations

from random import Random

import pytest

from schemas.content.source import ChunkSettings
from tests.unit.worker.chunk.chunking import cut


@pytest.mark.parametrize("mark", ["- ", "# ", "a: ", " "])
def test_a_line_of_megabytes_is_cut_in_linear_time(mark: str) -> None:
    """If the time grows with the square of a line's length, this test times out."""
    text = mark * (4_000_000 // len(mark))
    chunks = cut(f"top:\n  {text}x\n", "a.yaml")
    assert len(chunks) > 1 or not text.strip()
    assert chunks[-1].text.endswith("x")


def test_pieces_of_a_long_line_keep_what_is_around_it() -> None:
    chunks = cut("top:\n  inner:\n    - " + "word " * 3000 + "\n  other: 1\n", "a.yaml")
    assert len(chunks) > 3
    assert {c.context for c in chunks[1:-1]} == {"top > inner"}


def around(lines: list[str], number: int) -> list[str]:
    """The keys around a line, by reading all lines above it."""
    above: list[tuple[int, str]] = []
    for line in lines[: number + 1]:
        indent = len(line) - len(line.lstrip(" "))
        above = [key for key in above if key[0] < indent]
        last = list(above)
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
        lines.append("  " * depth + f"leaf{number}: " + "word " * random.randint(1, 9) + "end")
    text = "\n".join(lines) + "\n"
    chunks = cut(text, "a.yaml", settings=ChunkSettings(size=64, overlap=0))
    assert len(chunks) > 5
    for chunk in chunks:
        assert chunk.context == " > ".join(around(lines, text.count("\n", 0, chunk.start_char)))


def test_a_piece_has_the_section_that_it_starts_in() -> None:
    lines = "".join(f"k{number} = {number} # some more words of it\n" for number in range(12))
    sections = [f"[part.{number}]\n{lines}" for number in range(4)]
    text = "first = 1\n" + "\n".join(sections)
    chunks = cut(text, "a.toml", settings=ChunkSettings(size=64, overlap=0))
    assert len(chunks) > 8
    for chunk in chunks:
        above = text[: chunk.start_char]
        is_header = chunk.text.startswith("[")
        expected = above.rpartition("[part.")[2].partition("]")[0] if "[" in above and not is_header else None
        assert chunk.context == (f"part.{expected}" if expected else "")
