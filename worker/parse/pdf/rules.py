"""Finds the rules of a PDF page: drawn lines that are horizontal or vertical."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from operator import itemgetter

import pypdfium2
from pypdfium2 import raw

from worker.parse.pdf.paths import CountedPath, PagePaths, Point

#: Maximum objects and rules. More are a drawing.
_MAX_OBJECTS, _MAX_RULES = 10_000, 2_000
#: Maximum thickness of a rule and minimum length, in points.
_MAX_THICKNESS, _MIN_LENGTH = 3.0, 6.0
#: Corners of a frame, of which the first is also the last.
_MIN_POINTS_OF_FRAME = 5
#: Places closer than this are one, in points.
NEAR = 2.5

#: A line at a place across its direction, from its start to its end along it.
Rule = tuple[float, float, float]


class _Found:
    """Rules as drawn."""

    def __init__(self) -> None:
        self.across: list[Rule] = []
        self.down: list[Rule] = []

    def add(self, left: float, bottom: float, right: float, top: float) -> None:
        """Add a line with these bounds if it is a rule."""
        height, width = top - bottom, right - left
        if height <= _MAX_THICKNESS and width >= _MIN_LENGTH:
            self.across.append(((top + bottom) / 2, left, right))
        elif width <= _MAX_THICKNESS and height >= _MIN_LENGTH:
            self.down.append(((left + right) / 2, bottom, top))

    def add_figure(self, points: list[Point], *, is_stroked: bool) -> None:
        """Add a thin figure, or each side of one that is drawn."""
        is_frame = _is_frame(points)
        # two corners define a frame
        across, down = zip(*(points[0:3:2] if is_frame else points), strict=True)
        left, bottom, right, top = min(across), min(down), max(across), max(down)
        if right - left <= _MAX_THICKNESS or top - bottom <= _MAX_THICKNESS:
            self.add(left, bottom, right, top)
        elif is_stroked and is_frame:
            self._add_frame(left, bottom, right, top)
        elif is_stroked:
            for (x, y), (next_x, next_y) in pairwise(points):
                self.add(min(x, next_x), min(y, next_y), max(x, next_x), max(y, next_y))

    def _add_frame(self, left: float, bottom: float, right: float, top: float) -> None:
        if right - left >= _MIN_LENGTH:
            self.across += [(bottom, left, right), (top, left, right)]
        if top - bottom >= _MIN_LENGTH:
            self.down += [(left, bottom, top), (right, bottom, top)]


def _is_frame(points: list[Point]) -> bool:
    """Return whether these are the corners of an upright rectangle, with the first one repeated at the end."""
    first = points[0]
    if len(points) < _MIN_POINTS_OF_FRAME or points[4] != first or points[5:].count(first) < len(points[5:]):
        return False
    (x, y), (second_x, second_y), third, fourth = points[:4]
    if y == second_y:
        return third == (second_x, fourth[1]) and fourth[0] == x
    return x == second_x and third == (fourth[0], second_y) and fourth[1] == y


def rules(page: pypdfium2.PdfPage, paths: PagePaths) -> tuple[list[Rule], list[Rule]]:
    """Horizontal and vertical rules by their places; none if there are too many, or if the page is turned."""
    count = raw.FPDFPage_CountObjects(page)
    if count > _MAX_OBJECTS or raw.FPDFPage_GetRotation(page):
        return [], []
    found = _Found()
    for block in paths.blocks(page, count):
        thick: list[tuple[CountedPath, float]] = []
        for path, (left, bottom, right, top) in block:
            width, height = right - left, top - bottom
            if width <= _MAX_THICKNESS or height <= _MAX_THICKNESS:
                found.add(left, bottom, right, top)
            else:
                thick.append((path, min(width, height)))
        for points, is_stroked in paths.figures(thick, _MAX_THICKNESS) if thick else ():
            found.add_figure(points, is_stroked=is_stroked)
        if len(found.across) + len(found.down) > _MAX_RULES:
            return [], []
    return _merged(found.across), _merged(found.down)


def _merged(rules: Iterable[Rule]) -> list[Rule]:
    """Rules at one place that touch, as one. Programs draw a rule for each side of each cell."""
    merged: list[Rule] = []
    at_place: list[Rule] = []
    # adjacent cells have a side in common
    for rule in sorted(set(rules)):
        if at_place and rule[0] - at_place[0][0] > NEAR:
            merged += _touching(at_place)
            at_place = []
        at_place.append(rule)
    return merged + _touching(at_place)


def _touching(rules: list[Rule]) -> list[Rule]:
    if len(rules) <= 1:
        return rules
    place, joined = rules[0][0], list[Rule]()
    (_, first, last), *others = sorted(rules, key=itemgetter(1))
    for _, start, end in others:
        if start <= last + NEAR:
            last = max(end, last)
        else:
            joined.append((place, first, last))
            first, last = start, end
    joined.append((place, first, last))
    return joined
