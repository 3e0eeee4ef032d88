"""Search results: several queries, ranking, grouping, and answers when a component fails."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from api.search.query.index_search import MIN_DEPTH
from tests.fakes.embeddings import EmbeddingsFake
from tests.service import PROJECT, TOOLS, Service

#: Matching files beside one with many hits.
OTHER_FILES = 20
FILES = {
    "src/bucket.py": 'class TokenBucket:\n    """Fills at a rate."""\n\n    def take(self) -> None:\n        ...\n',
    "src/limits.py": "from bucket import TokenBucket\n\n\ndef limit() -> TokenBucket:\n    return TokenBucket()\n",
    "src/uses.py": "".join(f"bucket_{n} = TokenBucket()  # another TokenBucket\n" for n in range(40)),
    "tests/test_bucket.py": "def test_bucket() -> None:\n    bucket = TokenBucket()\n    bucket.take()\n",
    "docs/lease.md": "# Leases\n\nA worker that dies loses its lease, and the sweep gives its files back.\n",
    "docs/rain.md": "# Rain\n\nRain falls from clouds. The error says: connection refused by peer.\n",
    "docs/copy of rain.md": "# Rain\n\nRain falls from clouds. The error says: connection refused by peer.\n",
    "docs/long.md": "# Weather\n\n"
    + "\n\n".join(f"## Day {n}\n\nStorm number {n} came from the sea.\n" for n in range(30)),
}


@pytest.fixture(scope="module")
def tool(running: Service, root: Path) -> str:
    for path, text in FILES.items():
        (root / "found" / path).parent.mkdir(parents=True, exist_ok=True)
        (root / "found" / path).write_text(text)
    made = running.local_tool(root / "found", config={"chunk_size": 64, "chunk_overlap": 8})
    running.wait(made)
    return made


@pytest.fixture(scope="module")
def many_hits(running: Service, root: Path) -> str:
    """A folder where the best hits, more than a leg returns, are all in one file."""
    folder = root / "many-hits"
    folder.mkdir()
    (folder / "leases.md").write_text("\n\n".join(f"## Lease {n}\n\nlease renewed" for n in range(MIN_DEPTH + 50)))
    for number in range(OTHER_FILES):
        words = " ".join(f"word{number}x{n}" for n in range(30))
        (folder / f"note-{number}.md").write_text(f"A lease is renewed. {words}\n")
    made = running.local_tool(folder, config={"chunk_size": 64, "chunk_overlap": 8})
    running.wait(made)
    return made


def answer(service: Service, tool: str, **body: Any) -> dict[str, Any]:
    return service.post(f"{TOOLS}/{tool}/query", body, 200)


def test_several_queries_are_embedded_in_one_request_and_what_many_find_rises(
    running: Service, tool: str, provider: EmbeddingsFake
) -> None:
    queries = ["who gives files back", "a worker that dies", "what is rain"]
    before = len(provider.audit.requests)
    found = answer(running, tool, queries=queries, top_k=3)
    assert [request.inputs for request in provider.audit.requests[before:]] == [3]
    first = found["results"][0]
    assert (found["query"], first["file_path"]) == (queries[0], "docs/lease.md")
    assert set(first["matched_queries"]) >= set(queries[:2])
    assert len({hit["chunk_id"] for hit in found["results"]}) == len(found["results"])


@pytest.mark.parametrize(
    "body", [{}, {"queries": []}, {"queries": ["x"] * 9}, {"query": "a", "queries": ["b"]}, {"queries": [" "]}]
)
def test_one_query_or_one_to_eight(running: Service, tool: str, body: dict[str, Any]) -> None:
    refused = running.client.post(f"{TOOLS}/{tool}/query", json=body)
    assert (refused.status_code, refused.json()["code"]) == (422, "invalid_request")


def test_pieces_of_a_file_are_one_hit_in_the_files_order(running: Service, tool: str) -> None:
    found = answer(running, tool, queries=["storm number 3", "storm number 20"], group_by_file=True, top_k=4)
    paths = [hit["file_path"] for hit in found["results"]]
    assert (paths[0], len(set(paths))) == ("docs/long.md", len(paths))
    pieces = found["results"][0]["pieces"]
    assert len(pieces) > 1
    assert [piece["start_char"] for piece in pieces] == sorted(piece["start_char"] for piece in pieces)
    assert all(piece["chunk_text"] in FILES["docs/long.md"] for piece in pieces)


@pytest.mark.parametrize("mode", ["keyword", "vector", "hybrid"])
def test_files_are_found_behind_a_file_of_many_hits(running: Service, many_hits: str, mode: str) -> None:
    def files(top_k: int) -> int:
        found = answer(running, many_hits, query="lease renewed", mode=mode, group_by_file=True, top_k=top_k)
        assert found["total_results"] == len({hit["file_path"] for hit in found["results"]})
        scores = [hit["score"] for hit in found["results"]]
        assert scores == sorted(scores, reverse=True)
        return len(scores)

    assert [files(top_k) for top_k in (1, 10, OTHER_FILES, OTHER_FILES + 1, OTHER_FILES + 2)] == [
        *(1, 10, OTHER_FILES, OTHER_FILES + 1, OTHER_FILES + 1),
    ]


@pytest.mark.parametrize("query", ["class TokenBucket", "where is TokenBucket defined?", "TokenBucket"])
def test_a_definition_comes_before_its_uses(running: Service, tool: str, query: str) -> None:
    hits = running.query(tool, query)
    assert (hits[0]["file_path"], hits[0]["symbol"]) == ("src/bucket.py", "TokenBucket")
    assert "src/uses.py" in {hit["file_path"] for hit in hits}


def test_tests_come_behind_unless_they_are_asked_for(running: Service, tool: str) -> None:
    paths = [hit["file_path"] for hit in running.query(tool, "take from the bucket")]
    assert paths.index("src/bucket.py") < paths.index("tests/test_bucket.py")
    assert running.query(tool, "test of the bucket")[0]["file_path"] == "tests/test_bucket.py"


def test_what_is_near_the_caller_rises(running: Service, tool: str) -> None:
    def place(of: str, **context: str) -> int:
        paths = [hit["file_path"] for hit in running.query(tool, "bucket limit rain", context=context, top_k=80)]
        return paths.index(of)

    assert place("docs/rain.md", path="docs/lease.md") <= place("docs/rain.md", path="src/limits.py")
    assert place("src/limits.py", path="src/limits.py") <= place("src/limits.py", path="docs/rain.md")


def test_a_quoted_phrase_is_found_verbatim_and_copies_name_each_other(running: Service, tool: str) -> None:
    hits = running.query(tool, '"connection refused"', top_k=80)
    copies = [hit for hit in hits if hit["content_hash"] == hits[0]["content_hash"]]
    assert [hit["file_path"] for hit in copies] == ["docs/rain.md", "docs/copy of rain.md"]
    assert [hit["also_in"] for hit in copies] == [["docs/copy of rain.md"], ["docs/rain.md"]]
    assert copies == hits[:2]
    scores = [hit["score"] for hit in hits]
    assert scores == sorted(scores, reverse=True)


def test_explain_shows_the_parts_of_a_score_and_trace_the_steps(running: Service, tool: str) -> None:
    found = answer(running, tool, query="class TokenBucket", explain=True, trace=True)
    assert found["results"][0]["explain"].keys() >= {"found", "vector_rank", "code_rank", "definition", "symbol"}
    assert [step["step"] for step in found["trace"]] == ["embed", "store", "rows"]
    assert all(step["found"] for step in found["trace"])
    plain = answer(running, tool, query="class TokenBucket")
    assert (plain["trace"], "explain" in plain["results"][0]) == (None, False)
    assert [hit["chunk_id"] for hit in plain["results"]] == [hit["chunk_id"] for hit in found["results"]]


@pytest.mark.parametrize("mode", ["hybrid", "vector", "keyword"])
def test_the_order_is_stable_and_scores_fall(running: Service, tool: str, mode: str) -> None:
    answers = [running.query(tool, "storm from the sea", mode=mode, top_k=30) for _ in range(3)]
    assert answers[0] == answers[1] == answers[2]
    scores = [hit["score"] for hit in answers[0]]
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 1 for score in scores)


def test_keywords_answer_for_a_provider_that_is_down(running: Service, tool: str, provider: EmbeddingsFake) -> None:
    provider.fail_next(500, count=20)
    try:
        found = answer(running, tool, query="rain that nobody asked for yet")
        assert [note["code"] for note in found["notes"]] == ["keywords_only"]
        assert "rain" in found["results"][0]["file_path"]
        alone = running.client.post(f"{TOOLS}/{tool}/query", json={"query": "other rain", "mode": "vector"})
        assert (alone.status_code, alone.json()["code"]) == (503, "embedding_unavailable")
    finally:
        provider.clear_failures()


@pytest.mark.parametrize(
    "body",
    [
        {"query": ""},
        {"query": " \n "},
        {"query": "x" * 100_000},
        {"query": "x", "filters": {"colour": "red"}},
        {"query": "x", "rerank": "best"},
        {"query": "x", "before": -1},
        {"query": "x", "context": {"file": "a"}},
    ],
)
def test_bad_input_is_refused_with_a_code(running: Service, tool: str, body: dict[str, Any]) -> None:
    refused = running.client.post(f"{TOOLS}/{tool}/query", json=body)
    assert (refused.status_code, refused.json()["code"]) == (422, "invalid_request")


def test_the_longest_query_and_odd_characters_are_answered(running: Service, tool: str) -> None:
    for query in ("rain " * 2000, "rain\0cloud", "🌧 rain ﬁ", '"rain', "rain' OR 1=1 --", "* ( ) : & | !", "\\"):
        assert "results" in answer(running, tool, query=query), query


def test_null_is_as_left_out(running: Service, tool: str) -> None:
    body = {"query": "rain", "filters": None, "context": None}
    assert answer(running, tool, **body)["results"] == answer(running, tool, query="rain")["results"]
    found = running.post("/api/search", {"project_id": PROJECT, "tool_ids": [tool], **body}, 200)
    assert found["results"]


def test_filters_that_match_no_file_are_named(running: Service, tool: str) -> None:
    body = {"query": "rain", "filters": {"path": "nowhere/**", "types": ["md"]}}
    refused = running.client.post(f"{TOOLS}/{tool}/query", json=body).json()
    assert (refused["status"], refused["code"]) == (422, "no_such_files")
    assert "nowhere/**" in refused["detail"]


@pytest.mark.parametrize(
    ("filters", "said"),
    [
        ({"types": ["pdf"]}, "Types here: code, markdown; languages: python."),
        ({"types": ["zig", ".PDF"]}, "Types here: code, markdown; languages: python."),
        ({"languages": ["Perl", "go"]}, "Languages here: python."),
        ({"types": ["py"], "languages": ["cobol"]}, "Languages here: python."),
    ],
)
def test_types_and_languages_that_there_are_not_are_told_with_those_there_are(
    running: Service, tool: str, filters: dict[str, Any], said: str
) -> None:
    refused = running.client.post(f"{TOOLS}/{tool}/query", json={"query": "rain", "filters": filters}).json()
    assert refused["code"] == "no_such_files"
    assert refused["detail"].count(" here: ") == 1
    assert said in refused["detail"]
    body = {"project_id": PROJECT, "tool_ids": [tool], "query": "rain", "filters": filters}
    assert said in running.client.post("/api/search", json=body).json()["detail"]


def test_a_folder_without_an_index_is_grepped_and_the_answer_says_so(
    running: Service, root: Path, provider: EmbeddingsFake
) -> None:
    (root / "early").mkdir()
    (root / "early" / "a.md").write_text("# Early\n\nAn owl hoots at the zenith.\n")
    hold = provider.holds.add("embeddings", "zenith")
    made = running.local_tool(root / "early")
    try:
        found = answer(running, made, query="owl hoots", mode="keyword")
        filters = ({"types": ["markdown"]}, {"path": "*.md"}, {"file_ids": ["unknown"]})
        filtered = [answer(running, made, query="owl hoots", filters=each) for each in filters]
    finally:
        hold.release()
    for each, is_found in zip(filtered, (True, True, False), strict=True):
        assert [note["code"] for note in each["notes"]] == ["not_indexed_yet"]
        assert [hit["file_path"] for hit in each["results"]] == ["a.md"] * is_found
        assert "0 of 1 file is" in each["notes"][0]["detail"] or "0 of 0 files" in each["notes"][0]["detail"]
    assert [note["code"] for note in found["notes"]] == ["not_indexed_yet"]
    assert (found["results"][0]["file_path"], found["results"][0]["embedded"]) == ("a.md", False)
    running.wait(made)
    assert not answer(running, made, query="owl hoots")["notes"]
    assert answer(running, made, query="owl hoots", filters=filters[0])["results"]
    refused = running.client.post(f"{TOOLS}/{made}/query", json={"query": "owl", "filters": filters[2]})
    assert (refused.status_code, refused.json()["code"]) == (422, "no_such_files")


def test_a_tool_that_is_deleted_is_not_found(running: Service, root: Path) -> None:
    (root / "gone").mkdir()
    (root / "gone" / "a.txt").write_text("soon gone")
    made = running.local_tool(root / "gone")
    running.wait(made)
    assert running.query(made, "gone")
    assert running.client.delete(f"{TOOLS}/{made}").status_code == 202
    refused = running.client.post(f"{TOOLS}/{made}/query", json={"query": "gone"})
    assert (refused.status_code, refused.json()["code"]) == (404, "not_found")
    assert PROJECT not in refused.json()["detail"]
