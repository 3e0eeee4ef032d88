"""A random user over small folders, at thresholds of a few files: after each rest the index equals the folder.

A failure tells its seed and its steps; `MODEL_SEED=…` repeats them.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from tests.model.ground import Kind, Servers, Store, machine, told

SEED = int(os.environ.get("MODEL_SEED") or random.randrange(10**6))
SECONDS = 4.0


@pytest.fixture(scope="module")
def servers(postgres_url: str, template_url: str, redis_url: str, s3: dict[str, str]) -> Servers:
    return Servers(postgres_url, template_url, redis_url, s3)


@pytest.mark.parametrize(
    ("kind", "store"), [("local", "turbopuffer"), ("local", "lancedb"), ("nodes", "turbopuffer"), ("s3", "turbopuffer")]
)
def test_an_index_equals_its_folder(servers: Servers, tmp_path: Path, kind: Kind, store: Store) -> None:
    with machine(servers, tmp_path, kind, store, SEED) as made, told(made):
        made.begin(made.by.choice([0, 3, 5, 12]))
        made.run(SECONDS)
        assert made.done
