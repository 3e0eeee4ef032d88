"""The tools that follow names in code: definitions, uses, and calls."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from itertools import groupby
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, Field

from api.agents.access import CallRefused, ServiceAccess
from api.agents.fitting import FittedEntries, Item, ResultEntry
from api.agents.folders import FolderPart
from api.agents.tool import (
    AgentTool,
    ListAnswer,
    ListArguments,
    ListFields,
    Progress,
    ToolReply,
    common_data,
    footer,
    status_of,
    told,
)
from foldex_client.models import Call, Placed, Symbol, Use

Found = TypeVar("Found", bound=Placed)

#: Results that are looked at, of which the first are shown.
MAX_RESULTS = 2000


class FindSymbolArguments(ListArguments):
    """Arguments of `find_symbol`."""

    name: str | None = Field(default=None, min_length=1, max_length=1024, description="Exact: `send`, `Client.send`.")
    prefix: str | None = Field(default=None, min_length=1, max_length=1024, description="Begins so.")
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
    """What `find_symbol` gives."""

    definitions: list[DefinitionResult]


async def find_symbol(access: ServiceAccess, asked: FindSymbolArguments, _: Progress) -> ToolReply:
    """Find definitions by name."""
    if asked.name is None and asked.prefix is None:
        raise CallRefused("Give a name, or a prefix of names.")
    place = await access.place(asked.folder)
    listed = access.foldex.tools.symbols(
        place.tool, name=asked.name, prefix=asked.prefix, kind=asked.kind, page_size=1000
    )
    found, there_are_more = await _first(listed, place)
    entries = list(map(_definition, found))
    nothing = "No definition has that name; try `prefix`, or search."
    text, fit, told_data = await _told(access, place, asked, entries, nothing, there_are_more=there_are_more)
    return ToolReply(text, DefinitionsAnswer(**told_data, definitions=fit.items))


def _definition(symbol: Symbol) -> ResultEntry[DefinitionResult]:
    place = f"{symbol.file_path}:{symbol.start_line}-{symbol.end_line}"
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


class FindReferencesArguments(ListArguments):
    """Arguments of `find_references`."""

    name: str = Field(min_length=1, max_length=1024)
    # in the order of the service: Python shares equal unions, and the reference would show this one's
    kind: Literal["import", "base", "call", "type"] | None = Field(default=None)


class FileUses(BaseModel):
    """The uses in one file, each as `line kind in scope`."""

    file: str
    text: str


class ReferencesAnswer(ListAnswer):
    """What `find_references` gives."""

    files: list[FileUses]


async def find_references(access: ServiceAccess, asked: FindReferencesArguments, _: Progress) -> ToolReply:
    """Find where a name is used."""
    place = await access.place(asked.folder)
    listed = access.foldex.tools.references(place.tool, name=asked.name, kind=asked.kind, page_size=1000)
    found, there_are_more = await _first(listed, place)
    by_file = groupby(sorted(found, key=lambda use: (use.file_path, use.start_line)), key=lambda use: use.file_path)
    entries = [_uses(path, uses) for path, uses in by_file]
    nothing = "No use of that name in code; grep finds other mentions."
    text, fit, told_data = await _told(access, place, asked, entries, nothing, there_are_more=there_are_more)
    return ToolReply(text, ReferencesAnswer(**told_data, files=fit.items))


def _uses(path: str, uses: Iterable[Use]) -> ResultEntry[FileUses]:
    lines = [f"{use.start_line} {use.kind}{f' in {use.scope}' if use.scope else ''}" for use in uses]
    first, last = lines[0].split()[0], lines[-1].split()[0]
    return ResultEntry(path, f"{path}:{first}-{last}", FileUses(file=path, text="\n".join(lines)))


class CallersArguments(ListArguments):
    """Arguments of `callers`."""

    name: str = Field(min_length=1, max_length=1024, description="Such as `Client.refresh`.")
    direction: Literal["callers", "callees"] = Field(default="callers")
    depth: int = Field(default=1, ge=1, le=5)


class CallingDefinition(BaseModel):
    """A definition `depth` calls away. `line`: where the call stands."""

    name: str | None = None
    file: str | None = None
    line: int
    depth: int
    via: str


class CallGraphAnswer(ListAnswer):
    """What `callers` gives."""

    calls: list[CallingDefinition]


async def callers(access: ServiceAccess, asked: CallersArguments, _: Progress) -> ToolReply:
    """Follow calls."""
    place = await access.place(asked.folder)
    ask = access.foldex.tools.callers if asked.direction == "callers" else access.foldex.tools.callees
    graph = await ask(place.tool, asked.name, depth=asked.depth)
    found = [each for each in graph.items if each.file_path is None or place.holds(each.file_path)]
    said = []
    if graph.ambiguous:
        said = [f"{graph.definitions} definitions are called {asked.name!r}: some calls may be those of another."]
    nothing = f"No {asked.direction} of {asked.name!r} are known; find_references shows other uses."
    text, fit, told_data = await _told(
        access, place, asked, list(map(_call, found)), nothing, there_are_more=graph.truncated, more_notes=said
    )
    return ToolReply(text, CallGraphAnswer(**told_data, calls=fit.items))


def _call(call: Call) -> ResultEntry[CallingDefinition]:
    name = "/".join(filter(None, (call.scope, call.name))) or "top level"
    place = f"{call.file_path}:{call.start_line}-{call.end_line}" if call.file_path else "elsewhere"
    via = f"  depth {call.depth} via {call.via}" if call.depth > 1 else ""
    item = CallingDefinition(name=call.name, file=call.file_path, line=call.line, depth=call.depth, via=call.via)
    return ResultEntry(place, f"{place}  {name}  (call at line {call.line}){via}", item)


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
    AgentTool(
        "find_symbol",
        "Find where code defines a name.",
        FindSymbolArguments,
        find_symbol,
    ),
    AgentTool(
        "find_references",
        "Find where code uses a name.",
        FindReferencesArguments,
        find_references,
    ),
    AgentTool(
        "callers",
        "Follow calls of a function, `depth` steps.",
        CallersArguments,
        callers,
    ),
)
