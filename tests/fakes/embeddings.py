"""A strict OpenAI-compatible embeddings server for tests and benchmarks.

Vectors are hashed bags of word stems: texts that share words are close, and the same text always gets the same vector.
`with EmbeddingsFake() as fake:` runs it in this process, `python -m tests.fakes.embeddings --port N` in its own. There
`GET /_audit`, `POST /_fail {"status", "retry_after", "count"}` and `POST /_reset` do what the methods do.

Models with these names misbehave: `no-such-model` (404), `no-base64` (400 to that format), `lists-only` (ignores it);
`bad-nan` and `bad-zero` for inputs with `BAD-ROW`; `bad-count`, `bad-dims`, `bad-order` and `bad-json` always;
`error-in-body` (status 200 with error 429 in the body), `odd-error-in-body` (the same with a word as code). An input
with `REFUSE-ME` makes the server refuse the whole request, one with `FAULT-ME` makes it answer 500, and one with
`DROP-ME` makes it close the connection. An input with `HTML-ME` is answered by a page, one with `NAN-ME` by that
literal, `NULL-ME` by null in place of its row, `EMPTY-ME` by a row without a vector, and `GONE-ME` by one row too few.
The key `wrong` is refused like a missing one.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from itertools import chain
from types import TracebackType
from typing import Any, Self

import numpy as np
import orjson
from numpy.typing import NDArray

from tests.fakes.hold import Holds
from tests.fakes.server import Handler, Server

MAX_INPUTS = 2048
MAX_REQUEST_TOKENS = 300_000
MAX_INPUT_TOKENS = 8192
#: The server only estimates tokens. Up to this multiple of a request's limit they may be fewer than allowed.
ESTIMATE_MARGIN = 1.1
PARAMETERS = {"model", "input", "encoding_format", "dimensions", "user"}

#: Coordinates per stem: few enough to add up fast, and enough to keep two stems almost orthogonal.
SPREAD = 8
#: Weight of a constant direction, which keeps a text without words from having a zero vector.
CONSTANT = 0.05

_WORD = re.compile(r"\w+")
#: In ASCII, the same words take a third of the time.
_TO_SPACES = str.maketrans({character: " " for character in map(chr, range(128)) if not _WORD.match(character)})
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\dA-Za-z_]")
_SUFFIXES = ("ations", "ation", "ators", "ator", "ings", "ing", "ied", "ies", "ers", "ed", "er", "es", "ly", "s", "e")
_STOP_WORDS = frozenset(
    ["a", "an", "and", "are", "as", "at", "be", "by", "for", "from", "in", "is", "it", "of", "on", "or", "that", "the"]
)


def stems(word: str) -> list[str]:
    """Lower-case stems of a word: split camelCase and digits, cut one crude suffix, drop stop words."""
    parts = [part.lower() for part in _PART.findall(word)]
    return [_stem(part) for part in parts if part not in _STOP_WORDS]


def _stem(part: str) -> str:
    for suffix in _SUFFIXES:
        if part.endswith(suffix) and len(part) - len(suffix) >= 3:
            return part[: -len(suffix)]
    return part


class _Known(dict[str, list[int]]):
    """The stems of words, which it learns at the first look-up."""

    def __init__(self, learn: Callable[[str], list[int]]) -> None:
        self._learn = learn

    def __missing__(self, word: str) -> list[int]:
        self[word] = stems = self._learn(word)
        return stems


class BagOfStems:
    """Turns texts into unit vectors of `dimensions` numbers. Not thread-safe: the server holds a lock."""

    def __init__(self, dimensions: int) -> None:
        self.dimensions = dimensions
        self._stems: dict[str, int] = {}
        self._words = _Known(self._learn)
        self._slots = np.empty((1024, SPREAD), dtype=np.int64)
        self._signs = np.empty((1024, SPREAD), dtype=np.float32)

    def vectors(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """float32 of shape (len(texts), dimensions), rows of length 1."""
        bags = [self._bag(text) for text in texts]
        ids = np.fromiter(chain.from_iterable(bags), dtype=np.int64)
        rows = np.repeat(np.arange(len(bags)), [len(bag) for bag in bags])
        flat = (rows[:, None] * self.dimensions + self._slots[ids]).ravel()
        sums = np.bincount(flat, self._signs[ids].ravel(), minlength=len(bags) * self.dimensions)
        vectors = sums.reshape(len(bags), self.dimensions).astype(np.float32)
        norms = _norms(vectors)
        vectors /= np.where(norms, norms, 1)
        vectors[:, 0] += CONSTANT
        vectors /= _norms(vectors)
        return vectors

    def _bag(self, text: str) -> set[int]:
        words = text.translate(_TO_SPACES).split() if text.isascii() else _WORD.findall(text)
        return set().union(*map(self._words.__getitem__, set(words)))

    def _learn(self, word: str) -> list[int]:
        return [self._stem_id(stem) for stem in stems(word)]

    def _stem_id(self, stem: str) -> int:
        number = self._stems.get(stem)
        if number is None:
            number = self._stems[stem] = len(self._stems)
            self._place(number, stem)
        return number

    def _place(self, number: int, stem: str) -> None:
        if number == len(self._slots):
            self._slots = np.concatenate([self._slots, np.empty_like(self._slots)])
            self._signs = np.concatenate([self._signs, np.empty_like(self._signs)])
        seed = np.frombuffer(hashlib.blake2b(stem.encode(), digest_size=4 * SPREAD).digest(), dtype="<u4")
        self._slots[number] = (seed >> 1) % self.dimensions
        self._signs[number] = np.where(seed & 1, 1.0, -1.0)


def _norms(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """As numpy's own function, which takes several times as long for one vector."""
    norms: NDArray[np.float32] = np.sqrt(np.add.reduce(vectors * vectors, axis=1, keepdims=True))
    return norms


