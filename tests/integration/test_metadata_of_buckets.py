"""User metadata of objects is metadata of files, for a tool that takes it from there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.embeddings import EmbeddingsFake
from tests.service import TOOLS, NewService, Service
from worker.objects.object_store import s3_client


@pytest.fixture(scope="module")
def running(new_service: NewService, root: Path, provider: EmbeddingsFake, s3: dict[str, str]) -> Iterator[Service]:
    with new_service(**{**provider.env, **s3, "FOLDEX_HOME": str(root / "home")}) as started:
        yield started


def test_user_metadata_of_objects_filters_searches(running: Service, s3: dict[str, str]) -> None:
    client = s3_client(s3["S3_ENDPOINT_URL"])
    client.create_bucket(Bucket="stated")
    text = b"---\nteam: own\n---\n\nA word."

    def put(**metadata: str) -> None:
        client.put_object(Bucket="stated", Key="a.md", Body=text, Metadata=metadata)

    put(Team="red", year="2024", odd="=?x?")
    client.put_object(Bucket="stated", Key="b.md", Body=text)
    client.put_object(Bucket="stated", Key="b.md.meta.json", Body=b'{"year": 2024, "acl": ["*"]}')
    declared = {"team": "string", "year": "int", "odd": "string"}
    config = {"metadata": declared, "metadata_from": ["front_matter", "s3", "sidecars"]}
    tool = running.tool(source={"kind": "s3", "bucket": "stated"}, config=config)
    running.wait(tool)

    def found(**conditions: Any) -> dict[str, Any]:
        body = {"query": "word", "filters": {"metadata": conditions}}
        answer = running.client.post(f"{TOOLS}/{tool}/query", json=body).json()
        return {hit["file_path"]: hit["metadata"] for hit in answer.get("results", ())}

    stated = {"team": "red", "year": 2024, "odd": "=?x?"}
    assert found(year=2024) == {"a.md": stated, "b.md": {"team": "own", "year": 2024}}
    assert found(team="own") == {"b.md": {"team": "own", "year": 2024}}
    # an object with other metadata and the same content is read by a full run, and nothing is embedded
    put(team="blue")
    running.post(f"{TOOLS}/{tool}/reindex", {"full": True})
    assert running.wait(tool)["embedded_chunks"] == 0
    assert found(team="blue") == {"a.md": {"team": "blue"}}
