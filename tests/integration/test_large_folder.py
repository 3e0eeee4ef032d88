"""Folders larger than the fast queue takes."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.fakes.embeddings import EmbeddingsFake
from tests.service import TOOLS, NewService, Service, eventually, service
from worker.state.index.tasks import SMALL_TASK

FILES = SMALL_TASK + 50
#: Texts of one request. A claim of 32 files does not fill a whole number of requests.
BATCH = 7


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("root")


@pytest.fixture(scope="module")
def folder(root: Path) -> Path:
    made = root / "folder"
    made.mkdir()
    for number in range(FILES):
        (made / f"{number}.txt").write_text(f"note {number}\n")
    return made


@pytest.fixture(scope="module")
def running(new_service: NewService, root: Path, provider: EmbeddingsFake) -> Iterator[Service]:
    env = {**provider.env, "LOCAL_SOURCE_ROOTS": str(root), "VECTOR_STORE": "lancedb"}
    # each further process of its queue would send a remainder of its own
    with new_service(partial(service, bulk=1), **env, EMBEDDING_BATCH_SIZE=str(BATCH)) as started:
        yield started


def test_requests_are_filled_across_claims_and_a_single_changed_file_of_many_is_indexed(
    running: Service, folder: Path, provider: EmbeddingsFake
) -> None:
    provider.holds.add("embeddings", "note")
    tool = running.local_tool(folder)
    # a worker that is faster than the listing sends remainders
    eventually(lambda: not running.status(tool)["listing"], 60, running.logs)
    provider.holds.release()
    assert running.wait(tool)["indexed_files"] == FILES
    # a remainder may be a single text too, so the probe of the model is recognised by its words
    probes = sum(provider.audit.times(word) for word in ("word", "warm"))
    sizes = [request.inputs for request in provider.audit.requests]
    assert sum(sizes) - probes == FILES
    assert len(sizes) - probes <= 1.05 * math.ceil(FILES / BATCH), sizes
    (folder / "7.txt").write_text("note 7 was edited\n")
    tool = running.local_tool(folder)
    status = running.wait(tool)
    assert (status["indexed_files"], status["embedded_chunks"]) == (FILES, 1)
    assert running.query(tool, "edited", mode="keyword")[0]["file_path"] == "7.txt"


def test_removals_alone_are_work_in_a_folder_of_any_size(running: Service, root: Path) -> None:
    folder = root / "shrinking"
    folder.mkdir()
    for number in range(FILES):
        made = folder / f"{number}.txt"
        made.write_text(f"stone {number}\n")
        # a stamp this old is trusted, so no other file is read again and wakes a worker
        os.utime(made, (time.time() - 3600, time.time() - 3600))
    tool = running.local_tool(folder)
    assert running.wait(tool)["indexed_files"] == FILES
    (folder / "7.txt").unlink()
    running.post(f"{TOOLS}/{tool}/reindex", {})
    status = running.wait(tool)
    assert (status["total_files"], status["indexed_files"], status["removed_files"]) == (FILES - 1, FILES - 1, 1)
    assert "stone 7\n" not in [hit["chunk_text"] for hit in running.query(tool, "stone 7", mode="keyword")]
