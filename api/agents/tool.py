"""The parts that all tools for agents are made of."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Generic, Literal, TypedDict, TypeVar

from pydantic import BaseModel, ConfigDict, Field, model_validator

from api.agents.access import ServiceAccess, name_of
from api.agents.fitting import (
    FittedEntries,
    Item,
    ResultEntry,
    counted,
    cut_line_tokens,
    fitted,
    named_places,
    places,
    shared,
)
from api.agents.folders import FolderPart
from foldex_client import Status
from foldex_client.models import Coverage, Note
from schemas.wording import amount

Arguments = TypeVar("Arguments", bound="ToolArguments")

#: Tokens of an answer, at least and at most.
MIN_ANSWER_TOKENS, MAX_ANSWER_TOKENS = 300, 50_000

#: Told while a call waits for indexing.
Progress = Callable[[Status], Coroutine[Any, Any, None]]


class ToolArguments(BaseModel):
    """Arguments of a tool. Models send null for an optional argument that they leave out."""

    model_config = ConfigDict(extra="forbid")

    #: Whether the answer comes as data too.
    structured: bool = False

    @model_validator(mode="before")
    @classmethod
    def _leave_out_nulls(cls, given: dict[str, object]) -> dict[str, object]:
        needed = {name for name, field in cls.model_fields.items() if field.is_required()}
        return {name: value for name, value in given.items() if value is not None or name in needed}


Folder = Annotated[str | None, Field(max_length=4096)]


#: How many results of the same call were shown before.
More = Field(default=0, ge=0, le=100_000)


class FolderArguments(ToolArguments):
    """Arguments of a tool that asks one folder."""

    folder: Folder = None


class BoundedArguments(FolderArguments):
    """Arguments of a tool whose answer is cut at a number of tokens."""

    max_tokens: int = Field(default=2000, ge=MIN_ANSWER_TOKENS, le=MAX_ANSWER_TOKENS)


class ListArguments(BoundedArguments):
    """Arguments of a tool that lists results. `more` of them were shown before."""

    more: int = More


class FolderAnswer(BaseModel):
    """Fields of every answer about a folder."""

    folder: str
    notes: list[str] = Field(default_factory=list)


class ListAnswer(FolderAnswer):
    """An answer of several results. `cut`: there are more than are shown; `more` asks for them."""

    cut: bool
    more: int | None = None
    indexed_files: int | None
    total_files: int | None


class ListFields(TypedDict):
    """The fields of `ListAnswer`."""

    folder: str
    notes: list[str]
    cut: bool
    more: int | None
    indexed_files: int | None
    total_files: int | None


@dataclass(frozen=True, slots=True)
class ToolReply:
    """An answer, as text and as data."""

    text: str
    data: BaseModel


@dataclass(frozen=True)
class AgentTool(Generic[Arguments]):
    """One tool: what an agent reads about it, what it takes, and its function."""

    name: str
    description: str
    arguments: type[Arguments]
    run: Callable[[ServiceAccess, Arguments, Progress], Awaitable[ToolReply]]
    #: What the key of a caller over HTTP must have.
    scope: Literal["search", "write"]
    deletes: bool = False


def footer(place: FolderPart, coverage: Coverage | Status, notes: Iterable[str]) -> str:
    """The folder, the share that was searched, and the gaps of the answer. No counts if some files may be hidden."""
    below = f" below {place.below}" if place.below else ""
    is_counted = coverage.total_files is not None
    files = f": {coverage.indexed_files} of {amount(coverage.total_files or 0, 'file')} indexed" if is_counted else ""
    return "\n".join([f"Searched {name_of(place.tool)}{below}{files}.", *(f"Note: {note}" for note in notes)])


def common_data(
    place: FolderPart, coverage: Coverage | Status, notes: list[str], fit: FittedEntries[Item] | None
) -> ListFields:
    """Fields of every answer with several results."""
    return ListFields(
        folder=name_of(place.tool),
        notes=notes,
        cut=fit is not None and fit.is_partial,
        more=None if fit is None else fit.more,
        indexed_files=coverage.indexed_files,
        total_files=coverage.total_files,
    )


def details(notes: Sequence[Note]) -> list[str]:
    """Notes of the service in words."""
    return [note.detail for note in notes]


def told(
    entries: Sequence[ResultEntry[Item]],
    end: str,
    max_tokens: int,
    *,
    remedy: str,
    nothing: str = "Nothing found.",
    there_are_more: bool = False,
    more: int = 0,
    is_shared: bool = False,
    measure: Callable[[FittedEntries[Item]], str] | None = None,
) -> tuple[str, FittedEntries[Item]]:
    """The text of an answer with several results, cut to the tokens, and the results that fitted.

    `more` of the entries were shown before. `is_shared`: each gets a part of the tokens. `measure` tells how much of
    what is shown.
    """
    left = entries[more:]
    room = max_tokens - counted(end) - cut_line_tokens(max_tokens)
    fit = fitted(shared(left, room) if is_shared else left, room)
    fit = replace(fit, there_are_more=there_are_more, before=more)
    total = f"{len(entries)}{'+' if there_are_more else ''}"
    first = f"{more + 1}-{more + len(fit.items)}" if more else f"{len(fit.items)}"
    share = measure(fit) if measure and entries else f"{first} of {total}"
    said = [f"Of {amount(len(entries), 'result')}, {more} were shown before."] if more and not left else []
    if fit.is_partial:
        partly = ", the last in part" if fit.is_shortened else ""
        named = named_places(max_tokens)
        rest = f" Left out: {places(fit.left_out, named)}." if fit.left_out and named else ""
        going_on = remedy if fit.more is None else f"more={fit.more} goes on. {remedy}"
        said.append(f"Cut: {share} shown{partly}.{rest} {going_on}")
    elif measure and left:
        said.append(f"{share}.")
    return "\n".join([fit.text if entries else nothing, *said, end]).strip(), fit


async def status_of(access: ServiceAccess, place: FolderPart) -> tuple[Status, list[str]]:
    """The status of a folder's newest task, and what an agent must know of it."""
    now = await access.foldex.tools.status(place.tool.tool_id)
    return now, warnings(now)


def warnings(now: Status) -> list[str]:
    """Warnings about a task that did not end well."""
    said = [] if now.ended else [_going_on(now)]
    return [*said, *filter(None, (now.error, now.warning))]


def _going_on(now: Status) -> str:
    """One sentence about what can be found while a task is running."""
    if now.searchable_at is None:
        return f"The folder is {now.status}{now.done}: results are of the files so far."
    left = "" if now.eta_seconds is None else f", about {now.eta_seconds:.0f} s left"
    return f"All files are found by their words; their meaning follows{now.done}{left}."
