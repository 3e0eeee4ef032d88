"""The object store of node contents: an S3 bucket, or a directory where no bucket is set."""

from __future__ import annotations

import errno
import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

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
from schemas.status import Reason

if TYPE_CHECKING:
    from mypy_boto3_s3.client import S3Client

#: Seconds; each of the attempts may wait that long.
_CONNECT_TIMEOUT = 5
_READ_TIMEOUT = 30
_ATTEMPTS = 4

#: Codes of an answer to GET that speak about this one object. Without the right to list the bucket, a missing object
#: is answered with AccessDenied as well; InvalidObjectState is an archived one.
_ONE_OBJECT = {"NoSuchKey", "404", "AccessDenied", "403", "InvalidObjectState"}
_SERVER_ERROR = 500
_UNAVAILABLE = (
    S3ConnectionError,
    HTTPClientError,
    IncompleteReadError,
    MetadataRetrievalError,
    CredentialRetrievalError,
)
_TRANSIENT = {"RequestTimeout", "SlowDown", "Throttling", "ThrottlingException", "TooManyRequestsException", "429"}


class Objects(Protocol):
    """Contents by key. Raises `SourceRefused` for wrong settings or credentials, `SourceUnavailable` if not now."""

    def put(self, key: str, data: bytes) -> None:
        """Store `data` durably; a reader sees the old content or the new one, never a part."""
        ...

    def get(self, key: str, limit: int) -> bytes:
        """The content; raises `FileError`: `unreadable` if it does not exist, `too_large` above `limit` bytes."""
        ...

    def delete(self, key: str) -> None:
        """Remove the content; a missing one is no error."""
        ...


def open_objects(bucket: str | None, endpoint_url: str | None, directory: Path) -> Objects:
    """The store in `bucket` if one is set, else in `directory`, which is made at the first `put`."""
    return S3Objects(bucket, endpoint_url) if bucket else DirectoryObjects(directory)


@dataclass(frozen=True)
class DirectoryObjects:
    """Objects as files named by the hash of their key, so that no key leaves the directory or meets its limits."""

    directory: Path

    def put(self, key: str, data: bytes) -> None:
        """See `Objects`."""
        path = self._path(key)
        with _disk_errors(self.directory):
            _make_directory(path.parent)
            _write_durably(path, data)

    def get(self, key: str, limit: int) -> bytes:
        """See `Objects`."""
        with _disk_errors(self.directory), self._path(key).open("rb") as file:
            if os.fstat(file.fileno()).st_size > limit:
                raise FileError(Reason.TOO_LARGE)
            return file.read()

    def delete(self, key: str) -> None:
        """See `Objects`."""
        with _disk_errors(self.directory), suppress(FileNotFoundError):
            self._path(key).unlink()

    def _path(self, key: str) -> Path:
        digest = hashlib.sha256(key.encode(errors="surrogatepass")).hexdigest()
        return self.directory / digest[:2] / digest[2:]


@dataclass(frozen=True)
class S3Objects:
    """Objects of a bucket; credentials come from boto3's own chain."""

    bucket: str
    endpoint_url: str | None

    def put(self, key: str, data: bytes) -> None:
        """See `Objects`."""
        with self._errors():
            s3_client(self.endpoint_url).put_object(Bucket=self.bucket, Key=key, Body=data)

    def get(self, key: str, limit: int) -> bytes:
        """See `Objects`."""
        with self._errors():
            return s3_fetch(self.endpoint_url, self.bucket, key, limit)[0]

    def delete(self, key: str) -> None:
        """See `Objects`."""
        with self._errors():
            s3_client(self.endpoint_url).delete_object(Bucket=self.bucket, Key=key)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            with s3_errors(self.bucket):
                yield
        except FolderGone as error:
            # the folder being indexed is not gone, only our setting is wrong
            raise SourceRefused(
                f"The bucket {self.bucket!r} does not exist; create it or correct S3_BUCKET."
            ) from error


