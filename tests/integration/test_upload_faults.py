"""Uploads while S3 fails at any of its operations: no node refers to incomplete data, and no data stays behind."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import pytest
from fastapi.testclient import TestClient

from api.main import create_app
from tests.fakes.faulty import Faulty, faulty_bucket
from worker.objects.object_store import PART, s3_client
from worker.resources import Resources
from worker.settings import LOCAL_MODEL, Settings
from worker.upkeep.orphans import delete_strays

#: A bucket for this module alone: others share the server.
BUCKET = f"contents-{uuid4().hex}"
UPLOADS = "/api/projects/p/uploads"
#: By upload operation: the S3 calls that it makes.
OPERATIONS = {
    "small object": ("PUT", f"{BUCKET}/"),
    "begin of a large one": ("POST", "?uploads"),
    "part": ("PUT", "partNumber"),
    "end of a large one": ("POST", "uploadId"),
}


@pytest.fixture(scope="module")
def front(s3: dict[str, str]) -> Iterator[Faulty]:
    with faulty_bucket(s3, BUCKET) as server:
        yield server


@pytest.fixture(scope="module")
def settings(front: Faulty, database_url: str, tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return Settings(
        database_url=database_url,
        foldex_home=tmp_path_factory.mktemp("home"),
        s3_endpoint_url=front.url,
        s3_bucket=BUCKET,
        default_embedding_model=LOCAL_MODEL,
        auth="off",
    )


@pytest.fixture(scope="module")
def client(settings: Settings) -> Iterator[TestClient]:
    with TestClient(create_app(settings), base_url="http://127.0.0.1", client=("127.0.0.1", 50000)) as made:
        yield made


@pytest.fixture
def resources(settings: Settings) -> Iterator[Resources]:
    made = Resources(settings)
    with made.pool:
        yield made


def rows(resources: Resources, query: str) -> int:
    with resources.pool.connection() as connection:
        found = connection.execute(query.encode()).fetchone()
        return int(found[0]) if found else 0


def stored(s3: dict[str, str]) -> int:
    """Objects and unfinished uploads of the bucket."""
    direct = s3_client(s3["S3_ENDPOINT_URL"])
    unfinished = direct.list_multipart_uploads(Bucket=BUCKET).get("Uploads", [])
    return direct.list_objects_v2(Bucket=BUCKET)["KeyCount"] + len(unfinished)


@pytest.mark.parametrize(("operation", "status"), [*((name, 503) for name in OPERATIONS), ("part", 0)])
def test_an_upload_that_s3_refuses_leaves_nothing_and_can_be_repeated(
    client: TestClient, front: Faulty, resources: Resources, s3: dict[str, str], operation: str, status: int
) -> None:
    large = ("files", ("large.txt", b"l" * (PART + 1)))
    small = ("files", ("small.txt", b"small"))
    files = [small, large] if operation == "small object" else [large, small]
    named = "SELECT count(*) FROM content_node WHERE object_key IS NOT NULL"
    before = rows(resources, named)
    with front.fail(*OPERATIONS[operation], status):
        answer = client.post(UPLOADS, files=files)
        assert (answer.status_code, answer.json()["code"]) == (503, "source_unavailable"), answer.text
    assert front.failed > 0
    assert rows(resources, named) == before
    # the sweep deletes what could not be deleted then
    with resources.pool.connection() as connection:
        connection.execute("UPDATE content_stray SET due_at = now()")
    delete_strays(resources, 10)
    assert (rows(resources, "SELECT count(*) FROM content_stray"), stored(s3)) == (0, before)
    answer = client.post(UPLOADS, files=files)
    assert [item["outcome"] for item in answer.json()["items"]] == ["created", "created"], answer.text
    assert rows(resources, named) == stored(s3) == before + 2
    assert client.delete("/api/projects/p").status_code == 202
