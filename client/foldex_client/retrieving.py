"""The part that the retrievers for LangChain and LlamaIndex share: the search, and the metadata of a hit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from foldex_client.addresses import AnyTool
from foldex_client.client import AsyncFoldex, Foldex
from foldex_client.models import AcrossAnswer, Answer, Hit

#: A hit, and the metadata that a framework keeps beside its text.
Described = tuple[Hit, dict[str, Any]]

#: Hits of a query.
TOP_K = 10
#: Fields of a hit that describe its text, as far as the hit has them.
SHOWN = ("file_path", "start_line", "end_line", "title", "symbol", "json_pointer", "url", "language")
#: Fields of a hit that programs need.
IDS = ("score", "distance", "tool_id", "chunk_id", "chunk_index", "file_id", "file_node_id", "file_name", "file_type")
#: The fields that a request asks for. Only a search across tools gives `tool_id`.
FIELDS = ("chunk_text", "start_char", "end_char", *SHOWN, *(name for name in IDS if name != "tool_id"))


@dataclass(frozen=True)
class Question:
    """The target and the options of a query: one tool, or several tools or paths of a project."""

    client: Foldex | None
    async_client: AsyncFoldex | None
    tool: AnyTool | None
    project_id: str | None
    tools: Sequence[AnyTool] | None
    paths: Sequence[str] | None
    top_k: int
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.client is None and self.async_client is None:
            raise ValueError("Give a client, an async_client, or both.")
        if (self.tool is None) == (self.project_id is None):
            raise ValueError("Give either a tool, or a project_id with tools or paths.")

    def hits(self, query: str) -> list[Described]:
        """The hits of a query, best first."""
        if self.client is None:
            raise ValueError("This retriever has only an async_client; await its asynchronous method.")
        return _described(self._search(self.client, query))

    async def hits_async(self, query: str) -> list[Described]:
        """The same with the `async_client`, which must be there."""
        return _described(await self._search(self.async_client, query))

    def _search(self, client: Foldex | AsyncFoldex | None, query: str) -> Any:
        options: dict[str, Any] = {"top_k": self.top_k, **self.options}
        asked: Any = client
        if self.tool is not None:
            return asked.tools.search(self.tool, query, **{**options, "fields": FIELDS})
        places = {"tools": self.tools, "paths": self.paths, "fields": (*FIELDS, "tool_id")}
        return asked.search(self.project_id, query, **{**options, **places})


def _described(answer: Answer | AcrossAnswer) -> list[Described]:
    """The hits of an answer. A score is a chance if the answer is `calibrated`."""
    return [(hit, {**_fields(hit), "calibrated": answer.calibrated}) for hit in answer.results]


def _fields(hit: Hit) -> dict[str, Any]:
    values = {name: getattr(hit, name, None) for name in (*SHOWN, *IDS)}
    return {name: value for name, value in values.items() if value is not None}
