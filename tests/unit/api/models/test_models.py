"""`GET /api/models`: what is configured or allowed, what is known of it, and whether it answers."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from api.main import create_app
from api.models import check
from tests.documents import DOCS
from tests.fakes.embeddings import EmbeddingsFake
from tests.fakes.ranker import RankerFake
from tests.service import eventually
from worker.embed import known_models
from worker.embed.litellm import warm
from worker.embed.local import e5
from worker.settings import LOCAL_MODEL, Settings

SMALL = "openai/text-embedding-3-small"
#: What a provider may say, and keys that it is asked with: none of it may be answered.
SECRETS = ("told to answer", "key-of-the-embedder", "key-of-the-ranker")


def ask(*, again: TestClient | None = None, check: bool = False, **settings: Any) -> dict[str, dict[str, Any]]:
    """The models of an application with these settings, or of one that was asked before, by name."""
    answer = (again or client(**settings)).get("/api/models", params={"check": check} if check else {})
    assert answer.status_code == 200, answer.text
    assert [secret for secret in SECRETS if secret in answer.text] == []
    return {each["model"]: each for each in answer.json()["items"]}


def client(**settings: Any) -> TestClient:
    """An application without a database, which this call does not need."""
    nowhere = "postgresql://127.0.0.1:1/none"
    app = create_app(Settings(database_url=nowhere, auth=settings.pop("auth", "off"), **settings))
    return TestClient(app, base_url="http://127.0.0.1", client=("127.0.0.1", 1))


@pytest.fixture
def embedder() -> Iterator[EmbeddingsFake]:
    with EmbeddingsFake() as fake:
        yield fake


@pytest.fixture
def ranker() -> Iterator[RankerFake]:
    with RankerFake() as fake:
        yield fake


def remote(embedder: EmbeddingsFake, ranker: RankerFake, **settings: Any) -> dict[str, Any]:
    return {
        "default_embedding_model": "openai/embedder",
        "embedding_api_base": embedder.url,
        "embedding_api_key": "key-of-the-embedder",
        "default_llm_model": "openai/chat",
        "llm_api_base": f"{ranker.url}/v1",
        "llm_api_key": "key-of-the-ranker",
        "rerank_model": "cohere/ranker",
        "rerank_api_base": ranker.url,
        "rerank_api_key": "key-of-the-ranker",
        **settings,
    }


def test_the_local_models_alone_are_listed_by_default() -> None:
    local, other = ask(default_embedding_model=LOCAL_MODEL).values()
    assert (other["model"], other["default"], other["dimensions"], other["input_price"]) == (e5.MODEL, False, 384, 0.0)
    assert (local["max_input_tokens"], other["max_input_tokens"]) == (254, 507)
    assert (local["provider"], local["kind"], local["default"]) == ("local", "embedding", True)
    assert (local["dimensions"], local["input_price"], local["check"]) == (384, 0.0, None)


def test_a_cross_encoder_of_ones_own_is_free_and_its_check_names_what_is_missing(tmp_path: Path) -> None:
    listed = ask(check=True, default_embedding_model=LOCAL_MODEL, rerank_model=f"local/{tmp_path}")
    found = listed[f"local/{tmp_path}"]
    assert (found["provider"], found["kind"], found["query_price"]) == ("local", "rerank", 0.0)
    assert found["check"]["code"] == "rerank_unavailable"
    assert "lacks config.json" in found["check"]["detail"]


def test_allowed_names_and_patterns_are_listed_by_provider_with_their_facts() -> None:
    listed = ask(
        default_embedding_model=SMALL,
        allowed_models="openai/text-embedding-3-* voyage/voyage-4 cohere/of-tomorrow",
        embedding_dimensions=512,
        default_llm_model="deepseek/deepseek-chat",
        rerank_model="cohere/rerank-v3.5",
    )
    assert [(each["provider"], each["kind"], name) for name, each in listed.items()] == [
        ("cohere", "embedding", "cohere/of-tomorrow"),
        ("cohere", "rerank", "cohere/rerank-v3.5"),
        ("deepseek", "chat", "deepseek/deepseek-chat"),
        ("openai", "embedding", SMALL),
        ("openai", "embedding", "openai/text-embedding-3-large"),
        ("voyage", "embedding", "voyage/voyage-4"),
    ]
    assert [name for name, each in listed.items() if each["default"]] == [
        "cohere/rerank-v3.5", "deepseek/deepseek-chat", SMALL,
    ]  # fmt: skip # a line each says nothing
    assert (listed[SMALL]["dimensions"], listed["openai/text-embedding-3-large"]["dimensions"]) == (512, 3072)
    assert (listed[SMALL]["max_inputs"], listed[SMALL]["max_input_tokens"]) == (2048, 8191)
    assert listed[SMALL]["input_price"] == pytest.approx(0.02)
    assert listed["deepseek/deepseek-chat"]["output_price"] > listed["deepseek/deepseek-chat"]["input_price"] > 0
    assert listed["cohere/rerank-v3.5"]["query_price"] == pytest.approx(0.002)
    assert listed["cohere/of-tomorrow"]["dimensions"] is listed["cohere/of-tomorrow"]["input_price"] is None


def test_no_request_has_more_texts_than_the_provider_takes() -> None:
    most = {"cohere/m": 96, "dashscope/m": 10, "gemini/m": 100, "openai/m": 2048, "voyage/m": 1000}
    listed = ask(default_embedding_model=LOCAL_MODEL, allowed_models=" ".join(most))
    assert [name for name, number in most.items() if listed[name]["max_inputs"] > number] == []


def test_a_model_is_listed_with_its_provider_once(monkeypatch: pytest.MonkeyPatch) -> None:
    row = {"mode": "embedding", "litellm_provider": "voyage"}
    monkeypatch.setattr(known_models, "_table", lambda: dict.fromkeys(["voyage-9", "voyage/voyage-8"], row))
    assert [*known_models.embedding_models()] == ["voyage/voyage-9", "voyage/voyage-8"]


def test_prices_of_a_provider_are_not_those_of_an_address_of_ones_own() -> None:
    base = "http://127.0.0.1:9"
    listed = ask(default_embedding_model=SMALL, allowed_models="voyage/voyage-4", embedding_api_base=base)
    assert listed[SMALL]["input_price"] is None
    assert listed["voyage/voyage-4"]["input_price"] is not None


def test_a_model_that_was_asked_before_is_not_listed_as_free(embedder: EmbeddingsFake, ranker: RankerFake) -> None:
    settings = remote(embedder, ranker)
    client(**settings).get("/api/models", params={"check": True})
    assert known_models.lookup_model("openai/embedder").input_price is None


def test_each_model_is_asked_once_and_answers(embedder: EmbeddingsFake, ranker: RankerFake) -> None:
    listed = ask(check=True, **remote(embedder, ranker), allowed_models="local/*")
    assert {name: each["check"]["ok"] for name, each in listed.items()} == dict.fromkeys(
        ["openai/embedder", "openai/chat", "cohere/ranker", LOCAL_MODEL, e5.MODEL], True
    )
    assert all(each["check"]["took_ms"] >= 0 for each in listed.values())
    assert len(embedder.audit.requests) == 1
    assert sorted(asked.kind for asked in ranker.requests) == ["chat", "rerank"]


def test_models_that_do_not_answer_say_why_and_not_what_the_provider_said(
    embedder: EmbeddingsFake, ranker: RankerFake
) -> None:
    embedder.fail_next(401)
    listed = ask(check=True, **remote(embedder, ranker, rerank_model="cohere/no-such-model"))
    failed = {name: (each["check"]["ok"], each["check"]["code"]) for name, each in listed.items()}
    assert failed["openai/embedder"] == (False, "embedding_unauthorized")
    assert failed["cohere/no-such-model"] == (False, "rerank_unavailable")
    assert failed["openai/chat"] == (True, None)
    assert "EMBEDDING_API_KEY" in listed["openai/embedder"]["check"]["detail"]


def test_an_outcome_is_kept_for_seconds_and_shared(
    embedder: EmbeddingsFake, ranker: RankerFake, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert check.KEPT_SECONDS <= 10
    monkeypatch.setattr(check, "KEPT_SECONDS", 600.0)
    app = client(**remote(embedder, ranker))
    hold = ranker.holds.add("chat")
    callers = [threading.Thread(target=ask, kwargs={"again": app, "check": True}) for _ in range(3)]
    for caller in callers:
        caller.start()
    eventually(lambda: bool(hold.arrived), 60)
    hold.release()
    for caller in callers:
        caller.join()
    ask(again=app, check=True)
    assert (len(embedder.audit.requests), len(ranker.requests)) == (1, 2)
    monkeypatch.setattr(check, "KEPT_SECONDS", 0.0)
    ask(again=app, check=True)
    assert (len(embedder.audit.requests), len(ranker.requests)) == (2, 4)


def test_a_silent_model_costs_the_others_nothing(
    embedder: EmbeddingsFake, ranker: RankerFake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check, "CHECK_SECONDS", 6.0)
    ranker.holds.add("chat")
    listed = ask(check=True, **remote(embedder, ranker))
    assert listed["openai/chat"]["check"]["code"] == "rerank_unavailable"
    assert "within 6 s" in listed["openai/chat"]["check"]["detail"]
    assert listed["openai/embedder"]["check"]["ok"]
    assert listed["cohere/ranker"]["check"]["ok"]


def test_a_request_that_never_ends_does_not_hold_the_answer(
    embedder: EmbeddingsFake, ranker: RankerFake, monkeypatch: pytest.MonkeyPatch
) -> None:
    end = threading.Event()
    monkeypatch.setattr(check, "CHECK_SECONDS", 1.0)
    monkeypatch.setattr(check, "_embed", lambda *_: end.wait(60))
    listed = ask(check=True, **remote(embedder, ranker))
    assert not end.is_set()
    end.set()
    assert listed["openai/embedder"]["check"]["code"] == "embedding_unavailable"


def test_defaults_are_checked_first_and_no_more_than_the_limit(
    embedder: EmbeddingsFake, ranker: RankerFake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check, "MAX_CHECKS", 3)
    listed = ask(check=True, **remote(embedder, ranker), allowed_models="cohere/a openai/b")
    assert {name for name, each in listed.items() if each["check"]} == {
        "openai/embedder", "openai/chat", "cohere/ranker",
    }  # fmt: skip # a line each says nothing


def test_a_key_is_needed() -> None:
    assert client(auth="on").get("/api/models").status_code == 401


def test_the_models_that_the_guide_names_are_known_by_their_providers() -> None:
    section = (DOCS / "how-to" / "provider.md").read_text().partition("## Names of models")[2].partition("\n## ")[0]
    rows = "\n".join(line for line in section.splitlines() if line.startswith("|"))
    named = re.findall(r"`([a-z_]+/[^`]+)`", rows)
    assert len(named) > 20
    litellm = warm()
    for model in named:
        assert litellm.get_llm_provider(model)[1] in {model.partition("/")[0], "cohere_chat"}, model
