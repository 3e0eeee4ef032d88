"""Prints the hits of a grep as ripgrep does: as lines with their context, as parts, as counts, or as names of files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Literal

import click

from api.cli.terminal.output import clean, path_in, place

if TYPE_CHECKING:
    from foldex_client import Tool
    from foldex_client.models import GrepHit

#: What is printed of a file.
Shape = Literal["lines", "parts", "counts", "part_counts", "files"]
#: Between lines that do not follow each other.
SEPARATOR = "--"


def shape_of(listed: str | None, *, only_matching: bool) -> Shape:
    """The combined shape that `-l` ("files"), `-c` ("counts") and `-o` ask for."""
    if listed == "files":
        return "files"
    if listed == "counts":
        return "part_counts" if only_matching else "counts"
    return "parts" if only_matching else "lines"


class MatchPrinter:
    """Prints the hits of one search, which may be over several tools. With context, `--` is between groups of lines."""

    def __init__(self, shape: Shape, *, has_context: bool) -> None:
        self._shape, self._has_context = shape, has_context
        self._is_first = True

    def print(self, tool: Tool, hits: Iterable[GrepHit]) -> None:
        """Print the hits of a tool, which are sorted by file and line."""
        for _, of_file in groupby(hits, lambda hit: (hit.file_path, hit.file_id_path)):
            found = list(of_file)
            path = path_in(tool, found[0].file_path)
            if self._shape == "lines":
                self._print_groups(path, found)
            elif self._shape == "parts":
                for hit in found:
                    _print_parts(path, hit)
            elif self._shape == "files":
                click.echo(place(path, None))
            else:
                parts = self._shape == "part_counts"
                count = sum(len(hit.spans or ()) or 1 for hit in found) if parts else len(found)
                click.echo(f"{place(path, None)}:{count}")

    def _print_groups(self, path: str, hits: Sequence[GrepHit]) -> None:
        ends = {hit.line + len(hit.rest or ()): hit.end_line for hit in hits if hit.end_line}
        last = None
        for number, line in sorted(_lines(path, hits).items()):
            if self._has_context and not self._is_first and (last is None or number > last + 1):
                click.echo(click.style(SEPARATOR, fg="cyan"))
            click.echo(line)
            last, self._is_first = ends.get(number, number), False


def _lines(path: str, hits: Iterable[GrepHit]) -> dict[int, str]:
    """The lines of hits and those around them, each once."""
    around, matched = dict[int, str](), dict[int, str]()
    for hit in hits:
        for number, text in _around(hit):
            around.setdefault(number, f"{place(path, number, '-')}-{clean(text)}")
        matched[hit.line] = f"{place(path, hit.line)}:{_coloured(hit)}"
        last = hit.line
        for last, text in enumerate(hit.rest or (), hit.line + 1):
            matched.setdefault(last, f"{place(path, last)}:{clean(text)}")
        if hit.end_line and last < hit.end_line:
            matched[last] += click.style(f" … to line {hit.end_line}", dim=True)
    return around | matched


def _around(hit: GrepHit) -> Iterator[tuple[int, str]]:
    yield from enumerate(hit.before, hit.line - len(hit.before))
    yield from enumerate(hit.after, (hit.end_line or hit.line) + 1)


def _print_parts(path: str, hit: GrepHit) -> None:
    # a line that matches only as it is read has no part that matches
    for text in [hit.preview[span.start : span.end] for span in hit.spans or ()] or [hit.preview]:
        click.echo(f"{place(path, hit.line)}:{_match(text)}")


def _coloured(hit: GrepHit) -> str:
    """The line of a hit, with its matches in colour."""
    pieces, last = [], 0
    for span in hit.spans or ():
        pieces += [clean(hit.preview[last : span.start]), _match(hit.preview[span.start : span.end])]
        last = span.end
    return "".join([*pieces, clean(hit.preview[last:])])


def _match(text: str) -> str:
    return click.style(clean(text), fg="red", bold=True) if text else ""
