"""One query over several tools or paths: merged by rank, with failed and slow tools named."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.fakes.embeddings import EmbeddingsFake
from tests.service import PROJECT, NewService, Service, checked
from worker.objects.object_store import s3_client
from worker.settings import LOCAL_MODEL

ACROSS = "/api/search"
FILES = {
    "one/docs/lease.md": "# Leases\n\nA worker that dies loses its lease, and the sweep gives its files back.\n",
    "one/docs/rain.md": "# Rain\n\nRain falls from clouds over the sea.\n",
    "one/snow [1].md": "# Snow\n\nSnow falls from cold clouds in winter.\n",
    "loose/note.md": "# Note\n\nThe harbour opens at dawn.\n",
    "loose/long.md": "Nothing of note here.\n" * 2500
    + "The ferry leaves the harbour at noon.\n"
    + "Nothing more.\n" * 40,
    "loose/deep/tide.txt": "Tides\nThe harbour is deep at high tide.\n",
    "loose/node_modules/other.md": "The harbour of somebody else.\n",
}


@pytest.fixture(scope="module")
def running(
    tmp_path_factory: pytest.TempPathFactory,
    new_service: NewService,
    root: Path,
    provider: EmbeddingsFake,
    s3: dict[str, str],
) -> Iterator[Service]:
    env = {**provider.env, **s3, "FOLDEX_HOME": str(root / "home"), "LOCAL_SOURCE_ROOTS": str(root)}
    for path, text in FILES.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    (root / "loose" / "picture.png").write_bytes(b"\x89PNG\0\xff")
    (root / "loose" / "out").symlink_to(tmp_path_factory.mktemp("outside"))
    with new_service(**env, SEARCH_SECONDS="4") as started:
        yield started


@pytest.fixture(scope="module")
def inner(running: Service, root: Path) -> str:
    """The folder `one/docs` with the provider's model."""
    made = running.local_tool(root / "one" / "docs", name="inner")
    running.wait(made)
    return made


@pytest.fixture(scope="module")
def outer(running: Service, root: Path) -> str:
    """The folder `one` with the local model."""
    made = running.local_tool(root / "one", name="outer", config={"embedding_model": LOCAL_MODEL})
    running.wait(made)
    # the first query opens the model, which may take longer than SEARCH_SECONDS on a busy machine
    assert running.query(made, "snow")
    return made


@pytest.fixture
def means_well(provider: EmbeddingsFake) -> Iterator[EmbeddingsFake]:
    """The provider, which can be made to fail for one test."""
    yield provider
    provider.clear_failures()
    provider.holds.release()


def across(running: Service, query: str, **body: Any) -> dict[str, Any]:
    return running.post(ACROSS, {"project_id": PROJECT, "query": query, **body}, 200)


def refused(running: Service, **body: Any) -> tuple[int, str, str]:
    answer = running.client.post(ACROSS, json={"project_id": PROJECT, "query": "rain", **body})
    return answer.status_code, answer.json()["code"], answer.json()["detail"]


def codes(answer: dict[str, Any]) -> list[str]:
    return [note["code"] for note in answer["notes"]]


def names(answer: dict[str, Any]) -> list[str]:
    return [hit["file_name"] for hit in answer["results"]]


@pytest.mark.parametrize("mode", ["hybrid", "vector", "keyword"])
def test_tools_with_different_models_are_merged_and_a_place_is_shown_once(
    running: Service, inner: str, outer: str, mode: str
) -> None:
    found = across(running, "rain from clouds", tool_ids=[inner, outer], mode=mode)
    assert (found["notes"], {tool["tool_id"] for tool in found["tools"]}) == ([], {inner, outer})
    assert names(found)[0] == "rain.md"
    assert sorted(names(found)) == sorted(set(names(found)))
    assert "snow [1].md" in names(found)
    scores = [hit["score"] for hit in found["results"]]
    assert scores == sorted(scores, reverse=True)
    assert scores[0] == 1
    assert across(running, "rain from clouds", tool_ids=[outer, inner], mode=mode)["results"] == found["results"]


