"""Folders beyond the fast queue's size."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.fakes.embeddings import EmbeddingsFake
from tests.service import NewService, Service, eventually, service
from worker.app import SMALL_TASK

FILES = SMALL_TASK + 50
#: Texts of one request; a claim of 32 files does not fill a whole number of these.
BATCH = 7


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("folder")
    for number in range(FILES):
        (made / f"{number}.txt").write_text(f"note {number}\n")
    return made


@pytest.fixture(scope="module")
def running(new_service: NewService, folder: Path, provider: EmbeddingsFake) -> Iterator[Service]:
    env = {**provider.env, "LOCAL_SOURCE_ROOTS": str(folder), "VECTOR_STORE": "lancedb"}
    # each further process of its queue would send a remainder of its own
    with new_service(partial(service, bulk=1), **env, EMBEDDING_BATCH_SIZE=str(BATCH)) as started:
        yield started


def test_requests_are_filled_across_claims_and_a_single_changed_file_of_many_is_indexed(
    running: Service, folder: Path, provider: EmbeddingsFake
) -> None:
    provider.holds.add("embeddings", "note")
    tool = running.local_tool(folder)
    # whoever is faster than the listing sends remainders
    eventually(lambda: not running.status(tool)["listing"], 60, running.logs)
    provider.holds.release()
    assert running.wait(tool)["indexed_files"] == FILES
    # a remainder may be a single text as well, so what asks whether the model exists is told by its words
    probes = sum(provider.audit.times(word) for word in ("word", "warm"))
    sizes = [request.inputs for request in provider.audit.requests]
    assert sum(sizes) - probes == FILES
    assert len(sizes) - probes <= 1.05 * math.ceil(FILES / BATCH), sizes
    (folder / "7.txt").write_text("note 7 was edited\n")
    tool = running.local_tool(folder)
    status = running.wait(tool)
    assert (status["indexed_files"], status["embedded_chunks"]) == (FILES, 1)
    assert running.query(tool, "edited", mode="keyword")[0]["file_path"] == "7.txt"
