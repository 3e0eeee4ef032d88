"""Extracts the text of Office Open XML charts and diagrams (ECMA-376, part 1, 21.2 and 21.4) from their parts.

Newer chart types (waterfalls, funnels, trees) have their own XML ([MS-ODRAWXML], 2.24.3). Formulas follow part 1, 22.1.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any
from xml.etree.ElementTree import Element

from defusedxml.ElementTree import fromstring

from worker.parse.limits import Limits
from worker.parse.text.markdown_blocks import item, named, table

_MAIN = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
_CHART = "{http://schemas.openxmlformats.org/drawingml/2006/chart}"
_CHART_EX = "{http://schemas.microsoft.com/office/drawing/2014/chartex}"
_MATH = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"
_DIAGRAM = "{http://schemas.openxmlformats.org/drawingml/2006/diagram}"

#: Elements that refer to a chart by `r:id` or to a diagram by `r:dm`, and the attributes.
CHART = f"{_CHART}chart"
CHART_EX = f"{_CHART_EX}chart"
DIAGRAM = f"{_DIAGRAM}relIds"
_RELATIONS = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
REFERENCES = {CHART: f"{_RELATIONS}id", CHART_EX: f"{_RELATIONS}id", DIAGRAM: f"{_RELATIONS}dm"}

#: Charts with more points are left without a table, as nobody reads them point by point.
_MAX_POINTS = 200
#: Maximum levels of nested points in a diagram.
_MAX_DEPTH = 50
_CONTENT = (None, "node", "asst")
#: Descriptions of pictures that programs generate: the name of the file, or a remark after their own guess.
_FILE_ENDS = (".png", ".jpg", ".jpeg", ".gif", ".bmp", ".tif", ".tiff", ".emf", ".wmf", ".svg")
_MADE = re.compile(r"\s*(?:Description automatically generated|AI-generated content may be incorrect\.?).*$")
#: Operators between the parts of a formula.
_SIGNS = {f"{_MATH}{name}": sign for name, sign in (("den", "/"), ("sup", "^"), ("sub", "_"))}


def read(tag: str, part: bytes, limits: Limits) -> Iterator[str]:
    """Blocks of the part that an element with this tag refers to."""
    yield from diagram(part) if tag == DIAGRAM else chart(part, limits)


def chart(part: bytes, limits: Limits, *, values: bool = True) -> Iterator[str]:
    """Blocks of a chart: titles and series names. With `values`, a table of all its points if they are few."""
    root = fromstring(part)
    if root.tag.startswith(_CHART_EX):
        yield from _chart_ex(root, limits, values=values)
        return
    titles = [written(title) for title in root.iter(f"{_CHART}title")]
    series = list(root.iter(f"{_CHART}ser"))
    names = [" ".join(_points(entry, "tx").values()) for entry in series]
    yield named("Chart", "; ".join(filter(None, titles)))
    if values and 0 < sum(1 for _ in root.iter(f"{_CHART}pt")) <= _MAX_POINTS:
        yield table(_rows(series, names), limits)
    else:
        yield named("Series", ", ".join(filter(None, names)))


def _chart_ex(root: Element, limits: Limits, *, values: bool) -> Iterator[str]:
    titles = [written(title) for title in root.iter(f"{_CHART_EX}title")]
    yield named("Chart", "; ".join(filter(None, titles)))
    names = [series.findtext(f".//{_CHART_EX}v", "") for series in root.iter(f"{_CHART_EX}series")]
    yield named("Series", ", ".join(filter(None, names)))
    if values and sum(1 for _ in root.iter(f"{_CHART_EX}pt")) <= _MAX_POINTS:
        for data in root.iter(f"{_CHART_EX}data"):
            yield table(_rows_ex(data), limits)


def _rows_ex(data: Element) -> Iterator[list[str]]:
    """Yield a row for each point: its names, the outermost first, then its values."""
    levels = [*data.iterfind(f"{_CHART_EX}strDim/{_CHART_EX}lvl")][::-1]
    levels += data.iterfind(f"{_CHART_EX}numDim/{_CHART_EX}lvl")
    columns = [{_number(point.get("idx")): _shown((point.text or "").strip()) for point in level} for level in levels]
    for index in sorted(set(chain.from_iterable(columns))):
        yield [column.get(index, "") for column in columns]


def formula(element: Element) -> str:
    """Return a formula on one line."""
    parts = [element.text or ""] if element.tag == f"{_MATH}t" else []
    for child in element:
        text = formula(child)
        parts.append(_SIGNS.get(child.tag, "") + text if text else "")
    return "".join(parts)


def diagram(part: bytes) -> Iterator[str]:
    """Blocks of a diagram: a list of its points, with children indented."""
    root = fromstring(part)
    points = {point.get("modelId"): point for point in root.iter(f"{_DIAGRAM}pt")}
    below: dict[str | None, list[tuple[int, str | None]]] = {}
    for link in root.iter(f"{_DIAGRAM}cxn"):
        if link.get("type", "parOf") == "parOf":
            below.setdefault(link.get("srcId"), []).append((_number(link.get("srcOrd")), link.get("destId")))
    roots = [name for name, point in points.items() if point.get("type") == "doc"]
    pending = [(name, 0) for name in reversed(roots)]
    while pending:
        name, depth = pending.pop()
        # each once, as a damaged diagram may contain cycles
        point = points.pop(name, None)
        if point is None or depth > _MAX_DEPTH:
            continue
        if point.get("type") in _CONTENT:
            yield item(depth - 1, written(point))
        children = sorted(below.get(name, ()), key=lambda link: link[0], reverse=True)
        pending += [(child, depth + 1) for _, child in children]


def described(properties: Any) -> str:
    """Return the alternative text of a picture; "" for one that a program generated from its name."""
    text = " ".join((properties.get("descr") or properties.get("title") or "").split())
    is_file = text.lower().endswith(_FILE_ENDS) and (" " not in text or "\\" in text or "/" in text)
    return "" if is_file else _MADE.sub("", text)


def written(element: Element) -> str:
    """Return the text of a drawing's element, with its paragraphs separated by blanks."""
    return " ".join("".join(text.text or "" for text in p.iter(f"{_MAIN}t")) for p in element.iter(f"{_MAIN}p"))


