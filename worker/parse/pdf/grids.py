"""Finds grids: rules of a PDF page that cross or touch and enclose all cells between them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise, product
from typing import NamedTuple

from worker.parse.pdf.rules import NEAR, Rule

#: Maximum cells. More are a drawing.
_MAX_CELLS = 2_000
#: Minimum rules each way of a table with two rows and two columns.
_MIN_RULES = 3

#: Row and column of a cell.
Cell = tuple[int, int]


class Grid(NamedTuple):
    """Places of the rules from left to right, and from bottom to top, and the cells between them.

    The numbers of rules below a cell and to its left identify it. Places that are part of one merged cell map to that
    cell. Rows are counted from the top.
    """

    xs: Sequence[float]
    ys: Sequence[float]
    cells: dict[tuple[int, int], Cell]


class _Group(NamedTuple):
    """Numbers of rules that are connected."""

    across: list[int]
    down: list[int]


def grids(across: list[Rule], down: list[Rule]) -> Iterator[Grid]:
    """Grids with two rows and two columns or more, by the first of their vertical rules."""
    for group in _groups(across, down) if min(len(across), len(down)) >= _MIN_RULES else ():
        if len(group.across) < _MIN_RULES or len(group.down) < _MIN_RULES:
            continue
        grid = _grid([across[number] for number in group.across], [down[number] for number in group.down])
        if grid:
            yield grid


def _groups(across: list[Rule], down: list[Rule]) -> Iterable[_Group]:
    """Rules that touch each other, by the first of the vertical ones.

    From left to right, each vertical rule is compared with those horizontal ones only that reach its place.
    """
    members: list[list[int]] = [[number] for number in range(len(across))]
    of_group: list[list[int]] = [[] for _ in across]
    group_of = list(range(len(across)))
    # most vertical rules touch the same horizontal rules, which are connected by then
    connected_before: set[tuple[int, ...]] = set()
    for number, touching in _touching(across, down):
        if touching not in connected_before:
            connected_before.add(touching)
            connected = set(map(group_of.__getitem__, touching))
            if len(connected) > 1:
                _connect(connected, members, of_group, group_of)
        of_group[group_of[touching[0]]].append(number)
    groups = (_Group(*each) for each in zip(members, of_group, strict=True) if each[1])
    return sorted(groups, key=lambda group: min(group.down))


def _connect(connected: set[int], members: list[list[int]], of_group: list[list[int]], group_of: list[int]) -> None:
    """Join groups into the largest of them."""
    largest = max(connected, key=lambda at: len(members[at]))
    for other in connected - {largest}:
        for member in members[other]:
            group_of[member] = largest
        members[largest] += members[other]
        of_group[largest] += of_group[other]
        members[other], of_group[other] = [], []


def _touching(across: list[Rule], down: list[Rule]) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Return the number of each vertical rule that horizontal ones touch, and their numbers."""
    places = [place for place, _, _ in across]
    starts = sorted(((start - NEAR, number) for number, (_, start, _) in enumerate(across)), reverse=True)
    ends = sorted(((end + NEAR, number) for number, (_, _, end) in enumerate(across)), reverse=True)
    # numbers of those that reach the place of the vertical one
    reaching: list[int] = []
    for number, (place, start, end) in enumerate(down):
        while starts and starts[-1][0] <= place:
            insort(reaching, starts.pop()[1])
        while ends and ends[-1][0] < place:
            del reaching[bisect_left(reaching, ends.pop()[1])]
        first = bisect_left(reaching, bisect_left(places, start - NEAR))
        touching = reaching[first : bisect_left(reaching, bisect_right(places, end + NEAR), first)]
        if touching:
            yield number, tuple(touching)


def _grid(across: list[Rule], down: list[Rule]) -> Grid | None:
    xs, ys = sorted({place for place, _, _ in down}), sorted({place for place, _, _ in across})
    height, width = len(ys) - 1, len(xs) - 1
    if min(height, width) < _MIN_RULES - 1 or height * width > _MAX_CELLS:
        return None
    cells = list(product(range(height), range(width)))
    # most grids have no merged cells, and their rules no gaps
    if _all_span(across, xs) and _all_span(down, ys):
        return Grid(xs, ys, dict(zip(product(range(height, 0, -1), range(1, width + 1)), cells, strict=True)))
    rows, columns = _by_place(across), _by_place(down)
    tops = [_ruled(rows[y], xs) for y in reversed(ys)]
    sides = [_ruled(columns[x], ys)[::-1] for x in xs]
    if not all(tops[0] + tops[-1] + sides[0] + sides[-1]):
        return None
    whole: dict[Cell, Cell] = {}
    for row, at in cells:
        above = whole[row - 1, at] if not tops[row][at] else None
        beside = whole[row, at - 1] if not sides[at][row] else None
        if above and beside and above != beside:
            return None
        whole[row, at] = above or beside or (row, at)
    return Grid(xs, ys, {(height - row, column + 1): cell for (row, column), cell in whole.items()})


def _all_span(rules: Iterable[Rule], places: Sequence[float]) -> bool:
    """Return whether each rule reaches from the first place to the last."""
    first, last = places[0] + NEAR, places[-1] - NEAR
    return all(start <= first and end >= last for _, start, end in rules)


def _by_place(rules: Iterable[Rule]) -> dict[float, list[Rule]]:
    places: dict[float, list[Rule]] = defaultdict(list)
    for rule in rules:
        places[rule[0]].append(rule)
    return places


def _ruled(rules: Iterable[Rule], places: Sequence[float]) -> list[bool]:
    """Return whether there is a rule between each place and the next."""
    if _is_ruled(rules, places[0], places[-1]):
        return [True] * (len(places) - 1)
    return [_is_ruled(rules, start, end) for start, end in pairwise(places)]


def _is_ruled(rules: Iterable[Rule], start: float, end: float) -> bool:
    start, end = start + NEAR, end - NEAR
    return any(rule_start <= start and rule_end >= end for _, rule_start, rule_end in rules)
