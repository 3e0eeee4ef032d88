"""What every embedder guarantees, and how provider errors are mapped."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import structlog

from schemas.content.source import FLOAT32, EmbedderProfile
from schemas.errors import (
    EmbeddingError,
    EmbeddingRefused,
    EmbeddingUnauthorized,
    EmbeddingUnavailable,
    EmbeddingUnreadable,
    ModelNotAllowed,
    ModelRefused,
)
from tests.fakes.embeddings import EmbeddingsFake, sha
from tests.service import eventually
from worker.embed import Embedder, models
from worker.embed.batching import embed_all
from worker.embed.local import minilm
from worker.embed.local.loading import INT8
from worker.embed.local.minilm import LocalEmbedder
from worker.embed.models import (
    ProviderAccess,
    check_allowed,
    limits,
    open_embedder,
    resolve,
    same_provider,
    tokenizer_for,
)
from worker.embed.retry import QUOTA_SECONDS
from worker.resources import Resources
from worker.settings import Settings

# LiteLLM drops the connections of failed requests without closing them.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

PROVIDERS = ["openai", "openrouter", "hosted_vllm"]
SMALL = 64

MakeRemote = Callable[..., Embedder]


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddingsFake]:
    with EmbeddingsFake(dimensions=SMALL) as fake:
        yield fake


@pytest.fixture
def fake(server: EmbeddingsFake) -> EmbeddingsFake:
    server.reset()
    return server


@pytest.fixture
def remote(fake: EmbeddingsFake) -> MakeRemote:
    def make(
        model: str = "openai/m", *, api_key: str | None = "k", dimensions: int = SMALL, explicit: bool = False
    ) -> Embedder:
        profile = EmbedderProfile(model=model, dimensions=dimensions)
        return open_embedder(profile, ProviderAccess(fake.url, api_key), explicit_dimensions=explicit)

    return make


@pytest.fixture(params=[FLOAT32, INT8, *PROVIDERS])
def embedder(request: pytest.FixtureRequest, remote: MakeRemote) -> Embedder:
    local = request.param in {FLOAT32, INT8}
    return LocalEmbedder(precision=request.param) if local else remote(f"{request.param}/m")


@pytest.mark.parametrize(
    ("model", "patterns", "allowed"),
    [
        ("openai/default", None, True),
        ("local/all-minilm-l6-v2", None, True),
        ("openai/other", None, False),
        ("openai/other", [], False),
        ("local/all-minilm-l6-v2", [], False),
        ("openai/other", ["openai/*"], True),
        ("openai/other", ["OpenAI/*"], False),
        ("huggingface/http://127.0.0.1:9/x", ["*"], False),
        ("huggingface/http://127.0.0.1:9/x", ["huggingface/*", "huggingface/http://127.0.0.1:9/x"], True),
    ],
)
def test_a_model_is_used_only_where_the_operator_allows_it(
    model: str, patterns: list[str] | None, allowed: bool
) -> None:
    if allowed:
        check_allowed(model, default="openai/default", patterns=patterns)
    else:
        with pytest.raises(ModelNotAllowed, match="openai/default"):
            check_allowed(model, default="openai/default", patterns=patterns)


@pytest.mark.parametrize(
    ("model", "other", "same"),
    [
        ("openai/a", "openai/b", True),
        ("openai/a", "openrouter/openai/a", False),
        ("text-embedding-3-small", "text-embedding-3-small", True),
        ("embed-english-v3.0", "text-embedding-3-small", False),
        ("openai", "openai/a", False),
        ("openai/a", "openai", False),
    ],
)
def test_a_key_belongs_to_the_provider_it_was_set_for(model: str, other: str, same: bool) -> None:
    assert same_provider(model, other) is same
    settings = Settings(default_embedding_model=other, embedding_api_base="http://127.0.0.1:9", embedding_api_key="k")
    access = Resources(settings).access_to(model)
    assert access == (ProviderAccess("http://127.0.0.1:9", "k") if same else ProviderAccess())


@pytest.mark.parametrize("provider", PROVIDERS)
def test_what_a_provider_says_is_no_part_of_an_error(remote: MakeRemote, provider: str, fake: EmbeddingsFake) -> None:
    embedder = remote(f"{provider}/m")
    embedder.embed(["settled"])
    for status in (400, 401, 404, 429, 503):
        fake.fail_next(status)
        with pytest.raises(EmbeddingError) as caught:
            embedder.embed(["a"])
        assert "told to answer" not in caught.value.message
        assert str(status) in caught.value.message


TEXTS = ["how to renew a certificate", "renewing the TLS certificates", "a recipe for apple cake", "déjà vu 東京"]


def test_vectors_are_as_many_as_the_texts_of_the_profile_and_of_length_one(embedder: Embedder) -> None:
    vectors = embedder.embed(TEXTS)
    assert vectors.shape == (len(TEXTS), embedder.profile.dimensions)
    assert vectors.dtype == np.float32
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1, abs=1e-5)


def test_a_text_has_its_vector_wherever_it_stands(embedder: Embedder) -> None:
    forth, back = embedder.embed(TEXTS), embedder.embed(TEXTS[::-1])
    assert forth == pytest.approx(back[::-1], abs=1e-5)


def test_texts_of_one_matter_are_near(embedder: Embedder) -> None:
    one, same, other, _ = embedder.embed(TEXTS)
    assert one @ same > one @ other + 0.2


def test_threads_share_an_embedder(embedder: Embedder) -> None:
    texts = [f"{text} {n}" for n in range(6) for text in TEXTS]
    expected = [embedder.embed([text])[0] for text in texts]
    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(lambda text: embedder.embed([text])[0], texts))
    assert np.stack(found) == pytest.approx(np.stack(expected), abs=1e-5)


def test_a_text_over_the_limit_is_refused_and_its_batch_is_not(embedder: Embedder) -> None:
    texts = [*TEXTS, "word " * 40_000, "another"]
    outcomes = list(embed_all(embedder, texts, [10] * len(texts), 2))
    refused = [indices for indices, result in outcomes if isinstance(result, EmbeddingRefused)]
    assert refused == [[4]]
    assert sorted(index for indices, _ in outcomes for index in indices) == list(range(len(texts)))


FORK = """
import os, threading
from schemas.content.source import EmbedderProfile
from worker.embed import provider
from worker.embed.local import minilm
for name in PROVIDERS:
    provider.warm(f"{name}/m")
