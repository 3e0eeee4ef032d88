"""Chaos tests: they kill and pause real processes and fake failures. Afterwards the index must be as without faults."""

import pytest

pytest.register_assert_rewrite("tests.chaos.proof")
