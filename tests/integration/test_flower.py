"""Flower as `make up` runs it: whose requests it answers."""

from __future__ import annotations

import stat
from base64 import b64encode
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path

import pytest

from api.stack import flower, programs
from api.stack.processes import running, server_port
from tests.service import environment, next_broker

LOGIN = "somebody:password"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory, redis_url: str) -> Iterator[int]:
    """The port of a Flower that requires a password."""
    home, port = tmp_path_factory.mktemp("flower"), server_port()
    env = environment(home, "postgresql://127.0.0.1:1/none", next_broker(redis_url), FLOWER_BASIC_AUTH=LOGIN)
    with running(programs.flower(port, env), home):
        yield port


def _answer(port: int, host: str, path: str, login: str = "") -> int:
    connection = HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        headers = {"Authorization": f"Basic {b64encode(login.encode()).decode()}"} if login else {}
        connection.request("GET", path, headers={"Host": host, **headers})
        return connection.getresponse().status
    finally:
        connection.close()


@pytest.mark.parametrize("path", ["/", "/workers", "/tasks", "/api/workers", "/metrics", "/healthcheck", "/static/x"])
@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "localhost.evil.example", "10.0.0.1", "[::2]:80"])
def test_flower_answers_to_no_foreign_name(page: int, path: str, host: str) -> None:
    assert _answer(page, host, path, LOGIN) == 403


@pytest.mark.parametrize("host", ["localhost:5555", "127.0.0.1", "[::1]:5555", "LOCALHOST"])
def test_flower_answers_to_this_machines_names_with_its_password(page: int, host: str) -> None:
    assert _answer(page, host, "/tasks", LOGIN) == 200
    assert _answer(page, host, "/tasks") == 401
    assert _answer(page, host, "/tasks", "somebody:guess") == 401
    assert [_answer(page, host, "/api/tasks", login) for login in (LOGIN, "", "somebody:guess")] == [200, 401, 401]


def test_flowers_password_is_made_once_for_auth_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(flower.VARIABLE, raising=False)
    (tmp_path / "run").mkdir()
    assert flower.login(tmp_path, {"AUTH": "off"}) == ""
    made = flower.login(tmp_path, {"AUTH": "on"})
    user, _, password = made.partition(":")
    assert (user, len(password) >= 20) == ("foldex", True)
    assert flower.login(tmp_path, {"AUTH": "on"}) == made
    (kept,) = (tmp_path / "run").iterdir()
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    monkeypatch.setenv(flower.VARIABLE, LOGIN)
    assert [flower.login(tmp_path, {"AUTH": auth}) for auth in ("on", "off")] == [LOGIN, LOGIN]


def test_without_a_login_the_page_is_open_and_its_api_which_can_stop_workers_is_closed(
    tmp_path: Path, redis_url: str
) -> None:
    port = server_port()
    env = environment(tmp_path, "postgresql://127.0.0.1:1/none", next_broker(redis_url), FLOWER_BASIC_AUTH="")
    with running(programs.flower(port, env), tmp_path):
        assert _answer(port, "localhost", "/tasks") == 200
        assert _answer(port, "localhost", "/api/tasks") == 401
