"""Converts HTML to Markdown: the main text with headings, lists, tables and code, without navigation and scripts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from schemas.content.document import Document, DocumentProperties
from schemas.content.stated import named_values
from schemas.errors import FileError
from schemas.reason import Reason
from worker.parse.encodings import decode
from worker.parse.limits import Limits
from worker.parse.properties import MAX_TITLE_CHARS, properties_of
from worker.parse.text import ruby
from worker.parse.text.markdown import fenced

#: Elements that never hold text.
_NO_TEXT = "script, style, template, head, rp"
#: Elements that are not text of the page, or that every page of a site repeats. Also heading anchors and line numbers,
#: as documentation generators write them, and pictures of formulas that are present as formulas, too.
_DROPPED = (
    f"{_NO_TEXT}, noscript, nav, svg, iframe, object, canvas, audio, video, select, button, textarea, body > footer, "
    '[hidden]:not([hidden="until-found"]), [aria-hidden="true"], [role="navigation"], [role="contentinfo"], '
    '[role="dialog"], [role="alertdialog"], dialog:not([open]), '
    "a.headerlink, a.header-anchor, a.hash-link, a.anchor-link, td.linenos, td.gutter, [class*=mwe-math-fallback]"
)
#: Tables declared to be layout, and cell contents that mark any other table as layout.
_LAYOUT = 'table[role="presentation"], table[role="none"]'
_LAYOUT_CONTENT = "table table, td h1, td h2, td h3, td h4, td h5, td h6, td pre"
#: Possible word breaks that are not used. Scripts without blanks have zero-width spaces between words.
_BREAKS = re.compile("\xad|(?<=[!-\u024f])\u200b(?=[!-\u024f])")
_WIDE = ", ".join(f"{cell}[{side}span]" for cell in ("td", "th") for side in ("col", "row"))
#: Maximum columns or rows that a cell spans.
_MAX_SPAN = 64
#: Names of metadata elements in the head of a page, by property.
_META = {
    "author": "author",
    "description": "description",
    "keywords": "keywords",
    "date": "created",
    "article:published_time": "created",
    "article:modified_time": "modified",
}
_MAIN = "main, [role=main]"
#: Elements with the source or the licence of the main text, not of the site.
_KEPT = 'main [role="contentinfo"], [role=main] [role="contentinfo"]'

_HEADINGS = {f"h{level}": "#" * level for level in range(1, 7)}
_INLINE_TAGS = (
    "a abbr acronym b bdi bdo big cite code data del dfn em font i ins kbd label mark output q rp rb rt rtc ruby s "
    "samp small span strike strong sub sup time tt u var wbr img br slot picture"
)
_INLINE = frozenset(_INLINE_TAGS.split())

#: Text written where an inline element begins, and where it ends.
_AROUND = {
    "code": ("`", "`"),
    "ruby": (ruby.BEGIN, ruby.END),
    "rt": (ruby.READING, ruby.READ),
}

#: Blocks that follow the previous one without an empty line.
_TIGHT = frozenset(("li", "dt", "dd", "tr", "thead", "tbody", "tfoot"))

#: Numbers with this many digits or more are ignored.
_MAX_DIGITS = 6
#: Levels of nested lists that are indented: indents of thousands of levels would outgrow the text.
_MAX_LIST_LEVELS = 8

#: Line beginnings that would start a heading or a fence if not escaped.
_MARKS = re.compile(r"#{1,6}(?:\s|$)|`{3}|~{3}|(?:=+|-+)\s*$|\+{3}$")
_LANGUAGE = re.compile(r"(?:language|lang|highlight-source)-([\w+#-]{1,20})")

_XHTML = re.compile(r"\s*(?:<\?xml|[^>]{0,1000}<html[^>]*xmlns)")
_VOID = "area|base|br|col|embed|hr|img|input|link|meta|param|source|track|wbr"
#: Void elements, and those whose end tag may be omitted: they never nest, however many there are.
_NOT_NESTED = frozenset(
    f"{_VOID}|p|li|dt|dd|tr|td|th|thead|tbody|tfoot|caption|colgroup|option|optgroup|rb|rt|rtc|rp".split("|")
)
_TAG = re.compile(r"<(/?)([A-Za-z][^\s/<>]*)(?:[\s/][^<>]*)?>")
#: Maximum depth of nested elements. The parser's time grows with the square of the depth: 0.5 s at this depth.
_MAX_ELEMENT_DEPTH = 20_000
_CLOSED = re.compile(rf"<(?!(?:{_VOID})\b)([A-Za-z][\w:-]*)((?:\s[^<>]*)?)/>")


def read(data: bytes, _limits: Limits) -> Document:
    """Return the document of a page, as Markdown. Character offsets count in the text built here, not in the file."""
    tree = _tree(decode(data))
    stated = [*_stated(tree)]
    properties = _properties(tree, stated)
    title = properties.title or _heading(tree)
    metadata = named_values(stated)
    return Document(_rendered(tree), "html", None, title, "markdown", properties=properties, metadata=metadata)


def to_markdown(markup: str) -> str:
    """Return the main text of a page as Markdown.

    Accepts any HTML, as browsers do, and XHTML, whose empty elements HTML does not know. Raises `FileError`
    (`parse_failed`) for a page nested far deeper than real ones.
    """
    return _rendered(_tree(markup))


def _tree(markup: str) -> Any:
    from selectolax.lexbor import LexborHTMLParser

    if _XHTML.match(markup):
        markup = _CLOSED.sub(r"<\1\2></\1>", markup)
    _check_depth(markup)
    return LexborHTMLParser(markup.encode("utf-8", "replace"))


def _stated(tree: Any) -> Iterator[tuple[str, str]]:
    """Yield the metadata in the head of a page: names in lower case, each with its text."""
    for node in tree.css("head > meta[content]"):
        attributes = node.attributes
        name = attributes.get("name") or attributes.get("property")
        if name:
            yield name.lower(), attributes["content"] or ""


def _properties(tree: Any, stated: Iterable[tuple[str, str]]) -> DocumentProperties:
    # an inline SVG may have a title as well
    texts = {"title": next((node.text() for node in tree.css("head > title")), "")}
    for name, text in stated:
        if name in _META:
            texts.setdefault(_META[name], text)
    return properties_of(**texts)


def _heading(tree: Any) -> str | None:
    """Return the first top-level heading with text."""
    headings = (" ".join(_without_readings(node).split()) for node in tree.css("h1"))
    return next(filter(None, headings), "")[:MAX_TITLE_CHARS] or None


def _without_readings(node: Any) -> str:
    if node.css_first("rt, rp") is None:
        return str(node.text())
    texts = (each for each in node.traverse(include_text=True) if each.tag == "-text")
    return "".join(each.text_content for each in texts if each.parent.tag not in ("rt", "rp"))


def _check_depth(markup: str) -> None:
    if markup.count("<") <= _MAX_ELEMENT_DEPTH:
        return
    depth = 0
    for tag in _TAG.finditer(markup):
        if tag[2].lower() in _NOT_NESTED or markup[tag.end() - 2] == "/":
            continue
        depth = max(0, depth - 1) if tag[1] else depth + 1
        if depth > _MAX_ELEMENT_DEPTH:
            message = (
                f"More than {_MAX_ELEMENT_DEPTH:,} elements are nested in each other; flatten or convert the page."
            )
            raise FileError(Reason.PARSE_FAILED, message)


class _NodeIds(NamedTuple):
    """Ids of dropped nodes and of layout tables; the columns and rows of cells that span several."""

    dropped: set[int]
    layout: set[int]
    wide: dict[int, tuple[int, int]]


def _rendered(tree: Any) -> str:
    """Return the page's main part; the whole page if no part is marked as main or the main part has no text."""
    body = tree.body or tree.root
    if body is None:
        return ""
    dropped = {node.mem_id for node in tree.css(_DROPPED)} - {node.mem_id for node in tree.css(_KEPT)}
    ids = _NodeIds(dropped, _layout(tree), _wide(tree))
    text = "\n\n".join(filter(None, (_markdown(part, ids) for part in _outermost(tree.css(_MAIN)))))
    text = text or _markdown(body, ids)
    text = text or _markdown(body, ids._replace(dropped={node.mem_id for node in tree.css(_NO_TEXT)}))
    return _BREAKS.sub("", text)


