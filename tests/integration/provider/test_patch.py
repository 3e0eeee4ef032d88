"""A tool's config changes: the new index is built beside the old one, which answers until the tool switches."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any
from uuid import uuid4

import pytest
from httpx import Response

from tests.fakes.embeddings import EmbeddingsFake
from tests.fakes.hold import Hold
from tests.integration.test_index_life import found, write
from tests.service import PROJECT, TOOLS, Service, checked, eventually

OTHER = {"embedding_model": "openai/other"}


@pytest.fixture(autouse=True)
def calm(provider: EmbeddingsFake) -> Iterator[None]:
    yield
    provider.holds.release()


@pytest.fixture
def word() -> str:
    return f"w{uuid4().hex[:12]}"


@pytest.fixture
def folder(root: Path, word: str) -> Path:
    return write(root / word, apples=f"# apples\n\nThis is about {word}.\n", birds=f"# birds\n\nAnd {word} again.\n")


@pytest.fixture
def tool(running: Service, folder: Path) -> str:
    made = running.local_tool(folder, name="before")
    running.wait(made)
    return made


def get(running: Service, tool: str) -> dict[str, Any]:
    return running.get(f"{TOOLS}/{tool}")


def patch(running: Service, tool: str, **body: Any) -> dict[str, Any]:
    return checked(running.client.patch(f"{TOOLS}/{tool}", json=body), 202)


def updated(running: Service, tool: str) -> dict[str, Any]:
    eventually(lambda: get(running, tool)["updating"] is None, 30, running.logs)
    return get(running, tool)


def deleted(running: Service, index: str) -> bool:
    rows = running.rows("SELECT deleted_at IS NOT NULL FROM search_index WHERE id = %s", index)
    return rows in ([], [(True,)])


def held_build(running: Service, provider: EmbeddingsFake, tool: str, folder: Path) -> tuple[dict[str, Any], Hold]:
    """Hold the build of an index at a request for a text of the present one. Yields what releases it."""
    new = f"new{uuid4().hex}"
    write(folder, cars=f"# cars\n\nThis is about {new}.\n")
    running.post(f"{TOOLS}/{tool}/reindex", None)
    running.wait(tool)
    hold = provider.holds.add("embeddings", new)
    patch(running, tool, config={"dimensions": 64})
    eventually(lambda: bool(hold.arrived), 20, running.logs)
    return get(running, tool)["updating"], hold


def test_a_name_and_a_config_of_the_same_index_change_at_once(running: Service, tool: str) -> None:
    before = get(running, tool)
    shown = patch(running, tool, name="after", config={"chunk_size": 512, "embedding_model": "openai/m"})
    assert (shown["name"], shown["updating"], shown["index"]) == ("after", None, before["index"])
    assert (shown["config"]["chunk_size"], shown["config"]["embedding_model"]) == (512, "openai/m")
    assert patch(running, tool) == get(running, tool)
    assert len(running.get(f"{TOOLS}/{tool}/tasks")["items"]) == 1


def test_another_model_is_built_beside_the_old_one(
    running: Service, provider: EmbeddingsFake, tool: str, folder: Path, word: str
) -> None:
    sibling = running.local_tool(folder)
    running.wait(sibling)
    before = get(running, tool)
    shown = patch(running, tool, config={**OTHER, "chunk_size": 100})
    assert (shown["index"], shown["config"]) == (before["index"], before["config"])
    assert shown["updating"]["index"]["model"] == "openai/other"
    assert shown["updating"]["config"]["chunk_size"] == 100
    after = updated(running, tool)
    assert after["index"] == shown["updating"]["index"]
    assert (after["config"], after["namespace"]) == (shown["updating"]["config"], shown["updating"]["namespace"])
    assert (after["update_error"], running.status(tool)["kind"]) == (None, "update")
    assert found(running, tool, word, "hybrid") == {"apples.md", "birds.md"}
    assert get(running, sibling)["index"] == before["index"]
    assert found(running, sibling, word) == {"apples.md", "birds.md"}
    assert not deleted(running, before["index"]["index_id"])
    running.client.delete(f"{TOOLS}/{sibling}")
    assert deleted(running, before["index"]["index_id"])
    assert not deleted(running, after["index"]["index_id"])


def test_the_old_index_answers_while_the_new_one_is_built(
    running: Service, provider: EmbeddingsFake, tool: str, folder: Path, word: str
) -> None:
    before = get(running, tool)
    build, hold = held_build(running, provider, tool, folder)
    assert (build["status"], build["index"]["dimensions"]) == ("indexing", 64)
    assert get(running, tool)["index"] == before["index"]
    everything = {"apples.md", "birds.md", "cars.md"}
    assert found(running, tool, word, "hybrid") == everything
    assert running.status(tool)["status"] == "ready"
    listed = {run["task_id"]: run["namespace"] for run in running.get(f"{TOOLS}/{tool}/tasks")["items"]}
    assert listed[build["task_id"]] == build["namespace"] != before["namespace"]
    hold.release()
    while get(running, tool)["updating"] is not None:
        assert found(running, tool, word, "hybrid") == everything
    assert get(running, tool)["index"] == build["index"]
    assert found(running, tool, word, "hybrid") == everything
    assert deleted(running, before["index"]["index_id"])


def test_an_index_that_exists_is_shared(running: Service, provider: EmbeddingsFake, tool: str, folder: Path) -> None:
    other = running.local_tool(folder, config=OTHER)
    running.wait(other)
    embedded = sum(provider.audit.texts.values())
    patch(running, tool, config=OTHER)
    assert updated(running, tool)["index"] == get(running, other)["index"]
    assert sum(provider.audit.texts.values()) == embedded


def test_a_build_that_fails_leaves_everything_as_it_was(
    running: Service, provider: EmbeddingsFake, tool: str, folder: Path, word: str
) -> None:
    before = get(running, tool)
    build, hold = held_build(running, provider, tool, folder)
    provider.fail_next(401)
    hold.release()
    after = updated(running, tool)
    assert (after["index"], after["config"]) == (before["index"], before["config"])
    assert "EMBEDDING_API_KEY" in after["update_error"]
    assert deleted(running, build["index"]["index_id"])
    assert found(running, tool, word) == {"apples.md", "birds.md"}
    assert patch(running, tool, config={"chunk_size": 512})["update_error"] is None


def test_going_back_ends_the_build(running: Service, provider: EmbeddingsFake, tool: str, folder: Path) -> None:
    before = get(running, tool)
    build, hold = held_build(running, provider, tool, folder)
    shown = patch(running, tool, config=before["config"])
    assert (shown["updating"], shown["index"], shown["update_error"]) == (None, before["index"], None)
    assert deleted(running, build["index"]["index_id"])
    hold.release()
    assert running.rows("SELECT status FROM search_index_task WHERE id = %s", build["task_id"]) == [("cancelled",)]


def test_a_second_change_takes_the_first_ones_place(
    running: Service, provider: EmbeddingsFake, tool: str, folder: Path
) -> None:
    build, hold = held_build(running, provider, tool, folder)
    # a change that leads to the index being built continues that build
    again = patch(running, tool, config={"dimensions": 64, "chunk_size": 512})["updating"]
    assert (again["task_id"], again["config"]["chunk_size"]) == (build["task_id"], 512)
    second = patch(running, tool, config={"dimensions": 32})["updating"]
    assert second["index"]["dimensions"] == 32
    assert deleted(running, build["index"]["index_id"])
    hold.release()
    assert updated(running, tool)["index"] == second["index"]


def test_a_second_change_keeps_what_the_first_one_asked_for(
    running: Service, provider: EmbeddingsFake, tool: str, folder: Path
) -> None:
    build, hold = held_build(running, provider, tool, folder)
    # a change that does not affect the index leaves the build alone
    following = patch(running, tool, config={"watch": True})["updating"]
    assert (following["task_id"], following["config"]["watch"]) == (build["task_id"], True)
    patch(running, tool, config={"exclude": ["*.log"], "watch": False})
    hold.release()
    config = updated(running, tool)["config"]
    assert (config["dimensions"], config["exclude"]) == (64, ["*.log"])


def test_a_second_change_keeps_that_the_first_one_went_back_to_the_defaults(
    running: Service, provider: EmbeddingsFake, tool: str, folder: Path
) -> None:
    _, hold = held_build(running, provider, tool, folder)
    hold.release()
    updated(running, tool)
    new = f"new{uuid4().hex}"
    write(folder, dogs=f"# dogs\n\nThis is about {new}.\n")
    hold = provider.holds.add("embeddings", new)
    patch(running, tool, config={"dimensions": None})
    eventually(lambda: bool(hold.arrived), 20, running.logs)
    patch(running, tool, config={"exclude": ["*.log"]})
    hold.release()
    config = updated(running, tool)["config"]
    assert (config["dimensions"], config["exclude"]) == (None, ["*.log"])


def test_cancel_gives_the_build_up(running: Service, provider: EmbeddingsFake, tool: str, folder: Path) -> None:
    before = get(running, tool)
    build, hold = held_build(running, provider, tool, folder)
    assert running.post(f"{TOOLS}/{tool}/cancel", None)["status"] == "ready"
    after = get(running, tool)
    assert (after["updating"], after["index"]) == (None, before["index"])
    assert "cancelled" in after["update_error"]
    assert deleted(running, build["index"]["index_id"])
    hold.release()


def test_a_cancel_of_one_task_gives_up_what_that_task_builds_alone(
    running: Service, provider: EmbeddingsFake, tool: str, folder: Path
) -> None:
    before = get(running, tool)
    ended = running.get(f"{TOOLS}/{tool}/status")["task_id"]
    build, hold = held_build(running, provider, tool, folder)
    running.post(f"{TOOLS}/{tool}/cancel?task_id={ended}", None)
    after = get(running, tool)
    assert (after["updating"]["task_id"], after["update_error"]) == (build["task_id"], None)
    running.post(f"{TOOLS}/{tool}/cancel?task_id={build['task_id']}", None)
    after = get(running, tool)
    assert (after["updating"], after["index"]) == (None, before["index"])
    assert deleted(running, build["index"]["index_id"])
    hold.release()


def test_a_change_that_is_given_up_leaves_an_index_that_others_use(
    running: Service, provider: EmbeddingsFake, tool: str, folder: Path
) -> None:
    build, hold = held_build(running, provider, tool, folder)
    sibling = running.local_tool(folder, config={"dimensions": 64})
    assert get(running, sibling)["index"] == build["index"]
    running.client.delete(f"{TOOLS}/{tool}")
    hold.release()
    assert running.wait(sibling)["task_id"] == build["task_id"]


def test_a_reindex_during_a_build_reaches_it_too(
    running: Service, provider: EmbeddingsFake, tool: str, folder: Path, word: str
) -> None:
    _, hold = held_build(running, provider, tool, folder)
    write(folder, late=f"# late\n\nA {word} that came late.\n")
    running.post(f"{TOOLS}/{tool}/reindex", None)
    eventually(lambda: found(running, tool, "late") == {"late.md"}, 20, running.logs)
    hold.release()
    assert updated(running, tool)["index"]["dimensions"] == 64
    running.wait(tool)
    assert found(running, tool, "late") == {"late.md"}


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"config": {"embedding_model": "local/none"}}, "embedding_model_refused"),
        ({"config": {"embedding_model": "openai/no-such-model"}}, "embedding_model_refused"),
        ({"config": {"include": None}}, "invalid_request"),
        ({"config": {"chunks": 3}}, "invalid_request"),
        ({"node_id": "x"}, "invalid_request"),
        ({"name": ""}, "invalid_request"),
    ],
)
def test_what_is_refused_changes_nothing(running: Service, tool: str, body: dict[str, Any], code: str) -> None:
    before = get(running, tool)
    refused = running.client.patch(f"{TOOLS}/{tool}", json={"name": "never", **body})
    assert (refused.status_code, refused.json()["code"]) == (422, code)
    assert get(running, tool) == before


def test_verbs_at_once_leave_nothing_open_and_nothing_lost(
    running: Service, provider: EmbeddingsFake, folder: Path, word: str
) -> None:
    made = [running.local_tool(folder, config={"dimensions": size}) for size in (16, 16, 24)]
    seed = uuid4().hex
    with ThreadPoolExecutor(6) as callers:
        answers = list(callers.map(lambda number: _any_verb(running, made, Random(f"{seed}{number}")), range(150)))
    assert [answer.text for answer in answers if answer.status_code >= 500] == [], seed
    for tool in made:
        eventually(lambda tool=tool: get(running, tool)["updating"] is None, 30, running.logs)  # type: ignore[misc] # mypy infers no default's type
        running.post(f"{TOOLS}/{tool}/reindex", None)
    for tool in made:
        assert running.wait(tool)["indexed_files"] == 2, seed
        assert found(running, tool, word, "hybrid") == {"apples.md", "birds.md"}
    unreferenced = running.rows(
        "SELECT id FROM search_index i WHERE deleted_at IS NULL AND NOT EXISTS "
        "(SELECT FROM search_tool s WHERE i.id IN (s.index_id, s.next_index_id))"
    )
    assert unreferenced == [], seed


FIELDS: dict[str, Any] = {
    "every": 3600,
    "watch": True,
    "max_cost_tokens": 10**6,
    "url_template": "https://a.example/{file_path}",
}


def test_changes_of_different_fields_at_once_are_all_kept(running: Service, tool: str) -> None:
    for _ in range(5):
        patch(running, tool, config={"every": None, "watch": False, "max_cost_tokens": None, "url_template": None})
        with ThreadPoolExecutor(len(FIELDS)) as callers:
            list(callers.map(lambda field: patch(running, tool, config=dict([field])), FIELDS.items()))
        config = get(running, tool)["config"]
        assert {name: config[name] for name in FIELDS} == FIELDS
    patch(running, tool, config={"every": None, "watch": False})


def _any_verb(running: Service, tools: list[str], dice: Random) -> Response:
    tool = f"{TOOLS}/{dice.choice(tools)}"
    verb = dice.choice(["reindex", "cancel", "retry", "patch", "tool"])
    if verb == "patch":
        return running.client.patch(tool, json={"config": {"dimensions": dice.choice([16, 24, 40])}})
    if verb == "tool":
        source = running.client.get(tool).json()["source"]
        body = {"project_id": PROJECT, "source": source, "config": {"dimensions": dice.choice([16, 24, 40])}}
        return running.client.delete(f"{TOOLS}/{running.client.post(TOOLS, json=body).json()['tool_id']}")
    return running.client.post(f"{tool}/{verb}")
