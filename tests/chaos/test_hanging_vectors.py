"""A provider that hangs while vectors are written: every process waits for it, and words are found all the same.

However often that happens, no process grows.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import psutil
import pytest

from tests.chaos import corpus
from tests.chaos.full import only_in_full
from tests.fakes.embeddings import EmbeddingsFake
from tests.private_memory import private_mebibytes
from tests.service import TOOLS, NewService, Service, eventually, service

#: Seconds within which words are found. A request that hangs takes sixty, and is repeated.
SOON = 20.0
#: Files of a folder for all bulk processes: more than the fast worker takes. Files of a folder for that one.
MANY, FEW = 600, 20
#: Folders that are indexed one after another, and after how many of them caches are full.
ROUNDS, WARM_ROUNDS = 60, 20
#: The factor, or the MiB if that is more, by which the memory of a process may grow from then on.
GROWTH, GROWTH_MIB = 1.2, 16
BUSY = "SELECT count(DISTINCT lease_owner) FROM search_index_file WHERE status = 'indexing' AND awaits_vectors"


@pytest.fixture
def provider() -> Iterator[EmbeddingsFake]:
    with EmbeddingsFake() as fake:
        yield fake


@pytest.fixture
def here(new_service: NewService, root: Path, provider: EmbeddingsFake) -> Iterator[Service]:
    with new_service(partial(service, bulk=2), **provider.env, LOCAL_SOURCE_ROOTS=str(root)) as started:
        yield started
        provider.holds.release()


def new_folder(root: Path, files: int) -> Path:
    mark = corpus.new_mark()
    for number in range(files):
        corpus.write(root / mark / f"{number:03}.md", f"# Note {number}\n\nThis is {mark}, which tells of apples.\n")
    return root / mark


def has_words(here: Service, tool: str, word: str, files: int) -> bool:
    """Whether the words of all files are found, and those of so many by a word."""
    status = here.status(tool)
    if status["searchable_files"] < status["total_files"]:
        return False
    return len({hit["file_path"] for hit in here.query(tool, word, mode="keyword", top_k=1000)}) == files


@only_in_full
def test_words_are_found_while_every_process_waits_for_vectors(
    here: Service, provider: EmbeddingsFake, root: Path
) -> None:
    provider.holds.add("embeddings")
    folder = new_folder(root, MANY)
    large = here.local_tool(folder, project="large")
    eventually(lambda: has_words(here, large, "apples", MANY), 60, here.logs)
    small = here.local_tool(new_folder(root, FEW), project="small")
    eventually(lambda: has_words(here, small, "apples", FEW), 60, here.logs)
    eventually(lambda: here.rows(BUSY) == [(3,)], 30, here.logs)
    new = [here.local_tool(new_folder(root, files), project=f"new-{files}") for files in (FEW, MANY)]
    for tool, files in zip(new, (FEW, MANY), strict=True):
        eventually(lambda tool=tool, files=files: has_words(here, tool, "apples", files), SOON, here.logs)  # type: ignore[misc] # mypy infers no default's type
    corpus.write(folder / "000.md", "# Note 0\n\nThis one tells of pears.\n")
    corpus.write(folder / "new.md", "# New\n\nThis one tells of pears.\n")
    here.post(f"{TOOLS}/{large}/reindex", {})
    eventually(lambda: has_words(here, large, "pears", 2), SOON, here.logs)
    provider.holds.release()
    for tool in (large, small, *new):
        status = here.wait(tool)
        assert status["vector_chunks"] == status["total_chunks"]
    assert set(provider.audit.texts.values()) == {1}


def private_memory(here: Service) -> dict[int, int]:
    """The private memory of each process, in MiB."""
    mains = [psutil.Process(process.child.pid) for process in here.processes.values()]
    return {each.pid: private_mebibytes(each.pid) for main in mains for each in [main, *main.children(recursive=True)]}


@only_in_full
@pytest.mark.timeout(600)
def test_no_process_grows_with_the_folders_that_wait_for_vectors(
    here: Service, provider: EmbeddingsFake, root: Path
) -> None:
    for number in range(ROUNDS):
        if number == WARM_ROUNDS:
            before = private_memory(here)
        hold = provider.holds.add("embeddings")
        tool = here.local_tool(new_folder(root, MANY // 2), project=f"round-{number}")
        eventually(lambda tool=tool: has_words(here, tool, "apples", MANY // 2), 60, here.logs)  # type: ignore[misc] # mypy infers no default's type
        hold.release()
        here.wait(tool)
        assert here.client.delete(f"{TOOLS}/{tool}").is_success
    after = private_memory(here)
    grown = {pid: (before[pid], size) for pid, size in after.items() if pid in before}
    assert all(new <= max(old * GROWTH, old + GROWTH_MIB) for old, new in grown.values()), grown
