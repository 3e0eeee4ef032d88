"""Signed tokens as bearers: which are taken, for whom their holders act, and that any other shows nothing."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from api.identity import issuer_keys
from api.identity.principals import HEADER
from api.main import create_app
from schemas.content.acl import MAX_PRINCIPALS, Sight
from schemas.errors import IssuerUnavailable
from tests.fakes.issuer import AUDIENCE, MAKERS, Issuer, b64, issuing, pem, public, token
from tests.integration.test_principals import Gateway
from worker.settings import Settings
from worker.state.access import keys
from worker.state.pool import Pool

Made = Callable[[Issuer], str]
ANN = {"user:ann@x.org", "group:hr", "group:all, of us"}
LONG_AGO = 3600


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with issuing() as running:
        yield running


@pytest.fixture
def new_app(database_url: str, tmp_path: Path, issuer: Issuer) -> Callable[..., FastAPI]:
    def make(**settings: Any) -> FastAPI:
        usual: dict[str, Any] = {
            "auth": "on",
            "oidc_issuer": issuer.url,
            "oidc_audience": AUDIENCE,
            "oidc_jwks": issuer.jwks,
        }
        return create_app(Settings(database_url=database_url, foldex_home=tmp_path, **usual | settings))

    return make


@pytest.fixture
def app(new_app: Callable[..., FastAPI]) -> FastAPI:
    return new_app()


def ask(app: FastAPI, bearer: str, path: str = "/api/access", method: str = "GET", **more: Any) -> Any:
    headers = {"Authorization": f"Bearer {bearer}", **more.pop("headers", {})}
    return TestClient(app).request(method, path, headers=headers, **more)


def holder(app: FastAPI, pool: Pool, bearer: str) -> Gateway:
    caller = Gateway(app, pool)
    caller.headers = {"Authorization": f"Bearer {bearer}"}
    return caller


@pytest.mark.parametrize("algorithm", MAKERS)
def test_a_token_acts_for_whom_its_claims_name(app: FastAPI, pool: Pool, issuer: Issuer, algorithm: str) -> None:
    caller = holder(app, pool, issuer.token(algorithm))
    told = caller.ask()[1]
    assert (told["project_id"], told["projects"], told["scopes"], told["principals"]) == (
        "acme",
        ["acme"],
        ["search"],
        3,
    )
    assert caller.sights(None) == {Sight(frozenset(ANN))}
    assert issuer.asked == 1


def test_what_a_token_says_of_scopes_raises_nothing(app: FastAPI, issuer: Issuer) -> None:
    sent = issuer.token(scope="admin write impersonate all_documents", scp=["admin"], scopes=["admin"])
    assert ask(app, sent).json()["scopes"] == ["search"]
    for method, path in (
        ("DELETE", "/api/projects/acme"),
        ("GET", "/api/projects/acme/keys"),
        ("POST", "/api/tools/search"),
    ):
        answer = ask(app, sent, path, method, json={} if method == "POST" else None)
        assert (answer.status_code, answer.json()["code"]) == (403, "scope_missing")
    answer = ask(app, sent, headers={HEADER: "user:boss"})
    assert (answer.status_code, answer.json()["code"]) == (403, "scope_missing")


def test_another_project_does_not_exist_for_a_token(app: FastAPI, issuer: Issuer) -> None:
    own, other = issuer.token(), issuer.token(project_id="other")
    for project, sent in (("acme", own), ("other", other)):
        assert ask(app, sent).json()["project_id"] == project
    for path in ("/api/projects/other/nodes", "/api/projects/nowhere/nodes"):
        answer = ask(app, own, path)
        assert (answer.status_code, answer.json()["detail"].replace("nowhere", "other")) == (
            404,
            "There is no project 'other'; check the id, or use a key of that project.",
        )


def test_keys_work_beside_tokens(app: FastAPI, pool: Pool, issuer: Issuer) -> None:
    key = keys.create(pool, "acme", "beside")[1]
    assert ask(app, key).json()["scopes"] == ["search", "write", "admin"]
    assert issuer.asked == 0


def now(seconds: float) -> int:
    return int(time.time() + seconds)


def altered(issuer: Issuer) -> str:
    head, _, rest = issuer.token().partition(".")
    return f"{head}.{b64(json.dumps(issuer.claims(email='boss@x.org')).encode())}.{rest.partition('.')[2]}"


def by_a_stranger(issuer: Issuer, **header: object) -> str:
    key = MAKERS["RS256"]()
    told = {name: public(key) if value == "its" else value for name, value in header.items()}
    return token(key, {"alg": "RS256", "kid": "RS256", **told}, issuer.claims())


def mixed(issuer: Issuer) -> str:
    """Signed by one key, and said to be by another kind."""
    return token(issuer.keys["ES256"][1], {"alg": "RS256", "kid": "RS256"}, issuer.claims())


def with_secret(secret: Callable[[Issuer], bytes]) -> Made:
    return lambda issuer: token(secret(issuer), {"alg": "HS256", "kid": "RS256"}, issuer.claims())


#: Tokens that are refused as such.
INVALID: dict[str, Made] = {
    "expired": lambda issuer: issuer.token(exp=now(-61)),
    "expired long ago": lambda issuer: issuer.token(exp=now(-LONG_AGO)),
    "never expires": lambda issuer: issuer.token(exp=None),
    "expires as text": lambda issuer: issuer.token(exp="2999-01-01"),
    "expires as true": lambda issuer: issuer.token(exp=True),
    "expires in infinity": lambda issuer: issuer.token(exp=float("inf")),
    "not yet valid": lambda issuer: issuer.token(nbf=now(120)),
    "issued later": lambda issuer: issuer.token(iat=now(120)),
    "no audience": lambda issuer: issuer.token(aud=None),
    "another audience": lambda issuer: issuer.token(aud="https://other.example"),
    "part of the audience": lambda issuer: issuer.token(aud=AUDIENCE[:-1]),
    "other audiences": lambda issuer: issuer.token(aud=["a", "b"]),
    "an audience that is no text": lambda issuer: issuer.token(aud={"a": AUDIENCE}),
    "no issuer": lambda issuer: issuer.token(iss=None),
    "another issuer": lambda issuer: issuer.token(iss=issuer.url + "/"),
    "altered": altered,
    "without its signature": lambda issuer: issuer.token().rpartition(".")[0] + ".",
    "none": lambda issuer: token(None, {"alg": "none"}, issuer.claims()),
    "None": lambda issuer: token(None, {"alg": "None", "kid": "RS256"}, issuer.claims()),
    "signed by HMAC of the public key": with_secret(lambda issuer: pem(issuer.keys["RS256"][1])),
    "signed by HMAC of the published key": with_secret(
        lambda issuer: json.dumps(public(issuer.keys["RS256"][1])).encode()
    ),
    "another algorithm": lambda issuer: issuer.token(header={"alg": "RS512"}),
    "an algorithm that is no text": lambda issuer: issuer.token(header={"alg": ["RS256"]}),
    "an algorithm of another key": mixed,
    "the key of another algorithm": lambda issuer: issuer.token("ES256", header={"kid": "RS256"}),
    "another key": lambda issuer: issuer.token(header={"kid": "other"}),
    "a key id that is no text": lambda issuer: issuer.token(header={"kid": 1}),
    "by a stranger": by_a_stranger,
    "with its own key": lambda issuer: by_a_stranger(issuer, jwk="its"),
    "with a place of keys": lambda issuer: by_a_stranger(issuer, jku="http://127.0.0.1:9/keys", kid="own"),
    "with extensions": lambda issuer: issuer.token(header={"crit": ["b64"], "b64": False}),
    "with crit of no list": lambda issuer: issuer.token(header={"crit": 1}),
    "too long": lambda issuer: issuer.token(groups=[f"group-{each}" for each in range(10_000)]),
    "no header": lambda issuer: f"e30.{issuer.token().partition('.')[2]}",
    "a header that is a list": lambda issuer: token(issuer.keys["RS256"][1], ["alg"], issuer.claims()),
    "a deep header": lambda issuer: token(None, b"[" * 9_000, b"{}"),
    "deep claims": lambda issuer: token(issuer.keys["RS256"][1], {"alg": "RS256", "kid": "RS256"}, b"[" * 9_000),
    "claims that are a list": lambda issuer: token(issuer.keys["RS256"][1], {"alg": "RS256", "kid": "RS256"}, []),
    "no JSON": lambda issuer: token(issuer.keys["RS256"][1], {"alg": "RS256", "kid": "RS256"}, b"{"),
    "no base64": lambda issuer: "a.b.c",
    "nothing": lambda issuer: "a..",
}


@pytest.mark.parametrize("made", INVALID.values(), ids=INVALID)
def test_an_invalid_token_is_refused_and_shown_nothing(app: FastAPI, issuer: Issuer, made: Made) -> None:
    sent = made(issuer)
    for path in ("/api/access", "/api/projects/acme/nodes", "/mcp"):
        answer = ask(app, sent, path, "POST" if path == "/mcp" else "GET")
        assert (answer.status_code, answer.json()["code"]) == (401, "token_invalid"), answer.text
        assert 'error="invalid_token"' in answer.headers["www-authenticate"]
        assert sent[:40] not in answer.text
        assert "ann@x.org" not in answer.text
    assert issuer.asked <= 1


#: Valid tokens that say of their users what cannot be used.
UNUSABLE: dict[str, dict[str, object]] = {
    "no project": {"project_id": None},
    "an empty project": {"project_id": ""},
    "a project that is no text": {"project_id": 7},
    "several projects": {"project_id": ["acme", "other"]},
    "a project of several parts": {"project_id": "acme/keys"},
    "a project with a line": {"project_id": "acme\n"},
    "a long project": {"project_id": "a" * 300},
    "a user that is no text": {"email": 7},
    "a user with a line": {"email": "ann\ngroup:hr"},
    "an empty user": {"email": ""},
    "a user of an object": {"email": {"value": "ann@x.org"}},
    "an email that nobody verified": {"email_verified": False},
    "an email that nobody verified, as text": {"email_verified": "False"},
    "an email of which a number tells": {"email_verified": 1},
    "groups that are numbers": {"groups": [1, 2]},
    "groups within groups": {"groups": [["hr"]]},
    "groups as an object": {"groups": {"hr": True}},
    "groups that are true": {"groups": True},
    "a group with NUL": {"groups": ["a\0"]},
    "a long group": {"groups": ["a" * 300]},
    "too many groups": {"groups": [f"{each:x}" for each in range(MAX_PRINCIPALS + 1)]},
    "groups that stand elsewhere": {"groups": None, "_claim_names": {"groups": "src1"}},
    "groups that were left out": {"groups": None, "hasgroups": True},
}


@pytest.mark.parametrize("claims", UNUSABLE.values(), ids=UNUSABLE)
def test_a_token_that_says_nothing_usable_is_refused(app: FastAPI, issuer: Issuer, claims: dict[str, Any]) -> None:
    answer = ask(app, issuer.token(**claims))
    assert (answer.status_code, answer.json()["code"]) == (403, "token_unusable"), answer.text
    assert len(answer.json()["detail"]) < 250


def test_a_claim_whose_outer_part_stands_elsewhere_is_refused(new_app: Callable[..., FastAPI], issuer: Issuer) -> None:
    app = new_app(oidc_principals="user=sub,role=realm_access.roles,project:=fixed")
    answer = ask(app, issuer.token(_claim_names={"realm_access": "src1"}))
    assert (answer.status_code, answer.json()["code"]) == (403, "token_unusable"), answer.text
    assert ask(app, issuer.token(_claim_names={"other": "src1"})).status_code == 200


@pytest.mark.parametrize("claim", ["iss", "sub", "aud", "exp", "nbf", "iat", "jti"])
def test_a_claim_of_another_type_is_named(app: FastAPI, issuer: Issuer, claim: str) -> None:
    claims: dict[str, Any] = {claim: {}}
    answer = ask(app, issuer.token(**claims))
    assert (answer.status_code, answer.json()["code"]) == (401, "token_invalid")
    assert f"`{claim}`" in answer.json()["detail"]


#: Tokens at the edge of what is taken, and how many principals they name.
TAKEN: dict[str, tuple[Callable[[], dict[str, object]], int]] = {
    "just expired": (lambda: {"exp": now(-50)}, 3),
    "just not valid": (lambda: {"nbf": now(50), "iat": now(50)}, 3),
    "one of several audiences": (lambda: {"aud": ["other", AUDIENCE]}, 3),
    "a verified email": (lambda: {"email_verified": True}, 3),
    "a verified email, as text": (lambda: {"email_verified": "true"}, 3),
    "no groups": (lambda: {"groups": None}, 1),
    "an empty list": (lambda: {"groups": []}, 1),
    "one group": (lambda: {"groups": "hr"}, 2),
    "nobody": (lambda: {"groups": None, "email": None}, 0),
    "a group that looks like an entry": (lambda: {"groups": ["*", "!hr"]}, 3),
    "all that may be named": (lambda: {"groups": [f"{each:x}" for each in range(MAX_PRINCIPALS - 1)]}, MAX_PRINCIPALS),
}


@pytest.mark.parametrize(("claims", "count"), TAKEN.values(), ids=TAKEN)
def test_a_token_at_the_edge_is_taken(
    app: FastAPI, issuer: Issuer, claims: Callable[[], dict[str, Any]], count: int
) -> None:
    answer = ask(app, issuer.token(**claims()))
    assert (answer.status_code, answer.json().get("principals")) == (200, count), answer.text


def test_headers_that_providers_add_are_ignored(app: FastAPI, issuer: Issuer) -> None:
    added = {"typ": "at+jwt", "jku": "http://127.0.0.1:9/keys", "x5t": "abc", "nonce": "x", "jwk": {"kty": "oct"}}
    assert ask(app, issuer.token(header=added)).status_code == 200


def test_the_settings_say_which_claims_name_whom(new_app: Callable[..., FastAPI], pool: Pool, issuer: Issuer) -> None:
    named = "user=sub,role=realm_access.roles,group=https://x.org/groups,group=groups,project:=fixed"
    app = new_app(oidc_principals=named)
    claims: dict[str, Any] = {
        "realm_access": {"roles": ["editor"]},
        "https://x.org/groups": ["far"],
        "email": "not-read",
    }
    caller = holder(app, pool, issuer.token(**claims))
    assert caller.ask()[1]["project_id"] == "fixed"
    expected = {"user:1", "role:editor", "group:far", "group:hr", "group:all, of us"}
    assert caller.sights(None) == {Sight(frozenset(expected))}


def test_a_token_is_a_wrong_key_where_none_are_taken(database_url: str, tmp_path: Path, issuer: Issuer) -> None:
    answer = ask(create_app(Settings(database_url=database_url, foldex_home=tmp_path, auth="on")), issuer.token())
    assert (answer.status_code, answer.json()["code"]) == (401, "unauthorized")
    assert answer.headers["www-authenticate"] == "Bearer"
    assert issuer.asked == 0


def test_a_token_without_the_id_of_its_key_needs_the_only_one(app: FastAPI, issuer: Issuer) -> None:
    _, key = issuer.keys["RS256"]
    nameless = token(key, {"alg": "RS256"}, issuer.claims())
    assert ask(app, nameless).status_code == 200
    issuer.add("second", "RS256")
    assert ask(app, issuer.token("second")).status_code == 401


def test_a_rotated_key_is_read_once_and_an_old_one_stops(
    app: FastAPI, issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = issuer.token()
    assert ask(app, old).status_code == 200
    issuer.add("new", "RS256")
    # it was read a moment ago
    assert ask(app, issuer.token("new")).status_code == 401
    monkeypatch.setattr(issuer_keys, "REST_SECONDS", 0.0)
    assert ask(app, issuer.token("new")).status_code == 200
    assert issuer.asked == 2
    del issuer.keys["RS256"]
    assert ask(app, old).status_code == 200
    monkeypatch.setattr(issuer_keys, "FRESH_SECONDS", 0.0)
    ask(app, old)
    ends = time.monotonic() + 20
    while ask(app, old).status_code == 200:
        assert time.monotonic() < ends
    assert ask(app, issuer.token("new")).status_code == 200


def test_unknown_keys_cause_no_storm(app: FastAPI, issuer: Issuer) -> None:
    issuer.seconds = 0.3
    with ThreadPoolExecutor(16) as threads:
        sent = [issuer.token(header={"kid": f"made-up-{each}"}) for each in range(48)]
        statuses = {answer.status_code for answer in threads.map(lambda each: ask(app, each), sent)}
    assert statuses == {401}
    assert issuer.asked == 1


#: What an issuer may answer instead of its keys.
BROKEN = {
    "an error": (500, b"{}"),
    "another address": (302, b""),
    "no JSON": (200, b"<html>"),
    "deep JSON": (200, b"[" * 100_000),
    "no keys": (200, b'{"keys": []}'),
    "keys that are no list": (200, b'{"keys": {}}'),
    "too many keys": (200, json.dumps({"keys": [{"kty": "RSA"}] * 101}).encode()),
    "only a secret": (200, json.dumps({"keys": [{"kty": "oct", "k": "c2VjcmV0", "kid": "RS256"}]}).encode()),
    "broken keys": (200, json.dumps({"keys": [{"kty": "EC", "crv": "P-256", "x": "a", "kid": "RS256"}, 7]}).encode()),
    "a short key": (200, json.dumps({"keys": [{"kty": "RSA", "n": "sXch", "e": "AQAB", "kid": "RS256"}]}).encode()),
}


@pytest.mark.parametrize("instead", BROKEN.values(), ids=BROKEN)
def test_without_keys_a_token_waits_and_keys_work(
    app: FastAPI, pool: Pool, issuer: Issuer, instead: tuple[int, bytes]
) -> None:
    issuer.instead = instead
    answer = ask(app, issuer.token())
    assert (answer.status_code, answer.json()["code"]) == (503, "issuer_unavailable")
    assert answer.json()["detail"] == IssuerUnavailable.example
    assert "retry-after" in answer.headers
    assert ask(app, keys.create(pool, "acme", "beside")[1]).status_code == 200


def test_an_answer_that_is_huge_is_not_read_to_its_end(app: FastAPI, issuer: Issuer) -> None:
    issuer.instead = (200, issuer.document() + b" " * issuer_keys.MAX_BYTES)
    assert ask(app, issuer.token()).status_code == 503


def test_known_keys_go_on_while_the_issuer_is_away(
    app: FastAPI, issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(issuer_keys, "REST_SECONDS", 0.0)
    monkeypatch.setattr(issuer_keys, "FRESH_SECONDS", 0.0)
    assert ask(app, issuer.token()).status_code == 200
    issuer.instead = (503, b"")
    for _ in range(3):
        assert ask(app, issuer.token()).status_code == 200
    unknown = ask(app, issuer.token(header={"kid": "new"}))
    assert (unknown.status_code, unknown.json()["code"]) == (503, "issuer_unavailable")


@pytest.mark.parametrize("slowness", [{"seconds": 3.0}, {"drops": 60}])
def test_a_slow_issuer_is_not_waited_for_long(
    app: FastAPI, issuer: Issuer, monkeypatch: pytest.MonkeyPatch, slowness: dict[str, float]
) -> None:
    monkeypatch.setattr(issuer_keys, "READ_SECONDS", 0.2)
    vars(issuer).update(slowness)
    began = time.monotonic()
    assert ask(app, issuer.token()).status_code == 503
    assert time.monotonic() - began < 2.5
    ends = time.monotonic() + 2.5
    while any(thread.name == "issuer-keys" for thread in threading.enumerate()):
        assert time.monotonic() < ends
        time.sleep(0.01)


def test_keys_can_stand_in_a_file(new_app: Callable[..., FastAPI], tmp_path: Path, issuer: Issuer) -> None:
    file = tmp_path / "keys.json"
    assert ask(new_app(oidc_jwks=str(file)), issuer.token()).status_code == 503
    file.write_bytes(issuer.document())
    assert ask(new_app(oidc_jwks=str(file)), issuer.token()).status_code == 200
    assert issuer.asked == 0


def test_the_log_names_the_project_and_no_user(app: FastAPI, issuer: Issuer, capfd: pytest.CaptureFixture[str]) -> None:
    for sent in (issuer.token(), issuer.token(email="secret-person\n"), issuer.token(sub="secret-person", exp=1)):
        ask(app, sent)
    said = "".join(capfd.readouterr())
    assert "project=acme" in said
    assert not [name for name in ("ann@x.org", "secret-person", "of us", "eyJ") if name in said]


METADATA = "/.well-known/oauth-protected-resource"


def test_agents_find_out_where_to_get_a_token(app: FastAPI, issuer: Issuer) -> None:
    from mcp.client.auth.utils import build_protected_resource_metadata_discovery_urls as places
    from mcp.client.auth.utils import extract_resource_metadata_from_www_auth as told
    from mcp.shared.auth import ProtectedResourceMetadata
    from mcp.shared.auth_utils import check_resource_allowed

    for base in ("https://foldex.example", "http://127.0.0.1:8000"):
        client = TestClient(app, base_url=base)
        refused = client.post("/mcp")
        assert (refused.status_code, refused.json()["code"]) == (401, "unauthorized")
        assert told(cast("Any", refused)) == f"{base}{METADATA}/mcp"
        for place in places(told(cast("Any", refused)), f"{base}/mcp"):
            found = ProtectedResourceMetadata.model_validate_json(client.get(place).content)
            assert [str(each).rstrip("/") for each in found.authorization_servers] == [issuer.url]
            assert check_resource_allowed(f"{base}/mcp", str(found.resource))
            assert found.bearer_methods_supported == ["header"]
    # who asks for a token names the audience, however the proxy in front reaches this service
    behind = TestClient(app, base_url="http://foldex.example").get(f"{METADATA}/mcp").json()
    assert behind["resource"] == AUDIENCE


def test_other_calls_say_so_too(app: FastAPI, issuer: Issuer) -> None:
    client = TestClient(app, base_url="http://x")
    for headers, status, begins in (
        ({}, 401, "Bearer resource_metadata="),
        ({"Authorization": "Bearer fx_wrong"}, 401, "Bearer resource_metadata="),
        ({"Authorization": f"Bearer {issuer.token(exp=1)}"}, 401, 'Bearer error="invalid_token", resource_metadata='),
        ({"Authorization": f"Bearer {issuer.token()}"}, 403, 'Bearer error="insufficient_scope", scope="admin", res'),
    ):
        answer = client.delete("/api/projects/acme", headers=headers)
        said = answer.headers["www-authenticate"]
        assert (answer.status_code, said.startswith(begins)) == (status, True), said
        assert said.endswith(f'"http://x{METADATA}"')


def test_a_made_up_host_is_not_quoted(app: FastAPI) -> None:
    answer = TestClient(app).get("/api/access", headers={"host": 'a", error="x'})
    assert answer.headers["www-authenticate"] == f'Bearer resource_metadata="http://localhost{METADATA}"'


@pytest.mark.parametrize("auth", ["on", "off"])
def test_without_tokens_there_is_no_metadata(
    database_url: str, tmp_path: Path, auth: str, new_app: Callable[..., FastAPI]
) -> None:
    app = new_app(auth=auth, **({} if auth == "off" else dict.fromkeys(("oidc_issuer", "oidc_audience", "oidc_jwks"))))
    for place in (METADATA, f"{METADATA}/mcp"):
        answer = TestClient(app).get(place)
        assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


def test_an_agent_calls_tools_with_its_token(app: FastAPI, issuer: Issuer) -> None:
    headers = {"Accept": "application/json, text/event-stream"}

    def asked(method: str, bearer: str, **params: Any) -> str:
        call = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        answer = ask(app, bearer, "/mcp", "POST", json=call, headers=headers)
        assert answer.status_code == 200, answer.text
        return str(answer.text)

    listed = asked("tools/list", issuer.token())
    assert '"search"' in listed
    assert '"index_folder"' not in listed
    # its calls within the process are those of the token: they are refused where it is
    found = asked("tools/call", issuer.token(), name="list_folders", arguments={})
    assert '"isError":false' in found.replace(" ", ""), found
    assert "needs a key with the scope" in asked(
        "tools/call", issuer.token(), name="index_folder", arguments={"path": "/nowhere"}
    )


def test_a_document_is_shown_to_whom_its_list_admits(app: FastAPI, pool: Pool, issuer: Issuer) -> None:
    project = f"p-{uuid4()}"
    admin, gateway = (keys.create(pool, project, "k", scopes)[1] for scopes in (("admin",), ("search", "impersonate")))
    place = f"/api/projects/{project}/nodes"
    node = {"id": "pay", "name": "pay.md", "type": "markdown", "content": "salaries", "acl": ["group:hr", "!user:bob"]}
    assert ask(app, admin, place, "POST", json=node).status_code == 201

    def read(user: str, *groups: str) -> tuple[int, bool]:
        """What both a token and a gateway see for a user, which is the same."""
        named = ",".join([f"user:{user}", *(f"group:{each}" for each in groups)])
        by_token = ask(app, issuer.token(project_id=project, email=user, groups=[*groups]), f"{place}/pay/content")
        by_gateway = ask(app, gateway, f"{place}/pay/content", headers={HEADER: named})
        assert (by_token.status_code, by_token.text) == (by_gateway.status_code, by_gateway.text)
        return by_token.status_code, "salaries" in by_token.text

    assert read("ann", "hr") == (200, True)
    assert read("ann", "legal") == read("ann") == read("bob", "hr") == (404, False)
