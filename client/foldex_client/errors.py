"""The tree of all errors. Catch `FoldexError` for all of them, or the class of one `code`.

A code that this version does not know raises `FoldexError` itself. docs/reference/errors.md describes the codes.
"""

from __future__ import annotations

import time
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, ClassVar

import httpx

if TYPE_CHECKING:
    from foldex_client.models import Status


class FoldexError(Exception):
    """Base of all errors. `detail` is a sentence that names the remedy.

    `status` is that of the HTTP answer, None if there was none. `retry_after` is in seconds.
    """

    code: str = ""
    by_code: ClassVar[dict[str, type[FoldexError]]] = {}

    def __init_subclass__(cls, *, code: str | None = None) -> None:
        super().__init_subclass__()
        if code is not None:
            cls.code = code
            cls.by_code[code] = cls

    def __init__(
        self,
        detail: str,
        *,
        code: str | None = None,
        status: int | None = None,
        retryable: bool = False,
        retry_after: float | None = None,
        request_id: str | None = None,
    ) -> None:
        super().__init__(detail)
        self.detail = detail
        self.code = code or self.code
        self.status = status
        self.retryable = retryable
        self.retry_after = retry_after
        self.request_id = request_id

    def __str__(self) -> str:
        return f"{self.detail} ({self.code})"


class ConnectionFailed(FoldexError, code="connection_failed"):
    """The service cannot be reached, or the connection broke. `__cause__` is the error of httpx."""


class TimedOut(ConnectionFailed, code="timed_out"):
    """The service was silent for longer than `timeout`."""


class UnexpectedAnswer(FoldexError, code="unexpected_answer"):
    """The answer is not from Foldex, or from a Foldex that this client does not understand."""


class WaitTimedOut(FoldexError, code="wait_timed_out"):
    """The task had not ended within the `timeout` of a wait. It goes on."""


class IndexingFailed(FoldexError, code="indexing_failed"):
    """The task ended as `error`. `code` is its `error_code`, where it has one."""

    #: How the task ended.
    task: Status

    @classmethod
    def of(cls, task: Status) -> IndexingFailed:
        """The error of a task that did not end as `ready`."""
        kind = IndexingCancelled if task.status == "cancelled" else cls
        error = kind(task.error or f"The task ended as {task.status}; reindex to start it again.", code=task.error_code)
        error.task = task
        return error


class IndexingCancelled(IndexingFailed, code="indexing_cancelled"):
    """The task was cancelled."""


class Unauthorized(FoldexError, code="unauthorized"):
    """The key is missing, unknown, expired or revoked."""


class TokenInvalid(Unauthorized, code="token_invalid"):
    """The token is expired, of another issuer or for another service, or its signature does not fit."""


class TokenUnusable(FoldexError, code="token_unusable"):
    """The token is valid, but what it says of its user cannot be used. `detail` names the claim."""


class IssuerUnavailable(FoldexError, code="issuer_unavailable"):
    """The keys that check tokens are not known yet, and cannot be read. A retry can help."""


class ScopeMissing(FoldexError, code="scope_missing"):
    """The key does not allow this call. `detail` names the scope that it lacks."""


class NotLoopback(FoldexError, code="auth_required"):
    """A request from another machine while `AUTH=off`."""


class CrossSite(FoldexError, code="cross_site"):
    """A request from another site's page while `AUTH=off`."""


class SessionNeeded(FoldexError, code="session_needed"):
    """The call needs the session of a page that was opened by the link of an embedded stack."""


class LinkUsed(FoldexError, code="link_used"):
    """The link that shall open a session was used before, is too old, or never was one."""


class NotFound(FoldexError, code="not_found"):
    """The thing does not exist, or belongs to a project that the key may not access."""


class Invalid(FoldexError, code="invalid_request"):
    """The request is understood but cannot be carried out as it is."""


class InvalidJson(Invalid, code="invalid_json"):
    """The body is not valid JSON, or cannot be read at all."""


