"""The tools that follow names in code: definitions, uses, and calls."""

from __future__ import annotations

import posixpath
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from itertools import groupby
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, Field

from api.agents.access import CallRefused, ServiceAccess
from api.agents.fitting import FittedEntries, Item, ResultEntry, counted
from api.agents.folders import FolderPart
from api.agents.tool import (
    AgentTool,
    BoundedArguments,
    ListAnswer,
    ListArguments,
    ListFields,
    Progress,
    ToolReply,
    common_data,
    details,
    footer,
    status_of,
    told,
)
from foldex_client.models import Call, Note, Placed, Symbol, Use
from schemas.wording import amount, noun

#: Why calls were not followed, in words.
_WHY = {"ambiguous": "by ambiguous names", "outside": "outside the folder", "depth": "at `depth`"}

Found = TypeVar("Found", bound=Placed)

#: Places of each kind that `impact` shows, characters of a line, and tokens of what stands around them.
MAX_TOUCHED, MAX_PREVIEW, IMPACT_WORDS_TOKENS = 300, 120, 200
#: Results that are looked at, of which the first are shown.
MAX_RESULTS = 2000


class CodeArguments(ListArguments):
    """Arguments of a tool that lists places in code."""

    metadata: dict[str, Any] | None = Field(default=None)


class FindSymbolArguments(CodeArguments):
    """Arguments of `find_symbol`."""

    name: str | None = Field(default=None, min_length=1, max_length=1024, description="Exact: `send`, `Client.send`.")
    prefix: str | None = Field(default=None, min_length=1, max_length=1024)
    kind: str | None = Field(default=None, max_length=100)


class DefinitionResult(BaseModel):
    """A definition."""

    name: str
    kind: str
    file: str
    first_line: int
    last_line: int
    signature: str


class DefinitionsAnswer(ListAnswer):
    """Answer of `find_symbol`."""

    definitions: list[DefinitionResult]


async def find_symbol(access: ServiceAccess, asked: FindSymbolArguments, _: Progress) -> ToolReply:
    """Find definitions by name."""
    if asked.name is None and asked.prefix is None:
        raise CallRefused("Give a name, or a prefix of names.")
    place = await access.place(asked.folder)
    listed = access.foldex.tools.symbols(
        place.tool, name=asked.name, prefix=asked.prefix, kind=asked.kind, metadata=asked.metadata, page_size=1000
    )
    found, there_are_more = await _first(listed, place)
    entries = list(map(_definition, found))
    nothing = "No definition has that name; try `prefix`, or search."
    text, fit, told_data = await _told(access, place, asked, entries, nothing, there_are_more=there_are_more)
    return ToolReply(text, DefinitionsAnswer(**told_data, definitions=fit.items))


def _place(symbol: Symbol) -> str:
    return f"{symbol.file_path}:{symbol.start_line}-{symbol.end_line}"


def _definition(symbol: Symbol) -> ResultEntry[DefinitionResult]:
    place = _place(symbol)
    scope = f"  in {symbol.scope}" if symbol.scope else ""
    definition = DefinitionResult(
        name=symbol.name,
        kind=symbol.kind,
        file=symbol.file_path,
        first_line=symbol.start_line,
        last_line=symbol.end_line,
        signature=symbol.signature,
    )
    return ResultEntry(place, f"{place}  {symbol.kind}  {symbol.signature}{scope}", definition)


class OutlineArguments(CodeArguments):
    """Arguments of `outline`."""

    path: str | None = Field(default=None, max_length=4096)


async def outline(access: ServiceAccess, asked: OutlineArguments, _: Progress) -> ToolReply:
    """List the definitions of a file, or of the files below a folder."""
    place = await access.place(asked.folder)
    path = f"{place.below}/{asked.path or ''}".strip("/")
    below = posixpath.normpath(path) if path else None
    listed = access.foldex.tools.outline(place.tool, path=below, metadata=asked.metadata, page_size=1000)
    found, there_are_more = await _first(listed, place)
    by_file = groupby(found, key=lambda symbol: symbol.file_path)
    entries = [_outlined(path, list(symbols)) for path, symbols in by_file]
    nothing = "No definitions: this is not code, or code that is cut at lines; read_file shows it."
    text, fit, told_data = await _told(access, place, asked, entries, nothing, there_are_more=there_are_more)
    return ToolReply(text, OutlineAnswer(**told_data, files=fit.items))


class FileOutline(BaseModel):
    """The definitions of one file, each as `first-last signature`, indented by its depth."""

    file: str
    text: str


class OutlineAnswer(ListAnswer):
    """Answer of `outline`."""

    files: list[FileOutline]


def _outlined(path: str, symbols: list[Symbol]) -> ResultEntry[FileOutline]:
    lines = [
        f"{'  ' * _depth(symbol)}{symbol.start_line}-{symbol.end_line} {symbol.signature or symbol.name}"
        for symbol in symbols
    ]
    return ResultEntry(path, path, FileOutline(file=path, text="\n".join(lines)))


