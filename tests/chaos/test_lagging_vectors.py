"""What may happen to a folder whose words are there and whose vectors are not: its words stay, and it ends complete."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.chaos import corpus
from tests.chaos.full import only_in_full
from tests.fakes.embeddings import EmbeddingsFake
from tests.fakes.hold import Hold
from tests.service import TOOLS, NewService, Service, checked, eventually, service

pytestmark = only_in_full

#: Seconds for which the provider is down, and those after which it is tried again at the latest.
DOWN_SECONDS, RETRY_SECONDS = 60.0, 90.0
#: Tokens of some of a folder's chunks, and more than those of all.
FEW_TOKENS, ALL_TOKENS = 300, 100_000


@pytest.fixture(scope="module")
def provider() -> Iterator[EmbeddingsFake]:
    with EmbeddingsFake() as fake:
        yield fake


@pytest.fixture(scope="module")
def running(new_service: NewService, root: Path, provider: EmbeddingsFake) -> Iterator[Service]:
    env = {"LOCAL_SOURCE_ROOTS": str(root), "EMBEDDING_BATCH_SIZE": "4"}
    # with one worker for all, no process would be left to count
    with new_service(partial(service, bulk=1), **provider.env, **env) as started:
        yield started
        provider.holds.release()


@dataclass
class Lagging:
    """A folder of a project of its own."""

    here: Service
    provider: EmbeddingsFake
    folder: Path
    mark: str
    tool: str = field(default="")

    def start(self, **config: Any) -> None:
        self.tool = self.here.local_tool(self.folder, project=self.mark, config=config)

    def hold(self) -> Hold:
        """Have the provider answer nothing about this folder."""
        return self.provider.holds.add("embeddings", self.mark)

    def wait_for_words(self) -> dict[str, Any]:
        eventually(lambda: self.here.status(self.tool)["searchable_at"] is not None, 30, self.here.logs)
        return self.has_words()

    def has_words(self) -> dict[str, Any]:
        """Check that the words of all chunks are found, and what the status and an answer say of the vectors."""
        # the counts of an answer may be a moment old
        eventually(self._answers_agree, 10, lambda: str(self._ask()))
        status, answer = self._ask()
        found = {hit["file_path"] for hit in answer["results"]}
        assert self._about_birds() <= found
        assert status["searchable_files"] + status["skipped_files"] + status["failed_files"] >= status["total_files"]
        return status

    def has_words_alone(self) -> None:
        """Check that the words of all chunks are found without the provider."""
        hits = self.here.query(self.tool, "birds", mode="keyword", top_k=200)
        assert {hit["file_path"] for hit in hits} >= self._about_birds()

    def _about_birds(self) -> set[str]:
        return {path.name for path in self.folder.glob("note-*.md") if "birds" in path.read_text()}

    def _ask(self) -> tuple[dict[str, Any], dict[str, Any]]:
        status = self.here.status(self.tool)
        return status, self.here.post(f"{TOOLS}/{self.tool}/query", {"query": "birds", "top_k": 200}, 200)

    def _answers_agree(self) -> bool:
        """Whether the status and an answer say the same of files and vectors."""
        status, answer = self._ask()
        notes, coverage = {note["code"] for note in answer["notes"]}, answer["coverage"]
        share = status["vector_chunks"] / status["total_chunks"]
        shown = status["searchable_files"], round(share, 4), share < 1
        return shown == (coverage["indexed_files"], coverage["vector_share"], "meaning_follows" in notes)

    def ends(self, until: str = "ready", seconds: float = 60) -> dict[str, Any]:
        self.here.wait(self.tool, until, seconds)
        return self.has_words()

    def prove(self, seconds: float = 60) -> None:
        """It ends complete, and each of its texts was paid for once."""
        status = self.ends(seconds=seconds)
        assert (status["vector_chunks"], status["progress"]) == (status["total_chunks"], 1.0)
        assert status["searchable_files"] == status["indexed_files"]
        query = (
            "SELECT c.content_hash FROM chunk c JOIN search_tool t ON t.index_id = c.index_id WHERE t.id = %s AND live"
        )
        texts = self.provider.audit.texts
        paid = {texts[content_hash.removeprefix("sha256:")] for (content_hash,) in self.here.rows(query, self.tool)}
        assert paid == {1}


@pytest.fixture
def lagging(running: Service, provider: EmbeddingsFake, root: Path) -> Iterator[Lagging]:
    mark = corpus.new_mark()
    yield Lagging(running, provider, corpus.make(root / mark, mark), mark)
    provider.holds.release()
    provider.clear_failures()


def cancel_and_retry(lagging: Lagging, hold: Hold) -> None:
    lagging.here.post(f"{TOOLS}/{lagging.tool}/cancel", {})
    status = lagging.ends("cancelled")
    assert (status["vector_chunks"], status["eta_seconds"]) == (0, None)
    lagging.here.post(f"{TOOLS}/{lagging.tool}/retry", {})
    lagging.wait_for_words()
    hold.release()


def edit_and_reindex(lagging: Lagging, hold: Hold) -> None:
    corpus.edit(lagging.folder, lagging.mark)
    lagging.here.post(f"{TOOLS}/{lagging.tool}/reindex", {})

    def is_edited() -> bool:
        hits = lagging.here.query(lagging.tool, "zebras", mode="keyword")
        return {hit["file_path"] for hit in hits} == {f"note-{number:02}.md" for number in range(0, 12, 2)}

    eventually(is_edited, 30, lagging.here.logs)
    assert lagging.wait_for_words()["vector_chunks"] == 0
    hold.release()


def switch_models(lagging: Lagging, hold: Hold) -> None:
    with _switched(lagging):
        # the old index answers until the new one has all its vectors
        lagging.has_words()
        hold.release()


def switch_models_while_every_request_hangs(lagging: Lagging, _: Hold) -> None:
    # not only those about this folder: what the new model is asked, and queries, hang too
    lagging.provider.holds.add("embeddings")
    with _switched(lagging):
        lagging.has_words_alone()
        lagging.provider.holds.release()


@contextmanager
def _switched(lagging: Lagging) -> Iterator[None]:
    """Ask for another model. At the end of the block, wait until it answers."""
    index = lagging.here.get(f"{TOOLS}/{lagging.tool}")["index"]
    config = {"embedding_model": "openai/other"}
    checked(lagging.here.client.patch(f"{TOOLS}/{lagging.tool}", json={"config": config}), 202)
    yield
    eventually(lambda: lagging.here.get(f"{TOOLS}/{lagging.tool}")["index"] != index, 60, lagging.here.logs)


@pytest.mark.parametrize(
    "happens", [cancel_and_retry, edit_and_reindex, switch_models, switch_models_while_every_request_hangs]
)
def test_words_stay_whatever_users_do(lagging: Lagging, happens: Callable[[Lagging, Hold], None]) -> None:
    hold = lagging.hold()
    lagging.start()
    assert lagging.wait_for_words()["vector_chunks"] == 0
    happens(lagging, hold)
    status = lagging.ends()
    assert status["vector_chunks"] == status["total_chunks"]


def test_a_refused_key_ends_the_run_and_a_retry_completes_it(lagging: Lagging) -> None:
    lagging.provider.fail_next(401, count=1_000)
    lagging.start()
    status = lagging.ends("error")
    assert (status["error_code"], status["vector_chunks"]) == ("embedding_unauthorized", 0)
    lagging.provider.clear_failures()
    lagging.here.post(f"{TOOLS}/{lagging.tool}/retry", {})
    lagging.prove()


def test_a_limit_of_cost_that_is_reached_leaves_the_words(lagging: Lagging) -> None:
    hold = lagging.hold()
    lagging.start(max_cost_tokens=FEW_TOKENS)
    lagging.wait_for_words()
    hold.release()
    status = lagging.ends()
    assert 0 < status["vector_chunks"] < status["total_chunks"]
    assert 0 < status["tokens"] <= FEW_TOKENS
    config = {"max_cost_tokens": ALL_TOKENS}
    checked(lagging.here.client.patch(f"{TOOLS}/{lagging.tool}", json={"config": config}), 202)
    lagging.here.post(f"{TOOLS}/{lagging.tool}/retry", {})
    lagging.prove()


@pytest.mark.timeout(DOWN_SECONDS + 3 * RETRY_SECONDS)
def test_a_folder_whose_provider_is_down_is_searched_by_words_and_ends_complete(lagging: Lagging) -> None:
    lagging.provider.fail_next(503, count=1_000_000)
    lagging.start()
    lagging.wait_for_words()
    until = time.monotonic() + DOWN_SECONDS
    while time.monotonic() < until:
        assert lagging.has_words()["status"] == "indexing"
        time.sleep(1)
    assert "Waiting" in lagging.here.status(lagging.tool)["warning"]
    lagging.provider.clear_failures()
    lagging.prove(seconds=RETRY_SECONDS)
