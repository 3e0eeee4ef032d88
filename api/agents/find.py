"""The tools that find lines by a pattern, and files by their paths."""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from itertools import groupby
from typing import Any, Literal

from pydantic import AliasChoices, BaseModel, Field

from api.agents.access import CallRefused, ServiceAccess, name_of
from api.agents.fitting import FittedEntries, ResultEntry, counted, shortened
from api.agents.folders import FolderPart, is_id
from api.agents.tool import (
    MAX_ANSWER_TOKENS,
    MIN_ANSWER_TOKENS,
    AgentTool,
    BoundedArguments,
    FolderAnswer,
    ListAnswer,
    ListArguments,
    Progress,
    ToolReply,
    common_data,
    details,
    footer,
    status_of,
    told,
)
from foldex_client.errors import Invalid
from foldex_client.models import File, GrepAnswer, GrepHit
from schemas.wording import amount, noun

#: Lines that grep counts beyond those that it shows, and the most of the service.
COUNTED_LINES, MAX_LINES = 2000, 10_000
#: A line that matches, among lines of context.
_MATCHED = re.compile(r"^[0-9]+:", re.MULTILINE)
#: Files that an error about a path names.
SIMILAR_FILES = 5


class GrepArguments(ListArguments):
    """Arguments of `grep`."""

    pattern: str = Field(min_length=1, max_length=10_000, description="RE2.")
    fixed: bool = Field(default=False)
    ignore_case: bool = Field(default=False)
    word: bool = Field(default=False)
    path: str | None = Field(default=None, max_length=1024, description="A file, folder or glob.")
    types: list[str] | None = Field(default=None)
    metadata: dict[str, Any] | None = Field(default=None)
    context: int = Field(default=0, ge=0, le=50)
    output: Literal["lines", "files", "counts"] = Field(default="lines")
    limit: int = Field(default=200, ge=1, le=MAX_LINES)


class FileMatches(BaseModel):
    """The lines of one file, each as `number:text`; lines of context as `number-text`. `lines` match."""

    file: str
    lines: int | None = None
    text: str = ""


class MatchesAnswer(ListAnswer):
    """Answer of `grep`. `lines` in `matching_files` match, or more if the search stopped early (`truncated`)."""

    files: list[FileMatches]
    lines: int
    matching_files: int
    truncated: bool


async def grep(access: ServiceAccess, asked: GrepArguments, _: Progress) -> ToolReply:
    """Find lines in one folder."""
    place = await access.place(asked.folder)
    if asked.path is None:
        return _matched(place, asked, await _grepped(access, place, asked, path=place.below or None))
    # brackets and stars may stand in the name of a file, so the path itself comes before the pattern
    literal = posixpath.normpath(f"{place.below}/{asked.path}".strip("/"))
    try:
        answer = await _grepped(access, place, asked, path=literal)
    except Invalid:
        answer = await _grepped(access, place, asked, path=place.below or None, glob=asked.path)
    return _matched(place, asked, answer)


async def _grepped(
    access: ServiceAccess, place: FolderPart, asked: GrepArguments, *, path: str | None, glob: str | None = None
) -> GrepAnswer:
    return await access.foldex.tools.grep(
        place.tool,
        asked.pattern,
        regex=not asked.fixed,
        case_sensitive=not asked.ignore_case,
        word=asked.word,
        path=path,
        glob=glob,
        types=asked.types,
        metadata=asked.metadata,
        before=asked.context,
        after=asked.context,
        # all are counted, though few are shown
        head_limit=COUNTED_LINES if asked.output == "lines" and asked.limit < COUNTED_LINES else MAX_LINES,
    )


