"""Tools follow buckets by the events that a queue holds: S3 and SQS of one server, and the watching process."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from threading import enumerate as enumerate_threads
from typing import Any
from uuid import uuid4

import boto3
import pytest

from schemas.content.source import ChunkSettings, EmbedderProfile, LocalSource, S3Source
from schemas.errors import SourceUnavailable
from schemas.tool import IndexSettings
from tests.integration.provider.test_auto_reindex import appears, runs, settled
from tests.integration.test_watch import kill, taken_up, watcher
from tests.service import TOOLS, NewService, Service, checked, eventually
from worker.resources import Resources
from worker.settings import LOCAL_MODEL, Settings
from worker.sources import event_batches
from worker.sources.bucket_events import EventQueue, QueueMessage
from worker.sources.changes_seen import ANYTHING, MANY_CHANGES, NOTHING, NoticedChanges, SeenChanges
from worker.sources.event_batches import BucketEvents
from worker.sources.kind import WatchAccess
from worker.sources.registry import watch_source
from worker.sources.watching import bucket
from worker.sources.watching.bucket import BucketWatch
from worker.state.index.changes import WatchedIndex


class Shelf:
    """A bucket that sends its events to a queue."""

    def __init__(self, env: Mapping[str, str], queue_url: str) -> None:
        self.name, self.url = f"b{uuid4().hex[:10]}", queue_url
        self._s3 = boto3.client("s3", endpoint_url=env["S3_ENDPOINT_URL"])
        self._sqs = boto3.client("sqs", endpoint_url=env["S3_ENDPOINT_URL"])
        self._s3.create_bucket(Bucket=self.name)
        arn = self._sqs.get_queue_attributes(QueueUrl=queue_url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
        wanted: Any = {"QueueArn": arn, "Events": ["s3:ObjectCreated:*", "s3:ObjectRemoved:*"]}
        self._s3.put_bucket_notification_configuration(
            Bucket=self.name, NotificationConfiguration={"QueueConfigurations": [wanted]}
        )

    def put(self, **objects: str) -> None:
        for key, text in objects.items():
            self._s3.put_object(Bucket=self.name, Key=key, Body=text.encode())

    def delete(self, key: str) -> None:
        self._s3.delete_object(Bucket=self.name, Key=key)

    def send(self, body: str) -> None:
        self._sqs.send_message(QueueUrl=self.url, MessageBody=body)

    def queued(self) -> tuple[int, int]:
        """Messages that wait, and that were handed out and not deleted."""
        names: Any = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        found = self._sqs.get_queue_attributes(QueueUrl=self.url, AttributeNames=names)["Attributes"]
        return int(found[names[0]]), int(found[names[1]])


def new_queue(env: Mapping[str, str]) -> str:
    made = boto3.client("sqs", endpoint_url=env["S3_ENDPOINT_URL"]).create_queue(QueueName=uuid4().hex)
    return str(made["QueueUrl"])


@pytest.fixture(scope="module")
def queue_url(s3: dict[str, str]) -> str:
    return new_queue(s3)


@pytest.fixture(scope="module")
def running(new_service: NewService, s3: dict[str, str], queue_url: str) -> Iterator[Service]:
    with new_service(DEFAULT_EMBEDDING_MODEL=LOCAL_MODEL, S3_EVENTS_QUEUE_URL=queue_url, **s3) as started:
        yield started


@pytest.fixture
def shelf(s3: dict[str, str], queue_url: str) -> Shelf:
    return Shelf(s3, queue_url)


@pytest.fixture
def own(s3: dict[str, str]) -> Shelf:
    """A bucket with a queue of its own."""
    return Shelf(s3, new_queue(s3))


def followed(running: Service, shelf: Shelf, prefix: str) -> str:
    source = {"kind": "s3", "bucket": shelf.name, "prefix": prefix}
    tool = running.tool(source=source, config={"watch": True})
    eventually(lambda: taken_up(running, tool), 30, running.logs)
    running.wait(tool)
    settled(running, tool)
    return tool


def paths_of_runs(running: Service, tool: str) -> list[list[str] | None]:
    query = "SELECT t.paths FROM search_index_task t JOIN search_tool s ON s.index_id = t.index_id WHERE s.id = %s"
    return [asked for (asked,) in running.rows(f"{query} ORDER BY t.created_at", tool)]


def test_objects_that_come_change_and_go_are_followed_by_their_keys(running: Service, shelf: Shelf) -> None:
    shelf.put(**{"docs/apples.md": "# apples\n\nThe appleword.", "docs-old/x.md": "# old\n\nThe oldword."})
    with watcher(running, "bucket1") as process:
        tool = followed(running, shelf, "docs")
        before = len(settled(running, tool))
        shelf.put(**{"docs-old/y.md": "# old\n\nThe oldword."})
        shelf.put(**{"docs/birds + b\N{LATIN SMALL LETTER E WITH ACUTE}e.md": "# birds\n\nThe birdword."})
        appears(running, tool, "birdword", "birds + bée.md")
        shelf.put(**{"docs/apples.md": "# apples\n\nThe pearword."})
        appears(running, tool, "pearword", "apples.md")
        shelf.delete("docs/apples.md")
        appears(running, tool, "pearword")
        eventually(lambda: shelf.queued() == (0, 0), 30, running.logs)
        assert len(settled(running, tool)) <= before + 3
        named = [path for asked in paths_of_runs(running, tool)[before:] for path in asked or ["everything"]]
        assert set(named) == {"birds + bée.md", "apples.md"}
        kill(process)
    shelf.put(**{"docs/cars.md": "# cars\n\nThe carword."})
    with watcher(running, "bucket2"):
        appears(running, tool, "carword", "cars.md")


def test_a_tool_that_no_longer_watches_starts_no_runs(running: Service, shelf: Shelf) -> None:
    shelf.put(**{"apples.md": "# apples\n\nThe appleword."})
    with watcher(running, "bucket3"):
        tool, other = followed(running, shelf, ""), followed(running, shelf, "docs")
        checked(running.client.patch(f"{TOOLS}/{tool}", json={"config": {"watch": False}}), 202)
        before = len(settled(running, tool))
        shelf.put(**{"docs/birds.md": "# birds\n\nThe birdword."})
        appears(running, other, "birdword", "birds.md")
        assert len(runs(running, tool)) == before


def told(events: BucketEvents, source: S3Source) -> SeenChanges:
    """What the next batch says of a source that names it; the batch stays open."""

    def is_named() -> bool:
        events.open_batch()
        if events.seen(source):
            return True
        events.close_batch()
        return False

    eventually(is_named, 30)
    return events.seen(source)


def paths(*names: str) -> SeenChanges:
    return SeenChanges(frozenset(names))


def test_a_batch_leaves_the_queue_once_its_changes_are_noted(own: Shelf) -> None:
    docs = S3Source(kind="s3", bucket=own.name, prefix="docs")
    woken: list[None] = []
    events = BucketEvents(EventQueue(own.url), lambda: woken.append(None))
    threads = set(enumerate_threads())
    for _ in range(2):
        events.start()
    (listening,) = [one for one in enumerate_threads() if one not in threads and one.name == "bucket events"]
    own.put(**{"docs/a.md": "a", "docs/": "", "docs/sub/": "", "docsa.md": "b"})
    assert told(events, docs) == paths("a.md")
    assert woken
    assert own.queued()[1] > 0
    events.close_batch()
    eventually(lambda: own.queued() == (0, 0), 30)
    assert events.seen(docs) == NOTHING
    own.put(**{"docs/b.md": "b"})
    assert told(events, docs) == paths("b.md")
    # not noted: another process will get it
    events.close()
    listening.join(30)
    assert not listening.is_alive()
    assert own.queued()[1] == 1


def test_a_batch_that_comes_during_a_round_waits_for_the_next(own: Shelf) -> None:
    woken: list[None] = []
    events = BucketEvents(EventQueue(own.url), lambda: woken.append(None))
    docs = S3Source(kind="s3", bucket=own.name)
    own.put(**{"a.md": "a"})
    events.open_batch()
    events.start()
    eventually(lambda: bool(woken), 30)
    assert events.seen(docs) == NOTHING
    events.close_batch()
    assert told(events, docs) == paths("a.md")
    events.close()


@pytest.mark.parametrize(("objects", "is_everything"), [(MANY_CHANGES, False), (MANY_CHANGES + 1, True)])
def test_very_many_changes_are_taken_as_a_change_of_everything(own: Shelf, objects: int, is_everything: bool) -> None:
    record = {"s3": {"bucket": {"name": own.name}}}
    records = [{"s3": {**record["s3"], "object": {"key": f"{number}.md"}}} for number in range(objects)]
    own.send(json.dumps({"Records": records}))
    events = BucketEvents(EventQueue(own.url), lambda: None)
    events.start()
    seen = told(events, S3Source(kind="s3", bucket=own.name))
    assert (seen == ANYTHING) is is_everything
    assert is_everything or len(seen.paths or ()) == objects
    events.close()


def test_a_key_that_no_path_can_name_is_a_change_of_everything(own: Shelf) -> None:
    own.send(json.dumps({"Records": [{"s3": {"bucket": {"name": own.name}, "object": {"key": "a%00b"}}}]}))
    events = BucketEvents(EventQueue(own.url), lambda: None)
    events.start()
    assert told(events, S3Source(kind="s3", bucket=own.name)) == ANYTHING
    events.close()


def test_a_queue_that_cannot_be_read_says_why_and_is_asked_again(
    s3: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_batches, "RETRY_SECONDS", 0.1)
    # answers without messages are no batches
    monkeypatch.setattr(event_batches, "LONG_POLL_SECONDS", 0)
    address = f"{s3['S3_ENDPOINT_URL']}/123456789012/{uuid4().hex}"
    with pytest.raises(SourceUnavailable, match=r"cannot be read.*check S3_EVENTS_QUEUE_URL"):
        EventQueue(address).receive(0)
    events = BucketEvents(EventQueue(address), lambda: None)
    events.start()
    name = address.rpartition("/")[2]
    boto3.client("sqs", endpoint_url=s3["S3_ENDPOINT_URL"]).create_queue(QueueName=name)
    shelf = Shelf(s3, address)
    shelf.put(**{"a.md": "a"})
    assert told(events, S3Source(kind="s3", bucket=shelf.name)) == paths("a.md")
    events.close()


def test_a_bug_in_one_round_does_not_end_the_others(own: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_batches, "RETRY_SECONDS", 0.1)
    own.put(**{"a.md": "a"})
    queue = EventQueue(own.url)
    receive, failures = queue.receive, [KeyError("a bug")]

    def failing(wait_seconds: int) -> list[QueueMessage]:
        if failures:
            raise failures.pop()
        return receive(wait_seconds)

    monkeypatch.setattr(queue, "receive", failing)
    events = BucketEvents(queue, lambda: None)
    events.start()
    assert told(events, S3Source(kind="s3", bucket=own.name)) == paths("a.md")
    assert not failures
    events.close()


def test_messages_of_others_stay_in_the_queue(own: Shelf) -> None:
    queue = EventQueue(own.url)
    own.send("an order of shoes")
    own.put(**{"a.md": "a"})
    received = [message for _ in range(5) for message in queue.receive(0)]
    queue.delete([message.receipt for message in received])
    assert [each.key for message in received for each in message.objects] == ["a.md"]
    assert sum(own.queued()) == 1


def test_a_batch_has_what_several_requests_get_and_delete(own: Shelf) -> None:
    names = [f"{number}.md" for number in range(21)]
    for name in names:
        own.put(**{name: "a"})
    events = BucketEvents(EventQueue(own.url), lambda: None)
    events.start()
    assert told(events, S3Source(kind="s3", bucket=own.name)) == paths(*names)
    events.close_batch()
    eventually(lambda: own.queued() == (0, 0), 30)
    events.close()


def test_a_bucket_is_listed_at_first_and_with_the_first_change_of_a_day(
    own: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = BucketEvents(EventQueue(own.url), lambda: None)
    source = S3Source(kind="s3", bucket=own.name)
    everything = NoticedChanges(ANYTHING, timedelta(0))
    followed = BucketWatch(events, source)
    assert followed.look() == everything
    assert followed.look() is None
    for seconds, seen in ((bucket.EVERYTHING_IN_BUCKET_SECONDS, paths("a.md")), (0.0, ANYTHING)):
        monkeypatch.setattr(bucket, "EVERYTHING_IN_BUCKET_SECONDS", seconds)
        # without a change, no time is too long
        assert followed.look() is None
        own.put(**{"a.md": "a"})
        told(events, source)
        noticed = followed.look()
        assert noticed is not None
        assert noticed.seen == seen
        events.close_batch()
    events.close()


@pytest.mark.parametrize("queue_url", [None, "http://127.0.0.1:9/123456789012/events"])
def test_without_a_queue_no_bucket_is_watched(tmp_path: Path, queue_url: str | None) -> None:
    events = BucketEvents(EventQueue(queue_url), lambda: None) if queue_url else None
    access = WatchAccess(Resources(Settings(foldex_home=tmp_path)).access("p"), lambda: None, events)
    profile = EmbedderProfile(model="m", dimensions=8)
    settings = IndexSettings(embedder=profile, chunks=ChunkSettings(), max_file_bytes=1000)
    for source in (S3Source(kind="s3", bucket="docs"), LocalSource(kind="local", path=str(tmp_path))):
        followed = watch_source(access, WatchedIndex(uuid4(), "p", source, settings))
        assert (followed is None) is (queue_url is None and source.kind == "s3")
        if followed is not None:
            followed.close()
    if events is not None:
        events.close()
