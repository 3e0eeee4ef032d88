"""The user of the database when root starts the stack, and what listens without a password."""

from __future__ import annotations

import os
import pwd
import sys
from pathlib import Path
from types import SimpleNamespace

import psycopg
import pytest
from redis import Redis
from redis.exceptions import AuthenticationError

from api.stack import account, postgres, redis
from api.stack.account import NAME
from api.stack.embedded import services
from api.stack.processes import StackError, running
from worker.settings import Settings

needs_root = pytest.mark.skipif(os.geteuid() != 0 or sys.platform != "linux", reason="run as root on Linux")


class Users:
    """The users of a machine on which one may be made or not."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, users: dict[str, int], *, failure: str = "") -> None:
        self.users, self.made, self._failure = dict(users), list[str](), failure
        monkeypatch.setattr(pwd, "getpwnam", lambda name: SimpleNamespace(pw_uid=self.users[name], pw_gid=1))
        monkeypatch.setattr(account, "_failure", self._make)

    def _make(self, command: tuple[str, ...]) -> str:
        self.made.append(command[0])
        if not self._failure:
            self.users[NAME] = 900
        return self._failure


OTHERS = {"postgres": 1, "nobody": 2}


@pytest.mark.parametrize(
    ("users", "failure", "chosen", "noted"),
    [
        ({**OTHERS, NAME: 3}, "", 3, ""),
        (OTHERS, "", 900, ""),
        (OTHERS, "cannot lock /etc/passwd", 1, "`postgres`, and any program"),
        ({"nobody": 2}, "cannot lock /etc/passwd", 2, "cannot lock /etc/passwd"),
        # another name of root is no user of its own
        ({"nobody": 2, NAME: 0}, "exists", 2, "make a user `foldex`"),
    ],
)
def test_a_new_database_belongs_to_a_user_of_its_own_if_there_can_be_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, users: dict[str, int], failure: str, chosen: int, noted: str
) -> None:
    here = Users(monkeypatch, users, failure=failure)
    found = account.choose(tmp_path / "data")
    assert found.uid == chosen
    assert noted in found.note
    assert bool(found.note) is bool(noted)
    assert bool(here.made) is (users.get(NAME, 0) == 0)


def test_another_process_may_make_the_user_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    here = Users(monkeypatch, OTHERS, failure="user exists")

    def make(_command: tuple[str, ...]) -> str:
        here.users[NAME] = 7
        return "user exists"

    monkeypatch.setattr(account, "_failure", make)
    assert account.choose(tmp_path / "data") == account.DatabaseOwner(7, 1)


def test_without_any_user_the_message_says_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    Users(monkeypatch, {}, failure="read-only file system")
    with pytest.raises(StackError, match=r"could be made .read-only file system.: make one"):
        account.choose(tmp_path / "data")


@pytest.mark.parametrize("program", ["useradd", "addgroup", None])
def test_the_user_is_made_by_what_the_system_has(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, program: str | None
) -> None:
    """A minimal image has no such program, and busybox has one that first needs a group."""
    for name in [program, "adduser"] if program else []:
        path = tmp_path / str(name)
        path.write_text(f'#!/bin/sh\necho "{name}: $*" >> {tmp_path}/log\n')
        path.chmod(0o755)
    monkeypatch.setattr(account, "PLACES", str(tmp_path))
    assert bool(account._make()) is (program is None)
    log = (tmp_path / "log").read_text() if program else ""
    assert [line.split(":")[0] for line in log.splitlines()] == {
        "useradd": ["useradd"],
        "addgroup": ["addgroup", "adduser"],
        None: [],
    }[program]


@pytest.mark.parametrize("told", ["useradd: cannot lock /etc/passwd; try again later.", ""])
def test_why_no_user_could_be_made_is_told_in_the_words_of_the_program(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, told: str
) -> None:
    (tmp_path / "useradd").write_text(f"#!/bin/sh\necho '{told}' >&2\nexit 9\n")
    (tmp_path / "useradd").chmod(0o755)
    monkeypatch.setattr(account, "PLACES", str(tmp_path))
    assert account._make() == (told.removesuffix(".") or "useradd ended with 9")


@needs_root
@pytest.mark.parametrize("uid", [os.getuid() + 54_321, pwd.getpwnam("nobody").pw_uid])
def test_an_existing_database_keeps_its_owner_and_the_note_names_it(tmp_path: Path, uid: int) -> None:
    """The owner may be a user of another container, whose number nobody or somebody else has here."""
    data = tmp_path / "data"
    data.mkdir()
    os.chown(data, uid, uid)
    found = account.choose(data)
    assert (found.uid, found.gid) == (uid, uid)
    assert f"chown -R {NAME}: {tmp_path}" in found.note
    assert ("`nobody`" in found.note) is (uid == pwd.getpwnam("nobody").pw_uid)


@needs_root
def test_root_starts_postgres_as_the_user_of_foldex_or_says_so(tmp_path: Path) -> None:
    server = postgres.prepare(tmp_path)
    owner = pwd.getpwuid((tmp_path / "postgres" / "data").stat().st_uid).pw_name
    assert owner == NAME or f"`{owner}`" in server.note
    # and again, with the same owner
    again = postgres.prepare(tmp_path)
    with running(again.program, tmp_path), psycopg.connect(again.url) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_with_auth_no_server_answers_without_its_password(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DATABASE_URL", "CELERY_BROKER_URL", "REDIS_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AUTH", "on")
    with services(Settings(foldex_home=tmp_path), say=lambda _: None) as urls:
        broker = urls.celery_broker_url
        assert ":@" not in broker
        with pytest.raises(AuthenticationError), Redis.from_url("redis://" + broker.partition("@")[2]) as connection:
            connection.ping()
        database = urls.database_url
        with pytest.raises(psycopg.OperationalError, match="password"):
            psycopg.connect("postgresql://foldex@" + database.partition("@")[2], connect_timeout=5)


@pytest.mark.parametrize("auth", ["on", "off", None])
def test_the_substitute_of_redis_runs_only_without_auth(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, auth: str | None
) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://db/theirs")
    for name, value in (("AUTH", auth), ("CELERY_BROKER_URL", None), ("REDIS_URL", None)):
        monkeypatch.setenv(name, value) if value else monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(redis, "which", lambda *_: None)
    monkeypatch.setattr(redis, "_wheel", lambda: None)
    notes: list[str] = []
    if auth == "on":
        with pytest.raises(StackError, match=r"no password, which AUTH=on needs.*apt-get install redis-server"):
            services(Settings(foldex_home=tmp_path), notes.append).__enter__()
        return
    with services(Settings(foldex_home=tmp_path), notes.append) as urls:
        assert Redis.from_url(urls.redis_url).ping()
    assert "substitute" in notes[0]
    assert "apt-get install redis-server" in notes[0]
