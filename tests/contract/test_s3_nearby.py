"""A prefix of a bucket without objects names what exists near it, within what the project may read."""

from __future__ import annotations

from collections.abc import Callable
from uuid import uuid4

import pytest

from worker.objects.object_store import s3_client
from worker.sources.s3 import S3Prefix

KEYS = ("docs/guide/a.md", "docs/guide/b.md", "docs/Handbook/x.md", "img/1.png", "readme.md", "empty/")


@pytest.fixture(scope="module")
def bucket(endpoint_url: str) -> str:
    name, client = f"bucket-{uuid4().hex}", s3_client(endpoint_url)
    client.create_bucket(Bucket=name)
    for key in KEYS:
        client.put_object(Bucket=name, Key=key, Body=b"x")
    return name


@pytest.mark.parametrize(
    ("prefix", "said"),
    [
        ("Docs/", "did you mean s3://B/docs/?"),
        ("docs/GUIDE", "did you mean s3://B/docs/guide/?"),
        ("docs/handbok/", "did you mean s3://B/docs/Handbook/?"),
        ("readme.md", "s3://B/readme.md is an object, not a folder; index s3://B/"),
        ("docs/guide/a.md/", 'config.include: ["/a.md"]'),
        ("docs/guide/zzz/deeper/", "s3://B/docs/guide/ holds a.md, b.md."),
        ("qqqq/", "s3://B/ holds docs/, empty/, img/, readme.md."),
        ("empty/none/", "s3://B/empty/none/ holds no object; check the bucket and the prefix."),
    ],
)
def test_what_exists_nearby_is_named(endpoint_url: str, bucket: str, prefix: str, said: str) -> None:
    source = S3Prefix(bucket, prefix, endpoint_url)
    assert not source.list(None).entries
    assert said.replace("s3://B/", f"s3://{bucket}/") in source.near()


@pytest.mark.parametrize(
    ("prefix", "granted"),
    [("Docs/", "Docs/"), ("docs/GUIDE/", "docs/GUIDE/"), ("readme.md/", "readme.md/")],
)
def test_nothing_is_named_that_the_project_may_not_read(
    endpoint_url: str, bucket: str, prefix: str, granted: str
) -> None:
    def may_read(place: str) -> bool:
        return place.startswith(f"s3://{bucket}/{granted}")

    near = S3Prefix(bucket, prefix, endpoint_url, may_read=may_read).near()
    assert near == f"s3://{bucket}/{prefix} holds no object; check the bucket and the prefix."


def test_a_prefix_that_alone_may_be_listed_is_said_to_be_empty(
    endpoint_url: str, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(**_: object) -> None:
        raise s3_client(endpoint_url).exceptions.ClientError({"Error": {"Code": "AccessDenied"}}, "ListObjectsV2")

    monkeypatch.setattr("worker.sources.s3_nearby.s3_client", lambda _: _Refusing(refuse))
    assert "holds no object; check" in S3Prefix(bucket, "Docs/", endpoint_url).near()


class _Refusing:
    def __init__(self, refuse: Callable[..., None]) -> None:
        self.list_objects_v2 = refuse
