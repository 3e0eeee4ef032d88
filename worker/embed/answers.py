"""What the answers and errors of embedding providers mean, whichever client brings them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pybase64
import structlog

from schemas.errors import (
    EmbeddingError,
    EmbeddingRefused,
    EmbeddingUnauthorized,
    EmbeddingUnavailable,
    EmbeddingUnreadable,
)
from worker.embed import Vectors
from worker.embed.retry import REFUSED_STATUSES, is_unavailable, trouble

#: Maximum length of a provider's message in the log, in characters.
MAX_LOGGED_CHARACTERS = 300
KEY_REMEDY = (
    "Set EMBEDDING_API_KEY to a valid key of the provider, and EMBEDDING_API_BASE if its address is not the default."
)
ADDRESS_REMEDY = "Check that its server runs, and EMBEDDING_API_BASE if it is set."
MODEL_REMEDY = "Check the model's name, which must begin with its provider, as in openai/text-embedding-3-small."
_STATUS_REMEDIES = {
    402: "Add credit to the provider's account.",
    404: f"{MODEL_REMEDY} Check EMBEDDING_API_BASE, if it is set.",
}

log = structlog.get_logger()


def status_error(model: str, status: int, said: str, seconds: float | None) -> EmbeddingError:
    """The error for a status, what the provider said of it, and the seconds that it asks to wait."""
    # The address may be an internal service whose response only the operator may read, so log it but do not raise it.
    log.warning("a provider rejected a request", model=model, status=status, said=said)
    message = f"{model} failed with {status}."
    if status in REFUSED_STATUSES:
        return EmbeddingRefused(message)
    if is_unavailable(status):
        message = f"{trouble(model, status, seconds)}."
        return EmbeddingUnavailable(message, retry_after=seconds, provider_status=status)
    return EmbeddingUnauthorized(f"{message} {_STATUS_REMEDIES.get(status, KEY_REMEDY)}")


def no_answer(model: str, said: str, *, was_taken: bool) -> EmbeddingUnavailable:
    """The error for a request that no server answered, or not in time, and what the network said of it."""
    log.warning("a provider does not answer", model=model, said=said)
    return EmbeddingUnavailable(f"{trouble(model, None)}. {ADDRESS_REMEDY}", was_taken=was_taken)


def errors_after_connecting() -> tuple[type[Exception], ...]:
    """The errors of httpx for a request that a server took."""
    import httpx

    return httpx.ReadError, httpx.WriteError, httpx.RemoteProtocolError, httpx.ReadTimeout, httpx.WriteTimeout


def missing_key(model: str) -> EmbeddingUnauthorized:
    """The error for a provider that needs a key and got none."""
    return EmbeddingUnauthorized(f"{model} needs a key. {KEY_REMEDY}")


def unreadable(model: str, error: Exception) -> EmbeddingUnreadable:
    """The error for an answer that does not have the expected form."""
    log.warning("cannot read a provider's response", model=model, error=repr(error)[:MAX_LOGGED_CHARACTERS])
    return EmbeddingUnreadable(f"The response of {model} is not readable; check EMBEDDING_API_BASE.")


def decode(data: Sequence[Any], count: int) -> Vectors:
    """Rows in the order of the inputs, from base64 of little-endian floats or from lists."""
    if len(data) != count:
        amounts = f"{len(data)} vector{'s' * (len(data) != 1)} for {count} text{'s' * (count != 1)}"
        smaller = ", or set a smaller EMBEDDING_BATCH_SIZE" * (count > 1)
        raise EmbeddingUnreadable(
            f"The provider returned {amounts}; check EMBEDDING_API_BASE{smaller}.", vectors=len(data)
        )
    try:
        rows = sorted(data, key=lambda row: row["index"])
        cells = [_cell(row["embedding"]) for row in rows]
        vectors = np.stack(cells)
    except (LookupError, TypeError, ValueError) as error:
        log.warning("cannot read a provider's vectors", error=str(error)[:MAX_LOGGED_CHARACTERS])
        raise EmbeddingUnreadable("The provider's vectors are not readable; check EMBEDDING_API_BASE.") from error
    if [row["index"] for row in rows] != list(range(count)):
        raise EmbeddingUnreadable(
            "The provider's response does not say which vector belongs to which text; check EMBEDDING_API_BASE."
        )
    return vectors


def _cell(value: str | Sequence[float]) -> Vectors:
    if isinstance(value, str):
        return np.frombuffer(pybase64.b64decode(value), dtype="<f4").astype(np.float32, copy=False)
    return np.asarray(value, dtype=np.float32)


def unit(vectors: Vectors) -> Vectors:
    """The vectors at length one. Raises `EmbeddingRefused` with the indices of those that have no direction."""
    with np.errstate(over="ignore", invalid="ignore"):
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    bad = np.flatnonzero(~np.isfinite(norms[:, 0]) | (norms[:, 0] == 0)).tolist()
    if bad:
        raise EmbeddingRefused(
            "The provider returned a vector that is zero or not a number. "
            "Retry; if that fails again, exclude the file or change the model.",
            indices=bad,
        )
    directions: Vectors = vectors / norms
    return directions
