"""Turns all errors into `application/problem+json` (RFC 9457)."""

from __future__ import annotations

import math
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from fastapi.routing import iter_route_contexts
from psycopg import DataError, OperationalError
from psycopg.errors import LockNotAvailable, ProgramLimitExceeded
from starlette.exceptions import HTTPException
from starlette.routing import Match

from api.http import request_log
from api.http.described_errors import DATABASE_UNAVAILABLE, INTERNAL, INVALID_JSON, DescribedError
from api.http.disconnect import CALLER_LEFT, CallerLeft
from schemas.errors import DiskFull, FoldexError, Locked, RangeNotSatisfiable, ScopeMissing
from worker.machine.disk_space import means_full
from worker.machine.error_texts import own_message

log = structlog.get_logger()

#: `Retry-After` of an error that does not know when a retry can help.
RETRY_AFTER_SECONDS = 5
#: Maximum errors that an answer lists, and characters of each name and message, which quote the request.
_MAX_ERRORS, _MAX_CHARS = 10, 300
#: Pydantic's errors for a body that is missing, or that FastAPI did not read as JSON.
_NO_OBJECT = {"missing", "model_attributes_type"}


def install(app: FastAPI) -> None:
    """Register handlers that turn every error into a problem."""
    for kind, handler in _HANDLERS.items():
        app.add_exception_handler(kind, handler)


def _problem(status: int, code: str, detail: str, headers: dict[str, str] | None = None, **more: Any) -> JSONResponse:
    body = {"type": "about:blank", "title": HTTPStatus(status).phrase, "status": status, "code": code, "detail": detail}
    return JSONResponse({**body, **more}, status, headers, media_type="application/problem+json")


def _fault(fault: DescribedError, **more: Any) -> JSONResponse:
    headers = {"Retry-After": str(RETRY_AFTER_SECONDS)} if fault.retryable else {}
    return _problem(fault.status, fault.code, fault.detail, headers, **more)


def error_response(request: Request, error: FoldexError | OperationalError) -> JSONResponse:
    """The answer to an error raised before the request reaches the application."""
    return _foldex(request, error) if isinstance(error, FoldexError) else _database(request, error)


def unread(error: FoldexError) -> JSONResponse:
    """The answer to bytes that are not read as a request, with the reason."""
    return _of(error)


def not_http(reason: str) -> JSONResponse:
    """The answer to bytes that the server cannot read as a request."""
    return _problem(
        400,
        "invalid_http",
        f"This is not an HTTP/1.1 request ({reason}); check its method, address and headers, and use https:// only if "
        "a proxy answers it.",
    )


def _foldex(_: Request, error: Exception) -> JSONResponse:
    if not isinstance(error, FoldexError):
        raise error
    if means_full(error) and not isinstance(error, DiskFull):
        return _full(error)
    return _of(error)


def _of(error: FoldexError) -> JSONResponse:
    headers = {"WWW-Authenticate": "Bearer"} if error.status == HTTPStatus.UNAUTHORIZED else {}
    if isinstance(error, ScopeMissing):
        headers["WWW-Authenticate"] = f'Bearer error="insufficient_scope", scope="{error.scope}"'
    if error.retryable:
        headers["Retry-After"] = str(math.ceil(error.retry_after or RETRY_AFTER_SECONDS))
    if isinstance(error, RangeNotSatisfiable):
        headers["Content-Range"] = f"bytes */{error.size}"
    return _problem(error.status, error.code, error.message, headers)


def _validation(_: Request, error: Exception) -> JSONResponse:
    if not isinstance(error, RequestValidationError):
        raise error
    errors = error.errors()
    fields = [
        {"field": _cut(".".join(map(str, e["loc"][1:]))), "message": _cut(own_message(e["msg"]))}
        for e in errors[:_MAX_ERRORS]
    ]
    if any(e["type"] == "json_invalid" for e in errors):
        return _fault(INVALID_JSON, errors=fields)
    if any(e["loc"] == ("body",) and e["type"] in _NO_OBJECT for e in errors):
        detail = "The body is no JSON object; send one, with the header Content-Type: application/json. See /docs."
        return _problem(422, "invalid_request", detail, errors=fields)
    told = [f"{e['field'] or 'body'}: {e['message']}" for e in fields]
    if len(errors) > _MAX_ERRORS:
        told.append(f"{len(errors) - _MAX_ERRORS:,} more")
    detail = "; ".join(told)
    return _problem(422, "invalid_request", f"{detail}. See /docs for what this call accepts.", errors=fields)


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_CHARS else f"{text[:_MAX_CHARS]} …"


