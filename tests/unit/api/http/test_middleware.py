"""Which requests the middleware admits without a key, and what it knows of those that it admitted."""

from __future__ import annotations

import time
from uuid import uuid4

import pytest
from fastapi import Request

from api.http import lookup_cache
from api.http.middleware import AdmittedKey, check_loopback
from schemas.errors import NotLoopback
from worker.state.access.keys import ValidKey


def test_an_admission_knows_its_project_as_long_as_a_cache_may(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookup_cache, "CACHE_SECONDS", 3600)
    now = time.monotonic()
    key = ValidKey(uuid4(), "project", frozenset())
    assert AdmittedKey(b"key", key).key == key
    assert AdmittedKey(b"key", key, now - 3600).key is None
    assert AdmittedKey(b"key").key is None


@pytest.mark.parametrize(
    ("host", "client", "is_admitted"),
    [
        ("localhost", "127.0.0.1", True),
        ("127.0.0.1:8000", "127.0.0.2", True),
        ("[::1]:8000", "::1", True),
        # from another machine
        ("localhost", "192.0.2.1", False),
        ("127.0.0.1:8000", None, False),
        # from a page that gave its own name this machine's address
        ("pages.example", "127.0.0.1", False),
        ("192.0.2.1", "127.0.0.1", False),
    ],
)
def test_without_keys_only_this_machine_is_served_under_its_own_name(
    host: str, client: str | None, is_admitted: bool
) -> None:
    scope = {
        "type": "http",
        "scheme": "http",
        "path": "/api/tools",
        "headers": [(b"host", host.encode())],
        "client": None if client is None else (client, 9),
        "server": ("127.0.0.1", 80),
    }
    if is_admitted:
        check_loopback(Request(scope))
    else:
        with pytest.raises(NotLoopback):
            check_loopback(Request(scope))