class InvalidHttp(FoldexError, code="invalid_http"):
    """The server cannot read the bytes as a request of HTTP/1.1."""


class FilterMatchesNothing(Invalid, code="no_such_files"):
    """The filters of a query select no file of the index."""


class ModelRefused(Invalid, code="embedding_model_refused"):
    """The embedding model is missing or unknown, or its dimensions differ from those requested."""


class ModelNotAllowed(Invalid, code="model_not_allowed"):
    """The operator does not allow this embedding model."""


class NoTree(Invalid, code="no_tree"):
    """The tool has no complete summary tree yet."""


class TooLarge(Invalid, code="too_large"):
    """The request is larger than this installation accepts."""


class TooManyValues(Invalid, code="too_many_values"):
    """The body has more values, or is nested deeper, than this installation accepts."""


class HeadersTooLarge(Invalid, code="headers_too_large"):
    """The headers are larger, or have more fields, than this installation accepts."""


class UrlTooLong(Invalid, code="url_too_long"):
    """The URL is longer than this installation accepts."""


class TooManyConnections(FoldexError, code="too_many_connections"):
    """The API has as many connections as it keeps."""


class BodiesBusy(FoldexError, code="bodies_busy"):
    """The API holds as many bodies as it may."""


class RangeNotSatisfiable(Invalid, code="range_not_satisfiable"):
    """The range begins after the content."""


class BodyTooSlow(Invalid, code="body_too_slow"):
    """The request body did not arrive in time."""


class MethodNotAllowed(FoldexError, code="method_not_allowed"):
    """The path exists and does not take this method."""


class Conflict(FoldexError, code="conflict"):
    """The thing already exists, or its state forbids the request."""


class LastAdminKey(Conflict, code="last_admin_key"):
    """The key is the last one of its project with the scope `admin`."""


class TooManyTools(FoldexError, code="too_many_tools"):
    """The project has as many tools as this installation allows."""


class SourceError(FoldexError, code="source_error"):
    """A source cannot be listed or read as a whole."""


class FolderGone(SourceError, code="folder_gone"):
    """The root of the source does not exist, or no longer exists."""


class FolderElsewhere(SourceError, code="folder_elsewhere"):
    """The folder at this path of the machine is another one than that of the machine that indexed it."""


class SourceRefused(SourceError, code="source_refused"):
    """The source is outside what this installation may read, or its credentials are wrong."""


class SourceUnavailable(SourceError, code="source_unavailable"):
    """The source did not answer."""


class SourceBusy(SourceUnavailable, code="source_busy"):
    """Helpers that read the source's files are busy."""


class ContentsElsewhere(SourceUnavailable, code="contents_elsewhere"):
    """The service sees another directory than the one that holds its contents."""


class FileTooSlow(FoldexError, code="file_too_slow"):
    """Reading the file takes too much time."""


class EmbeddingError(FoldexError, code="embedding_error"):
    """The embedding provider did not return usable vectors."""


class EmbeddingRefused(EmbeddingError, code="embedding_refused"):
    """The provider refuses some of the inputs."""


class EmbeddingUnreadable(EmbeddingRefused, code="embedding_unreadable"):
    """The provider's answer does not fit the request."""


class EmbeddingUnauthorized(EmbeddingError, code="embedding_unauthorized"):
    """The provider refuses the service's key or does not know the model."""


class EmbeddingUnavailable(EmbeddingError, code="embedding_unavailable"):
    """Rate limit, time-out, connection error or server error of the provider."""


class RerankError(FoldexError, code="rerank_error"):
    """A model cannot rank the candidates of a query."""


class RerankNotConfigured(RerankError, code="rerank_not_configured"):
    """This installation has no model configured for the requested kind of reranking."""


class LlmError(FoldexError, code="llm_error"):
    """A language model did not do what was asked of it."""


class LlmNotConfigured(LlmError, code="llm_not_configured"):
    """This installation has no language model for summaries."""


