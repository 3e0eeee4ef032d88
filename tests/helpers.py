"""Helper processes for sources whose containers are opened."""

from __future__ import annotations

from worker.sandbox.pool import PATIENT, HelperPool, ProjectHelpers

POOL = HelperPool(PATIENT, max_seconds=60.0, memory_bytes=1 << 30)
HELPERS = ProjectHelpers(POOL, "project")
