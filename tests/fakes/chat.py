"""A strict OpenAI-compatible chat server. Equal prompts get equal answers, at a temperature of 0.

Prompts with these words misbehave: `REFUSE-ME` (400), `FAULT-ME` (500), `DROP-ME` (the connection closes),
`SAY-NOTHING` (an empty answer), `TALK-ON` (an answer that ends at the maximum of tokens), and the words of `NONSENSE`,
whose answers are none. The key `wrong` is refused like a missing one.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from dataclasses import dataclass, field
from uuid import uuid4

from tests.fakes.embeddings import Refusal
from tests.fakes.llm import Json, LlmFake

PARAMETERS = {"model", "messages", "temperature", "max_tokens"}
#: Tokens of a prompt, as the fake counts them.
MAX_PROMPT_TOKENS = 16_000

#: Bodies of status 200 that are no answer, by the word in the prompt that asks for it.
NONSENSE = {
    "TALK-NONSENSE": b'{"id": "c", "object": "chat.completion", "choices": []}',
    "TALK-HTML": b"<html>Welcome</html>",
    "TALK-LIST": b'["an answer"]',
    "TALK-NUMBERS": b'{"id": "c", "object": "chat.completion", "choices": [{"index": 0, "message": 7}]}',
}

_TOKEN = re.compile(r"\w+|[^\w\s]")


@dataclass
class ChatFake(LlmFake):
    """The server. `prompts` are those that were answered."""

    prompts: list[str] = field(default_factory=list)
    requests: int = 0
    #: When each request arrived, by the monotonic clock, and the port of its client.
    arrivals: list[tuple[float, int]] = field(default_factory=list)
    #: When each request arrived, and its tokens: those of the prompt, and the most that the answer may have.
    charged: list[tuple[float, int]] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def env(self) -> dict[str, str]:
        """The settings with which a service uses this model."""
        return {"DEFAULT_LLM_MODEL": "openai/writer", "LLM_API_BASE": self.url, "LLM_API_KEY": "k"}

    def reset(self) -> None:
        """Drop the requests, too."""
        super().reset()
        self.prompts.clear()
        self.requests = 0
        self.arrivals.clear()
        self.charged.clear()

    def answer(self, path: str, key: str, raw: bytes, port: int) -> bytes:
        """The response body. Raises `Refusal`."""
        assert path.endswith("/chat/completions"), path
        self.requests += 1
        now, body = time.monotonic(), json.loads(raw)
        self.arrivals.append((now, port))
        self.charged.append((now, _tokens(body["messages"][0]["content"]) + body["max_tokens"]))
        self.admit("chat", key, raw, port)
        prompt = _checked(body)
        for word, body_of_nonsense in NONSENSE.items():
            if word in prompt:
                return body_of_nonsense
        answer = json.dumps(_chat(body, prompt)).encode()
        self.prompts.append(prompt)
        self.holds.wait("chat", raw, port, after=True)
        return answer


def _checked(body: Json) -> str:
    """The prompt of a valid request. Raises `Refusal`."""
    if unknown := body.keys() - PARAMETERS:
        raise Refusal(400, f"unrecognized parameter: {', '.join(unknown)}")
    if not isinstance(body.get("max_tokens"), int) or body["max_tokens"] < 1:
        raise Refusal(400, "max_tokens must be a positive integer")
    messages = body["messages"]
    if [message["role"] for message in messages] != ["user"] or not messages[0]["content"].strip():
        raise Refusal(400, "messages must hold one text of the user")
    prompt = str(messages[0]["content"])
    if _tokens(prompt) > MAX_PROMPT_TOKENS:
        raise Refusal(400, f"This model's maximum context length is {MAX_PROMPT_TOKENS} tokens.")
    if "REFUSE-ME" in prompt:
        raise Refusal(400, "content policy")
    if "FAULT-ME" in prompt:
        raise Refusal(500, "the runner has terminated")
    if "DROP-ME" in prompt:
        raise Refusal(0, "the runner has terminated")
    return prompt


def _chat(body: Json, prompt: str) -> Json:
    seed = prompt if body.get("temperature") == 0 else uuid4().hex
    digest = hashlib.sha256(seed.encode()).hexdigest()[:12]
    text = f"Summary {digest} of {' '.join(dict.fromkeys(re.findall(r'[a-z]{4,}', prompt)))[-200:]}"
    reason = "stop"
    if "SAY-NOTHING" in prompt:
        text = ""
    if "TALK-ON" in prompt:
        text, reason = "on and on " * body["max_tokens"], "length"
    message = {"role": "assistant", "content": text}
    tokens = [_tokens(prompt), _tokens(text)]
    return {
        "id": "c",
        "object": "chat.completion",
        "created": 1,
        "model": body["model"],
        "choices": [{"index": 0, "finish_reason": reason, "message": message}],
        "usage": {"prompt_tokens": tokens[0], "completion_tokens": tokens[1], "total_tokens": sum(tokens)},
    }


def _tokens(text: str) -> int:
    return len(_TOKEN.findall(text))
