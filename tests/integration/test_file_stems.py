"""Code is embedded with the name of its file: what a rename costs, and how an older index gets that form of text."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from signal import SIGKILL
from typing import Any, NamedTuple
from uuid import UUID, uuid4

import pytest

from api.cli.service.connection import Connection
from api.cli.terminal.progress import wait
from api.cli.verbs import manage
from foldex_client import Status, Tool
from tests.chaos.cluster import client_of
from tests.fakes.embeddings import EmbeddingsFake
from tests.integration.commanding import foldex
from tests.service import TOOLS, NewService, Service, checked, eventually
from worker.state.index import tools
from worker.state.index.tools import NewIndex
from worker.state.pool import open_pool

NODES = "/api/projects/{}/nodes"
LONG_AGO = 1_600_000_000


@pytest.fixture(scope="module")
def running(new_service: NewService, root: Path, provider: EmbeddingsFake) -> Iterator[Service]:
    with new_service(**provider.env, LOCAL_SOURCE_ROOTS=str(root)) as started:
        yield started


@pytest.fixture(autouse=True)
def calm(provider: EmbeddingsFake) -> Iterator[None]:
    provider.reset()
    yield
    provider.holds.release()


class Place(NamedTuple):
    """A folder that a tool indexes, in a project of its own, so that no vector is cached. Every text is new."""

    folder: Path
    running: Service
    project: str

    def write(self, path: str, words: str = "") -> str:
        """Write a file of code or of prose. Returns its text, which is one chunk."""
        word = f"w{uuid4().hex}"
        text = f"def {word}():\n    return '{words}'" if path.endswith(".py") else f"# {word}\n\nA text{words}."
        (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / path).write_text(text + "\n")
        # its stamp can be trusted
        os.utime(self.folder / path, (LONG_AGO, LONG_AGO))
        return text

    def tool(self, **config: Any) -> str:
        source = {"kind": "local", "path": str(self.folder)}
        return self.running.tool(project=self.project, source=source, config=config)

    def renamed(self, before: str, after: str) -> None:
        (self.folder / after).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / before).rename(self.folder / after)


@pytest.fixture
def place(running: Service, root: Path) -> Place:
    folder = root / uuid4().hex
    folder.mkdir()
    return Place(folder, running, f"p-{uuid4().hex}")


def reindexed(running: Service, tool: str, **body: Any) -> dict[str, Any]:
    running.post(f"{TOOLS}/{tool}/reindex", body)
    return running.wait(tool)


def shown(running: Service, tool: str) -> dict[str, Any]:
    return running.get(f"{TOOLS}/{tool}")


def renewed(running: Service, tool: str) -> dict[str, Any]:
    """Renew the texts. Returns the status of the run that did."""
    running.post(f"{TOOLS}/{tool}/reindex", {"full": True, "renew_text": True})
    eventually(lambda: shown(running, tool)["updating"] is None, 60, running.logs)
    return running.wait(tool)


def older(place: Place) -> str:
    """A tool whose index embeds code without the names of files, like those of earlier releases."""
    place.write("first.md")
    running, tool = place.running, place.tool()
    running.wait(tool)
    with open_pool(running.database_url, max_size=1) as pool:
        index = tools.index_of_tool(pool, UUID(tool))
        assert index is not None
        settings = index.settings.model_copy(update={"file_stems": False})
        values = (index.project_id, index.source, index.folder_node_id, settings)
        former = NewIndex(*values, index.vector_store, index.keyword_index, text_key=index.text_key)
        statement = "UPDATE search_index SET settings = settings - 'file_stems', identity = %s WHERE id = %s"
        running.rows(statement, former.identity, index.id)
    assert shown(running, tool)["index"]["file_stems"] is False
    return tool


def test_code_is_embedded_with_the_name_of_its_file_and_prose_is_not(place: Place, provider: EmbeddingsFake) -> None:
    names = {"parser.py": "parser", "deep/er/reader.v2.py": "reader.v2", "pack/__init__.py": "pack", "lib.py": ""}
    texts = {path: place.write(path) for path in names}
    prose = place.write("guide.md")
    running, tool = place.running, place.tool()
    status = running.wait(tool)
    assert status["embedded_chunks"] == len(names) + 1
    for path, stem in names.items():
        assert provider.audit.times(f"{stem}\n\n{texts[path]}" if stem else texts[path]) == 1, path
    assert provider.audit.times(prose) == 1
    assert shown(running, tool)["index"]["file_stems"] is True
    # no hit shows it
    hits = running.query(tool, "return", top_k=10)
    assert {hit["chunk_text"] for hit in hits} == {*texts.values(), prose}


def test_only_a_new_name_of_a_file_of_code_costs_and_a_move_costs_nothing(place: Place) -> None:
    for path in ("a/parser.py", "a/__init__.py", "a/deep/mod.py", "guide.md"):
        place.write(path)
    running, tool = place.running, place.tool()
    running.wait(tool)
    for before, after, embedded in (
        ("a/parser.py", "b/parser.py", 0),
        ("b/parser.py", "b/lexer.py", 1),
        ("b/lexer.py", "b/parser.py", 0),
        ("guide.md", "manual.md", 0),
        # of the files in a folder, one has its name
        ("a", "c", 1),
        ("c/deep", "c/other/deep", 0),
    ):
        place.renamed(before, after)
        status = reindexed(running, tool)
        assert (status["embedded_chunks"], status["total_chunks"]) == (embedded, 4), after
    for mode in ("keyword", "vector"):
        assert {hit["file_path"] for hit in running.query(tool, "text", mode=mode, top_k=9)} >= {"manual.md"}


def test_a_copy_costs_only_under_another_name(place: Place) -> None:
    place.write("a/parser.py")
    running, tool = place.running, place.tool()
    running.wait(tool)
    for path, embedded in (("b/parser.py", 0), ("c/lexer.py", 1)):
        (place.folder / path).parent.mkdir()
        (place.folder / path).write_bytes((place.folder / "a/parser.py").read_bytes())
        assert reindexed(running, tool)["embedded_chunks"] == embedded, path
    (hit,) = {hit["chunk_text"] for hit in running.query(tool, "return")}
    assert hit
    assert {hit["file_path"] for hit in running.query(tool, hit)} == {"a/parser.py", "b/parser.py", "c/lexer.py"}


def test_renamed_nodes_cost_as_renamed_files_do(running: Service, provider: EmbeddingsFake) -> None:
    project = f"p-{uuid4().hex}"
    nodes = NODES.format(project)

    def node(name: str, type_: str, parent: str | None = None) -> str:
        body = {"name": name, "type": type_, **({"parent_id": parent} if parent else {})}
        return str(running.post(nodes, body, 201)["id"])

    top = node("top", "folder")
    inner = node("inner", "folder", top)
    words = [f"w{uuid4().hex}" for _ in range(3)]
    ids = {}
    for word, (name, parent) in zip(
        words, (("parser.py", top), ("__init__.py", inner), ("notes.txt", inner)), strict=True
    ):
        text = f"def {word}():\n    return 1\n"
        files = [("files", (name, text.encode()))]
        answer = running.client.post(f"/api/projects/{project}/uploads", files=files, data={"parent_id": parent})
        ids[name] = checked(answer, 200)["items"][0]["file_id"]
    tool = running.tool(project=project, node_id=top)
    assert running.wait(tool)["embedded_chunks"] == len(words)
    for id_, changes, embedded in (
        (ids["parser.py"], {"parent_id": inner}, 0),
        (ids["parser.py"], {"name": "lexer.py"}, 1),
        (ids["notes.txt"], {"name": "other.txt"}, 0),
        (inner, {"name": "outer"}, 1),
    ):
        checked(running.client.patch(f"{nodes}/{id_}", json=changes), 200)
        estimate = running.post(f"{TOOLS}/{tool}/reindex", {"dry_run": True}, 200)
        assert (estimate["tokens"]["high"] > 0, estimate["unchanged_files"]) == (embedded > 0, 3 - embedded), changes
        status = reindexed(running, tool)
        assert (status["embedded_chunks"], status["total_chunks"]) == (embedded, 3), changes
    for stem, word in (("parser", words[0]), ("lexer", words[0]), ("inner", words[1]), ("outer", words[1])):
        assert provider.audit.times(f"{stem}\n\ndef {word}():\n    return 1") == 1


def test_an_older_index_keeps_its_form_of_text_until_it_is_renewed(place: Place, provider: EmbeddingsFake) -> None:
    running, tool = place.running, older(place)
    code, prose = place.write("parser.py"), place.write("guide.md")
    assert reindexed(running, tool)["embedded_chunks"] == 2
    place.renamed("parser.py", "lexer.py")
    assert reindexed(running, tool, full=True)["embedded_chunks"] == 0
    assert provider.audit.times(code) == 1
    # neither a further tool nor a changed config pays for another form
    other = place.tool()
    assert running.wait(other)["embedded_chunks"] == 0
    changed = place.tool(exclude=["*.txt"])
    assert running.wait(changed)["embedded_chunks"] == 0
    assert shown(running, changed)["index"]["file_stems"] is False
    estimate = running.post(f"{TOOLS}/{tool}/reindex", {"full": True, "renew_text": True, "dry_run": True}, 200)
    assert (estimate["unchanged_files"], estimate["total_files"]) == (2, 3)
    assert 0 < estimate["tokens"]["expected"] < 100
    assert "Code is embedded again" in estimate["notes"][0]
    status = renewed(running, tool)
    assert (status["embedded_chunks"], status["reused_chunks"], status["total_chunks"]) == (1, 2, 3)
    assert (provider.audit.times(f"lexer\n\n{code}"), provider.audit.times(prose)) == (1, 1)
    # all tools of the index change to the new one, and the one of another index stays
    assert [shown(running, each)["index"]["file_stems"] for each in (tool, other, changed)] == [True, True, False]
    assert status["tokens"] == pytest.approx(estimate["tokens"]["expected"], rel=0.5)


def test_an_index_of_the_new_form_is_renewed_for_nothing(place: Place) -> None:
    place.write("parser.py")
    running, tool = place.running, place.tool()
    running.wait(tool)
    before = shown(running, tool)["index"]["index_id"]
    body = {"full": True, "renew_text": True}
    estimate = running.post(f"{TOOLS}/{tool}/reindex", {**body, "dry_run": True}, 200)
    assert (estimate["tokens"]["high"], estimate["unchanged_files"]) == (0, 1)
    assert "nothing is renewed" in estimate["notes"][0]
    status = reindexed(running, tool, **body)
    assert (status["embedded_chunks"], status["tokens"], status["total_chunks"]) == (0, 0, 1)
    assert shown(running, tool)["index"]["index_id"] == before


def test_all_tools_of_a_project_are_renewed_with_one_call(place: Place) -> None:
    running, tool = place.running, older(place)
    place.write("parser.py")
    reindexed(running, tool)
    all_tools, body = f"/api/projects/{place.project}/reindex", {"full": True, "renew_text": True}
    assert running.client.post(all_tools, json={**body, "dry_run": True}).status_code == 422
    running.post(all_tools, body)
    eventually(lambda: shown(running, tool)["index"]["file_stems"], 60, running.logs)
    assert running.wait(tool)["embedded_chunks"] == 1


@pytest.mark.parametrize("body", [{}, {"full": False}, {"full": True, "paths": ["parser.py"]}])
def test_a_renewal_is_of_the_whole_index(place: Place, body: dict[str, Any]) -> None:
    place.write("parser.py")
    running, tool = place.running, place.tool()
    refused = running.client.post(f"{TOOLS}/{tool}/reindex", json={**body, "renew_text": True})
    assert (refused.status_code, refused.json()["code"]) == (422, "invalid_request")
    assert "send full: true, and no paths" in str(refused.json())
    running.wait(tool)


def test_the_present_text_answers_until_the_new_one_is_ready_and_a_killed_renewal_ends_complete(
    place: Place, provider: EmbeddingsFake
) -> None:
    running, tool = place.running, older(place)
    code = place.write("parser.py", "a zebra")
    reindexed(running, tool)
    hold = provider.holds.add("embeddings", "parser")
    running.post(f"{TOOLS}/{tool}/reindex", {"full": True, "renew_text": True})
    eventually(lambda: bool(hold.arrived), 30, running.logs)
    updating = shown(running, tool)["updating"]
    assert updating["index"]["file_stems"] is True
    (hit,) = running.query(tool, "zebra", mode="keyword")
    assert hit["file_path"] == "parser.py"
    os.kill(client_of(hold.arrived[0], provider.url), SIGKILL)
    hold.release()
    eventually(lambda: shown(running, tool)["updating"] is None, 60, running.logs)
    assert shown(running, tool)["index"] == updating["index"]
    status = running.wait(tool)
    assert (status["total_chunks"], status["failed_files"]) == (2, 0)
    assert running.query(tool, code, mode="vector")[0]["file_path"] == "parser.py"


def test_the_renewal_of_another_tool_of_the_folder_renews_nothing_else(place: Place) -> None:
    running, whole = place.running, older(place)
    for path in ("large.py", "small/one.py"):
        place.write(path)
    reindexed(running, whole)
    part = place.tool(include=["small/*"])
    running.wait(part)
    renewed(running, part)
    checked(running.client.patch(f"{TOOLS}/{whole}", json={"config": {"exclude": ["*.txt"]}}), 202)
    eventually(lambda: shown(running, whole)["updating"] is None, 60, running.logs)
    assert running.wait(whole)["embedded_chunks"] == 0
    assert [shown(running, each)["index"]["file_stems"] for each in (whole, part)] == [False, True]


def test_a_renewal_waits_for_a_changed_config(
    place: Place, provider: EmbeddingsFake, monkeypatch: pytest.MonkeyPatch
) -> None:
    running, tool = place.running, older(place)
    place.write("parser.py")
    reindexed(running, tool)
    hold = provider.holds.add("embeddings", "parser")
    patched = running.client.patch(f"{TOOLS}/{tool}", json={"config": {"embedding_model": "openai/m2"}})
    # another model pays for everything, so it gets the present form
    assert checked(patched, 202)["updating"]["index"]["file_stems"] is True
    refused = running.client.post(f"{TOOLS}/{tool}/reindex", json={"full": True, "renew_text": True})
    assert (refused.status_code, refused.json()["code"]) == (409, "conflict")
    (passed_over,) = running.post(f"/api/projects/{place.project}/reindex", {"full": True, "renew_text": True})["items"]
    assert (passed_over["tool_id"], passed_over["warning"]) == (tool, refused.json()["detail"])

    def released(service: Connection, waited: Tool) -> Status:
        hold.release()
        return wait(service, waited)

    monkeypatch.setattr(manage, "wait", released)
    options = "--full", "--renew-text", "--wait"
    done = foldex(running, "reindex", "--all", "--project", place.project, *options)
    assert (done.returncode, done.stderr) == (0, f"{shown(running, tool)['name']}: {refused.json()['detail']}\n")
    assert shown(running, tool)["index"]["file_stems"] is True


def test_a_chunk_whose_words_came_first_gets_the_vector_of_its_whole_text(
    place: Place, provider: EmbeddingsFake
) -> None:
    """Another worker embeds it, which has only its row."""
    hold = provider.holds.add("embeddings", "parser")
    code = place.write("parser.py", "a zebra")
    running, tool = place.running, place.tool()

    due = "SELECT FROM chunk c JOIN search_tool t USING (index_id) WHERE t.id = %s AND c.live AND c.lost"
    eventually(lambda: bool(hold.arrived and running.rows(due, tool)), 30, running.logs)
    os.kill(client_of(hold.arrived[0], provider.url), SIGKILL)
    hold.release()
    assert running.wait(tool)["failed_files"] == 0
    assert (provider.audit.times(code), provider.audit.times(f"parser\n\n{code}") > 0) == (0, True)


def test_a_renewal_over_the_limit_names_a_remedy_that_helps(place: Place) -> None:
    running, tool = place.running, older(place)
    place.write("parser.py")
    reindexed(running, tool)
    checked(running.client.patch(f"{TOOLS}/{tool}", json={"config": {"max_cost_tokens": 1}}), 202)
    renewed(running, tool)
    assert shown(running, tool)["index"]["file_stems"] is False
    assert shown(running, tool)["update_error"].endswith(
        "raise it, then repeat the change of the config or the renewal."
    )
    checked(running.client.patch(f"{TOOLS}/{tool}", json={"config": {"max_cost_tokens": 10**6}}), 202)
    renewed(running, tool)
    assert (shown(running, tool)["index"]["file_stems"], shown(running, tool)["update_error"]) == (True, None)