import safetensors, tokenizers
assert threading.active_count() == 1
remote = dict(api_base=URL, api_key="k", max_inputs=9, max_request_tokens=999)
models = [EmbedderProfile(model=f"{name}/m", dimensions=DIMENSIONS) for name in PROVIDERS]
local = [minilm.LocalEmbedder(precision=name) for name in ("float32", "int8")]
embedders = [*local, *(provider.ProviderEmbedder(model, **remote) for model in models)]
children = [os.fork() for _ in range(2)]
if 0 in children:
    os._exit(0 if all(len(embedder.embed(["a", "b"])) == 2 for embedder in embedders) else 1)
assert [os.waitpid(child, 0)[1] for child in children] == [0, 0]
for model in models:
    provider.ProviderEmbedder(model, **remote).embed(["a"])
print(threading.active_count())
"""


@pytest.fixture(scope="module")
def forked(server: EmbeddingsFake) -> tuple[subprocess.CompletedProcess[str], int]:
    """A process whose children embed and which then embeds itself, and the number of requests they sent."""
    server.reset()
    given = f"URL, DIMENSIONS, PROVIDERS = {server.url!r}, {SMALL}, {PROVIDERS}"
    return python(given + FORK), len(server.audit.requests)


def test_embedding_works_in_forked_children_after_the_parents_imports(
    forked: tuple[subprocess.CompletedProcess[str], int],
) -> None:
    done, requests = forked
    assert done.stderr == ""
    assert requests >= 3 * len(PROVIDERS)


def test_a_request_leaves_no_thread_at_work(forked: tuple[subprocess.CompletedProcess[str], int]) -> None:
    """Otherwise it would be counted against the next request."""
    assert forked[0].stdout.strip() == "1"


def test_the_fake_runs_in_a_process_of_its_own() -> None:
    root = Path(__file__).parents[2]
    command = [sys.executable, "-m", "tests.fakes.embeddings", "--dimensions", "32"]
    with subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().strip()
            failure = b'{"status": 429, "retry_after": 1}'
            with urllib.request.urlopen(url.replace("/v1", "/_fail"), failure):
                pass
            with pytest.raises(EmbeddingUnavailable):
                resolve("openai/m", None, ProviderAccess(url, "k"))
            assert resolve("openai/m", None, ProviderAccess(url, "k")).dimensions == 32
            with urllib.request.urlopen(url.replace("/v1", "/_audit")) as answer:
                audit = json.load(answer)
        finally:
            process.terminate()
    assert audit["texts"] == {sha("word"): 1}
    assert [request["status"] for request in audit["requests"]] == [429, 200]


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENROUTER_API_KEY"):
        monkeypatch.delenv(name, raising=False)


def python(script: str) -> subprocess.CompletedProcess[str]:
    root = Path(__file__).parents[2]
    run = subprocess.run([sys.executable, "-c", script], cwd=root, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return run


def test_nothing_but_the_use_imports_litellm() -> None:
    script = """
