"""The looks of the lines of a PDF page, for finding headings."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from worker.parse.pdf.characters import Drawn, PageCharacters
from worker.parse.pdf.text_lines import ROW, LineLook, PageLines

#: Maximum characters of a line that may be a heading.
MAX_SHORT_CHARS = 120
#: Maximum distance of the baselines of lines that follow each other, as a multiple of their size.
MAX_PITCH = 1.7
#: Characters below which a page may have only titles, so that it does not show the usual look.
_MIN_USUAL_CHARS = 500
_LETTER = re.compile(r"[^\W_]")
#: Maximum difference of sizes that are the same, as a share.
_SAME_SIZE = 0.03


def add_looks(characters: PageCharacters, lines: PageLines) -> None:
    """Add the looks of upright lines. Rows of tables have no look."""
    drawn = _drawn(characters, lines)
    _count(drawn, lines)
    usual = most(lines.sizes)[0] if sum(lines.sizes.values()) >= _MIN_USUAL_CHARS else 0.0
    unusual = {look for look in lines.sizes if look[1] or look[0] > usual}
    # most pages of running text have none
    if not unusual:
        return
    numbers = [
        number
        for number, look in enumerate(drawn.looks)
        if look in unusual and len(lines.texts[number]) <= MAX_SHORT_CHARS
    ]
    for number, width in zip(numbers, _widths(characters, lines, drawn, numbers), strict=True):
        look = drawn.looks[number]
        if look and width:
            baseline = drawn.baselines[number]
            above = _nearest(drawn, range(number - 1, -1, -1))
            below = _nearest(drawn, range(number + 1, len(drawn.looks)))
            lines.looks[number] = LineLook(
                *look,
                baseline,
                width,
                None if above is None else above - baseline,
                None if below is None else baseline - below,
            )


def _count(drawn: Drawn, lines: PageLines) -> None:
    """Add the sizes of the lines, and their distances from the line above."""
    sizes, upper = lines.sizes, 0.0
    distances: dict[float, int] = {}
    for text, look, baseline in zip(lines.texts, drawn.looks, drawn.baselines, strict=True):
        if look is None:
            upper = 0.0
            continue
        sizes[look] = sizes.get(look, 0) + len(text)
        distance = upper - baseline
        if 0 < distance <= MAX_PITCH * look[0]:
            distances[distance] = distances.get(distance, 0) + 1
        upper = baseline
    # most distances are equal, and rounding a number takes longer than counting it
    for distance, count in distances.items():
        pitch = round(distance, 1)
        lines.pitches[pitch] = lines.pitches.get(pitch, 0) + count


def most(sizes: dict[tuple[float, bool], int]) -> tuple[float, bool]:
    """Return the size of most characters, and whether most are bold."""
    total: dict[float, int] = {}
    for (size, _), count in sizes.items():
        total[size] = total.get(size, 0) + count
    size = max(total, key=total.__getitem__)
    return size, sizes.get((size, True), 0) > sizes.get((size, False), 0)


def _nearest(drawn: Drawn, numbers: range) -> float | None:
    """Return the baseline of the first line that is drawn."""
    return next((drawn.baselines[number] for number in numbers if drawn.looks[number]), None)


def _drawn(characters: PageCharacters, lines: PageLines) -> Drawn:
    """Return the look of the first letter of each line; none if it has no letter, or is not upright."""
    # most lines begin with a letter, and searching for one takes longer
    indexes = [
        start if start == ROW or text[:1].isalnum() else _first_letter(text, start)
        for text, start in zip(lines.texts, lines.starts, strict=True)
    ]
    drawn = characters.drawn([index for index in indexes if index != ROW])
    if len(drawn.looks) == len(indexes):
        return drawn
    looks, lefts, baselines = iter(drawn.looks), iter(drawn.lefts), iter(drawn.baselines)
    return Drawn(
        [None if index == ROW else next(looks) for index in indexes],
        [0.0 if index == ROW else next(lefts) for index in indexes],
        [0.0 if index == ROW else next(baselines) for index in indexes],
    )


def _first_letter(text: str, start: int) -> int:
    """Return the index of the first letter of a line that starts at an index; `ROW` if it has none."""
    letter = _LETTER.search(text)
    return start + letter.start() if letter else ROW


def _widths(characters: PageCharacters, lines: PageLines, drawn: Drawn, numbers: Sequence[int]) -> Iterator[float]:
    """Return the widths of lines; 0 if the last letter of one looks different from the first."""
    last = [lines.starts[number] + _last_letter(lines.texts[number]) for number in numbers]
    for number, end in zip(numbers, characters.ends(last), strict=True):
        look = drawn.looks[number]
        if end is None or look is None:
            yield 0.0
            continue
        (size, is_bold), (end_size, is_end_bold, right) = look, end
        is_same = abs(end_size - size) <= _SAME_SIZE * size and is_end_bold == is_bold
        yield max(0.0, right - drawn.lefts[number]) if is_same else 0.0


def _last_letter(text: str) -> int:
    """Return the place of the last letter in a text that has one."""
    return next(at for at in range(len(text) - 1, -1, -1) if text[at].isalnum())
