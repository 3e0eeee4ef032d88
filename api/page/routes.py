"""Serves the page. It needs no key: it holds nothing but itself, and asks for one to call the API."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter, Request
from fastapi.responses import PlainTextResponse, Response

from api.page import llms as llms_text
from api.page.files import PageFiles, StaticFile
from schemas.errors import NotFound

router = APIRouter(include_in_schema=False)

#: Nothing runs or loads but files of this server, and no text becomes markup.
_RULES: Final = (
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self'",
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
)
_HEADERS: Final = {
    "Content-Security-Policy": "; ".join(_RULES),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Vary": "Accept-Encoding",
}
#: An address names the version of all files, so the content behind it never changes.
_FOREVER: Final = "public, max-age=31536000, immutable"

_files: Final = PageFiles()


@router.api_route("/", methods=["GET", "HEAD"])
async def page(request: Request) -> Response:
    """Get the page."""
    return _send(request, _files.index, "no-cache")


@router.api_route("/llms.txt", methods=["GET", "HEAD"])
async def llms() -> Response:
    """Get what a language model should know of the service. It is the same for everybody."""
    return PlainTextResponse(llms_text.TEXT, headers={"Cache-Control": "no-cache", "X-Content-Type-Options": "nosniff"})


@router.api_route("/page/{version}/{name:path}", methods=["GET", "HEAD"])
async def page_file(request: Request, version: str, name: str) -> Response:
    """Get a file of the page."""
    file = _files.get(version, name)
    if file is None:
        raise NotFound("The page has no such file; reload the page.")
    return _send(request, file, _FOREVER)


def _send(request: Request, file: StaticFile, caching: str) -> Response:
    headers = {**_HEADERS, "Cache-Control": caching, "ETag": file.tag}
    if file.tag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    if "gzip" in request.headers.get("accept-encoding", ""):
        return Response(file.compressed, headers={**headers, "Content-Encoding": "gzip"}, media_type=file.media_type)
    return Response(file.content, headers=headers, media_type=file.media_type)
