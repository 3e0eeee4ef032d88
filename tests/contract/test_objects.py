"""Both object stores keep contents by key."""

from __future__ import annotations

import errno
import hashlib
import os
import socket
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any
from uuid import uuid4

import pytest
from botocore.exceptions import (
    ClientError,
    CredentialRetrievalError,
    EndpointConnectionError,
    IncompleteReadError,
    MetadataRetrievalError,
    NoCredentialsError,
    ReadTimeoutError,
)

from api.routes.content.uploads import IncomingUpload
from schemas.errors import DiskFull, FileError, FolderGone, SourceError, SourceRefused, SourceUnavailable
from schemas.reason import Reason
from worker.machine.disk_space import LAST_SHARE, DiskSpace, free_bytes
from worker.objects.directory_objects import DirectoryObjects, _FileWriter
from worker.objects.object_store import (
    PART,
    ObjectStore,
    ObjectWriter,
    S3Objects,
    open_objects,
    s3_client,
    s3_errors,
)
from worker.resources import Resources
from worker.settings import Settings
from worker.upkeep.orphans import delete_strays

KEYS = ["plain", "project/node/1", "project/node", "../../escape", "/etc/passwd", "..", "\u00fc\u65e5", "k" * 1000]


@pytest.fixture(params=["s3", "directory"])
def objects(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStore:
    if request.param == "directory":
        return open_objects(None, None, tmp_path / "made" / "on-demand")
    endpoint_url: str = request.getfixturevalue("endpoint_url")
    bucket = f"objects-{uuid4().hex}"
    s3_client(endpoint_url).create_bucket(Bucket=bucket)
    return open_objects(bucket, endpoint_url, tmp_path)


def test_contents_come_back_whatever_the_key(objects: ObjectStore) -> None:
    for key in KEYS:
        objects.put(key, key.encode())
    assert [objects.get(key, 10_000) for key in KEYS] == [key.encode() for key in KEYS]


def test_a_put_replaces_and_a_delete_may_be_repeated(objects: ObjectStore) -> None:
    objects.discard("key")
    objects.put("key", b"first")
    objects.put("key", b"")
    assert objects.get("key", 10) == b""
    objects.delete("key")
    objects.delete("key")
    with pytest.raises(FileError) as missing:
        objects.get("key", 10)
    assert missing.value.reason is Reason.UNREADABLE


@pytest.mark.parametrize("size", [0, 5, PART, 2 * PART + 17])
def test_a_content_may_come_in_pieces_and_is_not_there_before_its_end(objects: ObjectStore, size: int) -> None:
    content = bytes(range(256)) * (size // 256) + b"e" * (size % 256)
    writer = objects.open("key")
    for start in range(0, size, 3_000_000):
        writer.write(content[start : start + 3_000_000])
        with pytest.raises(FileError):
            objects.get("key", 10)
    writer.close()
    writer.abort()
    assert objects.get("key", size) == content


@pytest.mark.parametrize("size", [0, 5, 3_000_000])
def test_a_content_is_read_in_pieces(objects: ObjectStore, size: int) -> None:
    content = bytes(range(256)) * (size // 256) + b"e" * (size % 256)
    objects.put("key", content)
    reader = objects.reader("key")
    assert reader.size == size
    pieces = list(iter(lambda: reader.read(100_000), b""))
    assert b"".join(pieces) == content
    assert max(map(len, pieces), default=0) <= 100_000
    reader.close()
    with pytest.raises(FileError) as missing:
        objects.reader("missing")
    assert missing.value.reason is Reason.UNREADABLE


@pytest.mark.parametrize("part", [range(1), range(2, 5), range(4, 5), range(5)])
def test_a_part_is_read_without_what_is_around_it(objects: ObjectStore, part: range) -> None:
    objects.put("key", b"abcde")
    reader = objects.reader("key", part)
    assert reader.size == len(part)
    assert b"".join(iter(lambda: reader.read(2), b"")) == b"abcde"[part.start : part.stop]
    reader.close()


def test_a_service_that_ignores_which_part_is_asked_for_is_told(
    endpoint_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = s3_client(endpoint_url)
    client.create_bucket(Bucket="whole")
    objects, get, bodies = S3Objects("whole", endpoint_url), client.get_object, list[Any]()
    objects.put("key", b"abcde")

    def whole(**asked: Any) -> Any:
        answer = get(Bucket=asked["Bucket"], Key=asked["Key"])
        bodies.append(answer["Body"])
        return answer

    monkeypatch.setattr(client, "get_object", whole)
    with pytest.raises(SourceUnavailable, match="part"):
        objects.reader("key", range(2))
    assert [body._raw_stream.closed for body in bodies] == [True]


@pytest.mark.parametrize("size", [5, PART + 17])
def test_what_is_aborted_or_left_by_the_dead_leaves_nothing(objects: ObjectStore, size: int) -> None:
    for _ in range(2):
        writer = objects.open("key")
        writer.write(b"x" * size)
        for _ in range(2):
            writer.abort()
            assert unfinished(objects) == []
        left = objects.open("key")
        left.write(b"x" * size)
        if isinstance(left, _FileWriter):
            left.file.close()
        objects.put("key/longer", b"is another one")
        objects.discard("key")
        objects.discard("key")
    assert unfinished(objects) == []
    with pytest.raises(FileError):
        objects.get("key", size)
    assert objects.get("key/longer", 20) == b"is another one"


def neighbour(key: str) -> str:
    """A longer key whose content is kept beside that of `key`: in S3 by its name, in a directory by its hash."""

    def place(name: str) -> str:
        return hashlib.sha256(name.encode()).hexdigest()[:2]

    return next(name for number in range(100_000) if place(name := f"{key}/{number}") == place(key))


def test_who_writes_beside_an_object_that_is_discarded_is_not_disturbed(objects: ObjectStore) -> None:
    writer = objects.open(neighbour("key"))
    writer.write(b"x" * (PART + 17))
    objects.discard("key")
    writer.close()
    assert len(objects.get(neighbour("key"), 2 * PART)) == PART + 17


def test_half_an_object_that_cannot_be_aborted_is_left_to_the_sweep(
    endpoint_url: str, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = s3_client(endpoint_url)
    client.create_bucket(Bucket="unsteady")
    store: dict[str, Any] = {"s3_bucket": "unsteady", "s3_endpoint_url": endpoint_url}
    resources = Resources(Settings(database_url=database_url, max_file_bytes=2 * PART, **store))
    upload = IncomingUpload(resources, "p", None)

    def away(**_: Any) -> None:
        raise EndpointConnectionError(endpoint_url=endpoint_url)

    with monkeypatch.context() as patch:
        patch.setattr(client, "abort_multipart_upload", away)
        for name, parts in (("too large.md", 3), ("broken off.md", 1)):
            upload.begin("files", name)
            for _ in range(parts):
                upload.data(b"x" * PART)
        upload.abort()
    with resources.pool.connection() as connection:
        assert connection.execute("UPDATE content_stray SET due_at = now()").rowcount == 2
    assert len(unfinished(resources.objects)) == 2
    assert delete_strays(resources, 10) == (2, False)
    assert unfinished(resources.objects) == []
    resources.pool.close()


def unfinished(objects: ObjectStore) -> list[object]:
    """Stored data of contents that were never completed."""
    if isinstance(objects, DirectoryObjects):
        return [*objects.directory.rglob(".new-*")]
    assert isinstance(objects, S3Objects)
    client = s3_client(objects.endpoint_url)
    return [*client.list_multipart_uploads(Bucket=objects.bucket).get("Uploads", [])]


def test_the_limit_is_the_largest_size_read(objects: ObjectStore) -> None:
    objects.put("key", b"12345")
    assert objects.get("key", 5) == b"12345"
    with pytest.raises(FileError) as refused:
        objects.get("key", 4)
    assert refused.value.reason is Reason.TOO_LARGE


def test_a_missing_bucket_names_its_setting(endpoint_url: str) -> None:
    objects = S3Objects("never-made", endpoint_url)
    for call in (lambda: objects.put("k", b""), lambda: objects.get("k", 1), lambda: objects.delete("k")):
        with pytest.raises(SourceRefused, match="S3_BUCKET"):
            call()


def test_a_service_that_is_away_may_come_back(endpoint_url: str) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
    with pytest.raises(SourceUnavailable):
        S3Objects("bucket", address).put("k", b"")


def answer(code: str, status: int = 400) -> ClientError:
    """An error as S3 answers it."""
    response: Any = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return ClientError(response, "GetObject")


@pytest.mark.parametrize(
    ("code", "status", "error"),
    [
        ("NoSuchBucket", 404, FolderGone),
        ("AnyFault", 499, SourceRefused),
        ("AnyFault", 500, SourceUnavailable),
        ("SlowDown", 400, SourceUnavailable),
        ("RequestTimeout", 400, SourceUnavailable),
        ("TooManyRequestsException", 429, SourceUnavailable),
        ("Throttling", 400, SourceUnavailable),
        ("ThrottlingException", 400, SourceUnavailable),
        ("429", 429, SourceUnavailable),
        ("SignatureDoesNotMatch", 403, SourceRefused),
    ],
)
def test_an_error_of_s3_says_whether_to_try_again(code: str, status: int, error: type[SourceError]) -> None:
    with pytest.raises(SourceError) as told, s3_errors("bucket"):
        raise answer(code, status)
    assert type(told.value) is error


@pytest.mark.parametrize(
    ("raised", "error"),
    [
        (EndpointConnectionError(endpoint_url="x"), SourceUnavailable),
        (ReadTimeoutError(endpoint_url="x"), SourceUnavailable),
        (IncompleteReadError(actual_bytes=1, expected_bytes=2), SourceUnavailable),
        (MetadataRetrievalError(error_msg="x"), SourceUnavailable),
        (CredentialRetrievalError(provider="x", error_msg="x"), SourceUnavailable),
        (NoCredentialsError(), SourceRefused),
        (ValueError("Invalid endpoint"), SourceRefused),
    ],
)
def test_a_failure_before_any_answer_says_whether_to_try_again(raised: Exception, error: type[SourceError]) -> None:
    with pytest.raises(SourceError) as told, s3_errors("bucket"):
        raise raised
    assert type(told.value) is error


@pytest.mark.parametrize(
    "code",
    [
        *("NoSuchKey", "404", "AccessDenied", "403", "InvalidObjectState", "InvalidRequest"),
        *("KMS.DisabledException", "KMS.NotFoundException"),
    ],
)
def test_an_object_that_s3_does_not_give_out_says_nothing_of_the_others(
    endpoint_url: str, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    def refuse(**_: Any) -> None:
        raise answer(code)

    monkeypatch.setattr(s3_client(endpoint_url), "get_object", refuse)
    with pytest.raises(FileError) as told:
        S3Objects("bucket", endpoint_url).get("key", 10)
    assert told.value.reason is Reason.UNREADABLE


def test_no_key_leaves_the_directory(tmp_path: Path) -> None:
    objects = DirectoryObjects(tmp_path / "inside")
    for key in KEYS:
        objects.put(key, b"x")
    assert [path.name for path in tmp_path.iterdir()] == ["inside"]
    assert len([path for path in tmp_path.rglob("*") if path.is_file()]) == len(KEYS)


def test_a_directory_that_cannot_be_one_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SourceUnavailable):
        DirectoryObjects(tmp_path / "file").put("key", b"x")


@pytest.mark.parametrize(
    ("raised", "error"),
    [(PermissionError(), SourceRefused), (OSError(errno.ENOSPC, ""), SourceUnavailable)],
)
def test_a_content_that_cannot_be_completed_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, raised: OSError, error: type[SourceError]
) -> None:
    objects = DirectoryObjects(tmp_path)
    objects.put("key", b"old")

    def fail(_: int) -> None:
        raise raised

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(SourceError) as told:
        objects.put("key", b"new")
    assert type(told.value) is error
    assert (unfinished(objects), objects.get("key", 3)) == ([], b"old")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="run where a device plays a full disk")
@pytest.mark.parametrize("size", [1, 1_000_000])
def test_a_full_disk_may_have_room_again_and_keeps_no_half_a_content(tmp_path: Path, size: int) -> None:
    objects = DirectoryObjects(tmp_path)
    writer = objects.open("key")
    assert isinstance(writer, _FileWriter)
    with Path("/dev/full").open("wb") as full:
        os.dup2(full.fileno(), writer.file.fileno())

    def complete() -> None:
        # a large piece fails at once, a small one when it leaves the buffer
        writer.write(b"x" * size)
        writer.close()

    with pytest.raises(SourceUnavailable):
        complete()
    writer.abort()
    assert unfinished(objects) == []


def test_an_answer_that_breaks_off_may_be_asked_for_again(endpoint_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    s3_client(endpoint_url).create_bucket(Bucket="broken")
    objects = S3Objects("broken", endpoint_url)
    objects.put("key", b"abcde")
    reader: Any = objects.reader("key")

    def fail(_: int) -> bytes:
        raise IncompleteReadError(actual_bytes=1, expected_bytes=2)

    monkeypatch.setattr(reader.body, "read", fail)
    with pytest.raises(SourceUnavailable):
        reader.read(5)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 32 MiB."""
    place = tmp_path / "disk"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=32m", "tmpfs", str(place)]
    if subprocess.run(command, capture_output=True, check=False).returncode != 0:
        pytest.skip("run as root where a small tmpfs may be mounted")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", place], check=True)


def test_contents_written_at_once_leave_the_reserve_of_the_disk(small_disk: Path) -> None:
    """All began while there was space: each block is checked, with those that other threads write."""
    space = DiskSpace(small_disk, reserve=LAST_SHARE * (16 << 20))
    objects = DirectoryObjects(small_disk / "objects", space)
    start = Barrier(8)

    def fill(writer: ObjectWriter) -> int:
        written = 0
        start.wait()
        try:
            while True:
                writer.write(bytes(1 << 18))
                written += 1 << 18
        except DiskFull:
            return written

    writers = [objects.open(f"key {number}") for number in range(8)]
    with ThreadPoolExecutor(8) as threads:
        written = sum(threads.map(fill, writers))
    free = free_bytes(small_disk)
    for writer in writers:
        writer.abort()
    assert written >= 12 << 20
    assert free >= 16 << 20
