"""Reads the changed objects of buckets from an Amazon SQS queue that receives their events."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any, Literal, NamedTuple
from urllib.parse import unquote_plus, urlsplit

import structlog
from botocore.exceptions import BotoCoreError, ClientError
from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from schemas.errors import SourceUnavailable

#: Maximum number of messages that SQS delivers or deletes in one request.
_PAGE = 10
#: Seconds that a request waits for a first message; SQS allows no more.
LONG_POLL_SECONDS = 20
#: Seconds after which SQS delivers a message again that was not deleted.
_VISIBILITY_SECONDS = 60
_CONNECT_TIMEOUT_S = 5
_READ_TIMEOUT_S = LONG_POLL_SECONDS + 10
#: The host of a queue at AWS names its region.
_HOST = re.compile(r"sqs\.([a-z0-9-]+)\.amazonaws\.com(?:\.cn)?")

log = structlog.get_logger()


class ChangedObject(NamedTuple):
    """An object that was written or removed."""

    bucket: str
    key: str


class QueueMessage(NamedTuple):
    """A message: the receipt that deletes it, and the objects that it names."""

    receipt: str
    objects: Sequence[ChangedObject]


class UnknownMessage(ValueError):
    """Raised for a message that is not an event of a bucket."""


class _Name(BaseModel):
    name: str


class _Key(BaseModel):
    key: str


class _Place(BaseModel):
    bucket: _Name
    object: _Key


class _Record(BaseModel):
    s3: _Place


class _Notification(BaseModel):
    """A bucket's notification to a queue or a topic. Its keys are form-encoded."""

    records: list[_Record] = Field(alias="Records")

    def objects(self) -> list[ChangedObject]:
        return [ChangedObject(r.s3.bucket.name, unquote_plus(r.s3.object.key)) for r in self.records]


class _BridgeEvent(BaseModel):
    """An event from Amazon EventBridge. Its keys are not encoded."""

    source: Literal["aws.s3"]
    detail: _Place

    def objects(self) -> list[ChangedObject]:
        return [ChangedObject(self.detail.bucket.name, self.detail.object.key)]


class _TestEvent(BaseModel):
    """The test event that a bucket sends once when its notifications are set up."""

    event: Literal["s3:TestEvent"] = Field(alias="Event")

    def objects(self) -> list[ChangedObject]:
        return []


class _Envelope(BaseModel):
    """The envelope in which an Amazon SNS topic wraps a message."""

    type: Literal["Notification"] = Field(alias="Type")
    message: str = Field(alias="Message")

    def objects(self) -> list[ChangedObject]:
        return _objects(_EVENTS, self.message)


_EVENTS: TypeAdapter[Any] = TypeAdapter(_Notification | _BridgeEvent | _TestEvent)
_MESSAGES: TypeAdapter[Any] = TypeAdapter(_Envelope | _Notification | _BridgeEvent | _TestEvent)


def changed_objects(body: str) -> list[ChangedObject]:
    """Return the objects that a message names. Raises `UnknownMessage`."""
    return _objects(_MESSAGES, body)


def _objects(model: TypeAdapter[Any], text: str) -> list[ChangedObject]:
    try:
        event = model.validate_json(text)
    except ValidationError as error:
        raise UnknownMessage("no event of a bucket") from error
    objects: list[ChangedObject] = event.objects()
    return objects


class EventQueue:
    """Requests to the queue at a URL. Each may raise `SourceUnavailable`."""

    def __init__(self, url: str) -> None:
        self._url = url

    def receive(self, wait_seconds: int) -> list[QueueMessage]:
        """Return the next messages that name objects, or none within `wait_seconds`.

        Other messages stay in the queue, whose own rules move or expire them.
        """
        with _queue_errors(self._url):
            answer = self._client.receive_message(
                QueueUrl=self._url,
                MaxNumberOfMessages=_PAGE,
                WaitTimeSeconds=wait_seconds,
                VisibilityTimeout=_VISIBILITY_SECONDS,
            )
        messages = []
        for message in answer.get("Messages", []):
            try:
                messages.append(QueueMessage(message["ReceiptHandle"], changed_objects(message["Body"])))
            except UnknownMessage:
                log.warning("a message in the queue of bucket events is none", message_id=message["MessageId"])
        return messages

    def delete(self, receipts: Sequence[str]) -> None:
        """Delete messages. The queue delivers messages again that it could not delete."""
        for start in range(0, len(receipts), _PAGE):
            page = receipts[start : start + _PAGE]
            entries = [{"Id": str(number), "ReceiptHandle": receipt} for number, receipt in enumerate(page)]
            with _queue_errors(self._url):
                self._client.delete_message_batch(QueueUrl=self._url, Entries=entries)

    @cached_property
    def _client(self) -> Any:
        from boto3.session import Session
        from botocore.config import Config

        address = urlsplit(self._url)
        found = _HOST.fullmatch(address.hostname or "")
        return Session().client(
            "sqs",
            region_name=found[1] if found else None,
            endpoint_url=f"{address.scheme}://{address.netloc}",
            config=Config(connect_timeout=_CONNECT_TIMEOUT_S, read_timeout=_READ_TIMEOUT_S),
        )


@contextmanager
def _queue_errors(url: str) -> Iterator[None]:
    try:
        yield
    except (BotoCoreError, ClientError) as error:
        raise SourceUnavailable(
            f"The queue {url} of bucket events cannot be read ({error}); check S3_EVENTS_QUEUE_URL, the region and the "
            "credentials, which need sqs:ReceiveMessage and sqs:DeleteMessage."
        ) from error
