"""The metadata of a protected resource (RFC 9728), from which agents learn where to get a token."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from starlette.requests import Request

from schemas.errors import ScopeMissing, TokenInvalid

#: Where the metadata stands. A resource at `/mcp` appends that.
PATH = "/.well-known/oauth-protected-resource"
MCP = "/mcp"
#: A host that is safe within quotes.
_HOST = re.compile(r"[A-Za-z0-9._:\[\]-]{1,255}")


class ResourceMetadata:
    """The metadata that an installation publishes about the issuer of its tokens."""

    def __init__(self, issuer: str, audience: str) -> None:
        self._issuer, self._audience = issuer, audience

    def document(self, request: Request, path: str) -> dict[str, object]:
        """The metadata of what is at a path of this service."""
        own = f"{self._origin(request)}{path}"
        audience = urlsplit(self._audience)
        # who asks for a token names the resource, and the issuer makes that the audience
        is_address = audience.scheme in {"http", "https"} and audience.netloc == request.headers.get("host")
        return {
            "resource": self._audience if is_address else own,
            "authorization_servers": [self._issuer],
            "bearer_methods_supported": ["header"],
        }

    def challenge(self, request: Request, error: Exception) -> str:
        """The value of `WWW-Authenticate` for a refused request."""
        path = MCP if request.url.path == MCP else ""
        parts = [f'resource_metadata="{self._origin(request)}{PATH}{path}"']
        if isinstance(error, TokenInvalid):
            parts.insert(0, 'error="invalid_token"')
        if isinstance(error, ScopeMissing):
            parts.insert(0, f'error="insufficient_scope", scope="{error.scope}"')
        return f"Bearer {', '.join(parts)}"

    def _origin(self, request: Request) -> str:
        """The beginning of the addresses of this service, as its caller knows it."""
        audience, host = urlsplit(self._audience), request.headers.get("host", "")
        if audience.netloc == host:
            # a proxy in front may speak TLS
            return f"{audience.scheme}://{host}"
        return f"{request.url.scheme}://{host if _HOST.fullmatch(host) else 'localhost'}"
