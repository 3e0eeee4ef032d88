"""Each kind of source has its schema and its place."""

from __future__ import annotations

import pytest

from schemas.content.source import parsed_source, source_kinds


@pytest.mark.parametrize(
    ("source", "place"),
    [
        ({"kind": "local", "path": "/srv/docs/"}, "/srv/docs"),
        ({"kind": "s3", "bucket": "docs", "prefix": "a"}, "s3://docs/a/"),
        ({"kind": "nodes", "node_id": "n"}, "node n"),
        ({"kind": "nodes", "node_id": "n", "json_pointer": "/a"}, "node n/a"),
    ],
)
def test_each_kind_says_where_a_source_is(source: dict[str, str], place: str) -> None:
    assert parsed_source(source).shown_place == place
    [kind] = [kind for kind in source_kinds() if kind.kind == source["kind"]]
    assert set(source) <= set(kind.source_schema["properties"])
