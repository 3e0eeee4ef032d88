"""What the messages of a queue say of buckets."""

from __future__ import annotations

import json
from typing import Any

import pytest

from worker.sources.bucket_events import ChangedObject, UnknownMessage, changed_objects


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
