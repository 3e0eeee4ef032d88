"""Interprets the answers and errors of embedding providers, for every client."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from http import HTTPStatus
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
    Excess,
)
from schemas.wording import amount
from worker.embed import Vectors, verdicts
from worker.embed.retry import QUOTA_SECONDS, no_quota, trouble
from worker.embed.verdicts import Kind

#: Maximum length of a provider's message in the log, in characters.
MAX_LOGGED_CHARACTERS = 300
KEY_REMEDY = (
    "Set EMBEDDING_API_KEY to a valid key of the provider, and EMBEDDING_API_BASE if its address is not the default."
)
ADDRESS_REMEDY = "Check that its server runs, and EMBEDDING_API_BASE if it is set."
MODEL_REMEDY = "Check the model's name, which must begin with its provider, as in openai/text-embedding-3-small."
_STATUS_REMEDIES = {404: f"{MODEL_REMEDY} Check EMBEDDING_API_BASE, if it is set."}
_EXCESSES = {
    Excess.TEXTS: " The request has more texts than it takes; set a smaller EMBEDDING_BATCH_SIZE.",
    Excess.LENGTH: " The text is longer than the model takes; set a smaller chunk_size.",
}

#: A row of an answer, in JSON as the provider wrote it.
Row = Mapping[str, Any]

log = structlog.get_logger()


def status_error(
    model: str, status: int, headers: Mapping[str, str], body: bytes | str, texts: int = 1
) -> EmbeddingError:
    """Return the error for an answer other than 200 to a request of `texts` texts. Header names are lower case."""
    verdict = verdicts.judge(status, headers, body, texts)
    # The address may be an internal service whose response only the operator may read, so log it but do not raise it.
    log.warning("a provider rejected a request", model=model, status=status, said=said(body))
    message = f"{model} failed with {status}."
    match verdict.kind:
        case Kind.REFUSED:
            message += _EXCESSES.get(verdict.excess, "") if verdict.excess else ""
            return EmbeddingRefused(message, excess=verdict.excess, most=verdict.most)
        case Kind.UNAUTHORIZED:
            return EmbeddingUnauthorized(f"{message} {_STATUS_REMEDIES.get(status, KEY_REMEDY)}")
        case Kind.QUOTA:
            return EmbeddingUnavailable(
                f"{no_quota(model)}.", retry_after=QUOTA_SECONDS, provider_status=status, has_no_quota=True
            )
        case Kind.RATE | Kind.OUTAGE:
            message = f"{trouble(model, status, verdict.wait)}."
            return EmbeddingUnavailable(message, retry_after=verdict.wait, provider_status=status)


def no_answer(model: str, said: str, *, was_taken: bool) -> EmbeddingUnavailable:
    """Return the error for a request without an answer in time. `said` is the network's error message, for the log."""
    log.warning("a provider does not answer", model=model, said=said)
    return EmbeddingUnavailable(f"{trouble(model, None)}. {ADDRESS_REMEDY}", was_taken=was_taken)


def said(body: bytes | str) -> str:
    """Return the provider's message for the log: the first line, which precedes codes and types."""
    return verdicts.words_of(body).strip().partition("\n")[0][:MAX_LOGGED_CHARACTERS]


def missing_key(model: str) -> EmbeddingUnauthorized:
    """Return the error for a provider that needs a key and got none."""
    return EmbeddingUnauthorized(f"{model} needs a key. {KEY_REMEDY}")


def unreadable(model: str, error: Exception) -> EmbeddingUnreadable:
    """Return the error for an answer that does not have the expected form."""
    log.warning("cannot read a provider's response", model=model, error=repr(error)[:MAX_LOGGED_CHARACTERS])
    return EmbeddingUnreadable(f"The response of {model} is not readable; check EMBEDDING_API_BASE.")


def error_in_body(model: str, body: bytes | str, texts: int = 1) -> EmbeddingError:
    """Return the error for an answer of status 200 whose body holds an error instead of vectors.

    It is an outage, unless its words name a fault that other requests avoid.
    """
    verdict = verdicts.judge(HTTPStatus.BAD_REQUEST, {}, body, texts)
    if verdict.excess is not None or verdict.kind is Kind.QUOTA:
        return status_error(model, HTTPStatus.BAD_REQUEST, {}, body, texts)
    log.warning("a provider answered with an error", model=model, said=said(body))
    message = f"The response of {model} holds an error instead of vectors; the log quotes it."
    return EmbeddingUnavailable(f"{message} {ADDRESS_REMEDY}")


