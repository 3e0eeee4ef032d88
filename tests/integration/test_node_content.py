"""The original of a node is downloaded as it was stored, from either store, whatever goes wrong there."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from functools import partial
from uuid import uuid4

import httpx
import psutil
import pytest

from api.routes.content.node_answers import PIECE
from tests.fakes.faulty import CUT, Faulty, faulty_bucket
from tests.service import PROJECT, NewService, Service, checked, service
from worker.objects.object_store import s3_client

NODES = f"/api/projects/{PROJECT}/nodes"
#: A bucket for this module alone: others share the server.
BUCKET = f"contents-{uuid4().hex}"
BYTES = random.Random(18).randbytes(8 * PIECE + 17)  # no secret


@pytest.fixture(scope="module")
def front(s3: dict[str, str]) -> Iterator[Faulty]:
    with faulty_bucket(s3, BUCKET) as server:
        yield server


@pytest.fixture(scope="module")
def in_bucket(new_service: NewService, s3: dict[str, str], front: Faulty) -> Iterator[Service]:
    env = {**s3, "S3_ENDPOINT_URL": front.url, "S3_BUCKET": BUCKET}
    with new_service(partial(service, workers=False), **env) as started:
        yield started


@pytest.fixture(scope="module")
def in_directory(new_service: NewService) -> Iterator[Service]:
    with new_service(partial(service, workers=False)) as started:
        yield started


@pytest.fixture(params=["in_bucket", "in_directory"])
def running(request: pytest.FixtureRequest) -> Service:
    started: Service = request.getfixturevalue(request.param)
    return started


def uploaded(running: Service, name: str, data: bytes) -> str:
    answer = running.client.post(f"/api/projects/{PROJECT}/uploads", files={"files": (name, data)})
    (item,) = checked(answer, 200)["items"]
    return str(item["file_id"])


def content(running: Service, node: str, method: str = "GET", **headers: str) -> httpx.Response:
    return running.client.request(method, f"{NODES}/{node}/content", headers=headers)


def test_bytes_come_back_as_they_were_stored(running: Service) -> None:
    node = uploaded(running, "trip to Älmhult.pdf", BYTES)
    answer = content(running, node)
    assert (answer.status_code, answer.content == BYTES) == (200, True)
    assert answer.headers["content-length"] == str(len(BYTES))
    assert answer.headers["content-disposition"].endswith("filename*=UTF-8''trip%20to%20%C3%84lmhult.pdf")
    assert (answer.headers["content-type"], answer.headers["x-content-type-options"]) == ("application/pdf", "nosniff")
    head = content(running, node, "HEAD")
    assert (head.status_code, head.content) == (200, b"")
    same = ("content-length", "content-disposition", "content-type", "etag")
    assert [head.headers[name] for name in same] == [answer.headers[name] for name in same]


@pytest.mark.parametrize(
    ("name", "type_", "written", "shown", "content_type"),
    [
        ("a", "markdown", "# Ä\n", "# Ä\n".encode(), "text/markdown"),
        ("a.html", "file", "<script>", b"<script>", "application/octet-stream"),
        ("a.bin", "file", "?", b"?", "application/octet-stream"),
        ("a.epub", "file", "?", b"?", "application/octet-stream"),
        ("a.jpeg", "file", "?", b"?", "image/jpeg"),
        ("a.py", "file", "pass", b"pass", "text/plain"),
        ("empty.txt", "file", None, b"", "text/plain"),
        ("a", "json", {"ä": [1]}, json.dumps({"ä": [1]}, indent=2, ensure_ascii=False).encode(), "application/json"),
    ],
)
def test_nodes_of_every_kind_have_a_content(
    in_directory: Service, name: str, type_: str, written: object, shown: bytes, content_type: str
) -> None:
    answer = content(in_directory, in_directory.node(name, type_, written))
    assert (answer.status_code, answer.content, answer.headers["content-type"]) == (200, shown, content_type)


def test_the_etag_changes_with_the_version(running: Service) -> None:
    node = running.node("a.md", "markdown", "first", id="again")
    etags = [content(running, node).headers["etag"]]
    known = content(running, node, **{"If-None-Match": f'"other", {etags[0]}'})
    assert (known.status_code, known.content, known.headers["etag"]) == (304, b"", etags[0])
    assert content(running, node, "HEAD", **{"If-None-Match": etags[0]}).status_code == 304
    checked(running.client.patch(f"{NODES}/{node}", json={"content": "other"}), 200)
    changed = content(running, node, **{"If-None-Match": etags[0]})
    assert (changed.status_code, changed.text) == (200, "other")
    checked(running.client.delete(f"{NODES}/{node}"), 202)
    running.node("a.md", "markdown", "third", id="again")
    again = content(running, node, **{"If-None-Match": etags[0]})
    assert (again.status_code, again.text) == (200, "third")
    assert len({*etags, changed.headers["etag"], again.headers["etag"]}) == 3
    checked(running.client.delete(f"{NODES}/{node}"), 202)


SIZE = len(BYTES)
PARTS: list[tuple[str, range]] = [
    ("bytes=0-0", range(1)),
    ("bytes=5-99", range(5, 100)),
    (f"bytes={SIZE - 3}-", range(SIZE - 3, SIZE)),
    (f"bytes={SIZE - 1}-{SIZE + 100}", range(SIZE - 1, SIZE)),
    ("bytes=-7", range(SIZE - 7, SIZE)),
    (f"bytes=-{SIZE + 1}", range(SIZE)),
    (f"Bytes = {PIECE - 1} - {3 * PIECE}", range(PIECE - 1, 3 * PIECE + 1)),
]
#: What asks for no part, for several, or wrongly, is answered with the whole.
NO_PARTS = [
    "bytes=9-5",
    "bytes=-",
    "bytes=",
    "bytes=a-b",
    "bytes=0-1,5-6",
    "lines=0-1",
    "bytes=0x1-2",
    f"bytes={'9' * 50}-",
]


@pytest.mark.parametrize(("asked", "part"), PARTS)
def test_a_part_of_a_content_is_downloaded(running: Service, asked: str, part: range) -> None:
    node = uploaded(running, "parts.pdf", BYTES)
    answer = content(running, node, Range=asked)
    assert (answer.status_code, answer.content == BYTES[part.start : part.stop]) == (206, True)
    assert answer.headers["content-range"] == f"bytes {part.start}-{part.stop - 1}/{SIZE}"
    assert answer.headers["content-length"] == str(len(part))


def test_a_download_that_broke_off_is_resumed_if_the_content_is_the_same(running: Service) -> None:
    node = uploaded(running, "resumed.pdf", BYTES)
    head = content(running, node, "HEAD", Range="bytes=0-1")
    assert (head.status_code, head.headers["accept-ranges"], head.headers["content-length"]) == (
        200,
        "bytes",
        str(SIZE),
    )
    etag = head.headers["etag"]
    rest = {"Range": "bytes=100-"}
    resumed = content(running, node, **rest, **{"If-Range": etag})
    assert (resumed.status_code, resumed.content == BYTES[100:], resumed.headers["etag"]) == (206, True, etag)
    for other in ('"other"', f"W/{etag}", "Wed, 21 Oct 2026 07:28:00 GMT"):
        whole = content(running, node, **rest, **{"If-Range": other})
        assert (whole.status_code, whole.content == BYTES, "content-range" in whole.headers) == (200, True, False)
    assert content(running, node, **rest, **{"If-None-Match": etag}).status_code == 304


def test_a_range_that_cannot_be_is_refused_or_ignored(running: Service) -> None:
    node = uploaded(running, "parts.pdf", BYTES)
    for asked in (f"bytes={SIZE}-", f"bytes={SIZE}-{SIZE + 5}", "bytes=-0"):
        answer = content(running, node, Range=asked)
        assert checked(answer, 416)["code"] == "range_not_satisfiable"
        assert answer.headers["content-range"] == f"bytes */{SIZE}"
    for asked in NO_PARTS:
        answer = content(running, node, Range=asked)
        assert (answer.status_code, answer.content == BYTES) == (200, True), asked


def test_parts_of_a_json_node_are_those_of_its_text(in_directory: Service) -> None:
    node = in_directory.node("part.json", "json", {"ä": [1]})
    text = json.dumps({"ä": [1]}, indent=2, ensure_ascii=False).encode()
    answer = content(in_directory, node, Range="bytes=4-9")
    assert (answer.status_code, answer.content) == (206, text[4:10])
    empty = in_directory.node("empty-part.txt", "file", None)
    assert content(in_directory, empty, Range="bytes=0-").headers["content-range"] == "bytes */0"


def test_only_the_part_is_read_from_the_store(in_bucket: Service, front: Faulty) -> None:
    node = uploaded(in_bucket, "parts.pdf", BYTES)
    # half of what the store answers is less than the part, but half of the whole would contain it
    with front.fail("GET", f"{BUCKET}/", CUT), pytest.raises(httpx.RemoteProtocolError) as broken:
        content(in_bucket, node, Range="bytes=7-8")
    assert "expected 2)" in str(broken.value)
    assert front.failed == 1
    assert content(in_bucket, node, Range="bytes=7-8").content == BYTES[7:9]


def private_bytes(running: Service) -> int:
    """Private memory of the API's process."""
    listening = [each for each in psutil.net_connections("tcp") if each.status == "LISTEN"]
    own = running.client.base_url.port
    (pid,) = {each.pid for each in listening if getattr(each.laddr, "port", 0) == own}
    return int(psutil.Process(pid).memory_full_info().uss)