def _rows(series: list[Element], names: list[str]) -> Iterator[list[str]]:
    """Yield a row for each category or x value, a column for each series."""
    categories = [_points(entry, "cat", "xVal") for entry in series]
    values = [_points(entry, "val", "yVal") for entry in series]
    yield ["", *names]
    category_texts: dict[int, str] = {}
    for entry in categories:
        category_texts = {**entry, **category_texts}
    for index in sorted({*category_texts, *chain.from_iterable(values)}):
        yield [category_texts.get(index, ""), *(column.get(index, "") for column in values)]


def _points(series: Element, *tags: str) -> dict[int, str]:
    """Return the texts of a series by point number. Texts of several levels are joined, the outermost first."""
    texts: dict[int, str] = {}
    for point in chain.from_iterable(_named(series, tag) for tag in tags):
        index, value = _number(point.get("idx")), _shown(point.findtext(f"{_CHART}v", "").strip())
        texts[index] = f"{value} {texts[index]}" if index in texts else value
    return texts


def _named(series: Element, tag: str) -> Iterable[Element]:
    holder = series.find(f"{_CHART}{tag}")
    if holder is None:
        return ()
    # a name may be given directly, without a reference to cells
    return holder.iter(f"{_CHART}pt") if holder.find(f"{_CHART}v") is None else (holder,)


def _shown(value: str) -> str:
    """Format numbers without binary rounding artefacts."""
    try:
        return f"{float(value):.15g}" if "." in value else value
    except ValueError:
        return value


def _number(text: str | None) -> int:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 10 else 0  # noqa: PLR2004 - 32 bits