def decode(data: Sequence[Any], count: int) -> Vectors:
    """Return rows in the order of the inputs, from base64 of little-endian floats or from lists.

    A row without numbers becomes a row without direction. `unit` then names its text and keeps the other rows, which
    are paid for.
    """
    cells = _in_order([row if isinstance(row, dict) else {} for row in data], count)
    lengths = Counter(len(cell) for cell in cells if cell is not None)
    (length, number), *_ = lengths.most_common(1) or [(0, 0)]
    if not length or 2 * number <= sum(lengths.values()):
        raise EmbeddingUnreadable("The provider's vectors are not readable; check EMBEDDING_API_BASE.")
    missing = np.full(length, np.nan, dtype=np.float32)
    return np.stack([cell if cell is not None and len(cell) == length else missing for cell in cells])


def _in_order(rows: Sequence[Row], count: int) -> list[Vectors | None]:
    """Return the vector of each text, None for a missing one. Raises `EmbeddingUnreadable` if it cannot assign rows."""
    indices = [row.get("index") for row in rows]
    if len(rows) == count and _is_in_place(indices):
        return [_cell(row) for row in rows]
    if len(rows) != count and not _tells_what_is_missing(indices, count):
        amounts = f"{amount(len(rows), 'vector')} for {amount(count, 'text')}"
        smaller = ", or set a smaller EMBEDDING_BATCH_SIZE" * (count > 1)
        raise EmbeddingUnreadable(
            f"The provider returned {amounts}; check EMBEDDING_API_BASE{smaller}.", vectors=len(rows)
        )
    by_index = {index: row for index, row in zip(indices, rows, strict=True) if type(index) is int}
    if len(by_index) != len(rows) or not by_index.keys() <= set(range(count)):
        raise EmbeddingUnreadable(
            "The provider's response does not say which vector belongs to which text; check EMBEDDING_API_BASE."
        )
    return [_cell(by_index.get(index, {})) for index in range(count)]


def _is_in_place(indices: Sequence[Any]) -> bool:
    """Return whether rows follow the order of the texts. Indices may be absent, all 0, in order, or count from 1."""
    is_stated = [(position, index) for position, index in enumerate(indices) if index is not None]
    return (
        all(index == position for position, index in is_stated)
        or all(index == 0 for _, index in is_stated)
        or (len(is_stated) == len(indices) and all(index == position + 1 for position, index in is_stated))
    )


def _tells_what_is_missing(indices: Sequence[Any], count: int) -> bool:
    """Return whether too few rows state their texts. Rows for the first texts alone may answer a shorter request."""
    stated = {index for index in indices if type(index) is int and 0 <= index < count}
    return 0 < len(indices) < count and len(stated) == len(indices) and max(stated) >= len(indices)


def _cell(row: Row) -> Vectors | None:
    """Return the vector of a row; None if it has none."""
    value = row.get("embedding")
    try:
        if isinstance(value, str):
            vector = np.frombuffer(pybase64.b64decode(value), dtype="<f4").astype(np.float32, copy=False)
        else:
            vector = np.asarray(value, dtype=np.float32)
    except (TypeError, ValueError):
        return None
    return vector if vector.ndim == 1 and len(vector) else None


def unit(vectors: Vectors) -> Vectors:
    """Scale the vectors to length 1. Raises `EmbeddingUnreadable` with these and the indices of the others."""
    with np.errstate(over="ignore", invalid="ignore"):
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        directions: Vectors = vectors / norms
    good = np.isfinite(norms[:, 0]) & (norms[:, 0] != 0)
    if not good.all():
        raise EmbeddingUnreadable(
            "The provider returned a vector that is zero or not a number. "
            "Retry; if that fails again, exclude the file or change the model.",
            indices=np.flatnonzero(~good).tolist(),
            answered={index: directions[index] for index in np.flatnonzero(good).tolist()},
        )
    return directions
