"""The object store of node contents: an S3 bucket, or a directory if no bucket is configured."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    CredentialRetrievalError,
    HTTPClientError,
    IncompleteReadError,
    MetadataRetrievalError,
)
from botocore.exceptions import (
    ConnectionError as S3ConnectionError,
)

from schemas.errors import FileError, FolderGone, SourceError, SourceRefused, SourceUnavailable
from schemas.reason import Reason
from worker.machine.disk_space import DiskSpace
from worker.objects.directory_objects import DirectoryObjects, Using

if TYPE_CHECKING:
    from botocore.response import StreamingBody
    from mypy_boto3_s3.client import S3Client
    from mypy_boto3_s3.type_defs import CompletedPartTypeDef, GetObjectOutputTypeDef

#: Seconds to connect to S3, in one attempt.
_CONNECT_TIMEOUT_S = 5
#: Seconds between two bytes of an answer of S3.
_READ_TIMEOUT_S = 30
#: Attempts of a request to S3.
_ATTEMPTS = 4

#: Bytes of one part of a large object; a stream holds at most one part in memory. S3's minimum is 5 MiB.
PART = 8 << 20

#: Error codes of GET that concern only this object. Without the right to list the bucket, a missing object also yields
#: AccessDenied. InvalidObjectState is an archived object, and InvalidRequest one whose key its owner keeps (SSE-C).
_ONE_OBJECT = {"NoSuchKey", "404", "AccessDenied", "403", "InvalidObjectState", "InvalidRequest"}
#: Prefix of codes about the key of one object, such as one that is disabled or deleted.
_KEY_MANAGEMENT = "KMS."
#: The lowest HTTP status of a server error.
_SERVER_ERROR = 500
_UNAVAILABLE = (
    S3ConnectionError,
    HTTPClientError,
    IncompleteReadError,
    MetadataRetrievalError,
    CredentialRetrievalError,
)
#: Ways in which botocore finds keys that do not change by themselves.
_LASTING = {"env", "shared-credentials-file", "config-file"}
_TRANSIENT = {"RequestTimeout", "SlowDown", "Throttling", "ThrottlingException", "TooManyRequestsException", "429"}


class ObjectWriter(Protocol):
    """A content written in pieces, invisible to readers before `close`. Raises as `ObjectStore` does."""

    def write(self, data: bytes) -> None:
        """Add a piece."""
        ...

    def close(self) -> None:
        """Store the written content durably."""
        ...

    def abort(self) -> None:
        """Discard the written content. Does nothing after `close`."""
        ...


class ObjectReader(Protocol):
    """A content, or a part of it, read in pieces. Raises as `ObjectStore` does."""

    @property
    def size(self) -> int:
        """Bytes from the first read to the last."""
        ...

    def read(self, size: int) -> bytes:
        """Return the next bytes, at most `size`; empty at the end."""
        ...

    def close(self) -> None:
        """Release the reader's resources."""
        ...


class ObjectStore(Protocol):
    """Contents by key. Raises `SourceRefused` for wrong settings or credentials, `SourceUnavailable` for outages."""

    def open(self, key: str) -> ObjectWriter:
        """Write a content in pieces with bounded memory. End it with `close` or `abort`."""
        ...

    def put(self, key: str, data: bytes) -> None:
        """Store `data` durably. A reader sees the old content or the new one, never a part."""
        ...

    def get(self, key: str, limit: int) -> bytes:
        """Return the content. Raises `FileError`: `unreadable` if it is missing, `too_large` above `limit` bytes."""
        ...

    def reader(self, key: str, part: range | None = None) -> ObjectReader:
        """Read a content, or these bytes of it, in pieces with bounded memory.

        Raises `FileError` with `unreadable` if it does not exist.
        """
        ...

    def delete(self, key: str) -> None:
        """Remove the content. A missing one is not an error."""
        ...

    def discard(self, key: str) -> None:
        """Remove the content, and all leftovers of crashed writers under this key."""
        ...


def open_objects(
    bucket: str | None,
    endpoint_url: str | None,
    directory: Path,
    space: DiskSpace | None = None,
    using: Using = nullcontext,
) -> ObjectStore:
    """Open the store in `bucket` if one is set, else in `directory`, which is created at the first `put`.

    Contents that would leave too little of `space` are refused with `DiskFull`. The directory is opened within `using`,
    which raises if it is not the right one.
    """
    return S3Objects(bucket, endpoint_url) if bucket else DirectoryObjects(directory, space, using)


