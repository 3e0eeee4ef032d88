"""The keys of a project, over HTTP and at the same time: who may make which, when they end, when a use is noted."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Barrier
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from fastapi import FastAPI
from psycopg import OperationalError
from starlette.testclient import TestClient

from api.main import create_app
from schemas.errors import Conflict, FoldexError, LastAdminKey, Unauthorized
from schemas.scopes import SCOPES, Scope
from tests.service import new_database
from worker.settings import Settings
from worker.state.access import keys
from worker.state.index import tools
from worker.state.migrate import migrate
from worker.state.pool import Pool, open_pool

DAY = timedelta(days=1)


@pytest.fixture(scope="module")
def app(database_url: str) -> FastAPI:
    return create_app(Settings(database_url=database_url, auth="on"))


class Caller:
    """A caller with a key of a project."""

    def __init__(self, app: FastAPI, pool: Pool, *scopes: Scope, lifetime: timedelta | None = None) -> None:
        self.project = f"p-{uuid4()}"
        self.row, self.key = keys.create(pool, self.project, "caller", scopes or ("admin",), lifetime)
        self.client = TestClient(app, headers={"Authorization": f"Bearer {self.key}"})

    def ask(self, method: str, path: str = "", **body: Any) -> Any:
        return self.client.request(method, f"/api/projects/{self.project}/keys{path}", json=body)

    def made(self, **body: Any) -> dict[str, Any]:
        answer = self.ask("POST", **body)
        assert answer.status_code == 201, answer.text
        made: dict[str, Any] = answer.json()
        return made

    def opens(self, key: str) -> bool:
        status = self.client.get("/api/access", headers={"Authorization": f"Bearer {key}"}).status_code
        assert status in {200, 401}
        return status == 200


def code(answer: Any) -> tuple[int, str]:
    return answer.status_code, answer.json()["code"]


def test_a_key_is_made_shown_once_listed_and_revoked(app: FastAPI, pool: Pool) -> None:
    caller = Caller(app, pool, "admin", "all_documents")
    answer = caller.ask("POST", name="ingest", scopes=["all_documents", "write", "write"], expires="2h")
    made = answer.json()
    assert (answer.status_code, answer.headers["cache-control"]) == (201, "no-store")
    assert (made["scopes"], made["state"], made["name"]) == (["write", "all_documents"], "valid", "ingest")
    assert caller.opens(made["key"])
    listed = caller.client.get(f"/api/projects/{caller.project}/keys").json()
    assert [each["id"] for each in listed["items"]] == [str(caller.row.id), made["id"]]
    for secret in (made["key"], caller.key):
        assert secret not in str(listed)
    revoked = caller.ask("DELETE", f"/{made['id']}")
    assert (revoked.status_code, revoked.json()["state"]) == (200, "revoked")
    assert not caller.opens(made["key"])
    # what is repeated changes nothing
    assert caller.ask("DELETE", f"/{made['id']}").json() == revoked.json()


def test_a_list_is_read_in_pages(app: FastAPI, pool: Pool) -> None:
    caller = Caller(app, pool)
    made = [str(caller.row.id), *(caller.made(name=str(number))["id"] for number in range(4))]
    seen, cursor = [], None
    while True:
        given = {"limit": 2} | ({} if cursor is None else {"cursor": cursor})
        page = caller.client.get(f"/api/projects/{caller.project}/keys", params=given).json()
        seen += [each["id"] for each in page["items"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert seen == made
    assert [str(row.id) for row in keys.every(pool, caller.project)] == made


def test_no_key_gives_more_than_it_has(app: FastAPI, pool: Pool) -> None:
    caller, able = Caller(app, pool), Caller(app, pool, "admin", "impersonate")
    for scope in ("impersonate", "all_documents"):
        refused = caller.ask("POST", scopes=["search", scope])
        assert code(refused) == (403, "scope_missing")
        assert f"`{scope}`" in refused.json()["detail"]
    # nor by the replacement of a key that has more
    more = keys.create(pool, caller.project, "more", ("search", "impersonate"))[0]
    assert code(caller.ask("POST", f"/{more.id}/rotate")) == (403, "scope_missing")
    assert able.made(scopes=["search", "impersonate"])["scopes"] == ["search", "impersonate"]
    assert len(list(keys.every(pool, caller.project))) == 2


def test_no_key_makes_one_that_lives_longer(app: FastAPI, pool: Pool) -> None:
    caller = Caller(app, pool, lifetime=DAY)
    bodies: list[dict[str, str]] = [{}, {"expires": "25h"}]
    for body in bodies:
        assert code(caller.ask("POST", **body)) == (422, "invalid_request")
        assert code(caller.ask("POST", f"/{caller.row.id}/rotate", **body)) == (422, "invalid_request")
    assert caller.made(expires="23h")["state"] == "valid"
    assert len(list(keys.every(pool, caller.project))) == 2


@pytest.mark.parametrize(
    "body",
    [
        {"scopes": []},
        {"scopes": ["impersonate"]},
        {"scopes": ["all"]},
        {"scopes": ["search"] * 1000},
        {"scopes": "admin"},
        {"expires": "0d"},
        {"expires": "1w"},
        {"expires": 30},
        {"expires": "99999999999d"},
        {"name": "a\nb"},
        {"name": "a\x1bb"},
        {"name": "x" * 201},
        {"name": None},
        {"key": "fx_mine"},
    ],
)
def test_odd_terms_are_refused(app: FastAPI, pool: Pool, body: dict[str, Any]) -> None:
    caller = Caller(app, pool)
    assert code(caller.ask("POST", **body)) == (422, "invalid_request")
    assert len(list(keys.every(pool, caller.project))) == 1


def test_a_rotated_key_goes_on_for_the_overlap_and_no_longer_than_before(app: FastAPI, pool: Pool) -> None:
    caller = Caller(app, pool)
    old = caller.made(name="agent", scopes=["search"], expires="30d")
    new = caller.ask("POST", f"/{old['id']}/rotate", overlap="1h").json()
    assert (new["name"], new["scopes"]) == ("agent", ["search"])
    assert caller.opens(old["key"])
    assert caller.opens(new["key"])
    ends = {row.name: row for row in keys.page(pool, caller.project) if str(row.id) == old["id"]}["agent"]
    assert str(ends.replaced_by) == new["id"]
    assert ends.expires_at is not None
    assert timedelta(minutes=50) < ends.expires_at - ends.created_at < timedelta(hours=2)
    # as long as the old one was to be
    fresh = next(row for row in keys.page(pool, caller.project) if str(row.id) == new["id"])
    assert fresh.expires_at is not None
    assert fresh.expires_at - fresh.created_at == timedelta(days=30)
    # an overlap gives a key no more time than it had
    brief = caller.made(expires="1m", scopes=["search"])
    caller.ask("POST", f"/{brief['id']}/rotate", overlap="30d", expires="1d")
    kept = next(row for row in keys.page(pool, caller.project) if str(row.id) == brief["id"])
    assert kept.expires_at is not None
    assert kept.expires_at - kept.created_at == timedelta(minutes=1)
    # and none ends it at once
    assert caller.ask("POST", f"/{new['id']}/rotate", overlap="0s").status_code == 201
    assert not caller.opens(new["key"])


def test_what_ended_is_not_rotated(app: FastAPI, pool: Pool) -> None:
    caller = Caller(app, pool)
    gone = caller.made(scopes=["search"])
    caller.ask("DELETE", f"/{gone['id']}")
    assert code(caller.ask("POST", f"/{gone['id']}/rotate")) == (409, "conflict")
    for key_id in (uuid4(), "none", Caller(app, pool).row.id):
        assert code(caller.ask("POST", f"/{key_id}/rotate")) == (404, "not_found")
        assert code(caller.ask("DELETE", f"/{key_id}")) == (404, "not_found")


def test_an_expired_key_is_refused_from_then_on(app: FastAPI, pool: Pool) -> None:
    caller = Caller(app, pool, lifetime=DAY)
    assert caller.opens(caller.key)
    with pool.connection() as connection:
        connection.execute(b"UPDATE api_key SET expires_at = now() WHERE id = %s", (caller.row.id,))
    answer = caller.client.get("/api/access")
    assert (code(answer), answer.headers["www-authenticate"]) == ((401, "unauthorized"), "Bearer")
    assert "expired" in answer.json()["detail"]
    with pytest.raises(Unauthorized):
        keys.create(pool, caller.project, "late", by=caller.row.id)


def together(*calls: Callable[[], object]) -> list[object]:
    """What calls return or raise that begin at the same moment."""
    barrier = Barrier(len(calls))

    def outcome(call: Callable[[], object]) -> object:
        barrier.wait(10)
        try:
            return call()
        except FoldexError as error:
            return error

    with ThreadPoolExecutor(len(calls)) as threads:
        return list(threads.map(outcome, calls))


def test_of_two_rotations_at_once_one_makes_a_key(pool: Pool) -> None:
    for by_itself in (False, True):
        project = f"p-{uuid4()}"
        row, _ = keys.create(pool, project, "k")
        by = row.id if by_itself else None
        found = together(*[lambda: keys.rotate(pool, row.id, by=by)] * 4)  # noqa: B023 # called before the next one
        assert [type(each) for each in found].count(Conflict) == 3, found
        assert len(list(keys.every(pool, project))) == 2


def test_two_keys_that_revoke_each_other_leave_one(pool: Pool) -> None:
    for _ in range(5):
        project = f"p-{uuid4()}"
        rows = [keys.create(pool, project, "k")[0] for _ in range(2)]
        found = together(*[revoking(pool, row.id) for row in rows])
        assert [type(each) for each in found].count(LastAdminKey) == 1, found
        assert [row.state for row in keys.every(pool, project)].count("valid") == 1


def revoking(pool: Pool, key_id: UUID) -> Callable[[], object]:
    return lambda: keys.revoke(pool, key_id, keep_admin=True)


def test_a_key_that_is_replaced_is_not_the_last_one(pool: Pool) -> None:
    project = f"p-{uuid4()}"
    row, _ = keys.create(pool, project, "k")
    keys.create(pool, project, "reader", ("search",))
    new, _ = keys.rotate(pool, row.id)
    with pytest.raises(LastAdminKey):
        keys.revoke(pool, new.id, keep_admin=True)
    assert keys.revoke(pool, row.id, keep_admin=True).admin_keys == 1


def test_a_project_has_a_limit_of_keys(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "MAX_KEYS", 3)
    project = f"p-{uuid4()}"
    found = together(*[lambda: keys.create(pool, project, "k")] * 6)
    assert [type(each) for each in found].count(Conflict) == 3, found


def test_a_key_that_is_made_while_its_project_is_deleted_does_not_outlive_it(pool: Pool) -> None:
    for _ in range(5):
        project = f"p-{uuid4()}"
        row, _ = keys.create(pool, project, "k")
        together(
            lambda: keys.create(pool, project, "late", by=row.id),  # noqa: B023 # called before the next one
            lambda: tools.delete_project(pool, project),  # noqa: B023
        )
        assert list(keys.every(pool, project)) == []


def used(pool: Pool, key_id: UUID) -> list[Any]:
    with pool.connection() as connection:
        query = b"SELECT last_used_at, date_trunc('minute', now()), xmin FROM api_key WHERE id = %s"
        (row,) = connection.execute(query, (key_id,)).fetchall()
        return list(row)


def test_the_use_of_a_key_is_noted_to_the_minute_once_a_minute(
    app: FastAPI, database_url: str, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    caller = Caller(app, pool)
    others = [create_app(Settings(database_url=database_url, auth="on")) for _ in range(2)]
    before = used(pool, caller.row.id)[2]
    assert caller.opens(caller.key)
    noted, minute, version = used(pool, caller.row.id)
    assert noted is not None
    assert minute - noted <= timedelta(minutes=1)
    assert version != before
    for each in (app, *others) * 10:
        TestClient(each).get("/api/access", headers={"Authorization": f"Bearer {caller.key}"})
    assert used(pool, caller.row.id)[2] == version or used(pool, caller.row.id)[0] > noted
    # a minute later the next use is noted
    with pool.connection() as connection:
        connection.execute(b"UPDATE api_key SET last_used_at = now() - interval '5 minutes'")
    later = time.time() + 60
    monkeypatch.setattr(time, "time", lambda: later)
    assert caller.opens(caller.key)
    assert used(pool, caller.row.id)[0] >= noted


def test_a_use_that_cannot_be_noted_fails_no_call(
    app: FastAPI, database_url: str, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    caller = Caller(app, pool)
    with psycopg.connect(database_url) as held:
        held.execute("SELECT FROM api_key WHERE id = %s FOR UPDATE", (caller.row.id,))
        assert caller.opens(caller.key)
        # nor does it wait, which would raise
        keys.note_use(pool, caller.row.id)
    other = Caller(app, pool)

    def fail(*_: object) -> None:
        raise OperationalError("no space left on device")

    monkeypatch.setattr(keys, "note_use", fail)
    assert other.opens(other.key)


def test_keys_of_the_first_release_go_on_with_admin(postgres_url: str, template_url: str) -> None:
    """The columns of the release before, as its commands and processes write them, and a key of it."""
    with new_database(postgres_url, template_url) as url, psycopg.connect(url, autocommit=True) as connection:
        drop = ", ".join(f"DROP COLUMN {name}" for name in ("scopes", "expires_at", "last_used_at", "replaced_by"))
        connection.execute(f"ALTER TABLE api_key {drop}".encode())
        connection.execute(b"DELETE FROM _yoyo_migration WHERE migration_id = '0054_key_scopes'")
        insert = b"INSERT INTO api_key (id, project_id, name, key_hash) VALUES (%s, 'old', 'k', %s)"
        connection.execute(insert, (uuid4(), keys.hashed("fx_old")))
        migrate(url)
        connection.execute(insert, (uuid4(), keys.hashed("fx_meanwhile")))
        with open_pool(url) as opened:
            for key in ("fx_old", "fx_meanwhile"):
                found = keys.valid(opened, keys.hashed(key))
                assert found is not None
                assert found.scopes == frozenset(SCOPES[:3])
            assert [row.state for row in keys.every(opened, "old")] == ["valid", "valid"]
