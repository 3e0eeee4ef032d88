"""What takes long, and only `make chaos` runs. Each kind of fault is in a test of `make test` too."""

from __future__ import annotations

import os

import pytest

IS_FULL = "CHAOS_SECONDS" in os.environ
only_in_full = pytest.mark.skipif(not IS_FULL, reason="run make chaos for it")