class Refusal(Exception):
    """An HTTP error response."""

    def __init__(self, status: int, message: str, code: str | None = None, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after = retry_after
        kind = "invalid_request_error" if status < 429 else "server_error"
        self.body = {"error": {"message": message, "type": kind, "param": None, "code": code}}


@dataclass
class Request:
    """One call to the embeddings endpoint, as the audit records it. `at` and `ended` are seconds since the epoch."""

    at: float
    ended: float = 0.0
    status: int = 0
    model: str = ""
    inputs: int = 0
    tokens: int = 0
    encoding: str = "float"
    key: str = ""


@dataclass
class Limits:
    """What the server takes. A refusal of too many texts has these words: `{texts}` of them, and `{most}` it takes.

    Without `has_quota` it refuses all. If it `is_broken`, every answer is a page instead of JSON.
    """

    most_texts: int = MAX_INPUTS
    words: str = "'$.input' is invalid: at most {most} inputs."
    status: int = 400
    most_tokens: int = MAX_INPUT_TOKENS
    too_long: tuple[int, str] = (400, f"This model's maximum context length is {MAX_INPUT_TOKENS} tokens.")
    has_quota: bool = True
    is_broken: bool = False


@dataclass
class Audit:
    """What the server was asked. `texts` counts the answered texts by SHA-256."""

    requests: list[Request] = field(default_factory=list)
    texts: Counter[str] = field(default_factory=Counter)
    in_flight: int = 0
    max_in_flight: int = 0

    def times(self, text: str) -> int:
        """How often exactly this text was embedded."""
        return self.texts[sha(text)]


def sha(text: str) -> str:
    """The key of a text in the audit."""
    return hashlib.sha256(text.encode()).hexdigest()


class EmbeddingsFake:
    """The server. Port 0 picks a free one; `url` is for `EMBEDDING_API_BASE`; `delay` is in seconds per request."""

    def __init__(self, port: int = 0, dimensions: int = 384, delay: float = 0.0, *, host: str = "127.0.0.1") -> None:
        self.dimensions = dimensions
        self.limits = Limits()
        self.delay = delay
        self.audit = Audit()
        #: Held requests have the kind `embeddings`; those held after being applied count as answered.
        self.holds = Holds()
        self._failures: list[Refusal] = []
        self._bags: dict[int, BagOfStems] = {}
        self._lock = threading.Lock()
        self._host = host
        self._server = _Server((host, port), _Handler)
        self._server.fake = self

    @property
    def url(self) -> str:
        return f"http://{self._host}:{self._server.server_port}/v1"

    @property
    def env(self) -> dict[str, str]:
        """The settings with which a service uses this provider's model by default."""
        return {
            "DEFAULT_EMBEDDING_MODEL": "openai/m",
            "ALLOWED_MODELS": "openai/* nobody/* local/*",
            "EMBEDDING_API_BASE": self.url,
            "EMBEDDING_API_KEY": "k",
        }

    def __enter__(self) -> Self:
        threading.Thread(target=self.serve, daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.holds.release()
        self._server.shutdown()
        self._server.server_close()

    def serve(self) -> None:
        self._server.serve_forever(poll_interval=0.05)

    def fail_next(self, status: int, retry_after: float | None = None, count: int = 1) -> None:
        """Answer the next `count` requests with this status; 0 closes the connection without an answer."""
        with self._lock:
            self._failures += [Refusal(status, f"told to answer {status}", retry_after=retry_after)] * count

    def clear_failures(self) -> None:
        """Drop the failures that are still to come."""
        with self._lock:
            self._failures.clear()

    def reset(self) -> None:
        """Drop the audit, the limits and the failures that are still to come."""
        with self._lock:
            self.limits = Limits()
            self.audit = Audit(in_flight=self.audit.in_flight)
            self._failures.clear()

    def answer(self, authorization: str, raw: bytes, port: int = 0) -> bytes:
        """The response body for an embeddings request from a client's port. Raises `Refusal`."""
        record = self._begin(authorization)
        try:
            self.holds.wait("embeddings", raw, port, after=False)
            body = self._answer(record, raw)
            self.holds.wait("embeddings", raw, port, after=True)
        except Refusal as refusal:
            record.status = refusal.status
            raise
        else:
            record.status = 200
            return body
        finally:
            self._end(record)

    def report(self) -> bytes:
        """The audit as JSON."""
        with self._lock:
            return orjson.dumps(self.audit)

    def _begin(self, authorization: str) -> Request:
        record = Request(time.time(), key=authorization.removeprefix("Bearer "))
        with self._lock:
            self.audit.requests.append(record)
            self.audit.in_flight += 1
            self.audit.max_in_flight = max(self.audit.max_in_flight, self.audit.in_flight)
        return record

    def _end(self, record: Request) -> None:
        record.ended = time.time()
        with self._lock:
            self.audit.in_flight -= 1

    def _answer(self, record: Request, raw: bytes) -> bytes:
        if self.delay:
            time.sleep(self.delay)
        with self._lock:
            if self._failures:
                raise self._failures.pop(0)
        if record.key in {"", "wrong"}:
            raise Refusal(401, "Incorrect API key provided.", "invalid_api_key")
        body = orjson.loads(raw)
        texts = _texts(body)
        record.model, record.inputs, record.tokens = body["model"], len(texts), sum(map(_tokens, texts))
        record.encoding = body.get("encoding_format", "float")
        _check(record, texts, self.limits)
        if self.limits.is_broken:
            return b"<html>down for maintenance</html>"
        vectors = self._vectors(texts, body.get("dimensions") or self.dimensions)
        return _answer_body(record, texts, vectors)

    def _vectors(self, texts: list[str], dimensions: int) -> NDArray[np.float32]:
        names = [sha(text) for text in texts]
        with self._lock:
            self.audit.texts.update(names)
            if dimensions not in self._bags:
                self._bags[dimensions] = BagOfStems(dimensions)
            return self._bags[dimensions].vectors(texts)


def _tokens(text: str) -> int:
    return len(text) // 4 + 1


def _texts(body: Any) -> list[str]:
    if not isinstance(body, dict) or not isinstance(body.get("model"), str):
        raise Refusal(400, "you must provide a model parameter")
    if unknown := body.keys() - PARAMETERS:
        raise Refusal(400, f"Unrecognized request argument supplied: {', '.join(unknown)}")
    texts = body.get("input")
    texts = [texts] if isinstance(texts, str) else texts
    if not isinstance(texts, list) or not texts or not all(isinstance(text, str) and text for text in texts):
        raise Refusal(400, "'$.input' is invalid.")
    return texts


def _check(record: Request, texts: list[str], limits: Limits) -> None:
    if not limits.has_quota:
        raise Refusal(429, "You exceeded your current quota, please check your plan.", "insufficient_quota")
    if record.model == "no-such-model":
        raise Refusal(404, f"The model `{record.model}` does not exist.", "model_not_found")
    if record.encoding not in {"float", "base64"} or (record.model, record.encoding) == ("no-base64", "base64"):
        raise Refusal(400, f"Unsupported encoding_format: {record.encoding}")
    if len(texts) > limits.most_texts:
        raise Refusal(limits.status, limits.words.format(most=limits.most_texts, texts=len(texts)))
    if any(_tokens(text) > limits.most_tokens for text in texts):
        raise Refusal(*limits.too_long)
    if record.tokens > MAX_REQUEST_TOKENS * ESTIMATE_MARGIN:
        raise Refusal(400, f"Requested {record.tokens} tokens, max {MAX_REQUEST_TOKENS} tokens per request.")
    if any("REFUSE-ME" in text for text in texts):
        raise Refusal(400, "The request was refused by the content filter.", "content_filter")
    if any("FAULT-ME" in text for text in texts):
        raise Refusal(500, "failed to encode response: json: unsupported value: NaN")
    if any("DROP-ME" in text for text in texts):
        raise Refusal(0, "the runner has terminated")


def _answer_body(record: Request, texts: list[str], vectors: NDArray[np.float32]) -> bytes:
    rows = [position for position, text in enumerate(texts) if "BAD-ROW" in text]
    if record.model in {"bad-nan", "bad-zero"}:
        vectors[rows] = np.nan if record.model == "bad-nan" else 0.0
    if record.model == "bad-dims":
        vectors = np.ascontiguousarray(vectors[:, :-1])
    if record.model == "bad-json" or any("HTML-ME" in text for text in texts):
        return b"<html>this is no JSON</html>"
    if record.model.endswith("error-in-body"):
        return orjson.dumps({"error": {"message": "overloaded", "code": "odd" if "odd" in record.model else 429}})
    plain = record.encoding == "float" or record.model == "lists-only"
    cells = vectors.tolist() if plain else [base64.b64encode(row).decode() for row in vectors]
    data: list[Any] = [{"object": "embedding", "index": index, "embedding": cell} for index, cell in enumerate(cells)]
    data = [row for row in map(_marked, data, texts) if row != {}]
    if record.model == "bad-count":
        data.pop()
    if record.model == "bad-order":
        data.reverse()
    usage = {"prompt_tokens": record.tokens, "total_tokens": record.tokens}
    body = orjson.dumps({"object": "list", "data": data, "model": record.model, "usage": usage})
    return body.replace(b'"the literal"', b"[" + b"NaN," * (vectors.shape[1] - 1) + b"NaN]")


def _marked(row: dict[str, Any], text: str) -> dict[str, Any] | None:
    """The row of a text as its words ask for it; empty if it is left out."""
    if "NULL-ME" in text:
        return None
    if "GONE-ME" in text:
        return {}
    if "EMPTY-ME" in text:
        return row | {"embedding": None}
    return row | {"embedding": "the literal"} if "NAN-ME" in text else row


class _Server(Server):
    fake: EmbeddingsFake


class _Handler(Handler, BaseHTTPRequestHandler):
    server: _Server

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.lines.get("content-length", 0)))
        try:
            self._send(200, self._post(raw))
        except Refusal as refusal:
            self._refuse(refusal)

    def do_GET(self) -> None:
        if self.path == "/_audit":
            self._send(200, self.server.fake.report())
        else:
            self._refuse(Refusal(404, f"Invalid URL (GET {self.path})"))

    def _post(self, raw: bytes) -> bytes:
        if self.path in {"/v1/embeddings", "/embeddings"}:
            return self.server.fake.answer(self.lines.get("authorization", ""), raw, self.client_address[1])
        if self.path == "/_fail":
            self.server.fake.fail_next(**orjson.loads(raw))
        elif self.path == "/_reset":
            self.server.fake.reset()
        else:
            raise Refusal(404, f"Invalid URL (POST {self.path})")
        return b"{}"

    def _refuse(self, refusal: Refusal) -> None:
        if refusal.status == 0:
            self.close_connection = True
        else:
            self._send(refusal.status, orjson.dumps(refusal.body), refusal.retry_after)

    def _send(self, status: int, body: bytes, retry_after: float | None = None) -> None:
        more = {} if retry_after is None else {"Retry-After": f"{retry_after:g}"}
        self.send(status, body, {"Content-Type": "application/json", **more})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--dimensions", type=int, default=384)
    parser.add_argument("--delay", type=float, default=0.0, metavar="MS", help="milliseconds before each answer")
    options = parser.parse_args()
    fake = EmbeddingsFake(options.port, options.dimensions, options.delay / 1000)
    print(fake.url, flush=True)  # noqa: T201 - the starting process reads the address here
    fake.serve()


if __name__ == "__main__":
    main()
