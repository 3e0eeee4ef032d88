"""The tools that search: by meaning and words, by pattern, and files by their paths."""

from __future__ import annotations

import posixpath
from collections.abc import AsyncIterator, Iterator
from itertools import groupby
from typing import Any, Literal

from pydantic import BaseModel, Field

from api.agents.access import Access, Refused, name_of
from api.agents.fitting import Entry, counted, shortened
from api.agents.folders import Place
from api.agents.tool import (
    AgentTool,
    Bounded,
    Listed,
    Progress,
    Reply,
    Told,
    common_data,
    details,
    footer,
    status_of,
    told,
)
from foldex_client.errors import FilterMatchesNothing
from foldex_client.models import Answer, File, Filters, GrepAnswer, GrepHit, TreeHit

#: Files that an error about a path names.
SIMILAR_FILES = 5
#: Fields of a hit that the answer shows.
SHOWN_FIELDS = (
    *("file_path", "start_line", "end_line", "chunk_text", "score"),
    *("symbol", "title", "json_pointer", "page", "stale"),
)


class Search(Bounded):
    """Arguments of `search`."""

    query: str = Field(
        min_length=1,
        max_length=10_000,
        description="A question or the words you look for; a name finds its definition.",
    )
    path: str | None = Field(
        default=None, max_length=1024, description="Only files that match, such as `src/**/*.py` or `!tests/**`."
    )
    types: list[str] | None = Field(default=None, description="Only these types, such as python or markdown.")
    top_k: int = Field(default=8, ge=1, le=100, description="Most hits.")
    mode: Literal["hybrid", "vector", "keyword"] = Field(
        default="hybrid", description="vector: by meaning; keyword: by words."
    )
    fresh: bool = Field(default=False, description="Index what changed in the folder first; takes seconds.")
    tree: Literal["off", "collapsed", "tree_traversal"] = Field(
        default="off", description="Search summaries too, if index_status shows a tree: for broad questions."
    )
    max_tokens: int = Field(default=3000, ge=300, le=50_000, description="Most tokens of the answer.")


class FoundText(BaseModel):
    """A part of a file."""

    file: str
    first_line: int
    last_line: int
    text: str
    score: float
    title: str | None = None


class Summary(BaseModel):
    """A summary over several files."""

    text: str
    files: list[str]


class SearchAnswer(Listed):
    """What `search` gives."""

    hits: list[FoundText]
    summaries: list[Summary] | None = None


async def search(access: Access, asked: Search, _: Progress) -> Reply:
    """Ask one folder."""
    place = await access.place(asked.folder)
    filters: Filters = {}
    if pattern := place.pattern(asked.path):
        filters["path"] = pattern
    if asked.types:
        filters["types"] = asked.types
    try:
        answer = await access.foldex.tools.search(
            place.tool,
            asked.query,
            top_k=asked.top_k,
            mode=asked.mode,
            filters=filters,
            refresh="wait" if asked.fresh else None,
            tree=None if asked.tree == "off" else asked.tree,
            fields=SHOWN_FIELDS,
        )
    except FilterMatchesNothing as error:
        return await _no_files(access, place, error.detail, SearchAnswer, "hits")
    return _searched(place, asked, answer)


def _searched(place: Place, asked: Search, answer: Answer) -> Reply:
    notes = details(answer.notes)
    summaries = [Summary(text=each.text, files=each.file_paths) for each in answer.summaries]
    entries = [
        *(Entry("a summary", f"Summary of {', '.join(each.files)}:", {}, each.text) for each in summaries),
        *map(_hit, answer.results),
    ]
    text, fit = told(
        entries,
        footer(place, answer.coverage, notes),
        asked.max_tokens,
        remedy="Narrow with `path`, lower `top_k`, or raise `max_tokens`.",
        nothing="Nothing found. Try other words, mode=keyword for exact names, or grep.",
    )
    shown_summaries = summaries[: len(fit.items)]
    return Reply(
        text,
        SearchAnswer(
            **common_data(place, answer.coverage, notes, cut=fit.is_cut),
            hits=[FoundText(**item) for item in fit.items[len(summaries) :]],
            summaries=shown_summaries or None,
        ),
    )


def _hit(hit: TreeHit) -> Entry:
    place = f"{hit.file_path}:{hit.start_line}-{hit.end_line}"
    title = hit.symbol or hit.title or hit.json_pointer or None
    more = [title or "", f"page {hit.page}" if hit.page else "", "old text, its update failed" if hit.stale else ""]
    head = "  ".join([place, f"{hit.score:.2f}", *filter(None, more)])
    data = {
        "file": hit.file_path,
        "first_line": hit.start_line,
        "last_line": hit.end_line,
        "score": round(hit.score, 2),
    }
    return Entry(place, head, {**data, "title": title}, hit.chunk_text.strip("\n"))


