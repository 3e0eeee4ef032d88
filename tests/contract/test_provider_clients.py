"""Both clients of embedding providers: the same answers give the same vectors, or the same error."""

from __future__ import annotations

import base64
import os
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import orjson
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from schemas.errors import EmbeddingError, EmbeddingRefused, EmbeddingUnauthorized, EmbeddingUnavailable
from tests.fakes.embeddings import EmbeddingsFake
from tests.fakes.server import Server
from worker.embed import Vectors, answers, known_models, openai_api
from worker.embed.litellm import LiteLLMClient, warm
from worker.embed.openai_api import OpenAIClient
from worker.embed.provider import ModelCall, needs_litellm

# LiteLLM drops the connections of failed requests without closing them.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

CLIENTS: list[type[OpenAIClient | LiteLLMClient]] = [OpenAIClient, LiteLLMClient]
TEXTS = ["one", "two", "three"]


class Answer(NamedTuple):
    """What the server answers, whatever it is asked."""

    status: int
    retry_after: str | None
    body: bytes


class Told(Server):
    """A server that answers as told."""

    answer = Answer(500, None, b"")


class _Handler(BaseHTTPRequestHandler):
    server: Told
    protocol_version = "HTTP/1.1"
    wbufsize = -1

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        status, retry_after, body = self.server.answer
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        if retry_after is not None:
            self.send_header("Retry-After", retry_after)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class names it so
        pass


