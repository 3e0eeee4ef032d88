"""The retrievers for Haystack, LangChain and LlamaIndex, through the interfaces of those packages."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any
from uuid import UUID

import httpx
import pytest

from foldex_client import AsyncFoldex, Foldex
from foldex_client.retrieving import FIELDS
from tests import coroutines
from tests.unit.client.test_contract import sample

if TYPE_CHECKING:
    from haystack import Pipeline

    from foldex_client.haystack import FoldexRetriever as HaystackRetriever
    from foldex_client.langchain import FoldexRetriever as LangChainRetriever
    from foldex_client.llama_index import FoldexRetriever as LlamaIndexRetriever

# found, not imported: every process of a test run collects all modules
pytestmark = [
    pytest.mark.skipif(find_spec("haystack") is None, reason="install haystack-ai to run"),
    pytest.mark.skipif(find_spec("langchain_core") is None, reason="install langchain-core to run"),
    pytest.mark.skipif(find_spec("llama_index") is None, reason="install llama-index-core to run"),
]

TOOL = "7b0c1e5e-2f63-4c52-9f3a-0d6f3f0f4a11"
FOUND = {
    "chunk_id": "the-chunk",
    "chunk_text": "Thirty days.",
    "file_path": "leave.md",
    "file_id": "the-file",
    "start_line": 3,
    "end_line": 4,
    "start_char": 12,
    "end_char": 24,
    "score": 0.75,
    "distance": None,
    "url": None,
}


class Sent:
    """Answers each search with one hit, and keeps what was sent."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.keys: list[str | None] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.keys.append(request.headers.get("Authorization"))
        self.asked.append((request.url.path, json.loads(request.read())))
        schema = "AcrossAnswer" if request.url.path == "/api/search" else "TreeAnswer"
        answer = sample({"$ref": f"/{schema}"}, sparse=False)
        hit, asked = {**answer["results"][0], **FOUND}, self.asked[-1][1]["fields"]
        answer["results"] = [{name: hit[name] for name in asked}]
        return httpx.Response(200, json=answer)


@pytest.fixture
def sent() -> Sent:
    return Sent()


@pytest.fixture
def client(sent: Sent) -> Iterator[Foldex]:
    with Foldex("http://foldex.invalid", transport=httpx.MockTransport(sent)) as opened:
        yield opened


@pytest.fixture
def async_client(sent: Sent) -> AsyncFoldex:
    return AsyncFoldex("http://foldex.invalid", transport=httpx.MockTransport(sent))


def langchain(**options: Any) -> LangChainRetriever:
    from foldex_client.langchain import FoldexRetriever

    return FoldexRetriever(**options)


def llama_index(*client: Foldex, **options: Any) -> LlamaIndexRetriever:
    from foldex_client.llama_index import FoldexRetriever

    return FoldexRetriever(*client, **options)


def haystack(**options: Any) -> HaystackRetriever:
    from foldex_client.haystack import FoldexRetriever

    return FoldexRetriever("http://foldex.invalid", **options)


@pytest.fixture
def _answered(monkeypatch: pytest.MonkeyPatch, sent: Sent) -> None:
    """Answer what a retriever asks that makes its own clients."""
    monkeypatch.setenv("HAYSTACK_TELEMETRY_ENABLED", "False")
    for each in (Foldex, AsyncFoldex):
        answered = partial(each, transport=httpx.MockTransport(sent))
        monkeypatch.setattr(f"foldex_client.haystack.{each.__name__}", answered)


def in_pipeline(retriever: HaystackRetriever) -> Pipeline:
    from haystack import Pipeline

    pipeline = Pipeline()
    pipeline.add_component("retriever", retriever)
    return pipeline


def assert_describes(metadata: dict[str, Any]) -> None:
    """Without what the hit lacks, as stores of other frameworks refuse None."""
    expected = {"file_path": "leave.md", "start_line": 3, "end_line": 4, "score": 0.75, "file_id": "the-file"}
    expected["calibrated"] = True
    assert expected.items() <= metadata.items()
    assert {"url", "distance", "chunk_text"} & metadata.keys() == set()


def test_langchain_gets_documents(client: Foldex, sent: Sent) -> None:
    retriever = langchain(client=client, tool=TOOL, top_k=3, options={"mode": "keyword"})
    (document,) = retriever.invoke("how many days?")
    assert (document.id, document.page_content) == ("the-chunk", "Thirty days.")
    assert_describes(document.metadata)
    expected = {"query": "how many days?", "top_k": 3, "mode": "keyword", "fields": [*FIELDS]}
    assert sent.asked == [(f"/api/tools/search/{TOOL}/query", expected)]


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize(
    ("options", "call", "number"),
    [
        ({}, {}, 10),
        ({"k": 3}, {}, 3),
        ({"top_k": 5}, {}, 5),
        ({"k": 3, "top_k": 5}, {}, 3),
        ({"k": 3}, {"k": 1}, 1),
        ({}, {"k": 2}, 2),
        ({"k": 3}, {"k": None}, 3),
    ],
)
def test_langchain_names_the_number_of_hits_k(
    client: Foldex, sent: Sent, options: dict[str, int], call: dict[str, int], number: int, *, is_async: bool
) -> None:
    retriever = langchain(client=client, tool=TOOL, **options)
    if is_async:
        coroutines.run(retriever.ainvoke("days", None, **call))
    else:
        retriever.invoke("days", None, **call)
    assert [body["top_k"] for _, body in sent.asked] == [number]


def test_langchain_runs_a_retriever_in_a_chain(client: Foldex) -> None:
    chain = langchain(client=client, tool=TOOL) | (lambda documents: documents[0].page_content)
    assert chain.invoke("days") == "Thirty days."