def _matched(place: FolderPart, asked: GrepArguments, answer: GrepAnswer) -> ToolReply:
    notes = details(answer.notes)
    shown = answer.hits[: asked.limit] if asked.output == "lines" else answer.hits
    entries = [_file(path, list(hits), asked) for path, hits in groupby(shown, key=lambda hit: hit.file_path)]
    files = len({hit.file_path for hit in answer.hits})
    is_limited = len(shown) < len(answer.hits)
    text, fit = told(
        entries,
        footer(place, answer.coverage, notes),
        asked.max_tokens,
        remedy="Narrow with `path` or a longer pattern, or raise `limit` or `max_tokens`.",
        nothing="No line matches.",
        there_are_more=answer.truncated or is_limited,
        more=asked.more,
        measure=lambda fit: _measured(fit, answer, files),
    )
    return ToolReply(
        text,
        MatchesAnswer(
            **common_data(place, answer.coverage, notes, fit),
            files=fit.items,
            lines=len(answer.hits),
            matching_files=files,
            truncated=answer.truncated,
        ),
    )


def _file(path: str, hits: list[GrepHit], asked: GrepArguments) -> ResultEntry[FileMatches]:
    """The entry of a file with matches."""
    if asked.output == "lines":
        return _lines(path, hits)
    number = len(hits) if asked.output == "counts" else None
    return ResultEntry(path, path if number is None else f"{path}: {number}", FileMatches(file=path, lines=number))


def _measured(fit: FittedEntries[FileMatches], answer: GrepAnswer, files: int) -> str:
    """The share of the matches that is shown. Past a limit of the service there is more."""
    of_file = Counter(hit.file_path for hit in answer.hits)
    shown = sum(len(_MATCHED.findall(item.text)) if item.text else of_file[item.file] for item in fit.items)
    past = "+" * answer.truncated
    return (
        f"{shown} of {len(answer.hits)}{past} {noun(len(answer.hits), 'line')} in {files}{past} {noun(files, 'file')}"
    )


def _lines(path: str, hits: list[GrepHit]) -> ResultEntry[FileMatches]:
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
    text = "\n".join(line for _, line in sorted(lines.items()))
    return ResultEntry(path, f"{path}:{min(lines)}-{max(lines)}", FileMatches(file=path, text=text))


class ReadFileArguments(BoundedArguments):
    """Arguments of `read_file`."""

    file: str = Field(
        min_length=1,
        max_length=4096,
        description="Path, a unique end of it, or an id.",
        validation_alias=AliasChoices("file", "path", "file_path"),
    )
    first_line: int | None = Field(default=None, ge=1, validation_alias=AliasChoices("first_line", "start_line"))
    last_line: int | None = Field(default=None, ge=1, validation_alias=AliasChoices("last_line", "end_line"))
    pointer: str | None = Field(default=None, max_length=10_000, description="JSON pointer.")
    max_tokens: int = Field(default=4000, ge=MIN_ANSWER_TOKENS, le=MAX_ANSWER_TOKENS)


class FileAnswer(FolderAnswer):
    """Answer of `read_file`. `next_line`: the line to continue from if the text is cut."""

    file: str
    first_line: int
    last_line: int
    text: str
    next_line: int | None = None


async def read_file(access: ServiceAccess, asked: ReadFileArguments, _: Progress) -> ToolReply:
    """Read the indexed text of a file."""
    is_absolute = asked.folder is None and asked.file.startswith(("/", "~", "s3://"))
    place = await access.place(asked.file if is_absolute else asked.folder)
    path = place.below if is_absolute else posixpath.normpath(f"{place.below}/{asked.file}".strip("/"))
    same = [] if is_id(asked.file) else await _same_path(access, place, path)
    found = await access.foldex.tools.file(
        place.tool,
        same[0].file_id if same else asked.file,
        start_line=asked.first_line,
        end_line=asked.last_line,
        pointer=asked.pointer,
    )
    notes = ["This is the old text: an update of the file failed."] if same and same[0].stale else []
    if len(same) > 1:
        others = ", ".join(file.file_id for file in same[1 : 1 + SIMILAR_FILES])
        notes.append(f"{amount(len(same), 'file')} have this path; read the others by their ids: {others}.")
    end = "\n".join(f"Note: {note}" for note in notes)
    text = shortened(found.text, asked.max_tokens - counted(end) - 60)
    is_cut = len(text) < len(found.text)
    last = found.start_line + text.rstrip("\n").count("\n") if is_cut else found.end_line
    going_on = ["", f"Cut at max_tokens after line {last} of {found.end_line}; go on with first_line={last + 1}."]
    said = [f"{found.file_path}:{found.start_line}-{last}", text, *(going_on if is_cut else []), end]
    data = FileAnswer(
        folder=name_of(place.tool),
        notes=notes,
        file=found.file_path,
        first_line=found.start_line,
        last_line=last,
        text=text,
        next_line=last + 1 if is_cut else None,
    )
    return ToolReply("\n".join(said).rstrip(), data)