class Grep(Bounded):
    """Arguments of `grep`."""

    pattern: str = Field(min_length=1, max_length=10_000, description="A regular expression (RE2).")
    fixed: bool = Field(default=False, description="The pattern is plain text.")
    ignore_case: bool = Field(default=False)
    word: bool = Field(default=False, description="Whole words only.")
    path: str | None = Field(default=None, max_length=1024, description="Only files that match, such as `*.py`.")
    types: list[str] | None = Field(default=None, description="Only these types, such as py or md.")
    context: int = Field(default=0, ge=0, le=50, description="Lines around each match.")
    limit: int = Field(default=200, ge=1, le=10_000, description="Most matches.")


class Matches(BaseModel):
    """The lines of one file, each as `number:text`; lines of context as `number-text`."""

    file: str
    text: str


class GrepResult(Listed):
    """What `grep` gives."""

    files: list[Matches]


async def grep(access: Access, asked: Grep, _: Progress) -> Reply:
    """Find lines in one folder."""
    place = await access.place(asked.folder)
    answer = await access.foldex.tools.grep(
        place.tool,
        asked.pattern,
        regex=not asked.fixed,
        case_sensitive=not asked.ignore_case,
        word=asked.word,
        path=place.below or None,
        glob=asked.path,
        types=asked.types,
        before=asked.context,
        after=asked.context,
        head_limit=asked.limit,
    )
    return _matched(place, asked, answer)


def _matched(place: Place, asked: Grep, answer: GrepAnswer) -> Reply:
    notes = details(answer.notes)
    text, fit = told(
        [_lines(path, list(hits)) for path, hits in groupby(answer.hits, key=lambda hit: hit.file_path)],
        footer(place, answer.coverage, notes),
        asked.max_tokens,
        remedy="Narrow with `path` or a longer pattern, or raise `limit` or `max_tokens`.",
        nothing="No line matches.",
        there_are_more=answer.truncated,
    )
    return Reply(
        text,
        GrepResult(
            **common_data(place, answer.coverage, notes, cut=fit.is_cut or answer.truncated),
            files=[Matches(**item) for item in fit.items],
        ),
    )


def _lines(path: str, hits: list[GrepHit]) -> Entry:
    """The matches of one file with their context, each line once."""
    lines: dict[int, str] = {}
    for hit in hits:
        around = [
            *enumerate(hit.before, hit.line - len(hit.before)),
            *enumerate(hit.after, (hit.end_line or hit.line) + 1),
        ]
        for number, line in around:
            lines.setdefault(number, f"{number}-{line}")
        lines[hit.line] = f"{hit.line}:{hit.preview}"
    return Entry(
        path, f"{path}:{min(lines)}-{max(lines)}", {"file": path}, "\n".join(line for _, line in sorted(lines.items()))
    )


async def _no_files(access: Access, place: Place, detail: str, kind: type[Any], results: str) -> Reply:
    """The answer if the filters select no file: nothing was found, and why."""
    now, warned = await status_of(access, place)
    notes = [detail, *warned]
    data = kind(**common_data(place, now, notes, cut=False), **{results: []})
    return Reply("\n".join(["Nothing found.", footer(place, now, notes)]), data)


class ReadFile(Bounded):
    """Arguments of `read_file`."""

    file: str = Field(min_length=1, max_length=4096, description="Path as other tools show it, or a unique end of it.")
    first_line: int | None = Field(default=None, ge=1)
    last_line: int | None = Field(default=None, ge=1)
    pointer: str | None = Field(
        default=None, max_length=10_000, description="JSON pointer to one value of a JSON file."
    )
    max_tokens: int = Field(default=4000, ge=300, le=50_000, description="Most tokens of the answer.")


class FileAnswer(Told):
    """What `read_file` gives. `next_line`: where to go on if the text is cut."""

    file: str
    first_line: int
    last_line: int
    text: str
    next_line: int | None = None


async def read_file(access: Access, asked: ReadFile, _: Progress) -> Reply:
    """Read the indexed text of a file."""
    is_absolute = asked.folder is None and asked.file.startswith(("/", "~", "s3://"))
    place = await access.place(asked.file if is_absolute else asked.folder)
    path = place.below if is_absolute else posixpath.normpath(f"{place.below}/{asked.file}".strip("/"))
    file = await _file(access, place, path)
    found = await access.foldex.tools.file(
        place.tool, file.file_id, start_line=asked.first_line, end_line=asked.last_line, pointer=asked.pointer
    )
    notes = ["This is the old text: an update of the file failed."] if file.stale else []
    end = "\n".join(f"Note: {note}" for note in notes)
    text = shortened(found.text, asked.max_tokens - counted(end) - 60)
    is_cut = len(text) < len(found.text)
    last = found.start_line + text.rstrip("\n").count("\n") if is_cut else found.end_line
    going_on = ["", f"Cut at max_tokens after line {last} of {found.end_line}; go on with first_line={last + 1}."]
    said = [f"{file.file_path}:{found.start_line}-{last}", text, *(going_on if is_cut else []), end]
    data = FileAnswer(
        folder=name_of(place.tool),
        notes=notes,
        file=file.file_path,
        first_line=found.start_line,
        last_line=last,
        text=text,
        next_line=last + 1 if is_cut else None,
    )
    return Reply("\n".join(said).rstrip(), data)


