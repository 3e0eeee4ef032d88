"""The one error tree. Every error knows its `code`, its HTTP status and whether trying again can help.

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
├── FileError             (one file's outcome, never the task's)
├── EmbeddingError
│   ├── EmbeddingRefused      (these inputs)
│   ├── EmbeddingUnauthorized (this key or model, so the whole task)
│   └── EmbeddingUnavailable  (not now)
├── RerankError
│   ├── RerankNotConfigured
│   └── RerankUnavailable     (the order stays as it was)
├── StoreError
│   ├── StoreRefused          (these rows)
│   ├── StoreUnauthorized
│   └── StoreUnavailable
├── TaskCrashed           (its workers die, or meet what nobody expected, again and again)
│   ├── PlanCrashed
│   └── SliceCrashed
├── DiskFull              (of FOLDEX_HOME, or of Postgres)
├── SearchSlow            (none of several tools answered in time)
├── SearchBusy            (too many large answers are made at once)
├── LeaseLost             (another worker, a cancel or a delete took over)
└── SliceOver             (the slice's time is spent; the next one goes on)

Foreign exceptions are mapped to these where they enter: in `worker.sources`, `worker.embed`, `worker.llm`,
`worker.vectors`.
"""

from __future__ import annotations

from typing import Any, ClassVar

from schemas.status import Reason


class FoldexError(Exception):
    """Base of all errors. `message` is one sentence for the caller that names the remedy."""

    code: ClassVar[str] = "internal"
    status: ClassVar[int] = 500
    retryable: ClassVar[bool] = False

    def __init__(self, message: str, **data: Any) -> None:
        super().__init__(message)
        self.message = message
        self.data = data


class Unauthorized(FoldexError):
    """No key, or one that is unknown or revoked."""

    code = "unauthorized"
    status = 401


class NotLoopback(FoldexError):
    """A caller from another machine while `AUTH=off`."""

    code = "auth_required"
    status = 403


class CrossSite(FoldexError):
    """A page of another site asks while `AUTH=off`."""

    code = "cross_site"
    status = 403


class NotFound(FoldexError):
    """The thing does not exist, or belongs to a project that the key does not see."""

    code = "not_found"
    status = 404


class Invalid(FoldexError):
    """The request is understood and cannot be carried out as it stands."""

    code = "invalid_request"
    status = 422


class FilterMatchesNothing(Invalid):
    """The filters of a query select no file of the index."""

    code = "no_such_files"


class ModelRefused(Invalid):
    """The embedding model is missing, unknown, or has other dimensions than asked for."""

    code = "embedding_model_refused"


class ModelNotAllowed(Invalid):
    """The embedding model is none of those that the operator allows."""

    code = "model_not_allowed"


class TooLarge(Invalid):
    """The request is larger than this installation reads."""

    code = "too_large"
    status = 413


class BodyTooSlow(Invalid):
    """The body did not come in in time."""

    code = "body_too_slow"
    status = 408


class Conflict(FoldexError):
    """The thing exists already, or is in a state that forbids the request."""

    code = "conflict"
    status = 409


class SourceError(FoldexError):
    """A source cannot be listed or read as a whole."""

    code = "source_error"
    status = 422


class FolderGone(SourceError):
    """The root of the source does not exist (any more)."""

    code = "folder_gone"


class SourceRefused(SourceError):
    """The source is outside what this installation may read, or its credentials are wrong."""

    code = "source_refused"


class SourceUnavailable(SourceError):
    """The source did not answer; trying again later can help."""

    code = "source_unavailable"
    status = 503
    retryable = True


class FileError(FoldexError):
    """The outcome of a single file that is not indexed; the rest of the folder goes on."""

    code = "file_error"

    def __init__(self, reason: Reason, message: str | None = None) -> None:
        super().__init__(message or reason.remedy)
        self.reason = reason


class EmbeddingError(FoldexError):
    """The embedding provider did not give usable vectors."""

    code = "embedding_error"
    status = 502


class EmbeddingRefused(EmbeddingError):
    """The provider refuses some of these inputs; a smaller batch may pass."""

    code = "embedding_refused"


class EmbeddingUnauthorized(EmbeddingError):
    """The provider refuses the key or does not know the model: no request can succeed."""

    code = "embedding_unauthorized"


class EmbeddingUnavailable(EmbeddingError):
    """Rate limit, time-out, connection or server error. `data["retry_after"]` is seconds, where given."""

    code = "embedding_unavailable"
    status = 503
    retryable = True


class RerankError(FoldexError):
    """The candidates of a query cannot be put in order by a model."""

    code = "rerank_error"
    status = 502


class RerankNotConfigured(RerankError):
    """This installation names no model for the kind of reranking asked for."""

    code = "rerank_not_configured"
    status = 422


class RerankUnavailable(RerankError):
    """The model gave no usable answer in time; never an error of the query, whose order stays as it was."""

    code = "rerank_unavailable"
    status = 503
    retryable = True


class StoreError(FoldexError):
    """The vector store did not do what was asked."""

    code = "store_error"
    status = 502


class StoreRefused(StoreError):
    """The store refuses some of these rows; fewer rows may pass."""

    code = "store_refused"


class StoreUnauthorized(StoreError):
    """The store refuses the key."""

    code = "store_unauthorized"


class StoreUnavailable(StoreError):
    """Back-pressure, time-out, connection or server error. `data["retry_after"]` is seconds, where given."""

    code = "store_unavailable"
    status = 503
    retryable = True


class DiskFull(FoldexError):
    """A disk that is needed has no space left; it may have later."""

    code = "disk_full"
    status = 503
    retryable = True


class SearchSlow(FoldexError):
    """A search of several tools, none of which answered in time; what slows them may pass."""

    code = "tool_slow"
    status = 503
    retryable = True


class TaskCrashed(FoldexError):
    """A task that would be tried for ever, and fail each time."""

    code = "task_crashed"


class PlanCrashed(TaskCrashed):
    """Each worker that lists the folder dies, or meets an unexpected error."""

    code = "plan_crashed"


class SliceCrashed(TaskCrashed):
    """Workers that index files meet unexpected errors, and no file ends."""

    code = "slice_crashed"


class SearchBusy(FoldexError):
    """Too many large answers are made at once; the next one has to wait for its turn."""

    code = "search_busy"
    status = 503
    retryable = True


class LeaseLost(FoldexError):
    """The lease or the epoch moved on; what this worker still holds must be dropped."""

    code = "lease_lost"
    status = 409


class SliceOver(FoldexError):
    """The time of this slice is spent amid its work: files go back untried, and the next slice goes on at once."""

    code = "slice_over"
    status = 503
    retryable = True
