"""The tree of all errors. Every error has a `code`, an HTTP status and a flag that says whether a retry can help.

FoldexError
├── Unauthorized · NotLoopback · CrossSite · NotFound · Conflict
├── Invalid
│   ├── FilterMatchesNothing · ModelNotAllowed · ModelRefused · NoTree
│   └── TooLarge · BodyTooSlow · RangeNotSatisfiable
├── SourceError
│   └── FolderGone · SourceRefused · SourceUnavailable
├── FileError             (the outcome of one file; never fails the task)
├── EmbeddingError
│   ├── EmbeddingRefused      (these inputs)
│   │   └── EmbeddingUnreadable (an answer that does not fit; many of them fail the whole task)
│   ├── EmbeddingUnauthorized (this key or model; fails the whole task)
│   └── EmbeddingUnavailable  (temporary)
├── RerankError
│   ├── RerankNotConfigured
│   └── RerankUnavailable     (the hits keep their order)
├── LlmError
│   ├── LlmNotConfigured
│   ├── LlmRefused            (these texts)
│   ├── LlmUnauthorized       (this key or model; ends the build)
│   ├── LlmUnavailable        (temporary)
│   └── LlmFailed             (several clusters in a row; ends the build)
├── TreeError             (ends the build of a summary tree; the last complete one stays)
│   └── TooManyLeaves · TooManyTokens · MissingDependency
├── StoreError
│   ├── StoreRefused          (these rows)
│   ├── StoreUnauthorized
│   └── StoreUnavailable
├── TaskCrashed           (workers crash or meet unexpected errors, again and again)
│   └── PlanCrashed · SliceCrashed · TreeCrashed
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


class NoTree(Invalid):
    """The tool has no complete summary tree yet."""

    code = "no_tree"
    example = "This tool has no complete summary tree yet; build one, and wait until it is indexed."


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


class RangeNotSatisfiable(Invalid):
    """The `Range` begins after the content, which has `size` bytes."""

    code = "range_not_satisfiable"
    status = 416
    example = "The content has 214 bytes; ask for a range that begins before its end."

    def __init__(self, size: int) -> None:
        super().__init__(f"The content has {size} bytes; ask for a range that begins before its end.")
        self.size = size


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


class EmbeddingUnreadable(EmbeddingRefused):
    """The provider's answer does not fit the request, such as too few vectors. A smaller batch may pass.

    `vectors` is the number of vectors in the answer, 0 if that is unknown.
    """

    code = "embedding_unreadable"
    example = (
        "The provider returned 1 vector for 64 texts; check EMBEDDING_API_BASE, or set a smaller EMBEDDING_BATCH_SIZE."
    )

    def __init__(self, message: str, *, vectors: int = 0) -> None:
        super().__init__(message)
        self.vectors = vectors


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
    example = "openai/text-embedding-3-small is busy (HTTP 429) and asks to wait 20 s."

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


class LlmError(FoldexError):
    """A language model did not do what was asked of it."""

    code = "llm_error"
    status = 502


class LlmNotConfigured(LlmError):
    """This installation has no language model for summaries."""

    code = "llm_not_configured"
    status = 422
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


class LlmUnavailable(LlmError):
    """Rate limit, time-out, connection error or server error of a language model."""

    code = "llm_unavailable"
    status = 503
    retryable = True

    def __init__(self, message: str, *, retry_after: float | None = None, provider_status: int | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        self.provider_status = provider_status


class LlmFailed(LlmError):
    """Several clusters in a row could not be summarised, for the same reason."""

    code = "llm_failed"


class TreeError(FoldexError):
    """A summary tree cannot be built as its config says."""

    code = "tree_error"
    status = 422


class TooManyLeaves(TreeError):
    """The folder has more texts than the cluster method may take."""

    code = "too_many_leaves"


class TooManyTokens(TreeError):
    """The build would send and receive more tokens than `max_tokens` allows."""

    code = "too_many_tokens"


class MissingDependency(TreeError):
    """The workers lack the libraries of the cluster method."""

    code = "missing_dependency"


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


class TreeCrashed(TaskCrashed):
    """Workers that build a summary tree die or meet unexpected errors, again and again."""

    code = "tree_crashed"


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