@pytest.fixture(scope="module")
def told() -> Iterator[Told]:
    with Told(("127.0.0.1", 0), _Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def _body(rows: list[Any]) -> bytes:
    return orjson.dumps(
        {"object": "list", "data": rows, "model": "m", "usage": {"prompt_tokens": 1, "total_tokens": 1}}
    )


_numbers = st.one_of(st.floats(-2, 2, width=32), st.sampled_from([0.0, float("nan"), float("inf")]))


@st.composite
def _vectors(draw: st.DrawFn) -> bytes:
    """A list of rows that may be too many, too few, of different lengths, misnumbered, or without direction."""
    count = draw(st.sampled_from([3, 3, 3, 3, 2, 4, 0]))
    width = draw(st.integers(1, 4))
    indices = draw(
        st.one_of(st.permutations(range(count)), st.lists(st.integers(0, 3), min_size=count, max_size=count))
    )
    in_base64 = draw(st.booleans())
    rows = []
    for index in indices:
        length = draw(st.sampled_from([width, width, width, width, width + 1]))
        vector = np.array(draw(st.lists(_numbers, min_size=length, max_size=length)), dtype="<f4")
        # JSON has no such numbers
        cell = base64.b64encode(vector.tobytes()).decode() if in_base64 else np.nan_to_num(vector).tolist()
        rows.append({"object": "embedding", "index": index, "embedding": cell})
    return _body(rows)


#: LiteLLM takes the word `rate limit` in a message for status 429, and others alike.
_errors = st.builds(
    lambda message, code: orjson.dumps({"error": {"message": message, "type": "t", "param": None, "code": code}}),
    st.sampled_from(["no", "maximum context length is 8192 tokens", "'quoted'"]),
    st.sampled_from([None, "invalid_api_key", "model_not_found", "context_length_exceeded"]),
)
_good = st.builds(Answer, st.just(200), st.none(), st.one_of(_vectors(), _vectors(), st.sampled_from([b"<p>", b""])))
_bad = st.builds(
    Answer,
    st.sampled_from([400, 401, 402, 403, 404, 405, 408, 409, 413, 422, 425, 429, 500, 502, 503, 504, 529]),
    st.sampled_from([None, "0", "2.5", "-1", "soon"]),
    st.one_of(_errors, st.sampled_from([b"", b"<html>busy</html>", b"[]"])),
)


def _outcome(call: ModelCall, texts: list[str] = TEXTS) -> Vectors | tuple[type[EmbeddingError], Any, Any]:
    try:
        return answers.unit(call.vectors(texts))
    except EmbeddingError as error:
        return type(error), getattr(error, "retry_after", None), getattr(error, "indices", None)


@settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(answer=st.one_of(_good, _bad))
def test_both_clients_read_an_answer_alike(told: Told, answer: Answer) -> None:
    told.answer = answer
    address = f"http://127.0.0.1:{told.server_address[1]}/v1"
    lean, other = (_outcome(ModelCall(client("openai/m", address, "k", None, 10.0))) for client in CLIENTS)
    if isinstance(lean, tuple) or isinstance(other, tuple):
        assert lean == other
    else:
        assert lean == pytest.approx(other, abs=1e-6)


def test_the_words_of_a_message_do_not_decide(told: Told) -> None:
    told.answer = Answer(400, None, b'{"error": {"message": "Rate limit reached"}}')
    kind, *_ = _outcome(
        ModelCall(OpenAIClient("openai/m", f"http://127.0.0.1:{told.server_address[1]}", "k", None, 10.0))
    )
    assert kind is EmbeddingRefused


@pytest.mark.parametrize("client", CLIENTS)
def test_a_provider_that_is_late_is_unavailable(client: type[OpenAIClient | LiteLLMClient]) -> None:
    with EmbeddingsFake(delay=2.0) as fake, pytest.raises(EmbeddingUnavailable) as error:
        client("openai/m", fake.url, "k", None, 0.2).rows(TEXTS, "base64")
    assert error.value.was_taken


@pytest.mark.parametrize("client", CLIENTS)
def test_a_closed_connection_differs_from_one_that_was_not_made(client: type[OpenAIClient | LiteLLMClient]) -> None:
    with EmbeddingsFake() as fake:
        model, url = client("openai/m", fake.url, "k", None, 10.0), fake.url
        with pytest.raises(EmbeddingUnavailable) as closed:
            model.rows(["DROP-ME"], "base64")
    with pytest.raises(EmbeddingUnavailable) as refused:
        client("openai/m", url, "k", None, 10.0).rows(TEXTS, "base64")
    assert (closed.value.was_taken, refused.value.was_taken) == (True, False)


def test_a_text_that_cannot_be_encoded_is_refused() -> None:
    with EmbeddingsFake() as fake:
        kind, *_ = _outcome(ModelCall(OpenAIClient("openai/m", fake.url, "k", None, 10.0)), ["\ud800"])
    assert kind is EmbeddingRefused


def test_an_address_that_is_none_is_refused() -> None:
    with pytest.raises(EmbeddingUnauthorized, match="EMBEDDING_API_BASE"):
        OpenAIClient("openai/m", "http://host:port", "k", None, 10.0).rows(TEXTS, "base64")


@contextmanager
def _heard() -> Iterator[tuple[str, list[dict[str, str]]]]:
    """An address, and the headers of the requests that it gets."""
    headers: list[dict[str, str]] = []

    class Handler(_Handler):
        def do_POST(self) -> None:
            headers.append({name.lower(): value for name, value in self.headers.items()})
            super().do_POST()

    with Told(("127.0.0.1", 0), Handler) as server:
        server.answer = Answer(200, None, _body([{"index": 0, "embedding": [1.0]}]))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/v1", headers
        server.shutdown()


def test_the_variables_of_openai_are_heeded(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_BASE", "OPENAI_BASE_URL", "OPENAI_ORGANIZATION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", "its-key")
    monkeypatch.setenv("OPENAI_ORG_ID", "its-organization")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "its-project")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-Team: search\nnothing\n: nameless")
    with _heard() as (address, headers):
        monkeypatch.setenv("OPENAI_BASE_URL", f"{address}/")
        monkeypatch.setenv("OPENAI_API_BASE", "http://127.0.0.1:1")
        OpenAIClient("openai/m", None, None, None, 10.0).rows(["a"], "base64")
    (sent,) = headers
    assert sent["authorization"] == "Bearer its-key"
    assert (sent["openai-organization"], sent["openai-project"]) == ("its-organization", "its-project")
    assert sent["x-team"] == "search"
    assert "" not in sent


def test_a_configured_key_and_address_come_before_the_variables_of_openai(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "its-key")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1")
    with _heard() as (address, headers):
        OpenAIClient("openai/m", address, "ours", None, 10.0).rows(["a"], "base64")
    assert headers[0]["authorization"] == "Bearer ours"


@contextmanager
def _moved_to(address: str, status: int = 307) -> Iterator[str]:
    """An address that sends each request on to another one."""

    class Moved(_Handler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(status)
            self.send_header("Location", address)
            self.send_header("Content-Length", "0")
            self.end_headers()

    with Told(("127.0.0.1", 0), Moved) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
        server.shutdown()


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_provider_that_moved_is_followed_without_the_key(status: int) -> None:
    with _heard() as (address, headers), _moved_to(f"{address}/embeddings", status) as old:
        assert len(OpenAIClient("openai/m", old, "k", None, 10.0).rows(["a"], "base64")) == 1
    assert "authorization" not in headers[0]


@pytest.mark.parametrize("hops", [openai_api.MAX_REDIRECTS, openai_api.MAX_REDIRECTS + 1])
def test_a_provider_may_send_a_request_on_so_often(hops: int) -> None:
    with ExitStack() as stack:
        address, _ = stack.enter_context(_heard())
        for _ in range(hops):
            address = stack.enter_context(_moved_to(f"{address}/embeddings"))
        outcome = _outcome(ModelCall(OpenAIClient("openai/m", address, "k", None, 10.0)), ["a"])
    assert isinstance(outcome, tuple) is (hops > openai_api.MAX_REDIRECTS)


@pytest.mark.parametrize("address", ["/v1/embeddings", "ftp://127.0.0.1/", "http://host:port/"])
def test_a_provider_that_moves_without_end_or_to_nowhere_is_left(address: str) -> None:
    with _moved_to(address) as old, pytest.raises((EmbeddingUnavailable, EmbeddingUnauthorized)):
        OpenAIClient("openai/m", old, "k", None, 10.0).rows(["a"], "base64")


def test_rows_beside_an_error_are_read(told: Told) -> None:
    told.answer = Answer(200, None, orjson.dumps({"error": None, "data": [{"index": 0, "embedding": [1.0]}]}))
    client = OpenAIClient("openai/m", f"http://127.0.0.1:{told.server_address[1]}/v1", "k", None, 10.0)
    assert len(client.rows(["a"], "base64")) == 1


def test_a_server_of_ones_own_needs_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with _heard() as (address, headers):
        OpenAIClient("openai/m", address, None, None, 10.0).rows(["a"], "base64")
    assert headers[0]["authorization"] == "Bearer none"


def test_requests_share_a_connection_but_not_with_a_fork() -> None:
    with EmbeddingsFake() as fake:
        client = OpenAIClient("openai/m", fake.url, "k", None, 10.0)
        ports: list[int] = []
        answer = fake.answer

        def noted(authorization: str, raw: bytes, port: int = 0) -> bytes:
            ports.append(port)
            return answer(authorization, raw, port)

        fake.answer = noted  # type: ignore[method-assign]
        for _ in range(2):
            client.rows(["a"], "base64")
        child = os.fork()
        if child == 0:
            try:
                client.rows(["b"], "base64")
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        client.rows(["c"], "base64")
    assert len(ports) == 4
    assert ports[0] == ports[1] == ports[3] != ports[2]


def test_a_connection_that_the_server_closed_is_not_used_again() -> None:
    class Closing(_Handler):
        def do_POST(self) -> None:
            super().do_POST()
            self.close_connection = True  # without telling

    with Told(("127.0.0.1", 0), Closing) as server:
        server.answer = Answer(200, None, _body([{"index": 0, "embedding": [1.0]}]))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        client = OpenAIClient("openai/m", f"http://127.0.0.1:{server.server_address[1]}/v1", "k", None, 10.0)
        for _ in range(2):
            assert len(client.rows(["a"], "base64")) == 1
            time.sleep(0.1)  # until the end of the connection has arrived
        server.shutdown()


def test_the_proxies_of_the_environment_are_heeded(monkeypatch: pytest.MonkeyPatch) -> None:
    with _heard() as (address, headers):
        monkeypatch.setenv("HTTP_PROXY", address.replace("//", "//user:p%40ss@").removesuffix("/v1"))
        monkeypatch.setenv("NO_PROXY", "elsewhere.invalid")
        OpenAIClient("openai/m", "http://provider.invalid/v1", "k", None, 10.0).rows(["a"], "base64")
        openai_api._connections(os.getpid(), os.environ["HTTP_PROXY"]).clear()
    assert headers[0]["host"] == "provider.invalid"
    assert headers[0]["proxy-authorization"] == f"Basic {base64.b64encode(b'user:p@ss').decode()}"
    assert headers[0]["authorization"] == "Bearer k"


@pytest.mark.parametrize("exempt", ["127.0.0.1", "a.b,127.0.0.1", "*"])
def test_a_host_that_needs_no_proxy_is_asked_itself(monkeypatch: pytest.MonkeyPatch, exempt: str) -> None:
    monkeypatch.setenv("HTTP_PROXY", "127.0.0.1:1")
    monkeypatch.setenv("NO_PROXY", exempt)
    with _heard() as (address, headers):
        OpenAIClient("openai/m", address, "k", None, 10.0).rows(["a"], "base64")
    assert "proxy-authorization" not in headers[0]


def test_a_password_in_the_address_is_sent() -> None:
    with _heard() as (address, headers):
        OpenAIClient("openai/m", address.replace("//", "//user:secret@"), "k", None, 10.0).rows(["a"], "base64")
    assert headers[0]["authorization"] == f"Basic {base64.b64encode(b'user:secret').decode()}"


@pytest.mark.parametrize("scheme", ["ftp://", "", "file://"])
def test_an_address_of_another_protocol_is_not_asked(scheme: str) -> None:
    with _heard() as (address, headers), pytest.raises(EmbeddingUnavailable):
        OpenAIClient("openai/m", address.replace("http://", scheme), "k", None, 10.0).rows(TEXTS, "base64")
    assert headers == []


@pytest.mark.parametrize("key", ["a\nb", "ключ", "\ud800"])
def test_a_key_that_no_header_can_hold_is_never_sent(key: str, capfd: pytest.CaptureFixture[str]) -> None:
    with _heard() as (address, headers), pytest.raises(EmbeddingUnauthorized, match="EMBEDDING_API_KEY") as refused:
        OpenAIClient("openai/m", address, key, None, 10.0).rows(TEXTS, "base64")
    assert headers == []
    assert refused.value.__cause__ is None
    assert "Bearer" not in "".join(capfd.readouterr())


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A key, and a certificate for 127.0.0.1 that nobody else has signed."""
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([])
    today, alternatives = datetime.now(UTC), x509.SubjectAlternativeName([x509.IPAddress(IPv4Address("127.0.0.1"))])
    made = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    made = made.not_valid_before(today - timedelta(1)).not_valid_after(today + timedelta(1))
    signed = made.add_extension(alternatives, critical=True).sign(key, hashes.SHA256())
    file = tmp_path_factory.mktemp("certificate") / "own.pem"
    own = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    file.write_bytes(own + signed.public_bytes(Encoding.PEM))
    return file


@pytest.fixture
def over_tls(certificate: Path) -> Iterator[str]:
    """The address of a provider with this certificate, whom no connection has asked before."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with Told(("127.0.0.1", 0), _Handler) as server:
        server.answer = Answer(200, None, _body([{"index": 0, "embedding": [1.0]}]))
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        cached = openai_api._certificates, openai_api._connections
        for each in cached:
            each.cache_clear()
        yield f"https://127.0.0.1:{server.server_address[1]}/v1"
        openai_api._connections(os.getpid(), None).clear()
        for each in cached:
            each.cache_clear()
        server.shutdown()


def test_a_certificate_of_a_stranger_is_refused(over_tls: str) -> None:
    with pytest.raises(EmbeddingUnavailable) as refused:
        OpenAIClient("openai/m", over_tls, "k", None, 10.0).rows(["a"], "base64")
    assert not refused.value.was_taken


@pytest.mark.filterwarnings("ignore::urllib3.exceptions.InsecureRequestWarning")
@pytest.mark.parametrize("verify", ["false", "False", "itself"])
def test_the_operator_says_which_certificates_are_trusted(
    over_tls: str, certificate: Path, verify: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_VERIFY", str(certificate) if verify == "itself" else verify)
    client = OpenAIClient("openai/m", over_tls, "k", None, 10.0)
    for _ in range(2):
        assert len(client.rows(["a"], "base64")) == 1


@pytest.mark.parametrize(
    ("model", "by_litellm"),
    [
        ("openai/anything", False),
        ("text-embedding-3-small", False),
        ("openrouter/openai/m", True),
        ("cohere/embed-v4.0", True),
        ("nonsense", True),
        ("openai", True),
        ("", True),
    ],
)
def test_models_of_openai_are_asked_without_litellm(model: str, by_litellm: bool) -> None:
    assert needs_litellm(model) is by_litellm


def test_the_table_is_that_of_litellm() -> None:
    table: dict[str, dict[str, Any]] = warm().model_cost
    assert len(table) > 1000
    for name, row in table.items():
        known = known_models.lookup_model(name)
        assert known_models.known_input_tokens(name) == row.get("max_input_tokens")
        assert (known.dimensions, known.max_output_tokens) == (
            row.get("output_vector_size"),
            row.get("max_output_tokens"),
        )
