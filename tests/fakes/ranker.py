"""A strict server of Cohere's rerank and OpenAI's chat completions, for tests. It scores by shared word stems.

The chat understands one task: JSON with a query and numbered passages, each to be given a score from 0 to 10. Above a
temperature of 0 its scores are random. Tests control it with `fail_next`, `holds` (kinds `rerank` and `chat`), and
these words in a model's name: `no-such-model` (404), `drip` (sends a byte now and then, without end), `bad-json`,
`bad-count`, `bad-index`, `bad-twice`, `bad-nan`, `bad-empty`, `logits`. For the chat only: `no-format` (refuses
`response_format`), `bad-choices`, `bad-prose`, `thinks` (the answer in a code fence, after a wrong one), `odd-scores`
(see `_odd`), and `obeys` (says what follows `SAY:` in a passage).
"""

from __future__ import annotations

import json
import math
import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import randint
from typing import Any

from tests.fakes.embeddings import Refusal, stems
from tests.fakes.llm import Json, LlmFake, LlmHandler

MAX_DOCUMENTS = 1000
#: Maximum tokens of query plus document for the rerank model, and of the whole prompt for the chat.
MAX_TOKENS, MAX_PROMPT_TOKENS = 512, 32_000
RERANK = {"model", "query", "documents", "top_n", "return_documents", "max_tokens_per_doc"}
CHAT = {"model", "messages", "temperature", "response_format"}

_TOKEN = re.compile(r"\w+|[^\w\s]")


@dataclass
class Asked:
    """One request: what was sent, and with which key."""

    kind: str
    key: str
    body: Json


class _Handler(LlmHandler):
    def send_answer(self, raw: bytes, body: bytes) -> None:
        """Send the answer, or drip bytes until the client leaves."""
        if b"drip" not in raw:
            super().send_answer(raw, body)
            return
        fake = self.server.fake
        assert isinstance(fake, RankerFake)
        self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n\r\n")
        try:
            while not fake.left.wait(0.02):
                self.wfile.write(b" ")
                self.wfile.flush()
        except OSError:
            fake.left.set()
        self.close_connection = True


@dataclass
class RankerFake(LlmFake):
    """The server. `left` is set once a client closes a dripping connection."""

    handler = _Handler

    requests: list[Asked] = field(default_factory=list)
    left: threading.Event = field(default_factory=threading.Event)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def reset(self) -> None:
        """Drop the requests, too."""
        super().reset()
        self.left.clear()
        self.requests.clear()

    def answer(self, path: str, key: str, raw: bytes, port: int) -> bytes:
        """The response body. Raises `Refusal`."""
        kind = {"rerank": "rerank", "completions": "chat"}[path.rsplit("/", 1)[-1]]
        body = json.loads(raw)
        self.requests.append(Asked(kind, key, body))
        self.admit(kind, key, raw, port)
        if "no-such-model" in body["model"]:
            raise Refusal(404, f"model '{body['model']}' not found")
        if "bad-json" in body["model"]:
            return b"<html>this is no JSON</html>"
        return json.dumps(_rerank(body) if kind == "rerank" else _chat(body)).encode()

    def error_body(self, refusal: Refusal) -> Json:
        """As Cohere writes it."""
        return {"message": str(refusal)}


def _rerank(body: Json) -> Json:
    query, documents = body["query"], body["documents"]
    _known(body, RERANK)
    if not isinstance(query, str) or not query or not _texts(documents):
        raise Refusal(400, "invalid request: query and documents must not be empty")
    if len(documents) > MAX_DOCUMENTS:
        raise Refusal(400, f"invalid request: at most {MAX_DOCUMENTS} documents")
    if max(_tokens(query) + _tokens(document) for document in documents) > MAX_TOKENS:
        raise Refusal(400, f"This model's maximum context length is {MAX_TOKENS} tokens.")
    if not 1 <= body.get("top_n", 1) <= len(documents):
        raise Refusal(400, "invalid request: top_n must be from 1 to the number of documents")
    found = [_overlap(query, document) for document in documents]
    results = [{"index": index, "relevance_score": score} for index, score in enumerate(found)]
    results.sort(key=lambda row: -row["relevance_score"])
    usage = {"total_tokens": sum(map(_tokens, documents))}
    if "bad-empty" in body["model"]:
        return {"id": "r", "results": None}
    return {"id": "r", "results": _bent(body["model"], results), "usage": usage}


