"""What the client is told of a folder or bucket."""

from __future__ import annotations

import pytest

from api.agents.folders import target


@pytest.mark.parametrize(
    ("place", "arguments"),
    [
        ("/a/b", {"path": "/a/b"}),
        ("s3://b", {"bucket": "b", "prefix": ""}),
        ("s3://b/x/y/", {"bucket": "b", "prefix": "x/y/"}),
    ],
)
def test_a_bucket_is_named_with_its_prefix(place: str, arguments: dict[str, str]) -> None:
    assert target(place) == arguments