def _outermost(nodes: list[Any]) -> list[Any]:
    """Return the first node that marks the main text, with its siblings of the same tag."""
    return [node for node in nodes if node.parent == nodes[0].parent and node.tag == nodes[0].tag]


def _layout(tree: Any) -> set[int]:
    """Return the layout tables, whose rows are not records."""
    tables = {table.mem_id for table in tree.css(_LAYOUT)}
    for node in tree.css(_LAYOUT_CONTENT):
        # a record may contain one line of code
        if (node.tag != "pre" or "\n" in node.text().strip()) and (table := _table_around(node)):
            tables.add(table)
    return tables


def _wide(tree: Any) -> dict[int, tuple[int, int]]:
    """Columns and rows of the cells that declare a span."""
    return {cell.mem_id: (_span(cell, "colspan"), _span(cell, "rowspan")) for cell in tree.css(_WIDE)}


def _table_around(table: Any) -> int | None:
    """Return the table whose cells contain this node."""
    node = table.parent
    for _ in range(50):
        if node is None:
            return None
        if node.tag == "table":
            return int(node.mem_id)
        node = node.parent
    return None


def _markdown(root: Any, ids: _NodeIds) -> str:
    """Walk the tree without recursion, as pages may be nested to any depth."""
    page = _MarkdownDraft()
    pending: list[Any] = [root]
    while pending:
        node = pending.pop()
        if isinstance(node, str):
            page.close(node)
            continue
        tag = node.tag
        if tag == "-text":
            page.write(node.text_content or "")
        elif tag is None or tag.startswith("-") or node.mem_id in ids.dropped:
            continue
        elif tag == "pre":
            page.code(node)
        elif tag in ("img", "br"):
            page.empty(node)
        elif tag == "math":
            page.write(_formula(node))
        else:
            name = "div" if tag in ("table", "tr", "td", "th") and _is_layout(node, ids.layout) else tag
            if ids.wide and name in ("td", "th"):
                page.spans = ids.wide.get(node.mem_id, (1, 1))
            page.open(name)
            pending.append(name)
            pending += reversed(list(node.iter(include_text=True)))
    page.close("body")
    return "".join(page.parts).strip()


