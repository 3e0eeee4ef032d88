"""The tree of all errors. Every error has a `code`, an HTTP status and a flag that says whether a retry can help.

FoldexError
├── Unauthorized · NotLoopback · CrossSite
├── NotFound
├── Invalid
│   ├── FilterMatchesNothing
│   ├── ModelNotAllowed
│   ├── ModelRefused
│   ├── TooLarge
│   └── BodyTooSlow
├── Conflict
├── SourceError
│   ├── FolderGone
│   ├── SourceRefused
│   └── SourceUnavailable
├── FileError             (the outcome of one file; never fails the task)
├── EmbeddingError
│   ├── EmbeddingRefused      (these inputs)
│   ├── EmbeddingUnauthorized (this key or model; fails the whole task)
│   └── EmbeddingUnavailable  (temporary)
├── RerankError
│   ├── RerankNotConfigured
│   └── RerankUnavailable     (the hits keep their order)
├── StoreError
│   ├── StoreRefused          (these rows)
│   ├── StoreUnauthorized
│   └── StoreUnavailable
├── TaskCrashed           (workers crash or meet unexpected errors, again and again)
│   ├── PlanCrashed
│   └── SliceCrashed
├── DiskFull              (the disk of FOLDEX_HOME, or of Postgres)
├── SearchSlow            (a search of several tools, and none answered in time)
├── SearchBusy            (too many large answers are in progress)
├── LeaseLost             (another worker, a cancel or a delete took over)
└── SliceOver             (the slice's time is up; the next slice continues)

Foreign exceptions are mapped to these errors in `worker.sources`, `worker.embed`, `worker.llm` and `worker.vectors`,
where they enter.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Self
from uuid import UUID

from schemas.status import Reason


class FoldexError(Exception):
    """Base of all errors. `message` is one sentence for the caller that names the remedy."""

    code: ClassVar[str] = "internal"
    status: ClassVar[int] = 500
    retryable: ClassVar[bool] = False
    #: A message as a caller may meet it, for errors that answer requests.
    example: ClassVar[str] = ""

    #: Seconds after which a retry can help, if known.
    retry_after: float | None = None

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message

    def with_message(self, message: str) -> Self:
        """The same error with another message."""
        error = type(self).__new__(type(self), message)
        vars(error).update(vars(self), message=message)
        return error


class Unauthorized(FoldexError):
    """The key is missing, unknown or revoked."""

    code = "unauthorized"
    status = 401
    example = "The key is missing or invalid; send `Authorization: Bearer <key>` with a key from `foldex keys create`."


class NotLoopback(FoldexError):
    """A request from another machine while `AUTH=off`."""

    code = "auth_required"
    status = 403
    example = "AUTH=off serves this machine only; set AUTH=on and create a key with `foldex keys create`."


class CrossSite(FoldexError):
    """A request from another site's page while `AUTH=off`."""

    code = "cross_site"
    status = 403
    example = "A page of another site sent this request; send it from a program, or from a page of this server."


class NotFound(FoldexError):
    """The thing does not exist, or belongs to a project that the key may not access."""

    code = "not_found"
    status = 404
    example = "There is no project 'project-2'; check the id, or use a key of that project."


class Invalid(FoldexError):
    """The request is understood but cannot be carried out as it is."""

    code = "invalid_request"
    status = 422
    example = "top_k: Input should be greater than or equal to 1. See /docs for what this call accepts."


class FilterMatchesNothing(Invalid):
    """The filters of a query select no file of the index. `hint` says what the index has instead, or is empty."""

    code = "no_such_files"
    example = "No indexed file matches the filters types=['pdf']; widen them, or list the tool's files."

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class ModelRefused(Invalid):
    """The embedding model is missing or unknown, or its dimensions differ from those requested."""

    code = "embedding_model_refused"
    example = "openai/text-embedding-3-small returns 1536 dimensions, not 4096; set `dimensions` to 1536, or omit it."


class ModelNotAllowed(Invalid):
    """The operator does not allow this embedding model."""

    code = "model_not_allowed"
    example = (
        "The embedding model 'openai/text-embedding-3-large' is not allowed; choose one of local/*, or ask "
        "the operator to add it to ALLOWED_MODELS."
    )


class TooLarge(Invalid):
    """The request is larger than this installation accepts."""

    code = "too_large"
    status = 413
    example = "The body has more than MAX_BODY_BYTES (33,554,432) bytes; send less, or upload it as a file."


class BodyTooSlow(Invalid):
    """The request body did not arrive in time."""

    code = "body_too_slow"
    status = 408
    example = "The body did not arrive within 60 s; send it again."


class Conflict(FoldexError):
    """The thing already exists, or its state forbids the request."""

    code = "conflict"
    status = 409
    example = "A node 'folder-001' already exists in this project; choose another id, or PATCH it."


class SourceError(FoldexError):
    """A source cannot be listed or read as a whole."""

    code = "source_error"
    status = 422
    example = "The content of node 'file-data-68abc' is missing from the object store; upload it again."


class FolderGone(SourceError):
    """The root of the source does not exist, or no longer exists."""

    code = "folder_gone"
    example = "/srv/docs is not a directory, or no longer exists; choose an existing directory."


