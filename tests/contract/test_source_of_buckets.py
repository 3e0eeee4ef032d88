"""Buckets as a source: odd keys, odd answers, and what is refused."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import Mock
from urllib.request import Request, urlopen

import pytest

from schemas.content.source import S3Source, leads_out, source_at
from schemas.errors import FileError, SourceRefused, SourceUnavailable
from schemas.reason import Reason
from tests.contract.folders import LIMIT, Bucket, closed_port, listed
from tests.helpers import HELPERS
from worker.ignore import Rules
from worker.sources.kind import ContentAccess, SourceOptions
from worker.sources.s3 import S3Kind, S3Prefix


def test_keys_that_look_like_ways_up_are_names(bucket: Bucket) -> None:
    keys = {"a/../b.md", "../c.md", "a//d.md", "./e.md"}
    for key in keys:
        bucket.write(key, key.encode())
    source = bucket.source(rules=Rules(exclude=["node_modules/"]))
    assert {entry.path for entry in listed(source)} == keys
    for key in keys - {"../c.md"}:
        assert source.read(key.encode(), LIMIT).data.decode() == key


@pytest.mark.parametrize(
    ("key", "leads"),
    [
        *(("../c.md", True), ("a/../../c.md", True), ("%2e%2e/c.md", True), ("..\\c.md", True), ("a/..%2f../c", True)),
        *((".//../c.md", True), ("a/../c.md", False), ("..c.md", False), ("a/.../c", False), ("%252e%252e/c", False)),
    ],
)
def test_a_key_that_leads_out_where_dots_are_resolved_is_not_asked_for(bucket: Bucket, key: str, leads: bool) -> None:
    bucket.write("a.md", b"text")
    assert leads_out(key) is leads
    if leads:
        with pytest.raises(FileError, match="could not be read"):
            bucket.source().read(key.encode(), LIMIT)


@pytest.mark.parametrize("above", ["", "team/"])
@pytest.mark.parametrize(
    ("prefix", "is_plain"),
    [
        *(
            (name, False)
            for name in ("..", "../x", "a/../b", "./a", "a//b", "/a", "a/%2e%2E/b", "a/..%2f..%2fb", "a\\..\\b")
        ),
        *((name, True) for name in ("", "a", "a/b/", "..a", "a..", "a b", "ä", "a/...", "%252e%252e")),
    ],
)
def test_a_prefix_means_the_same_to_every_server(above: str, prefix: str, is_plain: bool) -> None:
    source = S3Source(kind="s3", bucket="shelf", prefix=above + prefix)
    expected = nullcontext() if is_plain else pytest.raises(SourceRefused, match="two slashes")
    with expected:
        S3Kind().open(access("http://127.0.0.1:1"), source, Rules())
    with nullcontext() if is_plain else pytest.raises(ValueError, match="two slashes"):
        assert source_at(source.place) == source


def test_a_key_that_postgres_cannot_store_is_shown_otherwise(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    bucket.write("a.md", b"text")
    list_objects, get_object = bucket.client.list_objects_v2, bucket.client.get_object
    key = "docs/a\0.md"

    def listed_otherwise(**asked: Any) -> dict[str, Any]:
        answer = list_objects(**asked)
        found = [{**item, "Key": key} for item in answer["Contents"] if item["Key"] == "docs/a.md"]
        return {**answer, "Contents": found}

    def get(Key: str, **asked: Any) -> dict[str, Any]:  # noqa: N803 - the name of boto3
        assert Key == key
        return dict(get_object(Key="docs/a.md", **asked))

    # the test server does not find objects of such a name
    monkeypatch.setattr(bucket.client, "list_objects_v2", listed_otherwise)
    monkeypatch.setattr(bucket.client, "get_object", get)
    [entry] = bucket.source().list(None).entries
    assert (entry.path, entry.id_path) == ("a\N{SYMBOL FOR NULL}.md", "/a\N{SYMBOL FOR NULL}.md")
    assert bucket.source().read(entry.key, LIMIT).data == b"text"


@pytest.mark.parametrize("empty", [1, 2, 5])
def test_pages_of_nothing_are_not_the_end(bucket: Bucket, monkeypatch: pytest.MonkeyPatch, empty: int) -> None:
    for number in range(5):
        bucket.write(f"{number}.md", b"text")
    list_objects = bucket.client.list_objects_v2

    def with_gaps(**asked: Any) -> dict[str, Any]:
        """Answer like a service that has skipped many deleted objects."""
        after = asked.pop("ContinuationToken", None) or f"{empty} {asked['StartAfter']}"
        left, _, asked["StartAfter"] = after.partition(" ")
        if int(left):
            token = f"{int(left) - 1} {asked['StartAfter']}"
            return {"IsTruncated": True, "KeyCount": 0, "NextContinuationToken": token}
        return dict(list_objects(**asked))

    monkeypatch.setattr(bucket.client, "list_objects_v2", with_gaps)
    bucket.source().check()
    assert [entry.path for entry in listed(bucket.source(page_size=2))] == [f"{number}.md" for number in range(5)]


def test_a_closed_bucket_is_refused(bucket: Bucket) -> None:
    bucket.write("a.md", b"a")
    deny = {"Effect": "Deny", "Principal": "*", "Action": "s3:*", "Resource": f"arn:aws:s3:::{bucket.bucket}*"}
    policy = {"Version": "2012-10-17", "Statement": [deny]}
    bucket.client.put_bucket_policy(Bucket=bucket.bucket, Policy=json.dumps(policy))
    with pytest.raises(FileError) as refused:
        bucket.source().read(b"a.md", LIMIT)
    assert refused.value.reason is Reason.UNREADABLE


def test_wrong_credentials_are_refused(bucket: Bucket) -> None:
    bucket.write("a.md", b"a")
    source = bucket.source()
    with credentials_checked(bucket.endpoint_url):
        for call in (source.check, lambda: source.list(None), lambda: source.read(b"a.md", LIMIT)):
            with pytest.raises(SourceRefused):
                call()


@contextmanager
def credentials_checked(endpoint_url: str) -> Iterator[None]:
    """Make the server reject unknown keys from the next request on."""

    def free_requests(count: bytes) -> None:
        # as plain text, because a form body is parsed on arrival
        request = Request(f"{endpoint_url}/moto-api/reset-auth", count, {"Content-Type": "text/plain"})
        urlopen(request).close()

    free_requests(b"0")
    try:
        yield
    finally:
        free_requests(b"inf")


def test_credentials_that_are_missing_are_refused(endpoint_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", os.devnull)
    # a different spelling of the address, because a process caches its clients
    with pytest.raises(SourceRefused):
        S3Prefix("any-bucket", "", endpoint_url.replace("127.0.0.1", "localhost")).check()


def test_a_service_that_is_away_is_not_a_missing_folder(endpoint_url: str) -> None:
    with pytest.raises(SourceUnavailable):
        S3Prefix("any-bucket", "", f"http://127.0.0.1:{closed_port()}").check()


def test_a_bucket_name_that_cannot_be_is_refused(endpoint_url: str) -> None:
    with pytest.raises(SourceRefused):
        S3Prefix("no such bucket!", "", endpoint_url).list(None)


def access(endpoint_url: str) -> ContentAccess:
    """That of a project to what everybody may read, beside a bucket with the content of all."""
    options = SourceOptions("off", Path("/nowhere"), [], "contents", endpoint_url)
    return ContentAccess("p", options, Mock(), Mock(), HELPERS)


@pytest.mark.parametrize(
    ("name", "is_open"),
    [("shelf", True), ("contents", False), ("a-s3alias", False), ("a--ol-s3", False), ("arn:aws:s3:::contents", False)],
)
def test_a_bucket_that_is_or_may_be_that_of_all_content_is_refused(name: str, is_open: bool) -> None:
    with nullcontext() if is_open else pytest.raises(SourceRefused):
        S3Kind().open(access("http://127.0.0.1:1"), S3Source(kind="s3", bucket=name, prefix=""), Rules())


def test_a_path_of_a_bucket_is_a_folder_an_object_or_nothing(bucket: Bucket) -> None:
    place = f"s3://{bucket.bucket}"
    for path in ("a.md", "empty.md", "deep/er/b.md"):
        bucket.write(path, b"" if path == "empty.md" else b"text")
    folders = [place, f"{place}/docs", f"{place}/docs/deep"]
    objects = [f"{place}/docs/{name}" for name in ("a.md", "empty.md")]
    nothing = [f"{place}/docs/{name}" for name in ("a", "a.md/b", "deep/b.md", "empty")]
    for path in (*folders, *objects, *nothing, f"{place}-2", f"{place}-2/docs"):
        for given in (path, f"{path}/"):
            (location,) = S3Kind().locate(access(bucket.endpoint_url), given) or []
            assert location.resolve is not None
            found = location.resolve()
            assert (found is not None) == (path in folders or path in objects), given
            if found is not None:
                folder, _, name = path.rpartition("/") if path in objects else (path, "", "")
                assert (found.address, found.key) == (path, name.encode() or None), given
                assert isinstance(found.source, S3Source)
                assert found.source.place.rstrip("/") == folder
    assert [S3Kind().locate(access(bucket.endpoint_url), path) for path in ("s3://", "s3:///a", "/a")] == [[], [], None]


def test_what_is_at_a_path_is_unknown_while_the_service_is_away(endpoint_url: str) -> None:
    (found,) = S3Kind().locate(access(f"http://127.0.0.1:{closed_port()}"), "s3://shelf/docs/a.md") or []
    assert found.resolve is not None
    with pytest.raises(SourceUnavailable):
        found.resolve()