@dataclass(frozen=True)
class S3Objects:
    """Objects of a bucket. Credentials come from boto3's own chain."""

    bucket: str
    endpoint_url: str | None

    def put(self, key: str, data: bytes) -> None:
        """See `ObjectStore`."""
        with self.errors():
            s3_client(self.endpoint_url).put_object(Bucket=self.bucket, Key=key, Body=data)

    def open(self, key: str) -> ObjectWriter:
        """See `ObjectStore`."""
        return _S3Writer(self, key)

    def get(self, key: str, limit: int) -> bytes:
        """See `ObjectStore`."""
        with self.errors():
            return s3_fetch(self.endpoint_url, self.bucket, key, limit)[0]

    def reader(self, key: str, part: range | None = None) -> ObjectReader:
        """See `ObjectStore`."""
        asked = "" if part is None else f"bytes={part.start}-{part.stop - 1}"
        with self.errors():
            answer = _s3_object(self.endpoint_url, self.bucket, key, asked)
        if part is not None and answer["ContentLength"] != len(part):
            answer["Body"].close()
            raise SourceUnavailable("S3 does not answer with the part that was asked for; download the whole content.")
        return _S3Reader(self, answer["Body"], answer["ContentLength"])

    def delete(self, key: str) -> None:
        """See `ObjectStore`."""
        with self.errors():
            s3_client(self.endpoint_url).delete_object(Bucket=self.bucket, Key=key)

    def discard(self, key: str) -> None:
        """See `ObjectStore`."""
        client = s3_client(self.endpoint_url)
        with self.errors():
            for upload in client.list_multipart_uploads(Bucket=self.bucket, Prefix=key).get("Uploads", []):
                if upload["Key"] == key:
                    client.abort_multipart_upload(Bucket=self.bucket, Key=key, UploadId=upload["UploadId"])
        self.delete(key)

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Map boto3's errors for operations on our own bucket."""
        try:
            with s3_errors(self.bucket):
                yield
        except FolderGone as error:
            # The indexed folder is not gone; our own setting is wrong.
            raise SourceRefused(
                f"The bucket {self.bucket!r} does not exist; create it or correct S3_BUCKET."
            ) from error


@dataclass(frozen=True)
class _S3Reader:
    """An answer of S3 that has begun."""

    store: S3Objects
    body: StreamingBody
    size: int

    def read(self, size: int) -> bytes:
        """See `ObjectReader`."""
        with self.store.errors():
            return self.body.read(size)

    def close(self) -> None:
        """See `ObjectReader`."""
        self.body.close()


@dataclass
class _S3Writer:
    """One request for a small content, a multipart upload for a content larger than a part."""

    store: S3Objects
    key: str
    buffer: bytearray = field(default_factory=bytearray)
    upload_id: str | None = None
    parts: list[CompletedPartTypeDef] = field(default_factory=list)

    def write(self, data: bytes) -> None:
        """See `ObjectWriter`."""
        self.buffer += data
        while len(self.buffer) >= PART:
            self._send(bytes(self.buffer[:PART]))
            del self.buffer[:PART]

    def close(self) -> None:
        """See `ObjectWriter`."""
        if self.upload_id is None:
            self.store.put(self.key, bytes(self.buffer))
            return
        if self.buffer:
            self._send(bytes(self.buffer))
        with self.store.errors():
            s3_client(self.store.endpoint_url).complete_multipart_upload(
                Bucket=self.store.bucket,
                Key=self.key,
                UploadId=self.upload_id,
                MultipartUpload={"Parts": self.parts},
            )
        self.upload_id = None

    def abort(self) -> None:
        """See `ObjectWriter`."""
        self.buffer.clear()
        if self.upload_id is not None:
            with self.store.errors():
                s3_client(self.store.endpoint_url).abort_multipart_upload(
                    Bucket=self.store.bucket, Key=self.key, UploadId=self.upload_id
                )
            self.upload_id = None

    def _send(self, data: bytes) -> None:
        client, bucket, number = s3_client(self.store.endpoint_url), self.store.bucket, len(self.parts) + 1
        with self.store.errors():
            if self.upload_id is None:
                self.upload_id = client.create_multipart_upload(Bucket=bucket, Key=self.key)["UploadId"]
            sent = client.upload_part(
                Bucket=bucket, Key=self.key, UploadId=self.upload_id, PartNumber=number, Body=data
            )
        self.parts.append({"PartNumber": number, "ETag": sent["ETag"]})


