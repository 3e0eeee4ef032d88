"""A retriever for LlamaIndex. Needs `foldex-client[llama-index]`."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeRelationship, NodeWithScore, QueryBundle, RelatedNodeInfo, TextNode

from foldex_client.addresses import AnyTool
from foldex_client.client import AsyncFoldex, Foldex
from foldex_client.models import Hit
from foldex_client.retrieving import SHOWN, TOP_K, Question


class FoldexRetriever(BaseRetriever):
    """Finds the chunks of a tool, or of several tools or paths of a project.

    Without an `async_client`, asynchronous calls run the `client` in a thread. `options` are further parameters of
    `search`, such as `mode` and `filters`; `base` are those of LlamaIndex's own class.
    """

    def __init__(
        self,
        client: Foldex | None = None,
        *,
        async_client: AsyncFoldex | None = None,
        tool: AnyTool | None = None,
        project_id: str | None = None,
        tools: Sequence[AnyTool] | None = None,
        paths: Sequence[str] | None = None,
        top_k: int = TOP_K,
        options: Mapping[str, Any] | None = None,
        **base: Any,
    ) -> None:
        self._question = Question(client, async_client, tool, project_id, tools, paths, top_k, options or {})
        super().__init__(**base)

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return [_node(*each) for each in self._question.hits(query_bundle.query_str)]

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        if self._question.async_client is None:
            return await asyncio.to_thread(self._retrieve, query_bundle)
        return [_node(*each) for each in await self._question.hits_async(query_bundle.query_str)]


def _node(hit: Hit, metadata: dict[str, Any]) -> NodeWithScore:
    hidden = [name for name in metadata if name not in SHOWN]
    node = TextNode(
        id_=hit.chunk_id,
        text=hit.chunk_text,
        start_char_idx=hit.start_char,
        end_char_idx=hit.end_char,
        metadata=metadata,
        # models read where a text is from, and no ids
        excluded_llm_metadata_keys=hidden,
        excluded_embed_metadata_keys=hidden,
        relationships={NodeRelationship.SOURCE: RelatedNodeInfo(node_id=hit.file_id)},
    )
    return NodeWithScore(node=node, score=hit.score)
