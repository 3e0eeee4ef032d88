"""The tool that searches by meaning and words: one folder, or several."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from api.agents.access import CallRefused, ServiceAccess
from api.agents.fitting import ResultEntry
from api.agents.folders import FolderPart
from api.agents.several import MAX_FOLDERS, SearchedFolder, grouped, labels, search_several, several_footer, summed
from api.agents.tool import (
    MAX_ANSWER_TOKENS,
    MIN_ANSWER_TOKENS,
    AgentTool,
    ListAnswer,
    More,
    Progress,
    ToolArguments,
    ToolReply,
    common_data,
    details,
    footer,
    status_of,
    told,
)
from foldex_client.errors import FilterMatchesNothing
from foldex_client.models import Answer, Filters, Found, Hit
from schemas.wording import amount, noun

#: Hits of a query at most, those that were shown before included.
MAX_HITS = 100
NOTHING_FOUND = "Nothing found. Try other words, mode=keyword for exact names, or grep."
REMEDY = "Or narrow with `path`, or raise `max_tokens`."
#: Fields of a hit that the answer shows.
SHOWN_FIELDS = (
    *("file_path", "start_line", "end_line", "chunk_text", "score"),
    *("symbol", "title", "json_pointer", "page", "stale"),
)


class SearchArguments(ToolArguments):
    """Arguments of `search`."""

    query: str = Field(min_length=1, max_length=10_000, description="A question, words, or a name in code.")
    path: str | None = Field(default=None, max_length=1024, description="Such as `src/**/*.py` or `!tests/**`.")
    types: list[str] | None = Field(default=None)
    metadata: dict[str, Any] | None = Field(default=None)
    top_k: int = Field(default=8, ge=1, le=MAX_HITS)
    mode: Literal["hybrid", "vector", "keyword"] = Field(default="hybrid")
    fresh: bool = Field(default=False, description="Index changes first.")
    tree: Literal["off", "collapsed", "tree_traversal"] = Field(default="off", description="Summaries too.")
    folder: str | Annotated[list[str], Field(max_length=MAX_FOLDERS)] | None = Field(
        default=None, description="Or a list; [] for all."
    )
    max_tokens: int = Field(default=300, ge=MIN_ANSWER_TOKENS, le=MAX_ANSWER_TOKENS)
    more: int = More


class FoundText(BaseModel):
    """A part of a file. `folder` names its folder if several were searched."""

    folder: str | None = None
    file: str
    first_line: int
    last_line: int
    text: str
    score: float
    title: str | None = None


class FoundSummary(BaseModel):
    """A summary over several files."""

    text: str
    files: list[str]


class SearchAnswer(ListAnswer):
    """Answer of `search`. `folders`: one entry per folder. `calibrated`: whether the first score is a probability."""

    calibrated: bool = False
    hits: list[FoundText]
    summaries: list[FoundSummary] | None = None
    folders: list[SearchedFolder] | None = None


async def search(access: ServiceAccess, asked: SearchArguments, _: Progress) -> ToolReply:
    """Ask one folder, or several."""
    places = await access.places(asked.folder)
    return await (_search_one(access, asked, places[0]) if len(places) == 1 else _search_all(access, asked, places))


async def _search_one(access: ServiceAccess, asked: SearchArguments, place: FolderPart) -> ToolReply:
    try:
        answer = await access.foldex.tools.search(
            place.tool,
            asked.query,
            top_k=_most(asked),
            mode=asked.mode,
            filters=_filters(asked, place.pattern(asked.path)),
            refresh="wait" if asked.fresh else None,
            tree=None if asked.tree == "off" else asked.tree,
            expand_to_leaves=None if asked.tree == "off" else False,
            fields=SHOWN_FIELDS,
        )
    except FilterMatchesNothing as error:
        return await _no_files(access, place, error.detail)
    return _searched(place, asked, answer)


def _most(asked: SearchArguments) -> int:
    """Hits to ask for, with those that were shown before."""
    return min(MAX_HITS, asked.top_k + asked.more)


def _words(asked: SearchArguments) -> frozenset[str]:
    return frozenset(re.findall(r"\w{3,}", asked.query.casefold()))


def _filters(asked: SearchArguments, path: str | None) -> Filters:
    filters: Filters = {}
    if path:
        filters["path"] = path
    if asked.types:
        filters["types"] = asked.types
    if asked.metadata:
        filters["metadata"] = asked.metadata
    return filters


async def _search_all(access: ServiceAccess, asked: SearchArguments, places: Sequence[FolderPart]) -> ToolReply:
    if asked.fresh or asked.tree != "off":
        raise CallRefused("`fresh` and `tree` need one folder; name it with `folder`.")
    newest = sorted(places, key=lambda place: place.tool.created_at)[-MAX_FOLDERS:]
    left_out = len(places) - len(newest)
    left = f"{amount(left_out, 'older folder')} {noun(left_out, 'was', 'were')} left out"
    notes = [f"{left}; name {noun(left_out, 'it', 'them')} with `folder`."] if left_out else []
    try:
        answer = await search_several(
            access,
            newest,
            asked.query,
            top_k=_most(asked),
            mode=asked.mode,
            filters=_filters(asked, asked.path),
            fields=(*SHOWN_FIELDS, "tool_id"),
        )
    except FilterMatchesNothing as error:
        return await _nothing_in(access, asked, newest, [error.detail, *notes])
    called = labels((part.tool_id, part.name) for part in answer.tools)
    searched = [
        SearchedFolder(
            folder=called[part.tool_id],
            indexed_files=part.coverage.indexed_files,
            total_files=part.coverage.total_files,
        )
        for part in answer.tools
    ]
    notes += details(answer.notes)
    notes += grouped((called[part.tool_id], note) for part in answer.tools for note in details(part.notes))
    hits = [_hit(hit, answer, _words(asked), called.get(hit.tool_id or "")) for hit in answer.results]
    return _found_in(asked, searched, notes, hits)


async def _nothing_in(
    access: ServiceAccess, asked: SearchArguments, places: Sequence[FolderPart], notes: list[str]
) -> ToolReply:
    """The answer if the filters select no file of several folders."""
    called = labels((place.tool.tool_id, place.tool.name) for place in places)
    searched = []
    for place in places:
        now, warned = await status_of(access, place)
        name = called[place.tool.tool_id]
        searched.append(SearchedFolder(folder=name, indexed_files=now.indexed_files, total_files=now.total_files))
        notes += grouped((name, note) for note in warned)
    return _found_in(asked, searched, notes, [])


def _found_in(
    asked: SearchArguments,
    searched: Sequence[SearchedFolder],
    notes: list[str],
    entries: Sequence[ResultEntry[FoundText]],
) -> ToolReply:
    text, fit = told(
        entries,
        several_footer(searched, notes),
        asked.max_tokens,
        remedy=REMEDY,
        nothing=NOTHING_FOUND,
        more=asked.more,
        is_shared=True,
    )
    data = SearchAnswer(
        folder=", ".join(part.folder for part in searched),
        notes=notes,
        cut=fit.is_partial,
        more=fit.more,
        indexed_files=summed(part.indexed_files for part in searched),
        total_files=summed(part.total_files for part in searched),
        hits=fit.items,
        folders=list(searched),
    )
    return ToolReply(text, data)


def _searched(place: FolderPart, asked: SearchArguments, answer: Answer) -> ToolReply:
    notes = details(answer.notes)
    summaries = [FoundSummary(text=each.text, files=each.file_paths) for each in answer.summaries]
    entries: list[ResultEntry[FoundSummary | FoundText]] = [
        *(ResultEntry("a summary", f"Summary of {', '.join(each.files)}:", each) for each in summaries),
        *(_hit(hit, answer, _words(asked)) for hit in answer.results),
    ]
    text, fit = told(
        entries,
        footer(place, answer.coverage, notes),
        asked.max_tokens,
        remedy=REMEDY,
        nothing=NOTHING_FOUND,
        more=asked.more,
        is_shared=True,
    )
    return ToolReply(
        text,
        SearchAnswer(
            **common_data(place, answer.coverage, notes, fit),
            calibrated=answer.calibrated,
            hits=[item for item in fit.items if isinstance(item, FoundText)],
            summaries=[item for item in fit.items if isinstance(item, FoundSummary)] or None,
        ),
    )


def _hit(hit: Hit, answer: Found, words: frozenset[str], folder: str | None = None) -> ResultEntry[FoundText]:
    place = f"{hit.file_path}:{hit.start_line}-{hit.end_line}"
    if folder is not None:
        place = f"[{folder}] {place}"
    title = hit.symbol or hit.title or hit.json_pointer or None
    more = [
        f"{hit.score:.2f}" if answer.calibrated else "",
        title or "",
        f"page {hit.page}" if hit.page else "",
        "old text: it changed or is gone" if hit.stale else "",
    ]
    head = "  ".join([place, *filter(None, more)])
    found = FoundText(
        folder=folder,
        file=hit.file_path,
        first_line=hit.start_line,
        last_line=hit.end_line,
        text=hit.chunk_text.strip("\n"),
        score=round(hit.score, 2),
        title=title,
    )
    return ResultEntry(place, head, found, words)


async def _no_files(access: ServiceAccess, place: FolderPart, detail: str) -> ToolReply:
    """The answer if the filters select no file: nothing was found, and why."""
    now, warned = await status_of(access, place)
    notes = [detail, *warned]
    data = SearchAnswer(**common_data(place, now, notes, None), hits=[])
    return ToolReply("\n".join(["Nothing found.", footer(place, now, notes)]), data)


TOOL = AgentTool(
    "search",
    "Find passages by meaning and words, best first.",
    SearchArguments,
    search,
    "search",
)
