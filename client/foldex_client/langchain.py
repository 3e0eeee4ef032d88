"""A retriever for LangChain. Needs `foldex-client[langchain]`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import UUID

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables.config import run_in_executor
from pydantic import Field, model_validator

from foldex_client.client import AsyncFoldex, Foldex
from foldex_client.models import Hit, Tool
from foldex_client.retrieving import TOP_K, Question

if TYPE_CHECKING:
    from typing_extensions import Self


class FoldexRetriever(BaseRetriever):
    """Finds the chunks of a tool, or of several tools or paths of a project.

    Without an `async_client`, asynchronous calls run the `client` in a thread. `options` are further parameters of
    `search`, such as `mode` and `filters`. `k`, as LangChain names it, comes before `top_k`, and `k` of a call before
    both.
    """

    client: Foldex | None = None
    async_client: AsyncFoldex | None = None
    tool: Tool | UUID | str | None = None
    project_id: str | None = None
    tools: Sequence[Tool | UUID | str] | None = None
    paths: Sequence[str] | None = None
    top_k: int = TOP_K
    k: int | None = None
    options: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _checked(self) -> Self:
        self._question()
        return self

    def _get_relevant_documents(
        self,
        query: str,
        *,
        run_manager: CallbackManagerForRetrieverRun,  # noqa: ARG002 # LangChain's signature
        k: int | None = None,
    ) -> list[Document]:
        return [_document(*each) for each in self._question(k).hits(query)]

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, k: int | None = None
    ) -> list[Document]:
        if self.async_client is None:
            # as the base class does, which passes no further arguments
            find = partial(self._get_relevant_documents, query, run_manager=run_manager.get_sync(), k=k)
            return await run_in_executor(None, find)
        return [_document(*each) for each in await self._question(k).hits_async(query)]

    def _question(self, k: int | None = None) -> Question:
        place = (self.tool, self.project_id, self.tools, self.paths)
        number = next(each for each in (k, self.k, self.top_k) if each is not None)
        return Question(self.client, self.async_client, *place, number, self.options)


def _document(hit: Hit, metadata: dict[str, Any]) -> Document:
    return Document(id=hit.chunk_id, page_content=hit.chunk_text, metadata=metadata)
