"""Uploads exactly at their limits, and one beyond."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from fastapi.testclient import TestClient

from api.main import create_app
from api.routes.content import uploads
from api.routes.content.multipart import MAX_LINE
from api.routes.content.upload_names import MAX_DEPTH, MAX_NAME
from api.routes.content.uploads import MAX_FIELD_BYTES, MAX_FIELDS, MAX_OVERRUN
from worker.machine import disk_space
from worker.settings import LOCAL_MODEL, Settings

#: Bytes of a file, and bytes and files of an upload.
FILE, TOTAL, FILES = 1000, 2000, 3
HEAD = 'Content-Disposition: form-data; name="files"; filename="a.txt"'


@pytest.fixture(scope="module")
def client(database_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    settings = Settings(
        database_url=database_url,
        foldex_home=tmp_path_factory.mktemp("home"),
        default_embedding_model=LOCAL_MODEL,
        auth="off",
        max_file_bytes=FILE,
    )
    with (
        pytest.MonkeyPatch.context() as patch,
        TestClient(create_app(settings), base_url="http://127.0.0.1", client=("127.0.0.1", 50000)) as made,
    ):
        patch.setattr(uploads, "MAX_FILES", FILES)
        patch.setattr(uploads, "FILES_OF_MAX_BYTES", TOTAL // FILE)
        yield made


@pytest.fixture
def project() -> str:
    """A separate project for each test."""
    return f"p-{uuid4().hex}"


def reasons(client: TestClient, project: str, *files: tuple[str, int]) -> list[str | None]:
    """Why each file of an upload was refused. Asserts that the others have all their bytes."""
    parts = [("files", (name, b"x" * size)) for name, size in files]
    answer = client.post(f"/api/projects/{project}/uploads", files=parts)
    assert answer.status_code == 200, answer.text
    items: list[dict[str, Any]] = answer.json()["items"]
    for item, (_, size) in zip(items, files, strict=True):
        if item["reason"] is None:
            node = client.get(f"/api/projects/{project}/nodes/{item['file_id']}").json()
            assert (node["size"], node["content"]) == (size, "x" * size)
    return [item["reason"] for item in items]


@pytest.mark.parametrize(("size", "reason"), [(FILE, None), (FILE + 1, "too_large")])
def test_a_file_may_be_so_long(client: TestClient, project: str, size: int, reason: str | None) -> None:
    assert reasons(client, project, ("a.txt", size)) == [reason]


@pytest.mark.parametrize(("size", "reason"), [(1, None), (2, "too_much")])
def test_the_files_of_an_upload_may_be_so_long_together(
    client: TestClient, project: str, size: int, reason: str | None
) -> None:
    assert reasons(client, project, ("a.txt", FILE), ("b.txt", FILE - 1), ("c.txt", size)) == [None, None, reason]


def test_a_refused_file_counts_for_nothing(client: TestClient, project: str) -> None:
    sent = [("large.txt", FILE + 1), ("a.txt", FILE), ("b.txt", TOTAL - FILE)]
    assert reasons(client, project, *sent) == ["too_large", None, None]


@pytest.mark.parametrize("number", [FILES, FILES + 1])
def test_an_upload_may_have_so_many_files(client: TestClient, project: str, number: int) -> None:
    sent = [(f"{n}.txt", 1) for n in range(number)]
    assert reasons(client, project, *sent) == ([None] * FILES + ["too_many"])[:number]


@pytest.mark.parametrize(("number", "status"), [(2 * MAX_OVERRUN * FILES, 200), (2 * MAX_OVERRUN * FILES + 1, 413)])
def test_a_request_with_far_too_many_files_is_ended(client: TestClient, project: str, number: int, status: int) -> None:
    parts = [("files", (f"{n}.txt", b"x")) for n in range(number)]
    assert client.post(f"/api/projects/{project}/uploads", files=parts).status_code == status


@pytest.mark.parametrize(("beyond", "status"), [(0, 200), (1, 413)])
def test_a_request_with_far_too_many_bytes_is_ended(client: TestClient, project: str, beyond: int, status: int) -> None:
    body = f"--b\r\n{HEAD}\r\n\r\ntext\r\n--b--\r\n".encode()
    body += b"e" * (MAX_OVERRUN * (TOTAL + FILES * MAX_LINE) + beyond - len(body))
    headers = {"content-type": "multipart/form-data; boundary=b"}
    assert client.post(f"/api/projects/{project}/uploads", content=body, headers=headers).status_code == status


@pytest.mark.parametrize(("depth", "reason"), [(MAX_DEPTH, None), (MAX_DEPTH + 1, "too_deep")])
def test_a_file_may_lie_so_deep(client: TestClient, project: str, depth: int, reason: str | None) -> None:
    assert reasons(client, project, ("d/" * (depth - 1) + "a.txt", 1)) == [reason]


@pytest.mark.parametrize("name", ["/" * 8000, "\x01" * 4000, "a/" * 4000 + "/", "a/" * 4000 + "a"])
def test_a_refused_name_is_answered_cut(client: TestClient, project: str, name: str) -> None:
    """The answer to four thousand names that are as long as possible took hundreds of megabytes."""
    head = f'--x\r\nContent-Disposition: form-data; name="files"; filename="{name}"\r\n\r\na\r\n--x--\r\n'
    headers = {"Content-Type": "multipart/form-data; boundary=x"}
    answer = client.post(f"/api/projects/{project}/uploads", content=head.encode(), headers=headers)
    (item,) = answer.json()["items"]
    assert item["outcome"] == "refused"
    assert name.startswith(item["file_path"])
    assert len(answer.content) < 20 * MAX_NAME


@pytest.mark.parametrize(("number", "status"), [(MAX_FIELDS, 200), (MAX_FIELDS + 1, 422)])
def test_fields_may_be_so_many(client: TestClient, project: str, number: int, status: int) -> None:
    parts: list[Any] = [("index", (None, "false"))] * number
    answer = client.post(f"/api/projects/{project}/uploads", files=[*parts, ("files", ("a.txt", b"x"))])
    assert answer.status_code == status


@pytest.mark.parametrize(
    ("length", "status"), [(MAX_FIELD_BYTES["parent_id"], 404), (MAX_FIELD_BYTES["parent_id"] + 1, 422)]
)
def test_a_field_may_be_so_long(client: TestClient, project: str, length: int, status: int) -> None:
    answer = client.post(
        f"/api/projects/{project}/uploads", files={"files": ("a.txt", b"x")}, data={"parent_id": "p" * length}
    )
    assert answer.status_code == status


def test_a_disk_that_fills_during_an_upload_refuses_it(
    client: TestClient, project: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each block is checked: the upload began while there was space."""
    roomy, files = 1 << 40, {"files": ("a.txt", b"x" * FILE)}
    free = [roomy, 0]
    monkeypatch.setattr(disk_space, "free_bytes", lambda _: free.pop(0) if len(free) > 1 else free[0])
    refused = client.post(f"/api/projects/{project}/uploads", files=files)
    assert (refused.status_code, refused.json()["code"], "retry-after" in refused.headers) == (503, "disk_full", True)
    free[:] = [roomy, 0]
    body = {"name": "a.md", "type": "markdown", "content": "text"}
    refused = client.post(f"/api/projects/{project}/nodes", json=body)
    assert (refused.status_code, refused.json()["code"]) == (503, "disk_full")
    free[:] = [roomy]
    assert client.get(f"/api/projects/{project}/nodes").json()["items"] == []
    assert client.post(f"/api/projects/{project}/uploads", files=files).status_code == 200