def _http(request: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        raise error
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        return _other_method(request)
    if error.status_code == HTTPStatus.BAD_REQUEST:  # FastAPI raises this for a body that its parser cannot read
        detail = "The body is not readable; send JSON in UTF-8 that is not deeply nested."
        return _problem(INVALID_JSON.status, INVALID_JSON.code, detail)
    code = HTTPStatus(error.status_code).phrase.lower().replace(" ", "_")
    return _problem(error.status_code, code, f"{error.detail}. See /docs for all calls.", dict(error.headers or {}))


def _other_method(request: Request) -> Response:
    """The methods of an address: the answer to OPTIONS, and part of the refusal of any other method."""
    # Each method of a path is its own route, and the exception names only the methods of the first one. A later path
    # with a parameter may match too, but the first one is meant.
    routes = [r for r in iter_route_contexts(request.app.routes) if r.matches(request.scope)[0] is not Match.NONE]
    methods = {method for route in routes if route.path == routes[0].path for method in route.methods or ()}
    # a mounted folder of files names none
    allowed = ", ".join(sorted({*(methods or {"GET", "HEAD"}), "OPTIONS"}))
    if request.method == "OPTIONS":
        return Response(status_code=204, headers={"Allow": allowed})
    detail = f"This address does not take {request.method}; send {allowed}. See /docs for all calls."
    return _problem(405, "method_not_allowed", detail, {"Allow": allowed})


def _data(_: Request, error: Exception) -> JSONResponse:
    log.info("Postgres rejected a value", error=str(error))
    detail = "The request contains a value that cannot be stored, such as a NUL character; remove it."
    return _problem(422, "invalid_request", detail)


def _too_long(_: Request, error: Exception) -> JSONResponse:
    log.info("a value was too long for Postgres", error=str(error))
    return _problem(422, "invalid_request", "The request contains a name or a path that is too long; shorten it.")


def _full(error: Exception) -> JSONResponse:
    log.warning("a disk is full", error=str(error))
    detail = "A disk of this installation is full; free some space, or delete tools, then try again."
    return _problem(DiskFull.status, DiskFull.code, detail, {"Retry-After": str(RETRY_AFTER_SECONDS)})


def _disk(_: Request, error: Exception) -> JSONResponse:
    if not means_full(error):
        raise error
    return _full(error)


def _database(request: Request, error: Exception) -> JSONResponse:
    if isinstance(error, LockNotAvailable):
        log.warning("another session of Postgres holds what a call needs", error=str(error))
        return _foldex(request, Locked(Locked.example))
    if means_full(error) or not _has_space(request):
        # Postgres shuts down when its disk is full, and then does not answer
        return _full(error)
    log.warning("Postgres does not answer", error=str(error))
    return _fault(DATABASE_UNAVAILABLE)


def _has_space(request: Request) -> bool:
    try:
        request.app.state.resources.space.check()
    except DiskFull:
        return False
    return True


def _caller_left(_: Request, _error: Exception) -> Response:
    return Response(status_code=CALLER_LEFT)  # only for the metrics: the client is gone


def _unexpected(request: Request, error: Exception) -> JSONResponse:
    log.error("request failed", path=request.url.path, exc_info=error)
    answer = _fault(INTERNAL)
    # it does not pass through middleware
    answer.headers.update(request_log.headers())
    return answer


_HANDLERS: dict[type[Exception], Callable[[Request, Exception], Response]] = {
    FoldexError: _foldex,
    RequestValidationError: _validation,
    HTTPException: _http,
    DataError: _data,
    OperationalError: _database,
    OSError: _disk,
    ProgramLimitExceeded: _too_long,
    CallerLeft: _caller_left,
    Exception: _unexpected,
}


def _handler(error: Exception) -> Callable[[Request, Exception], Response]:
    return next(_HANDLERS[kind] for kind in type(error).__mro__ if kind in _HANDLERS)


def problem_json(request: Request, error: Exception) -> str:
    """The problem for an error after the answer has begun."""
    try:
        response = _handler(error)(request, error)
    except Exception as unexpected:  # noqa: BLE001 # a handler raises what is not its own
        response = _unexpected(request, unexpected)
    return bytes(response.body).decode()