def test_large_content_is_read_back_as_it_is_stored(running: Service) -> None:
    """Nothing parses it: 18 MB of small values would take 362 MB and stall all others for two seconds."""
    rows = [{"n": n, "\u00e4": ["x", None, 1.5]} for n in range(500_000)]
    for odd, value in ((json.dumps(rows), rows), ('["\\ud800", ' + "1," * PIECE + "1]", None)):
        node = uploaded(running, "large.json", odd.encode())
        before = private_bytes(running)
        answer = running.client.get(f"{NODES}/{node}")
        grown = private_bytes(running) - before
        assert checked(answer, 200)["content"] == (odd if value is None else value)
        assert grown < 150 << 20
    text = 'a\u20ac"\\\n\U0001f600' * PIECE
    node = uploaded(running, "large.md", text.encode() + b"\xff")
    assert running.get(f"{NODES}/{node}")["content"] == text + "\ufffd"


def test_large_json_is_answered_as_it_was_sent(in_directory: Service) -> None:
    value = {"rows": [{"n": n, "text": "\u00e4" * 40} for n in range(20_000)]}
    body = {"name": "rows", "type": "json", "content": value}
    made = checked(in_directory.client.post(NODES, json=body), 201)
    assert made["content"] == value
    read = in_directory.get(f"{NODES}/{made['id']}")
    assert read == made
    changed = checked(in_directory.client.patch(f"{NODES}/{made['id']}", json={"content": [value]}), 200)
    assert changed["content"] == [value]
    shown = content(in_directory, made["id"])
    assert (shown.json(), shown.headers["content-length"]) == ([value], str(changed["size"]))


