"""What the messages of a queue say of buckets."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import count, islice
from threading import Event
from typing import Any

import pytest

from schemas.content.source import S3Source
from worker.sources import event_batches
from worker.sources.bucket_events import ChangedObject, EventQueue, QueueMessage, UnknownMessage, changed_objects
from worker.sources.event_batches import BucketEvents


def record(bucket: str, key: str) -> dict[str, Any]:
    return {"eventName": "ObjectCreated:Put", "s3": {"bucket": {"name": bucket}, "object": {"key": key, "size": 3}}}


NOTIFICATION = {"Records": [record("docs", "a/b+c%2Bd%C3%A9.md"), record("other", "x")]}
NAMED = [ChangedObject("docs", "a/b c+dé.md"), ChangedObject("other", "x")]
DETAIL = {"bucket": {"name": "docs"}, "object": {"key": "a+b%20c"}}


@pytest.mark.parametrize(
    ("message", "named"),
    [
        (NOTIFICATION, NAMED),
        ({"Type": "Notification", "TopicArn": "t", "Message": json.dumps(NOTIFICATION)}, NAMED),
        (
            {"version": "0", "source": "aws.s3", "detail-type": "Object Deleted", "detail": DETAIL},
            [ChangedObject("docs", "a+b%20c")],
        ),
        ({"Service": "Amazon S3", "Event": "s3:TestEvent", "Bucket": "docs"}, []),
        ({"Records": []}, []),
    ],
    ids=["bucket", "topic", "EventBridge", "test", "empty"],
)
def test_events_name_objects(message: dict[str, Any], named: list[ChangedObject]) -> None:
    assert changed_objects(json.dumps(message)) == named


@pytest.mark.parametrize(
    "body",
    [
        "",
        "no JSON",
        "[]",
        "{}",
        '{"Records": [{"s3": {"bucket": {}}}]}',
        '{"source": "aws.ec2", "detail": {}}',
        '{"Type": "Notification", "Message": "hello"}',
        '{"Event": "s3:OtherEvent"}',
        "[" * 10_000,
    ],
)
def test_what_is_no_event_of_a_bucket_is_told(body: str) -> None:
    with pytest.raises(UnknownMessage):
        changed_objects(body)


def test_a_topics_message_holds_no_further_one() -> None:
    inner = {"Type": "Notification", "Message": json.dumps(NOTIFICATION)}
    with pytest.raises(UnknownMessage):
        changed_objects(json.dumps({"Type": "Notification", "Message": json.dumps(inner)}))


class EndlessQueue(EventQueue):
    """Answers each request with ten messages."""

    def __init__(self) -> None:
        super().__init__("http://127.0.0.1:1/endless")
        self.keys = count()

    def receive(self, _: int) -> list[QueueMessage]:
        return [QueueMessage(f"{key}", [ChangedObject("docs", f"{key}.md")]) for key in islice(self.keys, 10)]

    def delete(self, receipts: Sequence[str]) -> None:
        """Hand out others next."""


@pytest.mark.parametrize(("most", "seconds", "received"), [(20, 600.0, 20), (21, 600.0, 30), (1000, 0.0, 10)])
def test_a_batch_ends_though_messages_keep_coming(
    monkeypatch: pytest.MonkeyPatch, most: int, seconds: float, received: int
) -> None:
    monkeypatch.setattr(event_batches, "MAX_MESSAGES", most)
    monkeypatch.setattr(event_batches, "FILL_SECONDS", seconds)
    woken = Event()
    events = BucketEvents(EndlessQueue(), woken.set)
    events.start()
    try:
        assert woken.wait(20)
        events.open_batch()
        assert len(events.seen(S3Source(kind="s3", bucket="docs")).paths or ()) == received
    finally:
        events.close()