def _texts(documents: object) -> bool:
    return isinstance(documents, list) and bool(documents) and all(isinstance(text, str) and text for text in documents)


def _bent(model: str, results: list[Json]) -> list[Json]:
    """The results, altered as the model's name demands."""
    if "bad-count" in model:
        return results[:-1]
    if "bad-index" in model:
        results[-1]["index"] = len(results)
    if "bad-twice" in model:
        results[-1]["index"] = results[0]["index"]
    if "bad-nan" in model:
        results[-1]["relevance_score"] = math.nan
    if "logits" in model:
        return [{**row, "relevance_score": 20 * row["relevance_score"] - 12} for row in results]
    return results


def _chat(body: Json) -> Json:
    _known(body, CHAT)
    if "no-format" in body["model"] and "response_format" in body:
        raise Refusal(400, "response_format is not supported by this model")
    if body.get("response_format", {"type": "json_object"}) != {"type": "json_object"}:
        raise Refusal(400, "response_format.type must be json_object")
    system, user = (message["content"] for message in body["messages"])
    if _tokens(system) + _tokens(user) > MAX_PROMPT_TOKENS:
        raise Refusal(400, f"This model's maximum context length is {MAX_PROMPT_TOKENS} tokens.")
    if "response_format" in body and "JSON" not in system:
        raise Refusal(400, "'messages' must contain the word 'json' to use 'response_format'")
    message: Json = {"role": "assistant", "content": _content(body, json.loads(user))}
    if "bad-empty" in body["model"]:
        message["content"] = None
    choices = [{"index": 0, "finish_reason": "stop", "message": message}]
    usage = {"prompt_tokens": _tokens(user), "completion_tokens": 1, "total_tokens": _tokens(user) + 1}
    return {
        "id": "c",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": choices[: "bad-choices" not in body["model"]],
        "usage": usage,
    }


def _content(body: Json, task: Json) -> str:
    model, is_certain = body["model"], body.get("temperature") == 0
    rows = [
        {"id": p["id"], "score": round(10 * _overlap(task["query"], p["text"])) if is_certain else randint(0, 10)}
        for p in task["passages"]
    ]
    answer = json.dumps({"scores": rows})
    if "bad-prose" in model:
        return "They are all very good."
    if "thinks" in model:
        wrong = json.dumps({"scores": [{"id": 1, "score": 10}]})
        return f"<think>{{Perhaps {wrong}?</think>\n```json\n{answer}\n```"
    if "odd-scores" in model:
        return json.dumps({"scores": _odd(rows)})
    if "obeys" in model:
        return max(str(p["text"]).partition("SAY:")[2] for p in task["passages"])
    return answer


def _odd(rows: Sequence[Json]) -> list[Any]:
    """The first score as it is, then up to five invalid ones (see `wrong`), an unknown id and entries of wrong form."""
    wrong = [11, "ten", math.nan, True, -1]
    odd = [{"id": row["id"], "score": score} for row, score in zip(rows[1:], wrong, strict=False)]
    return [rows[0], *odd, {"id": 99, "score": 10}, {"id": "one", "score": 3}, "entry", None]


def _known(body: Json, names: set[str]) -> None:
    if unknown := body.keys() - names:
        raise Refusal(400, f"unrecognized parameter: {', '.join(unknown)}")


def _tokens(text: str) -> int:
    """A quarter more than the number of words and symbols, because tokenizers differ."""
    return len(_TOKEN.findall(text)) * 5 // 4 + 1


def _overlap(query: str, text: str) -> float:
    wanted = set(stems(query))
    return len(wanted & set(stems(text))) / max(1, len(wanted))
