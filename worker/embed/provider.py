"""A provider's model as an `Embedder`, with any client."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from schemas.content.source import EmbedderProfile
from schemas.errors import EmbeddingError, EmbeddingRefused, EmbeddingUnauthorized
from worker.embed import Vectors, answers, known_models, litellm, openai_api

#: Seconds without a byte from the provider after which a request counts as lost.
TIMEOUT_SECONDS = 60.0
#: A text that every model can embed.
ONE_WORD = "word"


class Client(Protocol):
    """One model at one address."""

    def rows(self, texts: Sequence[str], encoding: str) -> list[Any]:
        """Return the rows of the answer to one request, as the provider sent them. Raises any `EmbeddingError`."""


class ProviderEmbedder:
    """A provider's model as an `Embedder`. Thread-safe.

    `dimensions` are sent only if explicitly configured, because many models refuse the parameter.
    """

    def __init__(
        self,
        profile: EmbedderProfile,
        *,
        api_base: str | None = None,
        api_key: str | None = None,
        max_inputs: int,
        max_request_tokens: int,
        explicit_dimensions: bool = False,
    ) -> None:
        self.profile = profile
        self.max_inputs = max_inputs
        self.max_request_tokens = max_request_tokens
        dimensions = profile.dimensions if explicit_dimensions else None
        self._call = ModelCall(_client(profile.model, api_base, api_key, dimensions, TIMEOUT_SECONDS))

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Send one request, as `Embedder` says. A refusal names the refused texts if they are known."""
        vectors = self._call.vectors(texts)
        if vectors.shape[1] != self.profile.dimensions:
            raise EmbeddingUnauthorized(
                f"{self.profile.model} returns {vectors.shape[1]} dimensions, but the index was built with "
                f"{self.profile.dimensions}. Create a new tool, or restore the previous EMBEDDING_API_BASE."
            )
        return answers.unit(vectors)


class ModelCall:
    """A client, and the answer encoding that its model is known to support."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._encoding = "base64"
        self._base64_works = False

    def vectors(self, texts: Sequence[str]) -> Vectors:
        """Return the unmodified answer to one request, float32 of shape (len(texts), the model's dimensions).

        The first requests find out whether the provider supports base64, which is far cheaper to decode than lists.
        """
        # Keep a copy: another thread may change it during the request.
        encoding = self._encoding
        try:
            data = self._client.rows(texts, encoding)
        except EmbeddingRefused as refusal:
            if encoding == "float" or self._base64_works or refusal.excess is not None:
                raise
            data = self._retry_with_lists(texts, refusal)
        else:
            self._base64_works |= encoding == "base64"
        return answers.decode(data, len(texts))

    def _retry_with_lists(self, texts: Sequence[str], refusal: EmbeddingRefused) -> list[Any]:
        try:
            data = self._client.rows(texts, "float")
        except EmbeddingRefused:
            if len(texts) > 1:
                self._find_out_with_one_word()
            raise refusal from None
        self._encoding = "float"
        return data

    def _find_out_with_one_word(self) -> None:
        """Find out with one word whether base64 is supported, or each refusal of many texts would be tried twice."""
        try:
            self._client.rows([ONE_WORD], "base64")
        except EmbeddingError:
            return
        self._base64_works = True


def native_dimensions(
    model: str,
    dimensions: int | None,
    api_base: str | None,
    api_key: str | None,
    *,
    seconds: float = TIMEOUT_SECONDS,
) -> int:
    """Return the dimensions of an answer, with these `dimensions` if requested. Raises any `EmbeddingError`."""
    call = ModelCall(_client(model, api_base, api_key, dimensions, seconds))
    width: int = answers.unit(call.vectors([ONE_WORD])).shape[1]
    return width


def warm(model: str) -> None:
    """Import the client of this model. It starts no thread and opens nothing, so it may run before a fork."""
    if needs_litellm(model):
        litellm.warm()
    else:
        openai_api.warm()


def needs_litellm(model: str) -> bool:
    """Return whether this model needs LiteLLM. A name without a prefix is OpenAI's if LiteLLM's table says so."""
    if "/" in model:
        return not model.startswith(openai_api.PREFIX)
    return known_models.provider_of(model) != openai_api.PREFIX.rstrip("/")


def _client(model: str, api_base: str | None, api_key: str | None, dimensions: int | None, seconds: float) -> Client:
    kind = litellm.LiteLLMClient if needs_litellm(model) else openai_api.OpenAIClient
    return kind(model, api_base, api_key, dimensions, seconds)
