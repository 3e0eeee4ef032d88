"""Sidecars are JSON objects, and whoever writes one decides nothing but metadata."""

from __future__ import annotations

import json
from typing import Any

import pytest

from schemas.content.metadata import MAX_METADATA_BYTES, metadata_bytes
from schemas.content.stated import MAX_SIDECAR_BYTES
from schemas.errors import FileError
from schemas.reason import Reason
from worker.parse.sidecar import read_sidecar


def test_good_values_are_kept_and_others_are_named() -> None:
    values: dict[str, Any] = {"team": "red", "n": None, "acl": ["*"], "a b": 1, "deep": {}, "huge": 1 << 70, "ok": [""]}
    metadata, warning = read_sidecar(b"\xef\xbb\xbf" + json.dumps(values).encode())
    assert metadata == {"team": "red", "ok": [""]}
    assert warning is not None
    assert warning.startswith("These keys are left out: 'acl', 'a b', 'deep', 'huge'.")
    assert "never decides who may read" in warning
    assert read_sidecar(b'{"ACL": ["*"]}') == ({}, warning.replace("'acl', 'a b', 'deep', 'huge'", "'ACL'"))
    assert "acl" not in (read_sidecar(b'{"a b": 1}').warning or "")
    assert read_sidecar(b'{"team": "red", "none": null}') == ({"team": "red"}, None)


def test_a_warning_stays_short() -> None:
    _, warning = read_sidecar(json.dumps({f"{'k' * 500} {number}": 1 for number in range(90)}).encode())
    assert warning is not None
    assert len(warning) < 1_000
    assert "and 80 more" in warning


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"[]", Reason.PARSE_FAILED),
        (b"", Reason.PARSE_FAILED),
        (b"\xff", Reason.PARSE_FAILED),
        (b'{"a": ' * 9_000, Reason.PARSE_FAILED),
        (b'{"a": ' * 9_000 + b"1" + b"}" * 9_000, Reason.PARSE_FAILED),
        (b'{"a": ' + b"9" * 60_000 + b"}", Reason.PARSE_FAILED),
        (b'{"a": "' + b"x" * MAX_SIDECAR_BYTES + b'"}', Reason.TOO_LARGE),
    ],
)
def test_a_sidecar_that_is_none_is_refused(data: bytes, reason: Reason) -> None:
    with pytest.raises(FileError) as refused:
        read_sidecar(data)
    assert refused.value.reason is reason


def test_what_has_no_room_is_left_out() -> None:
    metadata, warning = read_sidecar(json.dumps({f"k{number}": "x" * 900 for number in range(60)}).encode())
    assert metadata_bytes(metadata) <= MAX_METADATA_BYTES
    assert len(metadata) == MAX_METADATA_BYTES // 915
    assert warning is not None
