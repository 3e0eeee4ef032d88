"""Which folders and buckets a project may read: the granted ones, its own nodes, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from functools import partial
from pathlib import Path

import boto3
import httpx
import pytest

from tests.integration.test_keys import call, foldex, new_key, printed
from tests.service import TOOLS, NewService, Service, checked, eventually, service
from worker.settings import LOCAL_MODEL


@pytest.fixture(scope="module")
def running(new_service: NewService, root: Path, s3: dict[str, str]) -> Iterator[Service]:
    env = {**s3, "DEFAULT_EMBEDDING_MODEL": LOCAL_MODEL, "LOCAL_SOURCE_ROOTS": str(root), "AUTH": "on"}
    with new_service(partial(service), **env, S3_BUCKET="contents") as started:
        yield started


@pytest.fixture(scope="module")
def team(running: Service, root: Path, s3: dict[str, str]) -> str:
    """The key of a project with grants for a folder and a prefix."""
    for name in ("team", "others"):
        (root / name / "docs").mkdir(parents=True)
        (root / name / "docs" / "a.md").write_text(f"the password of {name}")
    client = boto3.client("s3", endpoint_url=s3["S3_ENDPOINT_URL"])
    for bucket in ("shelf", "contents"):
        client.create_bucket(Bucket=bucket)
        for prefix in ("team/", "others/"):
            client.put_object(Bucket=bucket, Key=f"{prefix}a.md", Body=f"the password of {prefix}".encode())
    for place in (str(root / "team"), "s3://shelf/team"):
        assert foldex(running, "grants", "add", "team", place).returncode == 0
    return new_key(running, "team")


def create(running: Service, key: str, project: str = "team", **source: str) -> httpx.Response:
    return call(running, "POST", TOOLS, key, project_id=project, source=source)


def search(running: Service, key: str, path: str, project: str = "team") -> httpx.Response:
    return call(running, "POST", "/api/search", key, project_id=project, query="password", paths=[path])


def without(answer: httpx.Response, *places: str) -> str:
    text = answer.text
    for place in places:
        text = text.replace(place, "PLACE")
    return f"{answer.status_code} {text}"


def test_what_was_granted_is_indexed_and_found(running: Service, root: Path, team: str) -> None:
    for source in (
        {"kind": "local", "path": str(root / "team" / "docs")},
        {"kind": "s3", "bucket": "shelf", "prefix": "team/"},
    ):
        tool = checked(create(running, team, **source), 202)["tool_id"]
        status = f"{TOOLS}/{tool}/status"
        eventually(lambda at=status: call(running, "GET", at, team).json()["status"] == "ready", 60, running.logs)  # type: ignore[misc] # mypy infers no default's type
        assert call(running, "GET", status, team).json()["indexed_files"] == 1


def test_a_place_that_was_not_granted_answers_as_one_that_is_missing(running: Service, root: Path, team: str) -> None:
    there, missing = str(root / "others" / "docs"), str(root / "nobody" / "docs")
    answers = [create(running, team, kind="local", path=path) for path in (there, missing, "/etc")]
    assert len({without(answer, there, missing, "/etc") for answer in answers}) == 1
    assert (answers[0].status_code, answers[0].json()["code"]) == (422, "folder_gone")
    buckets = [("shelf", "others/"), ("shelf", ""), ("shelf", "team-of-others/"), ("nobodys", ""), ("contents", "")]
    answers = [create(running, team, kind="s3", bucket=bucket, prefix=prefix) for bucket, prefix in buckets]
    places = [f"s3://{bucket}/{prefix}" for bucket, prefix in buckets]
    said = {without(answer, *sorted(places, key=len, reverse=True)) for answer in answers}
    assert len(said) == 1
    assert answers[0].json()["code"] == "folder_gone"


def test_a_path_to_search_that_was_not_granted_answers_as_one_that_is_missing(
    running: Service, root: Path, team: str
) -> None:
    assert search(running, team, str(root / "team" / "docs" / "a.md")).json()["results"]
    for there, missing in (
        (str(root / "others" / "docs" / "a.md"), str(root / "others" / "docs" / "b.md")),
        (str(root / "others" / "docs"), str(root / "nobody" / "docs")),
        ("s3://shelf/others/a.md", "s3://nobodys/others/b.md"),
        ("s3://contents/team/a.md", "s3://contents/team/b.md"),
    ):
        found, not_there = search(running, team, there), search(running, team, missing)
        assert found.status_code == 422
        assert without(found, there) == without(not_there, missing)


def test_neither_links_nor_dots_lead_out_of_a_grant(running: Service, root: Path, team: str) -> None:
    (root / "team" / "link").symlink_to(root / "others")
    for path in ("team/link", "team/link/docs", "team/../others", "team2"):
        assert create(running, team, kind="local", path=str(root / path)).json()["code"] == "folder_gone"


def test_the_bucket_of_all_contents_is_no_source_even_where_it_was_granted(running: Service) -> None:
    key = new_key(running, "wide")
    for place in ("s3://contents", "s3://contents-alias-s3alias"):
        assert foldex(running, "grants", "add", "wide", place).returncode == 0
        refused = create(running, key, "wide", kind="s3", bucket=place.removeprefix("s3://"))
        assert (refused.status_code, refused.json()["code"]) == (422, "source_refused")


def test_grants_are_printed_as_json(running: Service, root: Path) -> None:
    place = f"{root}/printed"
    for added in (True, False):
        done = printed(foldex(running, "grants", "add", "printed", place, "--json"))
        assert done == {"project_id": "printed", "place": place, "added": added}
    [listed] = printed(foldex(running, "grants", "list", "printed", "--json"))["items"]
    assert datetime.fromisoformat(listed.pop("created_at")).tzinfo is not None
    assert listed == {"project_id": "printed", "place": place, "real_place": place, "leads_to": place}
    (root / "printed").symlink_to(root / "elsewhere")
    [listed] = printed(foldex(running, "grants", "list", "printed", "--json"))["items"]
    assert (listed["real_place"], listed["leads_to"]) == (place, f"{root}/elsewhere")
    shown = foldex(running, "grants", "list", "printed").stdout
    assert f"{place} (leads to {root}/elsewhere now)" in shown
    (root / "printed").unlink()
    removed = printed(foldex(running, "grants", "remove", "printed", place, "--json"))
    assert removed == {"project_id": "printed", "place": place, "removed": True}
    assert printed(foldex(running, "grants", "list", "printed", "--json")) == {"items": []}


def test_a_grant_that_is_taken_back_ends_with_the_next_run(running: Service, root: Path) -> None:
    key, folder = new_key(running, "guest"), root / "guest"
    folder.mkdir()
    (folder / "a.md").write_text("a guest's text")
    assert "now" in foldex(running, "grants", "add", "guest", str(folder)).stdout
    assert "already" in foldex(running, "grants", "add", "guest", f"{folder}/").stdout
    assert str(folder) in foldex(running, "grants", "list", "guest").stdout
    tool = checked(create(running, key, "guest", kind="local", path=str(folder)), 202)["tool_id"]
    status = f"{TOOLS}/{tool}/status"
    eventually(lambda: call(running, "GET", status, key).json()["status"] == "ready", 60, running.logs)
    assert foldex(running, "grants", "remove", "guest", str(folder)).returncode == 0
    again = foldex(running, "grants", "remove", "guest", str(folder))
    assert again.returncode == 2
    assert "grants list" in again.stderr
    assert call(running, "POST", f"{TOOLS}/{tool}/reindex", key).status_code == 202
    eventually(lambda: call(running, "GET", status, key).json()["error_code"] == "folder_gone", 60, running.logs)
    assert call(running, "POST", f"{TOOLS}/{tool}/query", key, query="guest", mode="keyword").json()["results"]
    fresh = {"query": "guest", "mode": "keyword", "refresh": "wait"}
    assert call(running, "POST", f"{TOOLS}/{tool}/query", key, **fresh).json()["results"]
    (folder / "a.md").write_text("a guest's secret")
    found = call(running, "POST", f"{TOOLS}/{tool}/grep", key, pattern="guest").json()
    assert [hit["preview"] for hit in found["hits"]] == ["a guest's text"]
    assert [note["code"] for note in found["notes"]] == ["folder_gone"]
    assert not found["truncated"]
    assert create(running, key, "guest", kind="local", path=str(folder)).json()["code"] == "folder_gone"


@pytest.mark.parametrize("how", ["gone", "revoked"])
def test_a_list_holds_although_the_folder_cannot_be_read(running: Service, root: Path, how: str) -> None:
    key, folder = new_key(running, how), root / how
    folder.mkdir()
    (folder / "a.md").write_text("a late secret")
    assert foldex(running, "grants", "add", how, str(folder)).returncode == 0
    at = f"{TOOLS}/{checked(create(running, key, how, kind='local', path=str(folder)), 202)['tool_id']}"
    eventually(lambda: call(running, "GET", f"{at}/status", key).json()["status"] == "ready", 60, running.logs)
    if how == "gone":
        folder.rename(root / "elsewhere-now")
    else:
        assert foldex(running, "grants", "remove", how, str(folder)).returncode == 0

    def found() -> int:
        query = call(running, "POST", f"{at}/query", key, query="secret", mode="keyword")
        return len(checked(query, 200)["results"])

    assert found() == 1
    rules = [{"path": "**", "acl": ["group:hr"]}]
    changed = checked(call(running, "PATCH", at, key, config={"rules": rules}), 202)
    assert (changed["config"]["rules"][0]["acl"], changed["updating"]) == (["group:hr"], None)
    assert found() == 0
    # what needs another index is refused as before
    refused = call(running, "PATCH", at, key, config={"rules": [], "chunk_size": 99})
    assert (refused.status_code, refused.json()["code"]) == (422, "folder_gone")
    assert found() == 0


@pytest.mark.parametrize("place", ["docs", "", "s3://", "s3://x/y", "http://x"])
def test_what_is_no_place_cannot_be_granted(running: Service, place: str) -> None:
    refused = foldex(running, "grants", "add", "team", place)
    assert refused.returncode == 2
    assert "absolute path" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_deleting_a_project_ends_its_grants(running: Service, root: Path) -> None:
    key = new_key(running, "leaving")
    assert foldex(running, "grants", "add", "leaving", str(root)).returncode == 0
    assert call(running, "DELETE", "/api/projects/leaving", key).status_code == 202
    assert foldex(running, "grants", "list", "leaving").stdout == ""