def test_the_steps_of_each_tool_are_streamed_and_then_the_answer(running: Service, inner: str, outer: str) -> None:
    body = {"project_id": PROJECT, "tool_ids": [inner, outer], "query": "lease of a worker", "trace": True}
    answer = running.client.post(ACROSS, json=body, headers={"accept": "text/event-stream"})
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
    events = [event.split("\ndata: ") for event in answer.text.split("\n\n") if event and not event.startswith(":")]
    *steps, (name, last) = [(event[0].removeprefix("event: "), json.loads(event[1])) for event in events]
    assert ({name for name, _ in steps}, name) == ({"step"}, "answer")
    for tool in last["tools"]:
        of_tool = [step for _, step in steps if step["tool_id"] == tool["tool_id"]]
        assert of_tool == [{**step, "tool_id": tool["tool_id"]} for step in tool["trace"]]
        assert of_tool
    assert {hit["tool_id"] for hit in last["results"]} <= {inner, outer}
    body["tool_ids"] = [str(uuid4())]
    missing = running.client.post(ACROSS, json=body, headers={"accept": "text/event-stream"})
    assert "event: error" in missing.text
    assert '"code":"not_found"' in missing.text


def test_a_file_is_one_hit_with_group_by_file_and_top_k_counts_all(running: Service, inner: str, outer: str) -> None:
    found = across(running, "rain lease snow", tool_ids=[inner, outer], group_by_file=True, top_k=2)
    assert (len(set(names(found))), found["total_results"]) == (2, 2)
    assert [tool["total_results"] for tool in found["tools"]] == [2, 2]
    for files in ("indexed_files", "total_files"):
        assert found["coverage"][files] == sum(tool["coverage"][files] for tool in found["tools"]) > 0
    assert all(hit["pieces"] for hit in found["results"])


def test_tools_of_one_model_ask_the_provider_once(
    running: Service, inner: str, root: Path, provider: EmbeddingsFake
) -> None:
    other = running.local_tool(root / "one", name="other")
    running.wait(other)
    before = len(provider.audit.requests)
    assert across(running, "a question that nobody asked yet", tool_ids=[inner, other])["tools"]
    assert len(provider.audit.requests) == before + 1
    running.client.delete(f"/api/tools/search/{other}")


def test_a_tool_that_fails_is_named_and_the_other_answers(
    running: Service, inner: str, outer: str, means_well: EmbeddingsFake
) -> None:
    means_well.fail_next(401, count=20)
    found = across(running, "snow for the failing one", tool_ids=[inner, outer], mode="vector")
    assert codes(found) == ["tool_failed"]
    assert all(said in found["notes"][0]["detail"] for said in ("inner", inner, "embedding_unauthorized"))
    assert names(found)[0] == "snow [1].md"
    assert {hit["tool_id"] for hit in found["results"]} == {outer}


def test_where_all_fail_their_error_is_the_answer(running: Service, inner: str, means_well: EmbeddingsFake) -> None:
    means_well.fail_next(401, count=20)
    status, code, _ = refused(running, query="nobody knows", tool_ids=[inner], mode="vector")
    assert (status, code) == (502, "embedding_unauthorized")


def test_where_none_answers_in_time_that_is_an_error_which_names_all(
    running: Service, inner: str, root: Path, means_well: EmbeddingsFake
) -> None:
    other = running.local_tool(root / "one", name="another")
    running.wait(other)
    means_well.holds.add("embeddings")
    body = {"project_id": PROJECT, "query": "nobody hears", "tool_ids": [inner, other], "mode": "vector"}
    answer = running.client.post(ACROSS, json=body)
    assert (answer.status_code, answer.json()["code"]) == (503, "tool_slow")
    assert answer.headers["Retry-After"]
    assert all(said in answer.json()["detail"] for said in ("inner", inner, "another", other))
    running.client.delete(f"/api/tools/search/{other}")


def test_a_slow_tool_is_named_and_not_waited_for(
    running: Service, inner: str, outer: str, means_well: EmbeddingsFake
) -> None:
    means_well.holds.add("embeddings")
    found = across(running, "snow for the slow one", tool_ids=[inner, outer], mode="vector")
    assert codes(found) == ["tool_slow"]
    assert "inner" in found["notes"][0]["detail"]
    assert {hit["tool_id"] for hit in found["results"]} == {outer}