class RerankUnavailable(RerankError, code="rerank_unavailable"):
    """The model gave no usable answer in time."""


class StoreError(FoldexError, code="store_error"):
    """The vector store did not carry out an operation."""


class StoreRefused(StoreError, code="store_refused"):
    """The store refuses some of the rows."""


class StoreUnauthorized(StoreError, code="store_unauthorized"):
    """The store refuses the service's key."""


class TextKeyMissing(StoreError, code="text_key_missing"):
    """The key is gone whose hashes the store has instead of words, names and paths."""


class StoreUnavailable(StoreError, code="store_unavailable"):
    """Back-pressure, time-out, connection error or server error of the store."""


class VectorsElsewhere(StoreUnavailable, code="vectors_elsewhere"):
    """The service sees another directory than the one that holds its vectors."""


class DatabaseUnavailable(FoldexError, code="database_unavailable"):
    """Postgres does not answer."""


class SchemaBehind(FoldexError, code="schema_behind"):
    """The database lacks migrations of the server's release."""


class ReleaseBehind(FoldexError, code="release_behind"):
    """A newer release wrote the tool than the server's, which cannot read it."""


class Locked(FoldexError, code="locked"):
    """Another session of Postgres holds what the call needs."""


class DiskFull(FoldexError, code="disk_full"):
    """A required disk has no space left."""


class SearchSlow(FoldexError, code="tool_slow"):
    """None of the searched tools answered in time."""


class ProjectBusy(FoldexError, code="project_busy"):
    """The project already has as many calls of a kind in progress as it may."""


class ServerBusy(FoldexError, code="server_busy"):
    """The calls of all projects together fill the API."""


class SearchBusy(FoldexError, code="search_busy"):
    """Too many large answers are in progress."""


class EstimateBusy(FoldexError, code="estimate_busy"):
    """Too many estimates are in progress."""


class Internal(FoldexError, code="internal"):
    """Something failed in Foldex. The log of the API has the details."""


def from_response(response: httpx.Response) -> FoldexError:
    """The error that an unsuccessful answer means."""
    retry_after = _seconds(response.headers.get("retry-after", ""))
    about: dict[str, Any] = {
        "status": response.status_code,
        "retry_after": retry_after,
        "retryable": retry_after is not None or response.status_code in {429, 503},
        "request_id": response.headers.get("x-request-id"),
    }
    try:
        problem = response.json()
        code, detail = str(problem["code"]), str(problem["detail"])
    except (ValueError, KeyError, TypeError):
        return unexpected(response, f"answered {response.status_code}, which Foldex does not answer", **about)
    return FoldexError.by_code.get(code, FoldexError)(detail, code=code, **about)


def unexpected(response: httpx.Response, what: str, **about: Any) -> UnexpectedAnswer:
    """The error for an answer that cannot come from a Foldex that this client knows."""
    request = response.request
    remedy = "check that base_url leads to Foldex itself, and that this client is not older than it"
    return UnexpectedAnswer(f"{request.method} {request.url} {what}; {remedy}.", **about)


def from_transport(request: httpx.Request, error: httpx.RequestError) -> ConnectionFailed:
    """The error that a failure of the connection means."""
    place, why = f"{request.method} {request.url}", str(error) or type(error).__name__
    if isinstance(error, httpx.TimeoutException) and not isinstance(error, httpx.ConnectTimeout):
        return TimedOut(f"{place} got no answer in time ({why}); give a larger timeout, or try later.", retryable=True)
    remedy = "check base_url, the proxies of the environment, and that Foldex runs there"
    return ConnectionFailed(f"{place} failed ({why}); {remedy}.", retryable=True)


def _seconds(retry_after: str) -> float | None:
    """A Retry-After header, which holds seconds or, from some proxies, a date."""
    if retry_after.isdecimal():
        return float(retry_after)
    try:
        return max(0.0, parsedate_to_datetime(retry_after).timestamp() - time.time())
    except ValueError:
        return None