def test_llama_index_gets_nodes(client: Foldex, sent: Sent) -> None:
    from llama_index.core.schema import TextNode

    retriever = llama_index(client, tool=TOOL, top_k=3, options={"mode": "keyword"})
    (found,) = retriever.retrieve("how many days?")
    assert (found.node.node_id, found.get_content(), found.score) == ("the-chunk", "Thirty days.", 0.75)
    assert found.node.ref_doc_id == "the-file"
    assert isinstance(found.node, TextNode)
    assert (found.node.start_char_idx, found.node.end_char_idx) == (12, 24)
    assert_describes(found.metadata)
    expected = {"query": "how many days?", "top_k": 3, "mode": "keyword", "fields": [*FIELDS]}
    assert sent.asked == [(f"/api/tools/search/{TOOL}/query", expected)]


def test_llama_index_shows_models_the_place_but_no_ids(client: Foldex) -> None:
    from llama_index.core.schema import MetadataMode

    (found,) = llama_index(client, tool=TOOL).retrieve("days")
    for mode in (MetadataMode.LLM, MetadataMode.EMBED):
        shown = found.node.get_content(mode)
        assert "leave.md" in shown
        assert "the-chunk" not in shown
        assert "the-file" not in shown


@pytest.mark.usefixtures("_answered")
def test_haystack_gets_documents(sent: Sent) -> None:
    pipeline = in_pipeline(haystack(tool=TOOL, top_k=3, options={"mode": "keyword"}))
    (document,) = pipeline.run({"query": "how many days?"})["retriever"]["documents"]
    assert (document.id, document.content, document.score) == ("the-chunk", "Thirty days.", 0.75)
    assert_describes(document.meta)
    expected = {"query": "how many days?", "top_k": 3, "mode": "keyword", "fields": [*FIELDS]}
    assert sent.asked == [(f"/api/tools/search/{TOOL}/query", expected)]


@pytest.mark.usefixtures("_answered")
def test_haystack_loads_what_it_saved_without_the_key(sent: Sent, monkeypatch: pytest.MonkeyPatch) -> None:
    from haystack import Pipeline

    monkeypatch.setenv("FOLDEX_API_KEY", "the-secret")
    saved = in_pipeline(haystack(project_id="handbook", tools=[UUID(TOOL)], paths=("/srv",), top_k=2)).dumps()
    assert "the-secret" not in saved
    assert "FOLDEX_API_KEY" in saved
    loaded = Pipeline.loads(saved, allowed_modules=["foldex_client.haystack"])
    assert loaded.dumps() == saved
    assert len(loaded.run({"retriever": {"query": "days", "top_k": 1}})["retriever"]["documents"]) == 1
    named = {"project_id": "handbook", "tool_ids": [TOOL], "paths": ["/srv"]}
    assert sent.asked == [
        ("/api/search", {**named, "query": "days", "top_k": 1, "fields": [*FIELDS, "tool_id"]}),
    ]
    assert sent.keys == ["Bearer the-secret"]


@pytest.mark.usefixtures("_answered")
def test_haystack_searches_in_asynchronous_pipelines(sent: Sent) -> None:
    found = coroutines.run(haystack(tool=TOOL).run_async(query="days"))
    assert [document.id for document in found["documents"]] == ["the-chunk"]
    assert len(sent.asked) == 1


@pytest.mark.parametrize("place", [{"paths": ["/srv/docs"]}, {"tools": [TOOL]}])
def test_several_tools_or_paths_are_searched(client: Foldex, sent: Sent, place: dict[str, Any]) -> None:
    asked = {"client": client, "project_id": "handbook", **place}
    langchain(**asked).invoke("days")
    llama_index(**asked).retrieve("days")
    named = {"tool_ids" if name == "tools" else name: value for name, value in place.items()}
    body = {"project_id": "handbook", "query": "days", "top_k": 10, "fields": [*FIELDS, "tool_id"], **named}
    assert sent.asked == [("/api/search", body)] * 2


def test_asynchronous_calls_use_the_asynchronous_client(async_client: AsyncFoldex, sent: Sent) -> None:
    chained = langchain(async_client=async_client, tool=TOOL)
    indexed = llama_index(async_client=async_client, tool=TOOL)

    async def ask() -> tuple[str, str]:
        (document,) = await chained.ainvoke("days")
        (node,) = await indexed.aretrieve("days")
        await async_client.aclose()
        return document.page_content, node.get_content()

    assert coroutines.run(ask()) == ("Thirty days.", "Thirty days.")
    assert len(sent.asked) == 2
    for blocking in (chained.invoke, indexed.retrieve):
        with pytest.raises(ValueError, match="only an async_client"):
            blocking("days")


def test_without_an_asynchronous_client_the_other_runs_in_a_thread(client: Foldex) -> None:
    async def ask() -> tuple[str, str]:
        (document,) = await langchain(client=client, tool=TOOL).ainvoke("days")
        (node,) = await llama_index(client, tool=TOOL).aretrieve("days")
        return document.page_content, node.get_content()

    assert coroutines.run(ask()) == ("Thirty days.", "Thirty days.")


@pytest.mark.parametrize("retriever", [langchain, llama_index])
def test_a_retriever_needs_a_client_and_one_place(retriever: Callable[..., object], client: Foldex) -> None:
    with pytest.raises(ValueError, match="Give a client"):
        retriever(tool=TOOL)
    for place in ({}, {"tool": TOOL, "project_id": "handbook"}):
        with pytest.raises(ValueError, match="either a tool"):
            retriever(client=client, **place)
        with pytest.raises(ValueError, match="either a tool"):
            haystack(**place)