def _depth(symbol: Symbol) -> int:
    return len(symbol.scope.split("/")) if symbol.scope else 0


class ImpactArguments(BoundedArguments):
    """Arguments of `impact`."""

    name: str = Field(min_length=1, max_length=1024)
    metadata: dict[str, Any] | None = Field(default=None)


class TouchedPart(BaseModel):
    """One kind of places that a change affects, each as a line. `cut`: the service found more than it returned."""

    part: str
    text: str
    cut: bool


class ImpactAnswer(ListAnswer):
    """Answer of `impact`."""

    parts: list[TouchedPart]


async def impact(access: ServiceAccess, asked: ImpactArguments, _: Progress) -> ToolReply:
    """Show what a change to a name may affect."""
    place = await access.place(asked.folder)
    found = await access.foldex.tools.impact(place.tool, asked.name, metadata=asked.metadata, limit=MAX_TOUCHED)
    defined = [f"{_place(each)} {each.signature}" for each in found.definitions if place.holds(each.file_path)]
    uses = {
        part: [f"{use.file_path}:{_used(use)}" for use in found_uses if place.holds(use.file_path)]
        for part, found_uses in (("references", found.references), ("tests", found.tests))
    }
    lines = [
        f"{hit.file_path}:{hit.line} {hit.preview.strip()[:MAX_PREVIEW]}"
        for hit in found.text
        if place.holds(hit.file_path)
    ]
    listed = {"definitions": defined, **uses, "text": lines}
    entries = [_touched(part, each, is_cut=part in found.truncated) for part, each in listed.items() if each]
    notes = details(found.notes)
    if sum(counted(entry.item.text) for entry in entries) > asked.max_tokens - IMPACT_WORDS_TOKENS:
        notes.append("Lists are cut; raise `max_tokens`, or use find_references and grep.")
    text, fit = told(
        entries,
        footer(place, found.coverage, notes),
        asked.max_tokens,
        remedy="Raise `max_tokens`.",
        nothing="Nothing has that name; try grep.",
        is_shared=True,
    )
    whole = {entry.item.part: entry.item.text for entry in entries}
    parts = [item.model_copy(update={"cut": item.cut or item.text != whole[item.part]}) for item in fit.items]
    return ToolReply(text, ImpactAnswer(**common_data(place, found.coverage, notes, fit), parts=parts))


def _touched(part: str, lines: list[str], *, is_cut: bool) -> ResultEntry[TouchedPart]:
    # "text" counts nothing
    name = part if is_cut else noun(len(lines), part.removesuffix("s"), part)
    number = f"{len(lines)}{'+' * is_cut}"
    return ResultEntry(part, f"{number} {name}:", TouchedPart(part=part, text="\n".join(lines), cut=is_cut))


class FindReferencesArguments(CodeArguments):
    """Arguments of `find_references`."""

    name: str = Field(min_length=1, max_length=1024)
    # in the order of the service: Python shares equal unions, and the reference would show this one's
    kind: Literal["import", "base", "call", "type", "read", "write"] | None = Field(default=None)


class FileUses(BaseModel):
    """The uses in one file, each as `line kind in scope`."""

    file: str
    text: str


class ReferencesAnswer(ListAnswer):
    """Answer of `find_references`."""

    files: list[FileUses]


async def find_references(access: ServiceAccess, asked: FindReferencesArguments, _: Progress) -> ToolReply:
    """Find where a name is used."""
    place = await access.place(asked.folder)
    lacking: list[Note] = []
    listed = access.foldex.tools.references(
        place.tool,
        name=asked.name,
        kind=asked.kind,
        metadata=asked.metadata,
        page_size=1000,
        on_notes=lacking.extend,
    )
    found, there_are_more = await _first(listed, place)
    by_file = groupby(sorted(found, key=lambda use: (use.file_path, use.start_line)), key=lambda use: use.file_path)
    entries = [_uses(path, uses) for path, uses in by_file]
    nothing = "No use of that name in code; grep finds other mentions."
    said = details(list({note.code: note for note in lacking}.values()))
    text, fit, told_data = await _told(
        access, place, asked, entries, nothing, there_are_more=there_are_more, more_notes=said
    )
    return ToolReply(text, ReferencesAnswer(**told_data, files=fit.items))


def _uses(path: str, uses: Iterable[Use]) -> ResultEntry[FileUses]:
    lines = list(map(_used, uses))
    first, last = lines[0].split()[0], lines[-1].split()[0]
    return ResultEntry(path, f"{path}:{first}-{last}", FileUses(file=path, text="\n".join(lines)))


def _used(use: Use) -> str:
    return f"{use.start_line} {use.kind}{f' in {use.scope}' if use.scope else ''}"


