"""Access: API keys from the command line, and `AUTH=off` for this machine only."""

from __future__ import annotations

import json
import subprocess
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.forked import run_forked
from tests.service import TOOLS, Service, checked, new_database
from worker.machine.page_links import new_link, open_session, page_links_file


@pytest.fixture(scope="module")
def running(behind_keys: Service) -> Service:
    return behind_keys


def foldex(running: Service, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run the command line in the service's environment."""
    return run_forked(running.home, {**running.env, **env}, *arguments)


def new_key(running: Service, project: str) -> str:
    made = foldex(running, "keys", "create", project, "--name", f"for {project}")
    assert made.returncode == 0, made.stderr
    key, *rest = made.stdout.split()
    assert not rest
    return key


def call(
    running: Service, method: str, path: str, key: str | None, scheme: str = "Bearer", **body: object
) -> httpx.Response:
    headers = {} if key is None else {"Authorization": f"{scheme} {key}"}
    return running.client.request(method, path, headers=headers, json=body or None)


@pytest.fixture(scope="module")
def one(running: Service) -> str:
    return new_key(running, "one")


@pytest.fixture(scope="module")
def two(running: Service) -> str:
    return new_key(running, "two")


def assert_unauthorized(answer: httpx.Response) -> None:
    assert answer.status_code == 401
    assert (answer.headers["www-authenticate"], answer.json()["code"]) == ("Bearer", "unauthorized")
    assert "keys create" in answer.json()["detail"]
    assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_without_a_valid_key_nothing_is_answered(running: Service, one: str, method: str) -> None:
    for key, scheme in ((None, ""), ("wrong", "Bearer"), (one, "Basic"), (one[:-1], "Bearer")):
        assert_unauthorized(call(running, method, TOOLS, key, scheme))
    assert_unauthorized(running.client.get(TOOLS, headers={"Authorization": "Bearer"}))
    assert_unauthorized(call(running, "GET", f"{TOOLS}/no-id", None))
    assert_unauthorized(call(running, "DELETE", "/api/projects/one", None))


def test_health_and_documentation_ask_for_no_key(running: Service) -> None:
    for path in ("/healthz", "/readyz", "/metrics", "/openapi.json", "/docs"):
        assert running.client.get(path).status_code == 200


def test_a_key_sees_its_own_project_and_no_other(running: Service, one: str, two: str) -> None:
    made = call(running, "POST", "/api/projects/one/nodes", one, name="n", type="json", content={"a": 1}, id="n")
    assert made.status_code == 201
    tool = checked(call(running, "POST", TOOLS, one, project_id="one", node_id="n"), 202)["tool_id"]
    for path in (TOOLS, f"{TOOLS}/statuses"):
        assert [item["tool_id"] for item in checked(call(running, "GET", path, one), 200)["items"]] == [tool]
        assert checked(call(running, "GET", path, two), 200)["items"] == []
    hidden = [
        call(running, "GET", f"{TOOLS}?project_id=one", two),
        call(running, "POST", TOOLS, two, project_id="one", node_id="n"),
        *(
            call(running, "GET", f"{TOOLS}/{tool}{part}", two)
            for part in ("", "/status", "/tasks", "/files", "/files/n")
        ),
        call(running, "POST", f"{TOOLS}/{tool}/query", two, query="x"),
        call(running, "POST", "/api/search", two, project_id="one", query="x", tool_ids=[tool]),
        call(running, "POST", "/api/search", two, project_id="two", query="x", tool_ids=[tool]),
        call(running, "DELETE", f"{TOOLS}/{tool}", two),
        call(running, "GET", "/api/projects/one/nodes/n", two),
        call(running, "PATCH", "/api/projects/one/nodes/n", two, name="m"),
        call(running, "DELETE", "/api/projects/one/nodes/n", two),
        call(running, "POST", "/api/projects/one/nodes", two, name="m", type="folder"),
        call(running, "DELETE", "/api/projects/one", two),
    ]
    assert [(answer.status_code, answer.json()["code"]) for answer in hidden] == [(404, "not_found")] * len(hidden)
    missing = call(running, "GET", f"{TOOLS}/{'0' * 8}-{tool[9:]}", two).json()["detail"]
    assert call(running, "GET", f"{TOOLS}/{tool}", two).json()["detail"].split("'")[::2] == missing.split("'")[::2]
    assert call(running, "GET", f"{TOOLS}/{tool}", one).status_code == 200


def test_a_key_is_told_its_own_project_only(running: Service, one: str, two: str) -> None:
    everything = ["search", "write", "admin"]
    for project, key in (("one", one), ("two", two)):
        told = checked(call(running, "GET", "/api/access", key), 200)
        seen = {"project_id": project, "projects": [project], "scopes": everything}
        assert told == {**seen, "principals": None, "flower_url": None}


def test_the_name_of_the_scheme_is_known_in_any_case(running: Service, one: str) -> None:
    for scheme in ("Bearer", "bearer", "BEARER"):
        assert call(running, "GET", TOOLS, one, scheme).status_code == 200


def test_a_node_of_another_project_cannot_be_indexed_or_joined(running: Service, one: str, two: str) -> None:
    node = {"name": "n", "type": "folder", "id": "private"}
    checked(call(running, "POST", "/api/projects/one/nodes", one, **node), 201)
    refused = call(running, "POST", TOOLS, two, project_id="two", node_id="private")
    assert (refused.status_code, refused.json()["code"]) == (404, "not_found")
    body = {"name": "m", "type": "folder", "parent_id": "private"}
    assert call(running, "POST", "/api/projects/two/nodes", two, **body).status_code == 404


def test_a_key_is_listed_without_itself_and_ends_when_revoked(running: Service) -> None:
    key = new_key(running, "short")
    assert call(running, "GET", TOOLS, key).status_code == 200
    listed = foldex(running, "keys", "list", "short").stdout
    assert "valid" in listed
    assert "for short" in listed
    assert key not in listed
    none = foldex(running, "keys", "list", "nobody")
    assert (none.returncode, none.stdout) == (0, "")
    assert "Project nobody has no key; `foldex keys create`" in none.stderr
    key_id = listed.split()[0]
    assert foldex(running, "keys", "revoke", key_id).returncode == 0
    assert_unauthorized(call(running, "GET", TOOLS, key))
    again = foldex(running, "keys", "revoke", key_id)
    assert again.returncode == 2
    assert "foldex keys list" in again.stderr
    assert "revoked" in foldex(running, "keys", "list", "short").stdout


def test_keys_are_printed_as_json(running: Service) -> None:
    assert printed(foldex(running, "keys", "list", "printed", "--json")) == {"items": []}
    made = printed(foldex(running, "keys", "create", "printed", "--name", "for ci", "--json"))
    assert call(running, "GET", TOOLS, made.pop("key")).status_code == 200
    [listed] = printed(foldex(running, "keys", "list", "printed", "--json"))["items"]
    assert datetime.fromisoformat(listed.pop("created_at")) == datetime.fromisoformat(made.pop("created_at"))
    assert datetime.fromisoformat(listed.pop("last_used_at")).second == 0
    assert made.pop("last_used_at") is None
    ends = dict.fromkeys(("expires_at", "revoked_at", "replaced_by"))
    row = {"id": made["id"], "project_id": "printed", "name": "for ci", "scopes": ["admin"], "state": "valid"}
    assert listed == made == {**row, **ends}
    revoked = printed(foldex(running, "keys", "revoke", made["id"], "--json"))
    assert revoked == {"id": made["id"], "status": "revoked", "admin_keys": 0}
    [listed] = printed(foldex(running, "keys", "list", "printed", "--json"))["items"]
    assert datetime.fromisoformat(listed["revoked_at"]) >= datetime.fromisoformat(listed["created_at"])


def printed(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """The one document that a command printed."""
    assert (done.returncode, done.stderr) == (0, "")
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def test_a_key_is_made_with_scopes_for_a_time_and_rotated(running: Service) -> None:
    made = foldex(
        running, "keys", "create", "timed", "--scope", "all_documents", "--scope", "write", "--expires", "30d"
    )
    key, told = made.stdout.strip(), made.stderr
    assert "write, all_documents, valid until 20" in told
    assert call(running, "GET", "/api/access", key).json()["scopes"] == ["search", "write", "all_documents"]
    assert call(running, "DELETE", "/api/projects/timed", key).json()["code"] == "scope_missing"
    listed = foldex(running, "keys", "list", "timed").stdout
    assert "write,all_documents" in listed
    assert "valid until" in listed
    assert "  used 20" in listed
    key_id = listed.split()[0]
    turned = foldex(running, "keys", "rotate", key_id, "--overlap", "1h", "--expires", "90m")
    assert call(running, "GET", TOOLS, turned.stdout.strip()).status_code == 200
    assert call(running, "GET", TOOLS, key).status_code == 200
    again = foldex(running, "keys", "rotate", key_id)
    assert again.returncode == 2
    assert "was replaced by" in again.stderr
    (old, new) = printed(foldex(running, "keys", "list", "timed", "--json"))["items"]
    assert old["replaced_by"] == new["id"]
    assert foldex(running, "keys", "rotate", new["id"], "--overlap", "0s").returncode == 0
    assert_unauthorized(call(running, "GET", TOOLS, turned.stdout.strip()))
    assert "expired" in foldex(running, "keys", "list", "timed").stdout


@pytest.mark.parametrize(
    "wrong",
    [
        ("--scope", "all"),
        ("--scope", "impersonate"),
        ("--expires", "30"),
        ("--expires", "-1d"),
        ("--expires", "1.5h"),
        ("--expires", "0s"),
        ("--expires", "3651d"),
        ("--expires", "30d\n"),
        ("--expires", "\u0663d"),
        ("--expires", "9" * 5000 + "d"),
        ("--name", "a\nb"),
        ("--name", "\u202e"),
        ("--name", "x" * 201),
    ],
)
def test_a_key_with_odd_terms_is_not_made(running: Service, wrong: tuple[str, str]) -> None:
    refused = foldex(running, "keys", "create", "odd", *wrong)
    assert refused.returncode == 2
    assert wrong[0] in refused.stderr
    assert "Traceback" not in refused.stderr
    assert foldex(running, "keys", "list", "odd").stdout == ""


def test_the_last_key_for_admin_is_revoked_by_the_operator_with_a_warning(running: Service) -> None:
    key = new_key(running, "lone")
    (row,) = call(running, "GET", "/api/projects/lone/keys", key).json()["items"]
    refused = call(running, "DELETE", f"/api/projects/lone/keys/{row['id']}", key)
    assert (refused.status_code, refused.json()["code"]) == (409, "last_admin_key")
    revoked = foldex(running, "keys", "revoke", row["id"])
    assert revoked.returncode == 0
    assert "no key with the scope admin left" in revoked.stderr
    assert_unauthorized(call(running, "GET", TOOLS, key))


def test_a_name_of_an_older_release_forges_no_line(running: Service) -> None:
    key_id = printed(foldex(running, "keys", "create", "forged", "--json"))["id"]
    assert running.rows("UPDATE api_key SET name = E'a\\nfx_b' WHERE project_id = 'forged' RETURNING 1") == [(1,)]
    (line,) = foldex(running, "keys", "list", "forged").stdout.splitlines()
    assert line.startswith(key_id)


def test_a_key_is_stored_as_a_hash_only(running: Service, one: str) -> None:
    ((row,),) = running.rows("SELECT string_agg(k::text, ' ') FROM api_key k")
    assert one not in row
    assert one.encode().hex() not in row


def test_deleting_a_project_ends_its_keys(running: Service) -> None:
    key = new_key(running, "closing")
    assert call(running, "DELETE", "/api/projects/closing", key).status_code == 202
    assert_unauthorized(call(running, "GET", TOOLS, key))


def test_an_open_api_on_an_open_address_does_not_start(running: Service) -> None:
    for host in ("0.0.0.0", "::"):
        refused = foldex(running, "serve", AUTH="off", API_HOST=host)
        assert refused.returncode == 2
        assert "AUTH=on" in refused.stderr
        assert "Traceback" not in refused.stderr


def test_the_first_key_may_be_made_before_anything_else_ran(running: Service, postgres_url: str) -> None:
    with new_database(postgres_url) as url:
        assert foldex(running, "keys", "create", "first", DATABASE_URL=url).returncode == 0
        assert "first" in foldex(running, "keys", "list", DATABASE_URL=url).stdout


def test_a_key_for_no_project_is_not_made(running: Service) -> None:
    refused = foldex(running, "keys", "create", "")
    assert refused.returncode != 0
    assert "Traceback" not in refused.stderr


def test_a_database_that_does_not_answer_is_told_without_a_traceback(running: Service) -> None:
    refused = foldex(running, "keys", "list", DATABASE_URL="postgresql://127.0.0.1:1/none?connect_timeout=1")
    assert refused.returncode == 2
    assert "DATABASE_URL" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_no_link_opens_a_session_beside_keys(running: Service, tmp_path: Path) -> None:
    key, links = new_key(running, "page"), page_links_file(running.home)
    session = open_session(links, new_link(links))
    headers = {"Authorization": f"Bearer {key}", "Foldex-Session": str(session)}
    for path, body in (("/api/session", {"link": new_link(links)}), ("/api/places", {"path": str(tmp_path)})):
        assert running.client.post(path, json=body, headers=headers).status_code == 403
    assert running.client.get("/api/places", headers=headers).json() == {
        "items": [], "next_cursor": None, "path": None, "may_permit": False,
    }  # fmt: skip # a line each says nothing
