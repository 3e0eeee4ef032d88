"""Errors of the Model Context Protocol for what cannot be carried out outside of a tool's answer."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS
from pydantic import ValidationError

from api.agents.access import CallRefused
from foldex_client import FoldexError


@asynccontextmanager
async def refusing() -> AsyncIterator[None]:
    """Answer what cannot be carried out as an error of the protocol, with a sentence."""
    try:
        yield
    except ValidationError as error:
        raise MCPError(INVALID_PARAMS, "; ".join(each["msg"] for each in error.errors()) + ".") from None
    except CallRefused as error:
        raise MCPError(INVALID_PARAMS, str(error)) from None
    except FoldexError as error:
        raise MCPError(INVALID_PARAMS, error.detail) from None
