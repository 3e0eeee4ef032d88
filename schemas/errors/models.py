"""Errors of the models that embed, rerank and summarise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Self

from schemas.errors.base import FoldexError
from schemas.reason import Reason


class ModelUnavailable(Exception):
    """Rate limit, time-out, connection error or server error of a model's provider.

    `provider_status` is the HTTP status of the provider's answer, if there was one. `was_taken`: a server took the
    request, and then closed the connection or let the time pass. `was_sent` is False for a request that was held back
    because the provider may not be asked at the moment. `has_no_quota`: the account must be topped up first. Its
    children are `FoldexError`s too.
    """

    message: str
    status = 503
    retryable = True

    def __init__(
        self,
        message: str,
        *,
        retry_after: float | None = None,
        provider_status: int | None = None,
        was_taken: bool = False,
        was_sent: bool = True,
        has_no_quota: bool = False,
    ) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        self.provider_status = provider_status
        self.was_taken = was_taken
        self.was_sent = was_sent
        self.has_no_quota = has_no_quota


class EmbeddingError(FoldexError):
    """The embedding provider did not return usable vectors."""

    code = "embedding_error"
    status = 502


class Excess(StrEnum):
    """The limit of a provider that a request exceeds. `SIZE`: one of the others, but which is unknown."""

    TEXTS = "texts"
    #: Tokens of all texts together.
    TOKENS = "tokens"
    #: Tokens of one text.
    LENGTH = "length"
    SIZE = "size"


class EmbeddingRefused(EmbeddingError):
    """The provider refuses some of these inputs; a smaller batch may pass.

    `indices` are the positions of the refused texts in the request, if the provider names them. `reason` is that of
    their files. `excess` is what the request has too much of, if the provider says so, and `most` what it takes.
    """

    code = "embedding_refused"
    example = "The provider's vectors are not readable; check EMBEDDING_API_BASE."

    def __init__(
        self,
        message: str,
        *,
        indices: Sequence[int] = (),
        reason: Reason = Reason.EMBEDDING_REFUSED,
        excess: Excess | None = None,
        most: int | None = None,
    ) -> None:
        super().__init__(message)
        self.indices = indices
        self.reason = reason
        self.excess = excess
        self.most = most

    def at(self, places: Sequence[int]) -> Self:
        """The same refusal for a larger request, which has the texts of this one at these positions."""
        moved = self.with_message(self.message)
        moved.indices = [places[index] for index in self.indices]
        return moved


class EmbeddingUnreadable(EmbeddingRefused):
    """The provider's answer does not fit the request, such as too few vectors. A smaller batch may pass.

    `vectors` is the number of vectors in the answer, 0 if that is unknown. `answered` has the usable ones by position.
    """

    code = "embedding_unreadable"
    example = (
        "The provider returned 1 vector for 64 texts; check EMBEDDING_API_BASE, or set a smaller EMBEDDING_BATCH_SIZE."
    )

    def __init__(
        self,
        message: str,
        *,
        vectors: int = 0,
        indices: Sequence[int] = (),
        answered: Mapping[int, Any] | None = None,
    ) -> None:
        super().__init__(message, indices=indices)
        self.vectors = vectors
        self.answered = answered or {}

    def at(self, places: Sequence[int]) -> Self:
        """See `EmbeddingRefused`."""
        moved = super().at(places)
        moved.answered = {places[index]: vector for index, vector in self.answered.items()}
        return moved


class EmbeddingUnauthorized(EmbeddingError):
    """The provider refuses the key or does not know the model: no request can succeed."""

    code = "embedding_unauthorized"
    settings_of = "embedding"
    example = "openai/text-embedding-3-small failed with 401. Set EMBEDDING_API_KEY to a valid key of the provider."


class EmbeddingUnavailable(ModelUnavailable, EmbeddingError):
    """Rate limit, time-out, connection error or server error."""

    code = "embedding_unavailable"
    example = "openai/text-embedding-3-small is busy (HTTP 429) and asks to wait 20 s."


class RerankError(FoldexError):
    """A model cannot rank the candidates of a query."""

    code = "rerank_error"
    status = 502


class RerankNotConfigured(RerankError):
    """This installation has no model configured for the requested kind of reranking."""

    code = "rerank_not_configured"
    status = 422
    example = 'rerank: "model" needs a model; set RERANK_MODEL, or send rerank: "boost".'


class RerankUnavailable(RerankError):
    """The model gave no usable answer in time. The query does not fail; its hits keep their order."""

    code = "rerank_unavailable"
    status = 503
    retryable = True


class LlmError(FoldexError):
    """A language model did not do what was asked of it."""

    code = "llm_error"
    status = 502


class LlmNotConfigured(LlmError):
    """This installation has no language model for summaries."""

    code = "llm_not_configured"
    status = 422
    settings_of = "llm"
    example = (
        "Summary trees need a language model; set DEFAULT_LLM_MODEL with LLM_API_BASE and LLM_API_KEY, or set "
        "config.raptor.llm_model to local/extractive, which needs no key."
    )


class LlmRefused(LlmError):
    """The model does not summarise these texts: it refuses them, or its answer is empty, too long or unreadable.

    `reason` is the word that counts this in a tree's status.
    """

    code = "llm_refused"

    def __init__(self, message: str, *, reason: str = "refused") -> None:
        super().__init__(message)
        self.reason = reason


class LlmUnauthorized(LlmError):
    """The provider refuses the key or does not know the language model: no request can succeed."""

    code = "llm_unauthorized"
    settings_of = "llm"


class LlmUnavailable(ModelUnavailable, LlmError):
    """Rate limit, time-out, connection error or server error of a language model."""

    code = "llm_unavailable"


class LlmFailed(LlmError):
    """Several clusters in a row could not be summarised, for the same reason."""

    code = "llm_failed"
