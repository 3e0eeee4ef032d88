"""What the middleware knows of a request that it admitted."""

from __future__ import annotations

import time

import pytest

from api.http import lookup_cache
from api.http.middleware import AdmittedKey


def test_an_admission_knows_its_project_as_long_as_a_cache_may(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookup_cache, "CACHE_SECONDS", 3600)
    now = time.monotonic()
    assert AdmittedKey(b"key", "project").project_id == "project"
    assert AdmittedKey(b"key", "project", now - 3600).project_id is None
    assert AdmittedKey(b"key").project_id is None