def test_a_folder_and_a_missing_node_have_no_content(in_directory: Service) -> None:
    folder = in_directory.node("folder", "folder")
    for method in ("GET", "HEAD"):
        for node in (folder, "missing"):
            assert content(in_directory, node, method).status_code == 404
    assert "folder" in checked(content(in_directory, folder), 404)["detail"]


def test_a_store_that_fails_before_the_first_byte_is_a_problem(in_bucket: Service, front: Faulty) -> None:
    node = uploaded(in_bucket, "a.txt", b"text")
    for status in (500, 0):
        with front.fail("GET", f"{BUCKET}/", status):
            assert checked(content(in_bucket, node), 503)["code"] == "source_unavailable"
        assert front.failed > 0
    assert content(in_bucket, node).content == b"text"
    (row,) = in_bucket.rows("SELECT object_key FROM content_node WHERE id = %s", node)
    s3_client(front.url).delete_object(Bucket=BUCKET, Key=row[0])
    problem = checked(content(in_bucket, node), 422)
    assert (problem["code"], "upload it again" in problem["detail"]) == ("source_error", True)


def test_a_download_that_breaks_off_is_not_taken_for_the_whole(in_bucket: Service, front: Faulty) -> None:
    node = uploaded(in_bucket, "a.txt", BYTES)
    with front.fail("GET", f"{BUCKET}/", CUT), pytest.raises(httpx.RemoteProtocolError):
        content(in_bucket, node)
    assert front.failed == 1
    assert content(in_bucket, node).content == BYTES
    assert '"a download broke off"' in (in_bucket.home / "log" / "api.log").read_text()
