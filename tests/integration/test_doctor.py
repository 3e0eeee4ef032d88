"""`foldex doctor` about hosts: through the service, and on a production machine from its environment."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest

from api.cli.hosts import missing
from tests.fakes.buckets import buckets
from tests.service import NewService, Service, eventually, service
from worker.settings import LOCAL_MODEL

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def running(new_service: NewService) -> Iterator[Service]:
    """An API whose bucket does not exist, without workers."""
    with buckets() as s3:
        env = {**s3, "S3_BUCKET": f"missing-{uuid4().hex}", "DEFAULT_EMBEDDING_MODEL": LOCAL_MODEL}
        with new_service(lambda given: service(given, workers=False), **env) as started:
            eventually(lambda: "S3" in (started.get("/readyz").get("hosts") or ""), 60, started.logs)
            yield started


def doctor(env: Mapping[str, str], home: Path, *options: str) -> tuple[int, dict[str, tuple[bool, str]]]:
    """The exit status, and whether each check is well, with its detail."""
    command = [sys.executable, "-m", "api", "doctor", "--json", *options]
    given = {**os.environ, **env, "FOLDEX_HOME": str(home)}
    done = subprocess.run(command, env=given, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout, done.stderr
    items = json.loads(done.stdout)["items"]
    return done.returncode, {item["what"]: (item["ok"], item["detail"]) for item in items}


def test_a_bucket_that_does_not_exist_is_found_through_the_service(running: Service, tmp_path: Path) -> None:
    server = f"http://127.0.0.1:{running.env['API_PORT']}"
    status, checks = doctor({"DATABASE_URL": ""}, tmp_path, "--server", server)
    is_well, detail = checks["services"]
    assert (status, is_well) == (2, False)
    assert "not reach S3." in detail
    assert f"The bucket '{running.env['S3_BUCKET']}' does not exist" in detail
    # without a key, a probe says only who
    assert running.env["S3_BUCKET"] not in running.get("/readyz")["warning"]


def test_a_production_machine_looks_into_its_database(running: Service, tmp_path: Path) -> None:
    status, checks = doctor(running.env, tmp_path)
    assert status == 2
    assert checks["database"] == (True, "answers")
    [api] = [detail for what, (is_well, detail) in checks.items() if what.startswith("api-") and is_well]
    assert "release 1.0.0" in api
    assert checks["the broker from here"] == (True, "answers")
    assert checks["S3 from here"][0] is False
    assert "does not exist" in checks["services"][1]
    # the last of several, of which each is a check
    assert checks["hosts"] == (False, missing([])[-1])
    secrets = [running.env[name] for name in ("DATABASE_URL", "CELERY_BROKER_URL", "AWS_SECRET_ACCESS_KEY")]
    assert not [word for word in secrets if len(word) > 4 and word in str(checks)]


def test_a_database_that_does_not_answer_is_named(running: Service, tmp_path: Path) -> None:
    away = {**running.env, "DATABASE_URL": "postgresql://foldex:secret-word@127.0.0.1:1/gone"}
    status, checks = doctor(away, tmp_path)
    assert status == 2
    assert checks["database"] == (False, "does not answer; check DATABASE_URL, and that Postgres runs.")
    assert "secret-word" not in str(checks)


@pytest.mark.parametrize(
    ("others", "named"), [("migration_id < '0047'", "run `foldex migrate`"), ("migration_id < '0043'", "0f3f536b")]
)
def test_a_database_without_our_tables_is_named(running: Service, tmp_path: Path, others: str, named: str) -> None:
    with psycopg.connect(running.database_url, autocommit=True) as connection:
        connection.execute("CREATE TABLE kept AS SELECT * FROM _yoyo_migration")
        connection.execute(f"UPDATE _yoyo_migration SET migration_id = '0001_initial' WHERE NOT {others}")
        try:
            status, checks = doctor(running.env, tmp_path)
        finally:
            connection.execute("DELETE FROM _yoyo_migration")
            connection.execute("INSERT INTO _yoyo_migration SELECT * FROM kept")
            connection.execute("DROP TABLE kept")
    assert status == 2
    (is_fine, said) = checks["database"]
    assert not is_fine
    assert named in said


def test_a_setting_that_is_invalid_is_named(tmp_path: Path) -> None:
    status, checks = doctor({"DATABASE_URL": "postgresql://x/y", "API_PORT": "x"}, tmp_path)
    assert status == 2
    assert "API_PORT" in checks["settings"][1]


def test_an_issuer_without_what_checks_its_tokens_is_named(tmp_path: Path) -> None:
    _, checks = doctor({"DATABASE_URL": "postgresql://x/y", "OIDC_ISSUER": "https://i", "OIDC_JWKS": "x"}, tmp_path)
    assert checks["settings"][0] is False
    assert "set OIDC_AUDIENCE too" in checks["settings"][1]
