"""Real processes are killed, paused and lied to; the index ends up as if nothing had happened."""

import pytest

pytest.register_assert_rewrite("tests.chaos.proof")