class SourceRefused(SourceError):
    """The source is outside what this installation may read, or its credentials are wrong."""

    code = "source_refused"
    example = "S3 cannot be used (AccessDenied); check the credentials and S3_ENDPOINT_URL."


class SourceUnavailable(SourceError):
    """The source did not answer; a later retry can help."""

    code = "source_unavailable"
    status = 503
    retryable = True
    example = "S3 did not answer for bucket 'docs'; check S3_ENDPOINT_URL."


class FileError(FoldexError):
    """The outcome of a single file that is not indexed; the rest of the folder continues."""

    code = "file_error"

    def __init__(self, reason: Reason, message: str | None = None) -> None:
        super().__init__(message or reason.remedy)
        self.reason = reason


class EmbeddingError(FoldexError):
    """The embedding provider did not return usable vectors."""

    code = "embedding_error"
    status = 502


class EmbeddingRefused(EmbeddingError):
    """The provider refuses some of these inputs; a smaller batch may pass.

    `indices` are the positions of the refused texts in the request, if the provider names them. `reason` is that of
    their files.
    """

    code = "embedding_refused"
    example = "The provider's vectors are not readable; check EMBEDDING_API_BASE."

    def __init__(self, message: str, *, indices: Sequence[int] = (), reason: Reason = Reason.EMBEDDING_REFUSED) -> None:
        super().__init__(message)
        self.indices = indices
        self.reason = reason


class EmbeddingUnauthorized(EmbeddingError):
    """The provider refuses the key or does not know the model: no request can succeed."""

    code = "embedding_unauthorized"
    example = "openai/text-embedding-3-small failed with 401. Set EMBEDDING_API_KEY to a valid key of the provider."


class EmbeddingUnavailable(EmbeddingError):
    """Rate limit, time-out, connection error or server error.

    `provider_status` is the HTTP status of the provider's answer, if there was one. `was_sent` is False for a request
    that was held back because the provider may not be asked at the moment.
    """

    code = "embedding_unavailable"
    status = 503
    retryable = True
    example = "openai/text-embedding-3-small failed with 429."

    def __init__(
        self,
        message: str,
        *,
        retry_after: float | None = None,
        provider_status: int | None = None,
        was_sent: bool = True,
    ) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        self.provider_status = provider_status
        self.was_sent = was_sent


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


class StoreError(FoldexError):
    """The vector store did not carry out an operation."""

    code = "store_error"
    status = 502


class StoreRefused(StoreError):
    """The store refuses some of these rows; a smaller batch may pass. `ids` are those of the rows, if known."""

    code = "store_refused"
    example = "This store has no keyword index; set KEYWORD_INDEX=store and index the folder again."

    def __init__(self, message: str, *, ids: Sequence[UUID] = ()) -> None:
        super().__init__(message)
        self.ids = ids


class StoreUnauthorized(StoreError):
    """The store refuses the key."""

    code = "store_unauthorized"
    example = "Turbopuffer rejected the key; check TURBOPUFFER_API_KEY."


class StoreUnavailable(StoreError):
    """Back-pressure, time-out, connection error or server error. `timed_out` means that no answer came in time."""

    code = "store_unavailable"
    status = 503
    retryable = True
    example = "Turbopuffer did not answer in time; try again later."

    def __init__(self, message: str, *, retry_after: float | None = None, timed_out: bool = False) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        self.timed_out = timed_out


class DiskFull(FoldexError):
    """A required disk has no space left. Space may become free later."""

    code = "disk_full"
    status = 503
    retryable = True
    example = "The disk of FOLDEX_HOME has 12 MB left, but 512 MB are needed; free some space, or delete tools."


class SearchSlow(FoldexError):
    """A search of several tools, none of which answered in time. The cause may be temporary."""

    code = "tool_slow"
    status = 503
    retryable = True
    example = "No tool answered within SEARCH_SECONDS; try again, or raise that setting."


class TaskCrashed(FoldexError):
    """A task that would otherwise be retried forever and fail each time."""

    code = "task_crashed"


class PlanCrashed(TaskCrashed):
    """Each worker that lists the folder crashes or meets an unexpected error."""

    code = "plan_crashed"


class SliceCrashed(TaskCrashed):
    """Workers that index files meet unexpected errors, and no file is completed."""

    code = "slice_crashed"


class SearchBusy(FoldexError):
    """Too many large answers are in progress; this request must wait."""

    code = "search_busy"
    status = 503
    retryable = True
    example = "Too many answers of over 1,000 hits are in progress; try again, or lower top_k."


class EstimateBusy(FoldexError):
    """Too many estimates are in progress; this request must wait."""

    code = "estimate_busy"
    status = 503
    retryable = True
    example = "Too many estimates are in progress; try again shortly."


class LeaseLost(FoldexError):
    """The lease or the epoch has changed; this worker must drop what it still holds."""

    code = "lease_lost"
    status = 409


class SliceOver(FoldexError):
    """The slice's time is up before its work is done. Its files go back untried, and the next slice starts at once."""

    code = "slice_over"
    status = 503
    retryable = True
