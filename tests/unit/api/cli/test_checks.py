"""What `foldex doctor` finds."""

from __future__ import annotations

import socket
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from api.cli import checks
from api.cli.check_outcome import CheckOutcome
from api.cli.checks import default_model, examine, misspelt, readiness
from api.cli.hosts import issuer
from api.cli.invocation import Invocation
from api.cli.service.connection import Connection
from foldex_client import Tool
from tests.fakes.issuer import issuing
from worker.settings import Settings


def test_a_service_that_hangs_is_not_waited_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "HEALTH_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        found = list(examine(Invocation(server=url, key=None, project=None, as_json=False)))
    assert found == [
        CheckOutcome("service", False, f"Foldex at {url} did not answer in time; try again, or see its logs.")
    ]


def test_a_misspelt_setting_of_the_service_here_is_wrong(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert list(misspelt(tmp_path)) == []
    monkeypatch.setenv("CHUNK_SIZE_TOKEN", "512")
    [found] = misspelt(tmp_path)
    assert (found.what, found.is_well, "CHUNK_SIZE_TOKENS?" in found.detail) == ("settings", False, True)
    # another service has other variables
    assert list(misspelt(None)) == []


@pytest.mark.parametrize(
    ("warning", "wrong"), [({}, []), ({"warning": "No worker."}, [CheckOutcome("health", False, "No worker.")])]
)
def test_what_the_service_warns_of_is_wrong(warning: dict[str, str], wrong: list[CheckOutcome]) -> None:
    foldex = SimpleNamespace(ready=lambda: {"status": "ready", **warning})
    service = cast("Connection", SimpleNamespace(foldex=foldex))
    assert list(readiness(service)) == [CheckOutcome("database", True, "answers"), *wrong]


def test_the_model_of_new_tools_is_asked_before_there_is_any() -> None:
    def models(*, check: bool = False) -> SimpleNamespace:
        wrong = SimpleNamespace(ok=False, detail="It needs a key.") if check else None
        return SimpleNamespace(
            items=[
                SimpleNamespace(model="a/default", kind="embedding", default=True, check=wrong),
                SimpleNamespace(model="a/chat", kind="llm", default=True, check=wrong),
                SimpleNamespace(model="a/allowed", kind="embedding", default=False, check=wrong),
            ]
        )

    service = cast("Connection", SimpleNamespace(foldex=SimpleNamespace(models=models)))
    assert list(default_model(service, [])) == [CheckOutcome("model a/default", False, "It needs a key.")]
    used = cast("Tool", SimpleNamespace(task="ready", index=SimpleNamespace(model="a/default")))
    assert list(default_model(service, [used])) == []


def test_keys_of_an_issuer_are_read(tmp_path: Path) -> None:
    with issuing() as provider:
        given = {"oidc_issuer": provider.url, "oidc_audience": "a", "oidc_jwks": provider.jwks}
        settings = Settings(foldex_home=tmp_path, **given)
        assert list(issuer(settings)) == [CheckOutcome("OIDC_JWKS", True, f"3 keys for tokens of {provider.url}")]
        provider.instead = (500, b"")
        [found] = issuer(settings)
        assert (found.is_well, found.detail) == (False, f"{provider.jwks} cannot be read: it answers 500; correct it.")
    [found] = issuer(settings)
    assert (found.is_well, "ConnectError" in found.detail) == (False, True)
    assert list(issuer(Settings(foldex_home=tmp_path, auth="off", **given))) == []
    assert list(issuer(Settings(foldex_home=tmp_path))) == []
