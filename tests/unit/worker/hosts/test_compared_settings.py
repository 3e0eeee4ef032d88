"""What a process tells the others of its settings."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from uuid import uuid4

import pytest

from schemas.release import RELEASE
from worker.hosts import compared_settings, needs
from worker.hosts.compared_settings import OF_API, OF_FEW, OF_ONE_MACHINE, S3_CREDENTIALS, hashes_of, registration
from worker.settings import Settings

ROOT = Path(__file__).parents[4]
SECRETS = {
    "embedding_api_key": "sk-embedding-0123456789",
    "turbopuffer_api_key": "tpuf-0123456789",
    "llm_api_key": "sk-llm-0123456789",
    "rerank_api_key": "sk-rerank-0123456789",
    "blind_token_key": "blind-0123456789abcdef",
    "celery_broker_url": "redis://:broker-password@broker/0",
    "redis_url": "redis://:redis-password@budget/0",
    "database_url": "postgresql://foldex:pg-password@pg/foldex",
    "embedding_api_base": "https://user:base-password@models.example/v1",
}


@pytest.fixture(autouse=True)
def no_aws(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)


def test_no_value_of_a_secret_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENROUTER_API_KEY", "sk-openrouter-0123456789")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIA0123456789")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "aws-secret-0123456789")
    settings = Settings(s3_bucket="contents", **SECRETS)
    said = registration(settings, "salt", id_=uuid4(), role="api", node="api@one", queues=())
    text = json.dumps([said.settings, said.shown, said.settings_digest, said.node])
    assert not [word for word in ("0123456789", "password") if word in text]
    assert said.settings["OPENROUTER_API_KEY"]
    assert said.settings[S3_CREDENTIALS]
    assert "DATABASE_URL" not in said.settings


def test_equal_settings_have_equal_hashes_and_others_not() -> None:
    given = {name: value for name, value in SECRETS.items() if name != "database_url"}
    first = hashes_of(Settings(**given), "salt", "worker")
    assert hashes_of(Settings(**given), "salt", "worker") == first
    for name in set(given) - {"rerank_api_key"}:
        changed = hashes_of(Settings(**{**given, name: given[name] + "x"}), "salt", "worker")
        assert [each for each in first if first[each] != changed[each]] == [name.upper()]
    assert set(hashes_of(Settings(**given), "other salt", "worker").values()).isdisjoint(filter(None, first.values()))


def test_what_is_not_set_has_no_hash() -> None:
    told_ = hashes_of(Settings(), "salt", "worker")
    assert (told_["S3_BUCKET"], told_["LOCAL_SOURCE_ROOTS"], told_[S3_CREDENTIALS]) == (None, None, None)
    assert told_["AUTH"] is not None


def test_each_setting_is_of_one_machine_or_compared() -> None:
    names = set(Settings.model_fields)
    assert names >= OF_ONE_MACHINE | OF_API
    assert not OF_ONE_MACHINE & OF_API
    compared = set(hashes_of(Settings(), "salt", "api"))
    assert {name.upper() for name in names - OF_ONE_MACHINE} <= compared
    assert {name.upper() for name in OF_API}.isdisjoint(hashes_of(Settings(), "salt", "worker"))
    for role, few in OF_FEW.items():
        assert few <= names
        assert set(hashes_of(Settings(), "salt", role)) == {name.upper() for name in few}  # type: ignore[arg-type] # a role


def test_what_work_needs_is_told_by_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compared_settings, "uses_s3", lambda _: False)
    needed = {name for group in (needs._OF_SOURCE, needs._OF_STORE) for names in group.values() for name in names}
    needed |= {*needs._OF_MODEL, *needs._OF_LLM, *needs._INDISPENSABLE}
    assert needed <= set(hashes_of(Settings(), "salt", "worker"))


def test_long_settings_are_cut() -> None:
    settings = Settings(local_source_roots=[f"/{'r' * 3000}{number}" for number in range(500)])
    said = registration(settings, "salt", id_=uuid4(), role="worker", node="bulk@" + "n" * 10_000, queues=["bulk"])
    assert len(json.dumps(said.shown)) < 20_000
    assert len(said.node) <= 200


def test_the_release_and_the_newest_migration_are_those_of_the_sources() -> None:
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"] == RELEASE
    said = registration(Settings(), "salt", id_=uuid4(), role="beat", node="beat", queues=[])
    assert said.needed_schema == max(path.stem for path in (ROOT / "schemas/migrations").glob("*.sql"))