def _formula(node: Any) -> str:
    """Return a formula as its author typed it, if the page includes that."""
    typed = node.css_first('annotation[encoding="application/x-tex"]')
    return f" {node.attributes.get('alttext') or (node if typed is None else typed).text()} "


def _span(cell: Any, attribute: str) -> int:
    value = cell.attributes.get(attribute) or ""
    return max(1, min(int(value), _MAX_SPAN)) if value.isascii() and value.isdigit() and len(value) < _MAX_DIGITS else 1


def _is_layout(node: Any, layout: set[int]) -> bool:
    if not layout:
        return False
    table = node.mem_id if node.tag == "table" else _table_around(node)
    return table in layout


class _MarkdownDraft:
    """Markdown in progress. `lines` hold running text until its block ends."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.lines: list[list[str]] = [[]]
        self.gap = 2
        self.lists: list[int | None] = []
        self.marker = ""
        self.heading = ""
        self.cells: list[str] | None = None
        self.rows = 0
        #: Columns and rows that the open cell spans, and, by column, the rows still covered by cells above.
        self.spans = (1, 1)
        self.below: dict[int, int] = {}
        #: Empty cells pending at the end of the current row.
        self.behind = 0

    def write(self, text: str) -> None:
        self.lines[-1].append(text)

    def empty(self, node: Any) -> None:
        if node.tag == "br":
            self.lines.append([])
        else:
            self.write(f" {node.attributes.get('alt') or ''} ")

    def code(self, node: Any) -> None:
        text = node.text(deep=True).strip("\n")
        if self.cells is not None or not text.strip():
            self.write(f" {text} ")
            return
        self.flush()
        named = _LANGUAGE.search(" ".join(filter(None, _classes(node))))
        self.emit(fenced(text, named[1] if named else ""), 2)
        self.gap = 2

    def open(self, tag: str) -> None:
        if tag in _INLINE:
            if tag in _AROUND:
                self.write(_AROUND[tag][0])
            return
        if self.cells is not None and tag not in ("tr", "table"):
            self.write(" ")
            return
        self.flush()
        self.gap = max(self.gap, 1 if tag in _TIGHT or (self.lists and tag in ("ul", "ol", "p")) else 2)
        if tag in ("ul", "ol"):
            self.lists.append(0 if tag == "ol" else None)
        elif tag == "li":
            self.marker = self._next_marker()
        elif tag in _HEADINGS:
            self.heading = _HEADINGS[tag] + " "
        elif tag == "table":
            self.rows = 0
            self.below = {}
        elif tag == "tr":
            self.cells = []
            self.behind = 0

    def close(self, tag: str) -> None:
        if tag in _INLINE:
            if tag in _AROUND:
                self.write(_AROUND[tag][1])
        elif tag in ("td", "th") and self.cells is not None:
            self.cell(self.taken(" ").replace("|", "\\|"))
        elif tag == "tr":
            self.row()
        elif self.cells is not None:
            self.write(" ")
        else:
            self.flush()
            self.heading = ""
            self.gap = max(self.gap, 1 if tag in _TIGHT else 2)
            if tag in ("ul", "ol") and self.lists:
                self.lists.pop()
                self.gap = 1 if self.lists else 2

    def cell(self, text: str) -> None:
        """Add a cell after the columns covered from above. The other columns that it spans stay empty."""
        assert self.cells is not None  # noqa: S101 - the caller has checked
        if self.behind:
            self.cells += [""] * self.behind
        while self.below and len(self.cells) in self.below:
            self.cells.append("")
        (columns, rows), self.spans = self.spans, (1, 1)
        if rows > 1:
            # includes this row, at whose end it is counted down
            self.below |= dict.fromkeys(range(len(self.cells), len(self.cells) + columns), rows)
        self.cells.append(text)
        self.behind = columns - 1

    def row(self) -> None:
        """Emit the collected cells, with the separator line of a Markdown table after the first row."""
        cells, self.cells = self.cells, None
        if self.below:
            self.below = {column: rows_left - 1 for column, rows_left in self.below.items() if rows_left > 1}
        if not cells or not any(cells):
            return
        self.emit(f"| {' | '.join(cells)} |", 1)
        if not self.rows:
            self.emit("|" + " --- |" * len(cells), 1)
        self.rows += 1
        self.gap = 1

    def taken(self, joint: str) -> str:
        """Take the running text so far, with white space collapsed."""
        lines = [ruby.behind_words(" ".join("".join(line).split())) for line in self.lines]
        self.lines = [[]]
        return joint.join(filter(None, lines))

    def flush(self) -> None:
        text = self.taken(" " if self.heading else "\n")
        if not text:
            return
        if self.heading:
            self.emit(self.heading + text, 2)
        else:
            self.emit("\n".join("\\" + line if _MARKS.match(line) else line for line in text.split("\n")), 1)
        self.gap = 1

    def emit(self, text: str, gap: int) -> None:
        """Add a block after at least `gap` line breaks, indented to its list level."""
        indent = "  " * min(len(self.lists), _MAX_LIST_LEVELS)
        lead, self.marker = self.marker or indent, ""
        if self.parts:
            self.parts.append("\n" * max(gap, self.gap))
        self.parts.append(lead + text.replace("\n", "\n" + indent) if self.lists else text)
        self.gap = 0

    def _next_marker(self) -> str:
        indent = "  " * (min(len(self.lists), _MAX_LIST_LEVELS) - 1)
        count = self.lists[-1] if self.lists else None
        if count is None:
            return f"{indent}- "
        self.lists[-1] = count + 1
        return f"{indent}{count + 1}. "


def _classes(node: Any) -> Iterator[str | None]:
    """Yield the classes of preformatted text, and of a code element directly inside."""
    yield node.attributes.get("class")
    child = node.child
    if child is not None and child.tag == "code":
        yield child.attributes.get("class")