def test_a_value_that_no_tool_can_look_for_is_the_requests_fault(running: Service, root: Path, inner: str) -> None:
    paths = [str(root / "one/docs"), str(root / "loose")]
    for filters in ({"symbols": ["a\0b"]}, {"languages": ["a\0b"]}):
        status, code, detail = refused(running, paths=paths, filters=filters)
        assert (status, code) == (422, "invalid_request")
        assert "NUL" in detail


def test_filters_hold_in_each_tool_and_must_match_in_one(running: Service, inner: str, outer: str) -> None:
    found = across(running, "clouds", tool_ids=[inner, outer], filters={"path": "snow*"})
    assert (codes(found), names(found)) == (["no_such_files"], ["snow [1].md"])
    status, code, detail = refused(running, tool_ids=[inner, outer], filters={"path": "nowhere/**"})
    assert (status, code) == (422, "no_such_files")
    assert "nowhere/**" in detail


def test_tools_of_others_and_of_nobody_are_not_found(running: Service, inner: str, root: Path) -> None:
    foreign = running.local_tool(root / "one" / "docs", project="project-2")
    nobody = str(uuid4())
    status, code, detail = refused(running, tool_ids=[inner, foreign, nobody])
    assert (status, code) == (404, "not_found")
    assert foreign in detail
    assert nobody in detail
    assert inner not in detail


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"tool_ids": []},
        {"paths": []},
        {"paths": [""]},
        {"paths": ["/a"] * 65},
        {"tool_ids": [str(uuid4())] * 17},
        {"tool_ids": [str(uuid4())], "paths": ["/a"]},
        {"tool_ids": ["no-id"]},
        {"paths": ["/a"], "refresh": "wait"},
    ],
)
def test_bad_input_is_refused(running: Service, body: dict[str, Any]) -> None:
    assert refused(running, **body)[:2] == (422, "invalid_request")


def test_a_path_is_asked_of_the_most_specific_tool(running: Service, inner: str, outer: str, root: Path) -> None:
    def tools_of(*paths: str) -> set[str]:
        found = across(running, "rain snow lease", paths=[str(root / path) for path in paths])
        assert found["notes"] == []
        return {hit["tool_id"] for hit in found["results"]}

    assert tools_of("one/docs") == tools_of("one/docs/rain.md") == {inner}
    assert tools_of("one") == tools_of("one/snow [1].md") == {outer}
    assert tools_of("one/snow [1].md", "one/docs/lease.md") == {inner, outer}


def test_of_a_tool_only_what_is_at_or_below_the_paths_is_searched(running: Service, root: Path) -> None:
    long = "x" * 250
    names_of = ["part/a.md", "part/deep/b.md", "part2/c.md", "par_/d.md", f"{long}/{long}/{long}/{long}/{long}/e.md"]
    names_of += [f"{long}/{long}/{long}/{long}/{long}y/f.md"]
    for name in names_of:
        (root / "parted" / name).parent.mkdir(parents=True, exist_ok=True)
        (root / "parted" / name).write_text(f"The anchor holds in {name[-6:]}.")
    tool = running.local_tool(root / "parted", name="parted")
    running.wait(tool)

    def found(*paths: str, **body: Any) -> list[str]:
        answer = across(running, "anchor", paths=[str(root / "parted" / path) for path in paths], **body)
        assert {hit["tool_id"] for hit in answer["results"]} <= {tool}
        return sorted(names(answer))

    for mode in ("vector", "keyword"):
        assert found("part", mode=mode) == ["a.md", "b.md"]
        assert found("part/deep/b.md", "par_", mode=mode) == ["b.md", "d.md"]
        assert found("part", "part/deep", "", mode=mode) == ["a.md", "b.md", "c.md", "d.md", "e.md", "f.md"]
        # the store cuts paths this long; two that differ after the cut must stay apart
        assert found(names_of[4].rpartition("/")[0], mode=mode) == ["e.md"]
    assert found("part", filters={"path": "**/b.md"}) == ["b.md"]
    running.client.delete(f"/api/tools/search/{tool}")


def test_a_file_alone_is_searched_where_its_path_is_asked_for(running: Service, inner: str, root: Path) -> None:
    path = str(root / "one/docs/lease.md")
    assert names(across(running, "rain", paths=[path, path])) == ["lease.md"]
    found = across(running, "rain", paths=[str(root / "one/docs")], filters={"path": "rain.*"})
    assert names(found) == ["rain.md"]
    mine = next(hit for hit in running.query(inner, "rain") if hit["file_name"] == "rain.md")
    found = across(running, "rain", paths=[str(root / "one/docs")], filters={"file_ids": [mine["file_id"]]})
    assert names(found) == ["rain.md"]
    assert refused(running, paths=[path], filters={"file_ids": [mine["file_id"]]})[:2] == (422, "no_such_files")


