"""A retriever for Haystack. Needs `foldex-client[haystack]`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from haystack import Document, component, default_from_dict, default_to_dict
from haystack.utils import Secret

from foldex_client.addresses import AnyTool, id_of
from foldex_client.client import AsyncFoldex, Foldex
from foldex_client.retrieving import TOP_K, Described, Question

if TYPE_CHECKING:
    from typing_extensions import Self

_KEY = Secret.from_env_var("FOLDEX_API_KEY", strict=False)


@component
class FoldexRetriever:
    """Finds the chunks of a tool, or of several tools or paths of a project.

    It takes an address instead of a client, as pipelines are saved as YAML. `options` are further parameters of
    `search`, such as `mode` and `filters`, which must be values of JSON. `top_k` of a run comes before that of the
    retriever.
    """

    def __init__(
        self,
        base_url: str,
        *,
        api_key: Secret | None = _KEY,
        tool: AnyTool | None = None,
        project_id: str | None = None,
        tools: Sequence[AnyTool] | None = None,
        paths: Sequence[str] | None = None,
        top_k: int = TOP_K,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self._base_url, self._api_key = base_url, api_key
        self._tool = None if tool is None else id_of(tool)
        self._tools = None if tools is None else [id_of(each) for each in tools]
        self._project_id, self._paths = project_id, None if paths is None else [*paths]
        self._top_k, self._options = top_k, dict(options or {})
        key = None if api_key is None else api_key.resolve_value()
        self._client, self._async_client = Foldex(base_url, key), AsyncFoldex(base_url, key)
        self._question(None)

    def to_dict(self) -> dict[str, Any]:
        """The fields of a saved pipeline: the name of the key's variable, and no key."""
        return default_to_dict(
            self,
            base_url=self._base_url,
            api_key=self._api_key,
            tool=self._tool,
            project_id=self._project_id,
            tools=self._tools,
            paths=self._paths,
            top_k=self._top_k,
            options=self._options,
        )

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """The retriever of a saved pipeline."""
        retriever: Self = default_from_dict(cls, data)
        return retriever

    @component.output_types(documents=list[Document])
    def run(self, query: str, top_k: int | None = None) -> dict[str, list[Document]]:
        """The hits of a query, best first."""
        return {"documents": _documents(self._question(top_k).hits(query))}

    @component.output_types(documents=list[Document])
    async def run_async(self, query: str, top_k: int | None = None) -> dict[str, list[Document]]:
        """The same in an asynchronous pipeline."""
        return {"documents": _documents(await self._question(top_k).hits_async(query))}

    def _question(self, top_k: int | None) -> Question:
        place = (self._tool, self._project_id, self._tools, self._paths)
        number = self._top_k if top_k is None else top_k
        return Question(self._client, self._async_client, *place, number, self._options)


def _documents(hits: Iterable[Described]) -> list[Document]:
    return [
        Document(id=str(hit.chunk_id), content=hit.chunk_text, meta=metadata, score=hit.score) for hit, metadata in hits
    ]
