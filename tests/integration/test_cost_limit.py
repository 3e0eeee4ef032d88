"""`max_cost_tokens`: a run pays no more, however many requests are in flight. A retry under a raised one goes on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.fakes.embeddings import EmbeddingsFake
from tests.service import TOOLS, NewService, Service, checked, eventually

#: Files of a folder: more than one process takes in one claim, and more than a task for one process has.
FILES = 240


@pytest.fixture(scope="module")
def provider() -> Iterator[EmbeddingsFake]:
    with EmbeddingsFake(delay=0.01) as fake:
        yield fake


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("root")


@pytest.fixture(scope="module")
def running(new_service: NewService, root: Path, provider: EmbeddingsFake) -> Iterator[Service]:
    # many small requests in flight
    env = {**provider.env, "EMBEDDING_BATCH_SIZE": "2", "EMBEDDING_CONCURRENCY": "4", "LOCAL_SOURCE_ROOTS": str(root)}
    with new_service(**env) as started:
        yield started


def folder_of(root: Path, files: int) -> Path:
    folder = root / uuid4().hex
    folder.mkdir()
    for number in range(files):
        (folder / f"{number}.md").write_text(f"# File {number}\n\nSome words of {folder.name} in {number}.\n")
    return folder


def in_project(running: Service, folder: Path, **config: Any) -> str:
    """A tool of its own project, so that no vector is cached."""
    source = {"kind": "local", "path": str(folder)}
    return running.tool(project=f"p-{uuid4().hex}", source=source, config=config)


def raised(running: Service, tool: str, limit: int | None) -> dict[str, Any]:
    """Raise the limit, and retry."""
    checked(running.client.patch(f"{TOOLS}/{tool}", json={"config": {"max_cost_tokens": limit}}), 202)
    running.post(f"{TOOLS}/{tool}/retry", {})
    return running.wait(tool)


def reasons(running: Service, tool: str) -> set[tuple[str, str | None]]:
    return {(file["status"], file["reason"]) for file in running.files(tool)}


@pytest.mark.parametrize("files", [3, FILES])
def test_the_limit_is_inclusive_and_a_raised_one_goes_on(running: Service, root: Path, files: int) -> None:
    folder = folder_of(root, files)
    total = running.wait(in_project(running, folder))["tokens"]
    exact = running.wait(in_project(running, folder, max_cost_tokens=total))
    assert (exact["tokens"], exact["failed_files"], exact["warning"]) == (total, 0, None)

    tool = in_project(running, folder, max_cost_tokens=total - 1)
    index = running.get(f"{TOOLS}/{tool}")["index"]
    first = running.wait(tool)
    assert 0 < first["tokens"] < total
    assert 0 < first["failed_files"] < files
    assert first["indexed_files"] + first["failed_files"] == files
    assert f"config.max_cost_tokens ({total - 1:,}); raise it" in first["warning"]
    assert reasons(running, tool) == {("indexed", None), ("failed", "cost_limit")}
    assert running.query(tool, "some words")

    second = raised(running, tool, total)
    assert running.get(f"{TOOLS}/{tool}")["index"] == index
    assert (second["kind"], second["failed_files"], second["warning"]) == ("retry", 0, None)
    assert first["tokens"] + second["tokens"] == total


def test_many_requests_in_flight_stay_below_a_small_limit(running: Service, root: Path) -> None:
    folder = folder_of(root, FILES)
    total = running.wait(in_project(running, folder))["tokens"]
    limit = total // 3
    tool = in_project(running, folder, max_cost_tokens=limit)
    status = running.wait(tool)
    assert limit // 2 < status["tokens"] <= limit
    ((spent, paid),) = running.rows(
        "SELECT spent_tokens, (SELECT sum(tokens) FROM search_index_file f WHERE f.index_id = t.index_id)"
        " FROM search_index_task t WHERE id = %s",
        status["task_id"],
    )
    assert spent == paid == status["tokens"]


def test_no_run_pays_until_the_limit_is_raised(running: Service, provider: EmbeddingsFake, root: Path) -> None:
    folder = folder_of(root, 20)
    total = running.wait(in_project(running, folder))["tokens"]
    tool = in_project(running, folder, max_cost_tokens=total // 2)
    spent = running.wait(tool)["tokens"]
    provider.reset()
    for action in ("retry", "reindex"):
        running.post(f"{TOOLS}/{tool}/{action}", {})
        again = running.wait(tool)
        spent += again["tokens"]
        assert spent <= total // 2
        assert "max_cost_tokens" in again["warning"]
    assert raised(running, tool, None)["failed_files"] == 0
    # the next run begins at zero
    (folder / "new.md").write_text("# New\n\nAnother text.\n")
    checked(running.client.patch(f"{TOOLS}/{tool}", json={"config": {"max_cost_tokens": total // 2}}), 202)
    running.post(f"{TOOLS}/{tool}/reindex", {})
    last = running.wait(tool)
    assert (last["failed_files"], last["warning"]) == (0, None)
    assert last["tokens"] > 0


def test_a_limit_that_no_file_fits_ends_with_a_warning(running: Service, root: Path) -> None:
    tool = in_project(running, folder_of(root, 3), max_cost_tokens=0)
    status = running.wait(tool)
    assert (status["tokens"], status["indexed_files"], status["failed_files"]) == (0, 0, 3)
    assert "config.max_cost_tokens (0)" in status["warning"]


def test_failed_requests_do_not_count(running: Service, provider: EmbeddingsFake, root: Path) -> None:
    folder = folder_of(root, 10)
    total = running.wait(in_project(running, folder))["tokens"]
    provider.fail_next(500, count=3)
    status = running.wait(in_project(running, folder, max_cost_tokens=total))
    provider.clear_failures()
    assert (status["tokens"], status["failed_files"], status["warning"]) == (total, 0, None)


def test_a_tool_does_not_switch_to_an_index_that_is_not_paid_for(running: Service, root: Path) -> None:
    tool = in_project(running, folder_of(root, 10))
    total = running.wait(tool)["tokens"]
    index = running.get(f"{TOOLS}/{tool}")["index"]
    config: dict[str, Any] = {"embedding_model": "openai/other"}
    for limit in (total // 2, total):
        change = {"config": {**config, "max_cost_tokens": limit}}
        checked(running.client.patch(f"{TOOLS}/{tool}", json=change), 202)
        eventually(lambda: running.get(f"{TOOLS}/{tool}")["updating"] is None, 30, running.logs)
        after = running.get(f"{TOOLS}/{tool}")
        assert (after["index"] == index, "max_cost_tokens" in (after["update_error"] or "")) == (2 * (limit < total,))
    assert after["index"]["model"] == "openai/other"


def test_tools_with_different_limits_share_an_index(running: Service, root: Path) -> None:
    folder = folder_of(root, 4)
    source = {"kind": "local", "path": str(folder)}
    project = f"p-{uuid4().hex}"
    first = running.tool(project=project, source=source, config={"max_cost_tokens": 1})
    assert running.wait(first)["failed_files"] == 4
    second = running.tool(project=project, source=source)
    assert (running.wait(second)["failed_files"], running.status(first)["warning"]) == (0, None)
    assert running.get(f"{TOOLS}/{first}")["index"] == running.get(f"{TOOLS}/{second}")["index"]
