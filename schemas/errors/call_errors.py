"""Errors of calls: who may call, what a request may ask, and when the service is too busy for it."""

from __future__ import annotations

from collections.abc import Collection

from schemas.errors.base import FoldexError
from schemas.scopes import LEVELS, listed


class Unauthorized(FoldexError):
    """The key is missing, unknown, expired or revoked."""

    code = "unauthorized"
    status = 401
    example = (
        "The key is missing, expired or invalid; send `Authorization: Bearer <key>` with a key from "
        "`foldex keys create`."
    )


class TokenInvalid(Unauthorized):
    """The token is expired, of another issuer or for another service, or its signature does not fit."""

    code = "token_invalid"
    example = "The token is expired; get a new one."


class TokenUnusable(FoldexError):
    """The token is valid, but what it says of its user cannot be used."""

    code = "token_unusable"
    status = 403
    example = (
        "The token names no project, or several: its claim `project_id` must be one text. "
        "The operator can set another claim in OIDC_PRINCIPALS, or one project for all by project:=ID."
    )


class IssuerUnavailable(FoldexError):
    """The keys that check tokens are not known yet, and cannot be read."""

    code = "issuer_unavailable"
    status = 503
    retryable = True
    example = "The keys that check tokens could not be read; try again. The log of the API says why."


class ScopeMissing(FoldexError):
    """The key does not allow this call. `scope` is what it lacks."""

    code = "scope_missing"
    status = 403
    example = (
        "This call needs a key with the scope `write`; yours has only `search`. "
        "`foldex keys create PROJECT --scope write` makes one."
    )

    def __init__(self, message: str, *, scope: str) -> None:
        super().__init__(message)
        self.scope = scope

    @classmethod
    def of(cls, scope: str, held: Collection[str]) -> ScopeMissing:
        """The error for a key that has other scopes."""
        has = ", ".join(f"`{each}`" for each in listed(held))
        # a level brings the ones below; what adds to a level needs one
        level = next((each for each in reversed(LEVELS) if each in held), LEVELS[0])
        given = f"--scope {scope}" if scope in LEVELS else f"--scope {level} --scope {scope}"
        return cls(
            f"This call needs a key with the scope `{scope}`; yours has only {has}. "
            f"`foldex keys create PROJECT {given}` makes one.",
            scope=scope,
        )


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


class SessionNeeded(FoldexError):
    """The call needs the session of a page that was opened by the link of an embedded stack."""

    code = "session_needed"
    status = 403
    example = (
        "Only a page that the link of `foldex open` opened may permit a folder; open it, or run `foldex index FOLDER`."
    )


class LinkUsed(FoldexError):
    """The link that shall open a session was used before, is too old, or never was one."""

    code = "link_used"
    status = 403
    example = "The link was used before, or Foldex was started again since; `foldex open` makes a new one."


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
    settings_of = "llm"
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


class TooManyValues(Invalid):
    """A body in JSON has more values than this call takes."""

    code = "too_many_values"
    example = "The body has more than 100,000 values; send fewer, or upload a large document as a file."


class HeadersTooLarge(Invalid):
    """The URL and headers of a request are too long, or the headers too many."""

    code = "headers_too_large"
    status = 431
    example = "The URL and headers have more than 65,536 bytes or 100 fields; send fewer, or shorter ones."


class UrlTooLong(Invalid):
    """The URL of a request is too long."""

    code = "url_too_long"
    status = 400
    example = "The URL has more than 65,535 bytes; shorten it, or send what it holds in a body."


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


class LastAdminKey(Conflict):
    """The key is the last one of its project with the scope `admin`: no other could make keys over HTTP."""

    code = "last_admin_key"
    example = "This is the project's last key with the scope `admin`; create another one first, or rotate this one."


class TooManyConnections(FoldexError):
    """As many connections are open as the server serves."""

    code = "too_many_connections"
    status = 503
    retryable = True
    example = "Too many connections are open; close some, and try again shortly."


class TooManyTools(FoldexError):
    """The project has as many tools as this installation allows."""

    code = "too_many_tools"
    status = 409
    example = "This project has 100 tools, and MAX_TOOLS allows no more; delete one, or ask the operator to raise it."


class BodiesBusy(FoldexError):
    """Too many large bodies arrive or are in progress, of this project or in all; this one must wait."""

    code = "bodies_busy"
    status = 503
    retryable = True
    example = "Too many large bodies arrive or are in progress; try again, or send smaller ones."


class SearchSlow(FoldexError):
    """A search of several tools, none of which answered in time. The cause may be temporary."""

    code = "tool_slow"
    status = 503
    retryable = True
    example = "No tool answered within SEARCH_SECONDS; try again, or raise that setting."


class ProjectBusy(FoldexError):
    """The project already has as many calls of a kind in progress as it may; this one must wait."""

    code = "project_busy"
    status = 429
    retryable = True
    example = "This project already has 4 greps in progress, and others wait; try again shortly."


class ServerBusy(FoldexError):
    """The calls of all projects together fill the API; this one must wait."""

    code = "server_busy"
    status = 503
    retryable = True
    example = "Too many greps are in progress; try again shortly."


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