async def _same_path(access: ServiceAccess, place: FolderPart, path: str) -> list[File]:
    """The files of a path, or the only one whose path ends so. Nodes may share a path. Raises `CallRefused`."""
    same, ends = list[File](), list[File]()
    async for file in _files(access, place, path, None):
        if file.file_path == path:
            same.append(file)
        elif same:
            # they are listed one after another
            break
        elif file.file_path.endswith(f"/{path}"):
            ends.append(file)
    if same or len(ends) == 1:
        return same or ends
    if ends:
        similar = ", ".join(file.file_path for file in ends[:SIMILAR_FILES])
        raise CallRefused(f"{amount(len(ends), 'file')} end with {path!r}; give a whole path, such as {similar}.")
    raise CallRefused(f"{name_of(place.tool)} has no file {path!r}; find its path with list_files or search.")


def _files(access: ServiceAccess, place: FolderPart, text: str | None, status: str | None) -> AsyncIterator[File]:
    return access.foldex.tools.files(place.tool, q=text or None, status=status, page_size=1000)


class ListFilesArguments(ListArguments):
    """Arguments of `list_files`."""

    text: str | None = Field(default=None, max_length=1024, description="Part of a path.")
    status: Literal["indexed", "skipped", "failed", "pending"] | None = Field(default=None)


class FileState(BaseModel):
    """A file. `why`: why it is not searchable."""

    file: str
    status: str
    why: str | None = None


class FilesAnswer(ListAnswer):
    """Answer of `list_files`."""

    files: list[FileState]


async def list_files(access: ServiceAccess, asked: ListFilesArguments, _: Progress) -> ToolReply:
    """List files of one folder with their outcome."""
    place = await access.place(asked.folder)
    now, notes = await status_of(access, place)
    entries: list[ResultEntry[FileState]] = []
    there_are_more = False
    # a token holds at least one character, and a path of one is a line
    async for file in _files(access, place, asked.text or place.below, asked.status):
        if not _is_meant(file, place, asked.text):
            continue
        there_are_more = len(entries) >= asked.max_tokens + asked.more
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
        more=asked.more,
    )
    data = FilesAnswer(
        **common_data(place, now, notes, fit),
        files=fit.items,
    )
    return ToolReply(text, data)


def _is_meant(file: File, place: FolderPart, text: str | None) -> bool:
    return place.holds(file.file_path) and (not text or text.casefold() in file.file_path.casefold())


def _listed(file: File) -> ResultEntry[FileState]:
    why = " ".join(_why(file)) or None
    said = f": {file.status}{f': {why}' if why else ''}" if why or file.status != "indexed" else ""
    head = f"{file.file_path}{said}"
    return ResultEntry(file.file_path, head, FileState(file=file.file_path, status=file.status, why=why))


def _why(file: File) -> Iterator[str]:
    if file.reason:
        yield f"({file.reason})"
    yield file.message or ""
    # a file's own message already names the remedy after its semicolon
    if file.remedy and ";" not in (file.message or ""):
        yield file.remedy


TOOLS: tuple[AgentTool[Any], ...] = (
    AgentTool(
        "grep",
        "Find lines that match, as ripgrep does.",
        GrepArguments,
        grep,
        "search",
    ),
    AgentTool(
        "read_file",
        "Read lines of a file: also PDF and office documents.",
        ReadFileArguments,
        read_file,
        "search",
    ),
    AgentTool(
        "list_files",
        "List files, and why one is not searchable.",
        ListFilesArguments,
        list_files,
        "search",
    ),
)
