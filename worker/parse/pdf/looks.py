"""How the lines of a PDF page are drawn, by which headings are found.

Each line costs some microseconds, so only lines that may be headings are examined up to their ends.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from worker.parse.pdf.characters import Drawn, PageCharacters
from worker.parse.pdf.text_lines import ROW, LineLook, PageLines

#: Maximum characters of a line that may be a heading.
MAX_SHORT_CHARS = 120
#: Maximum distance of the baselines of lines that follow each other, as a multiple of their size.
MAX_PITCH = 1.7
#: A page with fewer characters may have titles only, so that most of them tell nothing about the others.
_MIN_USUAL_CHARS = 500
_LETTER = re.compile(r"[^\W_]")
#: Maximum difference of sizes that are the same, as a share.
_SAME_SIZE = 0.03


def add_looks(characters: PageCharacters, lines: PageLines) -> None:
    """Add how the lines are drawn, as far as they are upright. Rows of tables have no look."""
    drawn = _drawn(characters, lines)
    _count(drawn, lines)
    usual = most(lines.sizes)[0] if sum(lines.sizes.values()) >= _MIN_USUAL_CHARS else 0.0
    for number, line in enumerate(drawn):
        if line is None:
            continue
        (size, is_bold), baseline, _ = line
        if (is_bold or size > usual) and len(lines.texts[number]) <= MAX_SHORT_CHARS:
            width = _width(characters, lines.texts[number], lines.starts[number], line)
            if width:
                above = _nearest(drawn, range(number - 1, -1, -1))
                below = _nearest(drawn, range(number + 1, len(drawn)))
                lines.looks[number] = LineLook(
                    size,
                    is_bold,
                    baseline,
                    width,
                    None if above is None else above - baseline,
                    None if below is None else baseline - below,
                )


def _count(drawn: Sequence[Drawn | None], lines: PageLines) -> None:
    """Add the sizes of the lines, and their distances from the line above."""
    sizes, upper = lines.sizes, 0.0
    distances: dict[float, int] = {}
    for text, line in zip(lines.texts, drawn, strict=True):
        if line is None:
            upper = 0.0
            continue
        look, baseline, _ = line
        sizes[look] = sizes.get(look, 0) + len(text)
        distance = upper - baseline
        if 0 < distance <= MAX_PITCH * look[0]:
            distances[distance] = distances.get(distance, 0) + 1
        upper = baseline
    # most distances are equal, and to round a number takes longer than to count it
    for distance, count in distances.items():
        pitch = round(distance, 1)
        lines.pitches[pitch] = lines.pitches.get(pitch, 0) + count


def most(sizes: dict[tuple[float, bool], int]) -> tuple[float, bool]:
    """The size that most characters have, and whether most of them are bold."""
    total: dict[float, int] = {}
    for (size, _), count in sizes.items():
        total[size] = total.get(size, 0) + count
    size = max(total, key=total.__getitem__)
    return size, sizes.get((size, True), 0) > sizes.get((size, False), 0)


def _nearest(drawn: Sequence[Drawn | None], numbers: range) -> float | None:
    """The baseline of the first of these lines that is drawn."""
    return next((line[1] for number in numbers if (line := drawn[number])), None)


def _drawn(characters: PageCharacters, lines: PageLines) -> list[Drawn | None]:
    """How the first letter of each line is drawn; None if it has none, or is not upright."""
    numbers: list[int] = []
    indexes: list[int] = []
    for number, (text, start) in enumerate(zip(lines.texts, lines.starts, strict=True)):
        if start == ROW:
            continue
        # most lines begin with a letter, and the pattern takes longer
        if text[:1].isalnum():
            numbers.append(number)
            indexes.append(start)
        elif letter := _LETTER.search(text):
            numbers.append(number)
            indexes.append(start + letter.start())
    drawn: list[Drawn | None] = [None] * len(lines.texts)
    for number, look in zip(numbers, characters.drawn(indexes), strict=True):
        drawn[number] = look
    return drawn


def _width(characters: PageCharacters, text: str, start: int, first: Drawn) -> float:
    """The width of a line; 0 if its last letter does not look like the first."""
    last = next(at for at in range(len(text) - 1, -1, -1) if text[at].isalnum())
    end = characters.end(start + last)
    if end is None:
        return 0.0
    (size, is_bold), _, left = first
    end_size, is_end_bold, right = end
    is_same = abs(end_size - size) <= _SAME_SIZE * size and is_end_bold == is_bold
    return max(0.0, right - left) if is_same else 0.0
