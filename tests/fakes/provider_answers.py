# ruff: noqa: E501 - answers as providers send them
"""Errors in the words of providers, as their documentation and their users quote them, with what each one means.

Numbers are those of the request that was refused. Only ids and names of accounts are made up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from schemas.errors import Excess
from worker.embed.verdicts import Kind, Verdict


@dataclass(frozen=True, slots=True)
class ProviderAnswer:
    """An answer to a request of so many texts, and the verdict on it."""

    provider: str
    status: int
    body: Any
    verdict: Verdict
    texts: int = 64
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def content(self) -> bytes:
        return self.body if isinstance(self.body, bytes) else orjson.dumps(self.body)


def _openai(message: str, kind: str = "invalid_request_error", code: str | int | None = None) -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def _too_many(most: int | None) -> Verdict:
    return Verdict(Kind.REFUSED, excess=Excess.TEXTS, most=most)


LENGTH = Verdict(Kind.REFUSED, excess=Excess.LENGTH)
TOKENS = Verdict(Kind.REFUSED, excess=Excess.TOKENS)
REFUSED = Verdict(Kind.REFUSED)
UNAUTHORIZED = Verdict(Kind.UNAUTHORIZED)
OUTAGE = Verdict(Kind.OUTAGE)


def _length(*answers: tuple[str, int, Any]) -> list[ProviderAnswer]:
    """Answers to a text that is too long, whether it is alone or not."""
    return [ProviderAnswer(*answer, LENGTH, texts) for answer in answers for texts in (1, 64)]


_VLLM = "This model's maximum context length is 512 tokens. However, you requested 1451 tokens in the input for"
_OPENAI_LONG = "This model's maximum context length is 8192 tokens, however you requested 10216 tokens (10216 in your"
TOO_LONG = _length(
    ("OpenAI", 400, _openai(f"{_OPENAI_LONG} prompt; 0 for the completion). Please reduce your prompt.")),
    ("OpenAI", 400, _openai("Invalid 'input[0]': maximum input length is 8192 tokens.")),
    ("OpenAI", 400, _openai("maximum context length exceeded", code="context_length_exceeded")),
    ("Azure", 400, {"error": {"message": f"{_OPENAI_LONG} prompt).", "code": "400"}}),
    ("vLLM", 400, {"object": "error", "message": f"{_VLLM} embedding generation.", "type": "BadRequestError", "code": 400}),
    ("vLLM", 500, b"Internal Server Error: ValueError: Prompt length exceeds max_model_len"),
    ("TEI", 413, {"error": "Input validation error: `inputs` must have less than 512 tokens. Given: 534", "error_type": "Validation"}),
    ("TEI", 422, {"message": "Input validation error: `inputs` must have less than 512 tokens. Given: 534", "code": 422, "type": "validation"}),
    ("Ollama", 400, {"error": "the input length exceeds the context length"}),
    ("Ollama", 500, _openai("input length exceeds maximum context length", "api_error")),
    ("llama.cpp", 500, _openai("input (992 tokens) is too large to process. increase the physical batch size (current batch size: 512)", "server_error", 500)),
    ("llama.cpp", 500, {"error": {"code": 500, "message": "input is too large to process. increase the physical batch size", "type": "server_error"}}),
    ("llama.cpp", 400, _openai("the request exceeds the available context size, try increasing it", "exceed_context_size_error", 400)),
    ("llama-box", 500, _openai("decoding exceeds the available context size. try increasing the context size.")),
    ("LM Studio", 400, {"error": "Trying to keep the first 2493 tokens when context the overflows. However, the model is loaded with context length of only 2048 tokens, which is not enough. Try to load the model with a larger context length, or provide a shorter input."}),
    ("Mistral", 400, {"object": "error", "message": "Input id 0 has 9216 tokens, exceeding max 8192 tokens.", "type": "invalid_request_prompt", "code": "3051"}),
    ("Cohere", 400, {"message": "too many tokens: total number of tokens in the prompt cannot exceed 4081 - received 4300. Try using a shorter prompt."}),
    ("Voyage", 400, {"detail": "Request to model 'voyage-3' failed. The example at index 0 in your batch has too many tokens and does not fit into the model's context window of 32000 tokens. Please lower the number of tokens in the listed example(s)."}),
    ("Jina", 422, {"detail": "[ValidationError] Input text exceeds maximum length of 8194 tokens"}),
    ("Jina", 400, {"detail": "Failed to encode text: number of tokens 8731 exceeds the max allowed tokens 8194"}),
    ("Gemini", 400, {"error": {"code": 400, "message": "The input token count (2791) exceeds the maximum number of tokens allowed (2048).", "status": "INVALID_ARGUMENT"}}),
    ("NVIDIA", 400, {"error": "Input length 3000 exceeds maximum allowed token size 512"}),
    ("Bedrock", 400, {"message": "Too many input tokens. Max input tokens: 8192, request input token count: 9711"}),
    ("Bedrock", 400, {"message": "Malformed input request: expected maxLength: 2048, actual: 2310, please reformat your input and try again."}),
    ("Anthropic", 400, {"type": "error", "error": {"type": "invalid_request_error", "message": "prompt is too long: 208310 tokens > 200000 maximum"}}),
    ("sentence-transformers", 500, {"detail": "The expanded size of the tensor (600) must match the existing size (512) at non-singleton dimension 1"}),
    ("FastAPI", 422, {"detail": [{"type": "string_too_long", "loc": ["body", "input"], "msg": "String should have at most 8192 characters", "input": "batch size too many inputs"}]}),
)  # fmt: skip

TOO_MANY = [
    ProviderAnswer("OpenAI", 400, _openai("Invalid 'input': array too long. Expected an array with maximum length 2048, but got an array with length 3000 instead.", code="array_above_max_length"), _too_many(2048), 3000),
    ProviderAnswer("Azure", 400, _openai("Too many inputs. The max number of inputs is 16.  We hope to increase the number of inputs per request soon. Please contact us through an Azure support request at: https://go.microsoft.com/fwlink/?linkid=2213926 for further questions."), _too_many(16)),
    ProviderAnswer("Azure", 400, _openai("Too many inputs. The max number of inputs is 1."), _too_many(1)),
    ProviderAnswer("TEI", 422, {"error": "Input validation error: batch size 64 > maximum allowed batch size 32", "error_type": "Validation"}, _too_many(32)),
    ProviderAnswer("TEI", 413, {"message": "batch size 64 > maximum allowed batch size 32", "code": 413, "type": "validation"}, _too_many(32)),
    ProviderAnswer("SiliconFlow", 413, {"code": 20042, "message": "input batch size 136 > maximum allowed batch size 64", "data": None}, _too_many(64), 136),
    ProviderAnswer("DashScope", 400, _openai("<400> InternalError.Algo.InvalidParameter: Value error, batch size is invalid, it should not be larger than 10.: input.contents", "InvalidParameter", "InvalidParameter"), _too_many(10)),
    ProviderAnswer("Cohere", 400, {"message": "invalid request: total number of texts must be at most 96, received 97"}, _too_many(96), 97),
    ProviderAnswer("Voyage", 400, {"detail": "The batch size limit is 1000. Your batch size is 1001."}, _too_many(1000), 1001),
    ProviderAnswer("Jina", 400, {"detail": "input length is larger than the largest allowed size 2048"}, _too_many(2048), 3000),
    ProviderAnswer("Gemini", 400, [{"error": {"code": 400, "message": "* BatchEmbedContentsRequest.requests: at most 100 requests can be in one batch\n", "status": "INVALID_ARGUMENT"}}], _too_many(100), 128),
    ProviderAnswer("Bedrock", 400, {"message": "Malformed input request: #/texts: expected maximum item count: 96, found: 97, please reformat your input and try again."}, _too_many(96), 97),
    ProviderAnswer("FastAPI", 422, {"detail": [{"type": "too_long", "loc": ["body", "input"], "msg": "List should have at most 32 items after validation, not 64", "input": ["the context length exceeds"]}]}, _too_many(32)),
    ProviderAnswer("FastAPI", 422, {"detail": [{"type": "string_type", "loc": ["body", "input"], "msg": "Input should be a valid string", "input": ["a"]}]}, _too_many(1)),
    ProviderAnswer("unnamed", 400, {"error": "This model does not support batch requests"}, _too_many(1)),
    ProviderAnswer("unnamed", 400, {"error": "Batch too large"}, _too_many(None)),
    ProviderAnswer("unnamed", 400, {"error": "Maximum batch size exceeded"}, _too_many(None)),
]  # fmt: skip

OTHERS = [
    ProviderAnswer("OpenAI", 400, _openai("Requested 453357 tokens, max 300000 tokens per request", "max_tokens_per_request", "max_tokens_per_request"), TOKENS),
    ProviderAnswer("Mistral", 400, {"object": "error", "message": "Too many tokens overall, split into more batches.", "type": "invalid_request_prompt", "param": None, "code": "3210"}, TOKENS),
    ProviderAnswer("Mistral", 400, {"object": "error", "message": "Too many tokens in batch. Max is 16384 got 17555", "type": "invalid_request_error", "param": None, "code": None}, TOKENS),
    ProviderAnswer("Voyage", 400, {"detail": "Request to model 'voyage-large-2-instruct' failed. The max allowed tokens per submitted batch is 120000. Your batch has 121138 tokens after truncation. Please lower the number of tokens in the batch."}, TOKENS),
    ProviderAnswer("OpenAI", 429, _openai("Request too large for text-embedding-3-small in organization org-1 on tokens per min (TPM): Limit 40000, Requested 51230.", "tokens", "rate_limit_exceeded"), TOKENS),
    ProviderAnswer("nginx", 413, b"<html><head><title>413 Request Entity Too Large</title></head></html>", Verdict(Kind.REFUSED, excess=Excess.SIZE)),
    ProviderAnswer("nginx", 413, b"<html><head><title>413 Request Entity Too Large</title></head></html>", LENGTH, 1),
    ProviderAnswer("OpenAI", 400, _openai("'$.input' is invalid. Please check the API reference: https://platform.openai.com/docs/api-reference."), REFUSED),
    ProviderAnswer("Azure", 400, _openai("The response was filtered due to the prompt triggering Azure OpenAI's content management policy.", code="content_filter"), REFUSED),
    ProviderAnswer("unnamed", 422, b"", REFUSED),
    ProviderAnswer("OpenAI", 401, _openai("Incorrect API key provided: k.", code="invalid_api_key"), UNAUTHORIZED),
    ProviderAnswer("OpenAI", 404, _openai("The model `m` does not exist or you do not have access to it.", code="model_not_found"), UNAUTHORIZED),
    ProviderAnswer("Ollama", 500, {"error": "failed to encode response: json: unsupported value: NaN"}, OUTAGE),
    ProviderAnswer("OpenAI", 500, _openai("The server had an error while processing your request. Sorry about that!", "server_error"), OUTAGE),
    ProviderAnswer("OpenAI", 503, _openai("The engine is currently overloaded, please try again later", "server_error"), OUTAGE),
    ProviderAnswer("Anthropic", 529, {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}, OUTAGE),
    ProviderAnswer("TEI", 429, {"error": "Model is overloaded", "error_type": "overloaded"}, Verdict(Kind.RATE)),
    ProviderAnswer("nginx", 504, b"<html>504 Gateway Time-out</html>", OUTAGE),
    ProviderAnswer("vLLM", 503, b"{}", Verdict(Kind.OUTAGE, 7.0), headers={"retry-after": "7"}),
]  # fmt: skip


def _no_quota(status: int, *, provider: str, body: Any) -> ProviderAnswer:
    return ProviderAnswer(provider, status, body, Verdict(Kind.QUOTA))


_OPENAI_QUOTA = "You exceeded your current quota, please check your plan and billing details."
_QUOTA_WORDS = _openai(_OPENAI_QUOTA, "insufficient_quota", "insufficient_quota")
NO_QUOTA = [
    _no_quota(429, provider="OpenAI", body=_QUOTA_WORDS),
    _no_quota(429, provider="OpenAI", body=_openai(_OPENAI_QUOTA)),
    _no_quota(429, provider="OpenAI", body=_openai("Billing hard limit has been reached", code="billing_hard_limit_reached")),
    _no_quota(403, provider="Azure", body=_QUOTA_WORDS),
    _no_quota(400, provider="Anthropic", body={"type": "error", "error": {"type": "invalid_request_error", "message": "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade or purchase credits."}}),
    _no_quota(402, provider="OpenRouter", body={"error": {"message": "Insufficient credits. Add more using https://openrouter.ai/settings/credits", "code": 402}}),
    _no_quota(402, provider="DeepSeek", body=_openai("Insufficient Balance", "unknown_error", "invalid_request_error")),
    _no_quota(402, provider="unnamed", body=b""),
    _no_quota(403, provider="SiliconFlow", body={"code": 30001, "message": "Sorry, your account balance is insufficient: insufficient balance", "data": None}),
    _no_quota(400, provider="DashScope", body=_openai("Access denied, please make sure your account is in good standing.", "Arrearage", "Arrearage")),
    _no_quota(429, provider="Cohere", body={"message": "You are using a Trial key, which is limited to 1000 API calls / month. You can continue to use the Trial key for free or upgrade to a Production key."}),
    _no_quota(429, provider="Moonshot", body=_openai("Your account is suspended, please check your plan and billing details", "exceeded_current_quota_error")),
]  # fmt: skip


def _rate(seconds: float, headers: Mapping[str, str], body: Any = b"", provider: str = "OpenAI") -> ProviderAnswer:
    return ProviderAnswer(provider, 429, body, Verdict(Kind.RATE, seconds), headers=headers)


_DATE = "Wed, 21 Oct 2026 07:28:00 GMT"
RATES = [
    _rate(2.5, {"retry-after": "2.5"}),
    _rate(0.25, {"retry-after-ms": "250", "retry-after": "1"}),
    _rate(0.0, {"retry-after": "0"}),
    _rate(20.0, {"retry-after": "20s"}),
    _rate(30.0, {"retry-after": "Wed, 21 Oct 2026 07:28:30 GMT", "date": _DATE}),
    _rate(0.0, {"retry-after": "Wed, 21 Oct 2026 07:27:30 GMT", "date": _DATE}),
    _rate(8.64, {"x-ratelimit-reset-requests": "8.64s", "x-ratelimit-remaining-requests": "0"}),
    _rate(360.0, {"x-ratelimit-reset-tokens": "6m0s", "x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-requests": "12ms", "x-ratelimit-remaining-requests": "499"}),
    _rate(0.012, {"x-ratelimit-reset-tokens": "6m0s", "x-ratelimit-remaining-tokens": "812", "x-ratelimit-reset-requests": "12ms", "x-ratelimit-remaining-requests": "0"}),
    _rate(3723.5, {"x-ratelimit-reset-requests": "1h2m3.5s"}),
    _rate(1.2, {}, _openai("Rate limit reached for text-embedding-3-small on tokens per min (TPM): Limit 1000000, Used 999000, Requested 21000. Please try again in 1.2s.", "tokens", "rate_limit_exceeded")),
    _rate(0.12, {}, _openai("Rate limit reached for requests. Please try again in 120ms. Visit https://platform.openai.com", "requests", "rate_limit_exceeded")),
    _rate(86.4, {}, _openai("Rate limit reached. Please try again in 1m26.4s.")),
    _rate(6.0, {}, {"error": {"code": "429", "message": "Requests to the Embeddings_Create Operation under Azure OpenAI API version 2024-02-01 have exceeded call rate limit of your current OpenAI S0 pricing tier. Please retry after 6 seconds. Please contact Azure support service."}}, "Azure"),
    _rate(17.0, {"anthropic-ratelimit-requests-remaining": "0", "anthropic-ratelimit-requests-reset": "2026-10-21T07:28:17Z", "anthropic-ratelimit-tokens-remaining": "9000", "anthropic-ratelimit-tokens-reset": "2026-10-21T07:29:00Z", "date": _DATE}, {"type": "error", "error": {"type": "rate_limit_error", "message": "This request would exceed your organization's rate limit"}}, "Anthropic"),
    _rate(12.0, {"retry-after": "12", "anthropic-ratelimit-requests-reset": "2026-10-21T07:29:00Z", "date": _DATE}, provider="Anthropic"),
    _rate(34.0, {}, {"error": {"code": 429, "message": _OPENAI_QUOTA, "status": "RESOURCE_EXHAUSTED", "details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34s"}]}}, "Gemini"),
    _rate(5.0, {"x-ratelimit-reset": "1792567685000", "x-ratelimit-remaining": "0", "date": _DATE}, provider="OpenRouter"),
    _rate(5.0, {"ratelimit-reset": "5", "ratelimit-remaining": "0"}, provider="Mistral"),
    ProviderAnswer("Mistral", 429, {"message": "Requests rate limit exceeded"}, Verdict(Kind.RATE)),
    ProviderAnswer("unnamed", 429, b"", Verdict(Kind.RATE), headers={"retry-after": "soon", "x-ratelimit-reset-requests": "later"}),
]  # fmt: skip

#: All of them.
ANSWERS: Sequence[ProviderAnswer] = [*TOO_LONG, *TOO_MANY, *OTHERS, *NO_QUOTA, *RATES]