import sys
from worker.embed import batching, known_models, litellm, models, provider
from worker.embed.local import minilm, wordpieces
print({"litellm", "onnxruntime", "openai", "tokenizers"} & set(sys.modules))
"""
    assert python(script).stdout.strip() == "set()"


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_request_is_silent(
    fake: EmbeddingsFake, capfd: pytest.CaptureFixture[str], remote: MakeRemote, provider: str
) -> None:
    remote(f"{provider}/m").embed(TEXTS)
    fake.fail_next(500)
    with structlog.testing.capture_logs() as logs, pytest.raises(EmbeddingUnavailable):
        remote(f"{provider}/m").embed(TEXTS)
    assert [(entry["status"], entry["said"]) for entry in logs] == [(500, "told to answer 500")]
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize(
    ("status", "expected"),
    [
        *((status, EmbeddingUnauthorized) for status in (401, 403, 404, 405)),
        *((status, EmbeddingRefused) for status in (400, 413, 422)),
        *((status, EmbeddingUnavailable) for status in (0, 402, 408, 409, 425, 429, 500, 502, 503, 504, 529)),
    ],
)
def test_a_status_decides_what_is_done(
    fake: EmbeddingsFake, remote: MakeRemote, provider: str, status: int, expected: type[EmbeddingError]
) -> None:
    embedder = remote(f"{provider}/m")
    embedder.embed(["settled"])
    fake.fail_next(status)
    with pytest.raises(expected) as caught:
        embedder.embed(TEXTS)
    assert len(fake.audit.requests) == 2, "the library retries on its own"
    assert caught.value.retry_after == (QUOTA_SECONDS if status == 402 else None)
    assert embedder.embed(TEXTS).shape == (4, SMALL)


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("status", [429, 503])
def test_retry_after_is_told(fake: EmbeddingsFake, remote: MakeRemote, provider: str, status: int) -> None:
    fake.fail_next(status, retry_after=2.5)
    with pytest.raises(EmbeddingUnavailable) as caught:
        remote(f"{provider}/m").embed(TEXTS)
    assert caught.value.retry_after == 2.5


@pytest.mark.parametrize("provider", PROVIDERS)
def test_no_server_is_unavailable(remote: MakeRemote, provider: str) -> None:
    profile = EmbedderProfile(model=f"{provider}/m", dimensions=SMALL)
    with pytest.raises(EmbeddingUnavailable, match=r"does not answer\. Check that its server runs") as caught:
        open_embedder(profile, ProviderAccess("http://127.0.0.1:9/v1", "k")).embed(["a"])
    assert caught.value.provider_status is None


@pytest.mark.parametrize("provider", PROVIDERS)
def test_base64_is_asked_for(fake: EmbeddingsFake, remote: MakeRemote, provider: str) -> None:
    remote(f"{provider}/m").embed(TEXTS)
    assert [request.encoding for request in fake.audit.requests] == ["base64"]


def test_slow_models_take_up_few_threads(fake: EmbeddingsFake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "_PROBE_SLOT_SECONDS", 0.2)
    hold = fake.holds.add("embeddings", "word")
    with ThreadPoolExecutor(12) as pool:
        asked = [
            pool.submit(resolve, f"openai/slow-{number}", None, ProviderAccess(fake.url, "k")) for number in range(12)
        ]
        eventually(lambda: sum(each.done() for each in asked) == 12 - models._MAX_PROBES, 30)
        eventually(lambda: len(hold.arrived) == models._MAX_PROBES, 30)
        fake.holds.release()
    errors = [each.exception() for each in asked]
    assert errors.count(None) == models._MAX_PROBES
    assert all(isinstance(error, EmbeddingUnavailable) for error in errors if error is not None)
    assert resolve("openai/slow-11", None, ProviderAccess(fake.url, "k")).dimensions == SMALL


@pytest.mark.parametrize("provider", PROVIDERS)
def test_lists_are_asked_for_once_base64_was_refused(fake: EmbeddingsFake, remote: MakeRemote, provider: str) -> None:
    embedder = remote(f"{provider}/no-base64")
    embedder.embed(TEXTS)
    embedder.embed(TEXTS)
    assert [request.encoding for request in fake.audit.requests] == ["base64", "float", "float"]


@pytest.mark.parametrize("provider", PROVIDERS)
def test_threads_that_begin_together_all_fall_back_to_lists(
    fake: EmbeddingsFake, remote: MakeRemote, provider: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fake, "delay", 0.05)
    embedder = remote(f"{provider}/no-base64")
    with ThreadPoolExecutor(6) as pool:
        assert len(list(pool.map(lambda n: embedder.embed([f"text {n}"]), range(12)))) == 12


@pytest.mark.parametrize("provider", PROVIDERS)
def test_lists_and_any_order_are_read(remote: MakeRemote, provider: str) -> None:
    expected = remote(f"{provider}/m").embed(TEXTS)
    for model in ("lists-only", "bad-order"):
        assert remote(f"{provider}/{model}").embed(TEXTS) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("model", ["bad-nan", "bad-zero"])
def test_a_vector_without_direction_refuses_its_text_only(
    fake: EmbeddingsFake, remote: MakeRemote, provider: str, model: str
) -> None:
    with pytest.raises(EmbeddingRefused) as caught:
        remote(f"{provider}/{model}").embed([*TEXTS, "BAD-ROW"])
    assert caught.value.indices == [4]


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize(
    ("model", "error"),
    [
        ("bad-count", EmbeddingUnreadable),
        ("bad-dims", EmbeddingUnauthorized),
        ("bad-json", EmbeddingUnreadable),
        ("error-in-body", EmbeddingUnavailable),
        ("odd-error-in-body", EmbeddingUnavailable),
    ],
)
def test_wrong_answers_are_found_out(
    remote: MakeRemote, provider: str, model: str, error: type[EmbeddingError]
) -> None:
    for texts in (TEXTS, TEXTS[:1]):
        with pytest.raises(error):
            remote(f"{provider}/{model}").embed(texts)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_dimensions_are_sent_only_if_asked_for(remote: MakeRemote, provider: str) -> None:
    assert remote(f"{provider}/m", dimensions=32, explicit=True).embed(["a"]).shape == (1, 32)
    with pytest.raises(EmbeddingUnauthorized, match="64 dimensions"):
        remote(f"{provider}/m", dimensions=32).embed(["a"])


@pytest.mark.parametrize("provider", PROVIDERS)
def test_probing_finds_the_dimensions_for_one_word(fake: EmbeddingsFake, provider: str) -> None:
    model = f"{provider}/probe"
    for _ in range(2):
        profile = resolve(model, None, ProviderAccess(fake.url, "k"))
    assert (profile.model, profile.dimensions, profile.precision) == (model, SMALL, "float32")
    assert [(request.inputs, request.tokens) for request in fake.audit.requests] == [(1, 2)]
    assert resolve(model, 16, ProviderAccess(fake.url, "k")).dimensions == 16


@pytest.mark.parametrize(
    ("model", "dimensions", "api_key", "remedy"),
    [
        ("openai/m", None, "wrong", "EMBEDDING_API_KEY"),
        ("openrouter/m", None, "wrong", "EMBEDDING_API_KEY"),
        ("openai/no-such-model", None, "k", "model's name"),
        ("nonsense/m", None, "k", "model's name"),
        ("nonsense", None, "k", "model's name"),
        ("", None, "k", "model's name"),
        ("anthropic/claude-3-5-sonnet-20241022", None, "k", "does not offer embeddings"),
        ("openai/bad-dims", 32, "k", "31 dimensions"),
        ("openai/bad-count", None, "k", "0 vectors|not readable"),
        ("local/other", None, None, "all-minilm"),
        (minilm.MODEL, 512, None, "384"),
    ],
)
def test_a_model_that_cannot_work_is_refused_with_a_remedy(
    fake: EmbeddingsFake, model: str, dimensions: int | None, api_key: str | None, remedy: str
) -> None:
    with pytest.raises(ModelRefused, match=remedy):
        resolve(model, dimensions, ProviderAccess(fake.url, api_key))


@pytest.mark.parametrize("provider", ["openai", "openrouter"])
def test_a_missing_key_is_told_before_anything_is_sent(provider: str) -> None:
    with pytest.raises(ModelRefused, match="EMBEDDING_API_KEY"):
        resolve(f"{provider}/m", None)


def test_a_busy_provider_refuses_no_model(fake: EmbeddingsFake) -> None:
    fake.fail_next(429, retry_after=1)
    with pytest.raises(EmbeddingUnavailable):
        resolve("openai/busy", None, ProviderAccess(fake.url, "k"))
    assert resolve("openai/busy", None, ProviderAccess(fake.url, "k")).dimensions == SMALL


def test_the_local_model_needs_no_account() -> None:
    profile = resolve(minilm.MODEL, None)
    assert (profile, profile.precision) == (resolve(minilm.MODEL, 384), minilm.fastest_precision())
    for each in (minilm.PROFILE, profile):
        local = open_embedder(each)
        assert isinstance(local, LocalEmbedder)
        assert local.profile == each


def test_limits_follow_the_provider() -> None:
    assert (
        limits("openrouter/qwen/qwen3-embedding-8b").max_inputs == limits("text-embedding-3-small").max_inputs == 2048
    )
    assert limits("hosted_vllm/anything").max_inputs < 2048
    assert limits(minilm.MODEL).max_input_tokens == 254
    profile = EmbedderProfile(model="hosted_vllm/m", dimensions=8)
    assert open_embedder(profile, batch_size=7).max_inputs == 7


def test_input_tokens_keep_a_margin_where_tokens_are_counted_by_another_tokenizer(fake: EmbeddingsFake) -> None:
    def tokens(model: str) -> int:
        return resolve(model, None, ProviderAccess(fake.url, "k")).max_input_tokens

    assert tokens("openai/text-embedding-3-small") == 8191
    assert tokens("openrouter/qwen/qwen3-embedding-8b") == 8000


def test_each_model_has_a_tokenizer() -> None:
    text = "Counting tokens of a sentence."
    assert 5 <= len(tokenizer_for(minilm.PROFILE).starts(text)) <= 10
    assert 5 <= len(tokenizer_for(EmbedderProfile(model="openai/m", dimensions=8)).starts(text)) <= 10