def test_what_no_index_covers_is_returned_as_text_or_looked_through(running: Service, root: Path) -> None:
    loose = root / "loose"
    found = across(running, "harbour", paths=[str(loose / "note.md"), str(loose / "long.md"), str(loose / "deep")])
    assert codes(found) == ["not_indexed"]
    assert str(loose / "note.md") in found["notes"][0]["detail"]
    hits = {hit["file_path"]: hit for hit in found["results"]}
    assert set(hits) == {str(loose / path) for path in ("note.md", "long.md", "deep/tide.txt")}
    note, long = hits[str(loose / "note.md")], hits[str(loose / "long.md")]
    assert (note["whole"], note["chunk_text"]) == (True, FILES["loose/note.md"])
    assert (long["whole"], "ferry leaves the harbour" in long["chunk_text"]) == (False, True)
    assert long["start_line"] <= 2501 <= long["end_line"]
    assert long["chunk_text"] == FILES["loose/long.md"][long["start_char"] : long["end_char"]]
    assert all((hit["tool_id"], hit["embedded"], hit["distance"]) == (None, False, None) for hit in hits.values())


def test_the_least_score_holds_for_files_without_an_index(running: Service, root: Path) -> None:
    path = str(root / "loose/note.md")
    # it has one of the two words
    found = [names(across(running, "rain harbour", paths=[path], min_score=least)) for least in (0.49, 0.5, 0.51)]
    assert found == [["note.md"], ["note.md"], []]


def test_a_folder_without_an_index_is_read_as_a_tool_would(running: Service, root: Path) -> None:
    found = across(running, "harbour", paths=[str(root / "loose")])
    assert set(names(found)) == {"note.md", "long.md", "tide.txt"}
    assert codes(found) == ["not_indexed", "not_text"]
    assert "picture.png" in found["notes"][1]["detail"]
    assert names(across(running, "harbour", paths=[str(root / "loose")], filters={"path": "deep/**"})) == ["tide.txt"]
    assert names(across(running, "harbour", paths=[str(root / "loose")], filters={"path": "!deep/**"})) != ["tide.txt"]
    left_out = across(running, "harbour", paths=[str(root / "loose")], filters={"symbols": ["x"]})
    assert (codes(left_out), left_out["results"]) == (["not_indexed", "filtered_out"], [])


def test_indexed_and_other_paths_are_asked_together(running: Service, inner: str, root: Path) -> None:
    found = across(running, "rain harbour", paths=[str(root / "one/docs"), str(root / "loose/note.md")])
    assert {hit["tool_id"] for hit in found["results"]} == {inner, None}


def test_above_several_tools_each_answers_for_its_folder_and_the_rest_is_read(running: Service, root: Path) -> None:
    for path in ("left/a.md", "left/low/b.md", "right/c.md", "right2/d.md", "e.md"):
        (root / "above" / path).parent.mkdir(parents=True, exist_ok=True)
        (root / "above" / path).write_text(f"The anchor holds in {path}.")
    left, low, right = (running.local_tool(root / "above" / path) for path in ("left", "left/low", "right"))
    for tool in (left, low, right):
        running.wait(tool)
    (root / "above/right/later.md").write_text("An anchor that the index has not seen.")

    found = across(running, "anchor", paths=[str(root / "above")])
    by_name = {hit["file_name"]: hit["tool_id"] for hit in found["results"]}
    assert by_name == {"a.md": left, "b.md": left, "c.md": right, "d.md": None, "e.md": None}
    assert len(found["results"]) == len(by_name)
    assert codes(found) == ["not_indexed"]
    assert f"{root}/above (but for {root}/above/left, {root}/above/right)." in found["notes"][0]["detail"]
    # a place that two of them answer for is one hit
    found = across(running, "anchor", paths=[str(root / "above/left/low"), str(root / "above")])
    assert sorted(names(found)) == sorted(by_name)
    for tool in (left, low, right):
        running.client.delete(f"/api/tools/search/{tool}")