async def _file(access: Access, place: Place, path: str) -> File:
    """The file of a path, or the only one whose path ends so. Raises `Refused`."""
    ends: list[File] = []
    async for file in _files(access, place, path, None):
        if file.file_path == path:
            return file
        if file.file_path.endswith(f"/{path}"):
            ends.append(file)
    if len(ends) == 1:
        return ends[0]
    if ends:
        similar = ", ".join(file.file_path for file in ends[:SIMILAR_FILES])
        raise Refused(f"{len(ends)} files end with {path!r}; give a whole path, such as {similar}.")
    raise Refused(f"{name_of(place.tool)} has no file {path!r}; find its path with list_files or search.")


def _files(access: Access, place: Place, text: str | None, status: str | None) -> AsyncIterator[File]:
    return access.foldex.tools.files(place.tool, q=text or None, status=status, page_size=1000)


class ListFiles(Bounded):
    """Arguments of `list_files`."""

    text: str | None = Field(default=None, max_length=1024, description="Only paths that contain this text.")
    status: Literal["indexed", "skipped", "failed", "pending"] | None = Field(
        default=None, description="Only files with this outcome; skipped and failed files are shown with the reason."
    )


class ListedFile(BaseModel):
    """A file. `why`: why it is not searchable."""

    file: str
    status: str
    why: str | None = None


class FilesAnswer(Listed):
    """What `list_files` gives."""

    files: list[ListedFile]


async def list_files(access: Access, asked: ListFiles, _: Progress) -> Reply:
    """List files of one folder with their outcome."""
    place = await access.place(asked.folder)
    now, notes = await status_of(access, place)
    entries: list[Entry] = []
    there_are_more = False
    # a token holds at least one character, and a path of one is a line
    async for file in _files(access, place, asked.text or place.below, asked.status):
        if not _is_meant(file, place, asked.text):
            continue
        there_are_more = len(entries) >= asked.max_tokens
        if there_are_more:
            break
        entries.append(_listed(file))
    text, fit = told(
        entries,
        footer(place, now, notes),
        asked.max_tokens,
        remedy="Narrow with `text` or `folder`, or raise `max_tokens`.",
        nothing="No file matches.",
        there_are_more=there_are_more,
    )
    data = FilesAnswer(
        **common_data(place, now, notes, cut=fit.is_cut or there_are_more),
        files=[ListedFile(**item) for item in fit.items],
    )
    return Reply(text, data)


def _is_meant(file: File, place: Place, text: str | None) -> bool:
    return place.holds(file.file_path) and (not text or text.casefold() in file.file_path.casefold())


def _listed(file: File) -> Entry:
    why = " ".join(_why(file)) or None
    head = file.file_path if file.status == "indexed" else f"{file.file_path}: {file.status}{f': {why}' if why else ''}"
    return Entry(file.file_path, head, {"file": file.file_path, "status": file.status, "why": why})


def _why(file: File) -> Iterator[str]:
    if file.reason is None:
        return
    yield f"({file.reason})"
    yield file.message or ""
    # a file's own message already names the remedy after its semicolon
    if file.remedy and ";" not in (file.message or ""):
        yield file.remedy


TOOLS: tuple[AgentTool[Any], ...] = (
    AgentTool(
        "search",
        "Find passages of an indexed folder that answer a question, by meaning and words, best first, with path, lines "
        "and text. Use it first; use grep for exact text and find_symbol for a definition by name.",
        Search,
        SearchAnswer,
        search,
    ),
    AgentTool(
        "grep",
        "Find every line that matches a pattern, as ripgrep does. A local folder is read as it is now.",
        Grep,
        GrepResult,
        grep,
    ),
    AgentTool(
        "read_file",
        "Read the text of an indexed file, or some of its lines. Works for PDF and office documents too.",
        ReadFile,
        FileAnswer,
        read_file,
    ),
    AgentTool(
        "list_files",
        "List the files of a folder by path, and why a file is not searchable.",
        ListFiles,
        FilesAnswer,
        list_files,
    ),
)