class CallersArguments(CodeArguments):
    """Arguments of `callers`."""

    name: str = Field(min_length=1, max_length=1024)
    direction: Literal["callers", "callees"] = Field(default="callers")
    depth: int = Field(default=1, ge=1, le=5)


class CallingDefinition(BaseModel):
    """A definition `depth` calls away. `line`: where the call stands."""

    name: str | None = None
    file: str | None = None
    line: int
    depth: int
    via: str
    confidence: str
    definitions: int
    stopped: str | None = None


class CallGraphAnswer(ListAnswer):
    """Answer of `callers`."""

    calls: list[CallingDefinition]


async def callers(access: ServiceAccess, asked: CallersArguments, _: Progress) -> ToolReply:
    """Follow calls."""
    place = await access.place(asked.folder)
    ask = access.foldex.tools.callers if asked.direction == "callers" else access.foldex.tools.callees
    graph = await ask(place.tool, asked.name, depth=asked.depth, metadata=asked.metadata)
    found = [each for each in graph.items if each.file_path is None or place.holds(each.file_path)]
    said = details(graph.notes)
    if graph.definitions > 1:
        said = [
            *said,
            f"{amount(graph.definitions, 'definition')} are called {asked.name!r}; `Class.{asked.name}` selects one.",
        ]
    stopped = Counter(each.stopped for each in found if each.stopped not in {None, "top_level"})
    if stopped:
        said.append(f"Not followed further: {', '.join(f'{number} {_WHY[why]}' for why, number in stopped.items())}.")
    nothing = f"No {asked.direction} of {asked.name!r} are known; find_references shows other uses."
    if not graph.definitions:
        nothing = f"No definition and no {asked.direction} of {asked.name!r} are known; try find_symbol with `prefix`."
        said = [*said, f"No definition of {asked.name!r} is known; this is what calls the name."] if found else said
    text, fit, told_data = await _told(
        access, place, asked, list(map(_call, found)), nothing, there_are_more=graph.truncated, more_notes=said
    )
    return ToolReply(text, CallGraphAnswer(**told_data, calls=fit.items))


def _call(call: Call) -> ResultEntry[CallingDefinition]:
    name = "/".join(filter(None, (call.scope, call.name))) or "top level"
    unknown = f"ambiguous ({call.definitions})" if call.ambiguous else "outside the folder"
    place = f"{call.file_path}:{call.start_line}-{call.end_line}" if call.file_path else unknown
    via = f"  depth {call.depth} via {call.via}" if call.depth > 1 else ""
    sure = call.confidence if call.confidence == "resolved" or not call.ambiguous else f"one of {call.definitions}"
    item = CallingDefinition(
        name=call.name,
        file=call.file_path,
        line=call.line,
        depth=call.depth,
        via=call.via,
        confidence=call.confidence,
        definitions=call.definitions,
        stopped=call.stopped,
    )
    return ResultEntry(place, f"{place}  {name}  (call at line {call.line})  {sure}{via}", item)


async def _first(items: AsyncIterator[Found], place: FolderPart) -> tuple[list[Found], bool]:
    """The first results below a place, and whether there are more."""
    found: list[Found] = []
    async for item in items:
        if not place.holds(item.file_path):
            continue
        if len(found) == MAX_RESULTS:
            return found, True
        found.append(item)
    return found, False


async def _told(
    access: ServiceAccess,
    place: FolderPart,
    asked: ListArguments,
    entries: list[ResultEntry[Item]],
    nothing: str,
    *,
    there_are_more: bool,
    more_notes: Iterable[str] = (),
) -> tuple[str, FittedEntries[Item], ListFields]:
    now, warned = await status_of(access, place)
    notes = [*more_notes, *warned]
    text, fit = told(
        entries,
        footer(place, now, notes),
        asked.max_tokens,
        remedy="Narrow with `folder`, or raise `max_tokens`.",
        nothing=nothing,
        there_are_more=there_are_more,
        more=asked.more,
    )
    return text, fit, common_data(place, now, notes, fit)


TOOLS: tuple[AgentTool[Any], ...] = (
    AgentTool("outline", "List the definitions of a file or folder.", OutlineArguments, outline, "search"),
    AgentTool(
        "find_symbol",
        "Find where code defines a name.",
        FindSymbolArguments,
        find_symbol,
        "search",
    ),
    AgentTool(
        "find_references",
        "Find where code uses a name.",
        FindReferencesArguments,
        find_references,
        "search",
    ),
    AgentTool(
        "callers",
        "Follow calls of a function, `depth` steps.",
        CallersArguments,
        callers,
        "search",
    ),
    AgentTool(
        "impact",
        "What a change to a name affects: uses, tests, other lines.",
        ImpactArguments,
        impact,
        "search",
    ),
)
