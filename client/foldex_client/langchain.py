"""A retriever for LangChain. Needs `foldex-client[langchain]`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from uuid import UUID

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from pydantic import Field, model_validator

from foldex_client.client import AsyncFoldex, Foldex
from foldex_client.models import Hit, Tool
from foldex_client.retrieving import TOP_K, Question, metadata_of

if TYPE_CHECKING:
    from typing_extensions import Self


class FoldexRetriever(BaseRetriever):
    """Finds the chunks of a tool, or of several tools or paths of a project.

    Without an `async_client`, asynchronous calls run the `client` in a thread. `options` are further parameters of
    `search`, such as `mode` and `filters`.
    """

    client: Foldex | None = None
    async_client: AsyncFoldex | None = None
    tool: Tool | UUID | str | None = None
    project_id: str | None = None
    tools: Sequence[Tool | UUID | str] | None = None
    paths: Sequence[str] | None = None
    top_k: int = TOP_K
    options: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _checked(self) -> Self:
        self._question()
        return self

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:  # noqa: ARG002 # LangChain's signature
        return [_document(hit) for hit in self._question().hits(query)]

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun
    ) -> list[Document]:
        if self.async_client is None:
            return await super()._aget_relevant_documents(query, run_manager=run_manager)
        return [_document(hit) for hit in await self._question().hits_async(query)]

    def _question(self) -> Question:
        place = (self.tool, self.project_id, self.tools, self.paths)
        return Question(self.client, self.async_client, *place, self.top_k, self.options)


def _document(hit: Hit) -> Document:
    return Document(id=hit.chunk_id, page_content=hit.chunk_text, metadata=metadata_of(hit))
