"""The retrievers for Haystack, LangChain and LlamaIndex over the service, by what those projects ask of retrievers."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from foldex_client import AsyncFoldex, Foldex
from tests import coroutines
from tests.service import Service

QUERY = "How many cranes does the harbour have?"
NOTES = 5


@pytest.fixture(scope="module")
def tool(running: Service, root: Path) -> str:
    """A tool of a folder with more notes than a standard test asks for."""
    folder = root / "harbour"
    folder.mkdir()
    for number in range(NOTES):
        (folder / f"note-{number}.md").write_text(f"# Note {number}\n\nThe harbour has {number} cranes.\n")
    made = running.local_tool(folder)
    running.wait(made)
    return made


@pytest.fixture(scope="module")
def url(running: Service) -> str:
    return str(running.client.base_url)


@pytest.fixture
def client(url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Foldex]:
    monkeypatch.setenv("HAYSTACK_TELEMETRY_ENABLED", "False")
    with Foldex(url, trust_env=False) as opened:
        yield opened


def assert_describes(metadata: Mapping[str, Any]) -> None:
    assert metadata["file_path"].startswith("note-")
    assert metadata["calibrated"] is True
    assert 0 < metadata["score"] <= 1


@pytest.mark.parametrize("is_async", [False, True])
def test_langchain_passes_its_standard_tests(client: Foldex, url: str, tool: str, *, is_async: bool) -> None:
    pytest.importorskip("langchain_tests", reason="install langchain-tests to run")
    from langchain_tests.integration_tests import RetrieversIntegrationTests

    from foldex_client.langchain import FoldexRetriever

    clients: dict[str, Any] = {"client": client}
    if is_async:
        clients["async_client"] = AsyncFoldex(url, trust_env=False)

    class Standard(RetrieversIntegrationTests):  # type: ignore[misc] # has no types where it is not installed
        retriever_constructor = FoldexRetriever
        retriever_constructor_params = {**clients, "tool": tool}  # noqa: RUF012 # a property of the base
        retriever_query_example = QUERY

    names = [name for name in dir(Standard) if name.startswith("test_")]
    for name in names:
        test = getattr(Standard(), name)
        given = {"retriever": FoldexRetriever(**clients, tool=tool)} if inspect.signature(test).parameters else {}
        if inspect.iscoroutine(result := test(**given)):
            coroutines.run(result)
    assert len(names) >= 5
    for document in FoldexRetriever(**clients, tool=tool).invoke(QUERY):
        assert_describes(document.metadata)


def test_llama_index_uses_it_as_any_retriever(client: Foldex, tool: str) -> None:
    pytest.importorskip("llama_index.core", reason="install llama-index-core to run")
    from llama_index.core.base.base_retriever import BaseRetriever
    from llama_index.core.llms import MockLLM
    from llama_index.core.query_engine import RetrieverQueryEngine
    from llama_index.core.retrievers import QueryFusionRetriever
    from llama_index.core.schema import MetadataMode, QueryBundle, TextNode
    from llama_index.core.tools import RetrieverTool

    from foldex_client.llama_index import FoldexRetriever

    # as each integration of the project asserts
    assert BaseRetriever.__name__ in [base.__name__ for base in FoldexRetriever.__mro__]
    retriever = FoldexRetriever(client, tool=tool, top_k=3)
    found = retriever.retrieve(QUERY)
    assert len(found) == 3
    for each in found:
        assert_describes(each.metadata)
        assert TextNode.from_dict(each.node.to_dict()) == each.node
        assert "calibrated" not in each.get_content(MetadataMode.LLM)
    ids = [each.node_id for each in found]
    assert [each.node_id for each in retriever.retrieve(QueryBundle(QUERY))] == ids
    assert [each.node_id for each in coroutines.run(retriever.aretrieve(QUERY))] == ids
    assert retriever.get_prompts() == {}
    answer = RetrieverQueryEngine.from_args(retriever, llm=MockLLM()).query(QUERY)
    assert [each.node_id for each in answer.source_nodes] == ids
    fused = QueryFusionRetriever([retriever], llm=MockLLM(), similarity_top_k=3, num_queries=1, use_async=False)
    assert {each.node_id for each in fused.retrieve(QUERY)} == {*ids}
    assert "cranes" in str(RetrieverTool.from_defaults(retriever).call(QUERY))


def test_haystack_uses_it_as_any_component(client: Foldex, url: str, tool: str) -> None:
    pytest.importorskip("haystack", reason="install haystack-ai to run")
    from haystack import Document, Pipeline
    from haystack.components.joiners import DocumentJoiner
    from haystack.core.component import Component
    from haystack.core.serialization import component_from_dict, component_to_dict

    from foldex_client.haystack import FoldexRetriever

    retriever = FoldexRetriever(url, tool=tool, top_k=3)
    assert isinstance(retriever, Component)
    saved = component_to_dict(retriever, "retriever")
    assert saved["type"] == "foldex_client.haystack.FoldexRetriever"
    loaded = component_from_dict(FoldexRetriever, saved, "retriever")
    assert component_to_dict(loaded, "retriever") == saved
    pipeline = Pipeline()
    pipeline.add_component("retriever", loaded)
    pipeline.add_component("joiner", DocumentJoiner())
    pipeline.connect("retriever.documents", "joiner.documents")
    again = Pipeline.loads(pipeline.dumps(), allowed_modules=["foldex_client.haystack"])
    documents = again.run({"retriever": {"query": QUERY}})["joiner"]["documents"]
    assert len(documents) == 3
    for document in documents:
        assert_describes(document.meta)
        assert document.score == document.meta["score"]
        assert Document.from_dict(document.to_dict()) == document
    found = coroutines.run(retriever.run_async(query=QUERY, top_k=1))
    assert [document.id for document in found["documents"]] == [documents[0].id]