def s3_client(endpoint_url: str | None) -> S3Client:
    """The client of this process for an endpoint (None: AWS); threads may share it, forked children get their own."""
    return _s3_client(endpoint_url, os.getpid())


@lru_cache(maxsize=8)
def _s3_client(endpoint_url: str | None, _pid: int) -> S3Client:
    from boto3.session import Session
    from botocore.config import Config

    config = Config(
        connect_timeout=_CONNECT_TIMEOUT,
        read_timeout=_READ_TIMEOUT,
        retries={"mode": "standard", "total_max_attempts": _ATTEMPTS},
        max_pool_connections=16,
        # many services that speak S3 refuse or garble the newer trailing checksums
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
    )
    return Session().client("s3", endpoint_url=endpoint_url, config=config)


def s3_fetch(endpoint_url: str | None, bucket: str, key: str, limit: int) -> tuple[bytes, str]:
    """Content and ETag of one object; raises `FileError` as `Objects.get` does. Call it within `s3_errors`."""
    try:
        answer = s3_client(endpoint_url).get_object(Bucket=bucket, Key=key)
    except ClientError as error:
        if _code(error) not in _ONE_OBJECT:
            raise
        raise FileError(Reason.UNREADABLE, f"S3 refuses this object ({_code(error)}); {_OBJECT_REMEDY}") from error
    with closing(answer["Body"]) as body:
        if answer["ContentLength"] > limit:
            raise FileError(Reason.TOO_LARGE)
        return body.read(), answer["ETag"].strip('"')


_OBJECT_REMEDY = "check that it still exists, is not archived, and that the credentials allow s3:GetObject on it."


@contextmanager
def s3_errors(bucket: str) -> Iterator[None]:
    """Map what boto3 raises: `FolderGone` for a missing bucket, `SourceRefused`, `SourceUnavailable`."""
    try:
        yield
    except ClientError as error:
        raise _from_answer(error, bucket) from error
    except _UNAVAILABLE as error:
        raise SourceUnavailable(f"S3 did not answer for bucket {bucket!r}; check S3_ENDPOINT_URL.") from error
    except (BotoCoreError, ValueError) as error:
        # no or incomplete credentials, an unusable profile, region, endpoint or bucket name: nothing that time mends
        raise SourceRefused(f"S3 cannot be used ({error}); check its credentials and S3_ENDPOINT_URL.") from error


def _from_answer(error: ClientError, bucket: str) -> SourceError:
    code, status = _code(error), error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    if code == "NoSuchBucket":
        return FolderGone(f"The bucket {bucket!r} does not exist; create it or correct its name.")
    if status >= _SERVER_ERROR or code in _TRANSIENT:
        return SourceUnavailable(f"S3 cannot serve the bucket {bucket!r} now ({code}); it is tried again.")
    return SourceRefused(
        f"S3 refuses access to the bucket {bucket!r} ({code}); check the credentials and their policy."
    )


def _code(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", "unknown"))


@contextmanager
def _disk_errors(directory: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise FileError(Reason.UNREADABLE, "The stored content is gone; upload the file again.") from error
    except PermissionError as error:
        raise SourceRefused(f"The directory of contents {directory} is closed to this process; open it.") from error
    except OSError as error:
        name = errno.errorcode.get(error.errno or 0, "?")
        raise SourceUnavailable(f"The directory of contents {directory} fails ({name}); check its disk.") from error


def _make_directory(path: Path) -> None:
    if not path.is_dir():
        path.mkdir(parents=True, exist_ok=True)
        _sync(path.parent)


def _write_durably(path: Path, data: bytes) -> None:
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".new-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(path)
    except BaseException:
        # a full disk or a cancelled request must not leave half a file behind
        Path(temporary).unlink(missing_ok=True)
        raise
    _sync(path.parent)


def _sync(directory: Path) -> None:
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