def s3_client(endpoint_url: str | None) -> S3Client:
    """Return this process's client for an endpoint (None: AWS). Threads may share it; forked children get their own."""
    return _s3_client(endpoint_url, os.getpid())


@lru_cache(maxsize=8)
def _s3_client(endpoint_url: str | None, _pid: int) -> S3Client:
    from boto3.session import Session
    from botocore.config import Config
    from botocore.session import get_session

    config = Config(
        connect_timeout=_CONNECT_TIMEOUT_S,
        read_timeout=_READ_TIMEOUT_S,
        retries={"mode": "standard", "total_max_attempts": _ATTEMPTS},
        max_pool_connections=16,
        # Many S3-compatible services reject or corrupt the newer trailing checksums.
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
    )
    session = get_session()
    session.get_component("response_parser_factory").set_parser_defaults(timestamp_parser=_timestamp)
    return Session(botocore_session=session).client("s3", endpoint_url=endpoint_url, config=config)


def credentials() -> str | None:
    """Return an identity of this process's S3 credentials: the keys, or the way to get temporary ones."""
    from botocore.session import get_session

    try:
        found = get_session().get_credentials()
        if found is None or found.method not in _LASTING:
            return None if found is None else str(found.method)
        keys = found.get_frozen_credentials()
    except BotoCoreError:
        return None
    return f"{keys.access_key} {keys.secret_key}"


def _timestamp(value: Any) -> datetime:
    """Parse a time in an answer. The parser of botocore takes more than the rest of a listing."""
    try:
        return datetime.fromisoformat(value)
    except (TypeError, ValueError):
        from botocore.utils import parse_timestamp

        return parse_timestamp(value)


def s3_fetch(endpoint_url: str | None, bucket: str, key: str, limit: int) -> tuple[bytes, str, dict[str, str]]:
    """Return content, ETag and user metadata of one object. Call it within `s3_errors`.

    Raises `FileError` as `Objects.get` does.
    """
    answer = _s3_object(endpoint_url, bucket, key)
    with closing(answer["Body"]) as body:
        if answer["ContentLength"] > limit:
            raise FileError(Reason.TOO_LARGE)
        return body.read(), answer["ETag"].strip('"'), answer["Metadata"]


def _s3_object(endpoint_url: str | None, bucket: str, key: str, part: str = "") -> GetObjectOutputTypeDef:
    """Return the answer for one object, or for a range of it, with its body still unread."""
    try:
        client = s3_client(endpoint_url)
        if part:
            return client.get_object(Bucket=bucket, Key=key, Range=part)
        return client.get_object(Bucket=bucket, Key=key)
    except ClientError as error:
        if _code(error) not in _ONE_OBJECT and not _code(error).startswith(_KEY_MANAGEMENT):
            raise
        raise FileError(
            Reason.UNREADABLE, f"S3 rejects the request for this object ({_code(error)}); {_OBJECT_REMEDY}"
        ) from error


_OBJECT_REMEDY = (
    "check that it still exists, is not archived, nor encrypted with a key that S3 lacks, and that the credentials "
    "allow s3:GetObject on it."
)


@contextmanager
def s3_errors(bucket: str) -> Iterator[None]:
    """Map boto3's errors: `FolderGone` for a missing bucket, else `SourceRefused` or `SourceUnavailable`."""
    try:
        yield
    except ClientError as error:
        raise _from_answer(error, bucket) from error
    except _UNAVAILABLE as error:
        raise SourceUnavailable(f"S3 did not answer for bucket {bucket!r}; check S3_ENDPOINT_URL.") from error
    except (BotoCoreError, ValueError) as error:
        # Missing or incomplete credentials, or an invalid profile, region, endpoint or bucket: a retry cannot help.
        raise SourceRefused(f"S3 cannot be used ({error}); check the credentials and S3_ENDPOINT_URL.") from error


def _from_answer(error: ClientError, bucket: str) -> SourceError:
    code, status = _code(error), error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    if code == "NoSuchBucket":
        return FolderGone(f"The bucket {bucket!r} does not exist; create it or correct its name.")
    if status >= _SERVER_ERROR or code in _TRANSIENT:
        return SourceUnavailable(f"S3 cannot serve the bucket {bucket!r} now ({code}); Foldex will try again.")
    return SourceRefused(f"S3 denies access to the bucket {bucket!r} ({code}); check the credentials and their policy.")


def _code(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", "unknown"))