def test_paths_that_are_missing_closed_or_astray_are_named_alike(running: Service, root: Path) -> None:
    astray = [
        "/etc/hostname",
        f"{root}/../",
        f"{root}/one/../loose/note.md",
        f"{root}/loose/out",
        f"{root}/home",
        "one",
    ]
    astray += [
        f"{root}/{'x' * 300}",
        f"{root}/no\0where",
        f"{root}/gone",
        "/",
        "/no-node",
        "s3://x",
        "s3://",
        "file:///etc",
    ]
    for path in astray:
        status, code, detail = refused(running, paths=[str(root / "loose"), path])
        assert (status, code) == (422, "no_such_files"), path
        assert detail == f"Nothing can be read at {path!r}; check the paths, the project and the source roots."


def test_the_installations_own_files_are_not_read(running: Service, root: Path) -> None:
    (root / "home" / "secret.txt").write_text("A secret that no harbour knows.")
    assert "secret.txt" not in names(across(running, "secret harbour", paths=[str(root)], top_k=100))


def test_nodes_are_named_by_ids_or_by_names(running: Service) -> None:
    folder = running.node("guide", "folder")
    file = running.node("read me.md", "markdown", "# Anchors\n\nDrop the anchor slowly.", parent_id=folder)
    other = running.node("plain.txt", "text", "No anchor at all.")
    by_ids, by_names = f"/{folder}/{file}", "/guide/read me.md"
    for path in (by_ids, by_names, f"/{folder}"):
        (hit,) = across(running, "anchor", paths=[path])["results"]
        assert (hit["tool_id"], hit["file_node_id"], hit["file_id_path"]) == (None, file, by_ids)
    tool = running.tool(node_id=folder)
    running.wait(tool)
    for path in (by_ids, by_names, "/guide", f"/{folder}/"):
        assert [hit["tool_id"] for hit in across(running, "anchor", paths=[path])["results"]] == [tool]
    found = across(running, "anchor", paths=["/guide", f"/{other}"])
    assert {(hit["file_node_id"], hit["tool_id"]) for hit in found["results"]} == {(file, tool), (other, None)}
    top = running.node("top", "folder")
    inner = running.node("inner", "folder", parent_id=top)
    kept = running.node("kept.txt", "text", "A capstan turns.", parent_id=inner)
    loose = running.node("loose.txt", "text", "A capstan rests.", parent_id=top)
    capstans = running.tool(node_id=inner)
    running.wait(capstans)
    found = across(running, "capstan", paths=["/top"])
    assert {(hit["file_node_id"], hit["tool_id"]) for hit in found["results"]} == {(kept, capstans), (loose, None)}
    foreign = running.client.post(ACROSS, json={"project_id": "project-2", "query": "anchor", "paths": [by_ids]})
    assert checked(foreign, 422)["code"] == "no_such_files"


def test_buckets_are_searched_or_read(running: Service, s3: dict[str, str]) -> None:
    client = s3_client(s3["S3_ENDPOINT_URL"])
    client.create_bucket(Bucket="pages")
    for key in ("book/sails.md", "book/old/sails.md", "loose/sails.txt", "loose-ends.txt"):
        client.put_object(Bucket="pages", Key=key, Body=f"All sails are in {key}.".encode())
    tool = running.tool(source={"kind": "s3", "bucket": "pages", "prefix": "book"})
    running.wait(tool)

    def found(path: str) -> set[tuple[str | None, str]]:
        return {(hit["tool_id"], hit["file_path"]) for hit in across(running, "sails", paths=[path])["results"]}

    assert found("s3://pages/book/") == {(tool, "sails.md"), (tool, "old/sails.md")}
    assert found("s3://pages/book/old") == {(tool, "old/sails.md")}
    assert found("s3://pages/loose") == {(None, "s3://pages/loose/sails.txt")}
    assert found("s3://pages/loose-ends.txt") == {(None, "s3://pages/loose-ends.txt")}
    assert found("s3://pages") == found("s3://pages/book") | found("s3://pages/loose") | found(
        "s3://pages/loose-ends.txt"
    )
    assert refused(running, paths=["s3://pages/loose-en", "s3://other-pages/x"])[:2] == (422, "no_such_files")
