"""A random user over small folders, with thresholds of a few files. After each rest the index equals the folder.

A failure tells its seed and its steps; `MODEL_SEED=…` repeats them.
"""

from __future__ import annotations

import os
import random
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.model.folders import Tree
from tests.model.ground import Kind, Servers, Store, machine, steps_in_failures
from tests.service import TOOLS, checked

SEED = int(os.environ.get("MODEL_SEED") or random.randrange(10**6))
SECONDS = 4.0
#: More files than a small task has, whatever the seed chooses.
FILES = 12


@pytest.fixture(scope="module")
def servers(postgres_url: str, template_url: str, redis_url: str, s3: dict[str, str]) -> Servers:
    return Servers(postgres_url, template_url, redis_url, s3)


@pytest.mark.parametrize(
    ("kind", "store"), [("local", "turbopuffer"), ("local", "lancedb"), ("nodes", "turbopuffer"), ("s3", "turbopuffer")]
)
def test_an_index_equals_its_folder(servers: Servers, tmp_path: Path, kind: Kind, store: Store) -> None:
    with machine(servers, tmp_path, kind, store, SEED) as made, steps_in_failures(made):
        made.begin(made.by.choice([0, 3, 5, 12]))
        made.run(SECONDS)
        assert made.done


def test_a_deleted_upload_of_many_is_gone_for_whoever_waits(servers: Servers, tmp_path: Path) -> None:
    """The only work left is one removal, in a folder of more files than a small task has."""
    with machine(servers, tmp_path, "nodes", "turbopuffer", SEED) as made, ThreadPoolExecutor(1) as callers:
        here, folder = made.here, made.folder
        assert isinstance(folder, Tree)
        folder.upload({f"{number}.txt": b"Of shells.\n" for number in range(FILES)}, "")
        made.add_tool()
        here.settle()
        folder.remove("7.txt")
        body = {"query": "shells", "mode": "keyword", "refresh": "wait", "top_k": 2 * FILES}
        asked = callers.submit(here.client.post, f"{TOOLS}/{made.tools[0]}/query", json=body)
        while not asked.done():
            if not here.work():
                time.sleep(0.01)
        answer = checked(asked.result(), 200)
        assert "still_indexing" not in [note["code"] for note in answer["notes"]]
        assert {hit["file_path"] for hit in answer["results"]} == {*folder.files}
